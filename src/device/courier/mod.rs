//! A courier for small copies: a kernel of one block (cuda/courier.cuh) that is started when copies follow each other, finds them in a ring in
//! host memory, and makes them by loads and stores. A copy engine takes some 10 us for the smallest copy, the block 3.
//!
//! The block must be in nobody's way. It ends when it has found nothing for [`IDLE`], and at the age of [`LIFE`], so that what waits for the whole
//! device (cudaDeviceSynchronize, cudaFree, a cooperative grid) goes on. Where it gets no room, copies go by the copy engine, as before the
//! first launch, and there is no second launch before the first has ended. Nothing here waits for it.
//!
//! **Who writes what, in which order.** The host writes a command's slot, word by word, each with the number of its round: the kernel takes it
//! once all four have the right one, and never sees half of one. A word is a release, the kernel's look an acquire. Once a group of commands is carried out
//! the block meets at a barrier, and one thread writes, behind a release fence of the system, how many are done: who reads that number by an acquire sees
//! all those bytes, at home and in peers' memory, and may raise signals. The last that the kernel writes is that it has ended, behind that number and
//! behind its last look at the ring. So a host that sees the end, and then the number, knows exactly which commands were carried out, and that nobody will
//! carry out the others: these go to a copy engine ([`State::Rescue`]). No handshake is needed for that: a command that is given while the kernel
//! ends is either done, or is not, and the end says which.
//!
//! Commands of all peers are in one ring, hence one block serves all of them. They are done in the ring's order, so one number says all.

mod queue;
mod ring;

use super::kernels::{Launch, OwnStream};
use super::{CopyQueue, Device, Kernels, Kind, MemCopy};
use crate::error::Result;
use crate::sync::{Mutex, pid};
use crate::{config, hint, info};
pub use queue::Carried;
use ring::{Command, Ring, SLOTS, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Most bytes of a call that the kernel carries: larger ones are faster by a copy engine, and delay others' less.
pub(super) const LARGEST: u64 = 64 << 10;
/// Threads of the block.
const THREADS: u32 = 256;
/// It is started by a copy that comes so soon after another.
const BRISK: Duration = Duration::from_micros(100);
/// It ends when it has found nothing for so long, and when it is so old.
const IDLE: Duration = Duration::from_micros(50);
const LIFE: Duration = Duration::from_millis(2);
/// On the CPU device, where a thread may stand still for as long as that.
const SLOWER: u32 = 50;
/// After an end for its age others have so long to take its place.
const PAUSE: Duration = Duration::from_micros(100);
/// Looks in vain between two questions whether the kernel has failed, which cost a driver call.
const LOOKS: u32 = 4096;
/// The end of a courier waits so long for its kernel.
const PATIENCE: Duration = Duration::from_millis(20);

/// Starts the kernel, and knows whether it is well.
trait Start: Send {
    /// Behind those before.
    fn start(&mut self, work: &Work) -> Result<()>;
    /// Whether all have ended; an error once one has failed.
    fn is_over(&mut self) -> Result<bool>;
}

struct OnDevice {
    kernels: Arc<dyn Kernels>,
    stream: Box<dyn OwnStream>,
    threads: u32,
}

impl Start for OnDevice {
    fn start(&mut self, work: &Work) -> Result<()> {
        self.kernels.launch(&Launch {
            kernel: c"ginrs_courier",
            parameter: work.as_bytes(),
            blocks: (1, 1),
            threads: self.threads,
            stream: self.stream.handle(),
            call: "GIN's courier",
            number: 0,
            touches: &[],
        })
    }

    fn is_over(&mut self) -> Result<bool> {
        self.stream.is_idle()
    }
}

/// Where the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    /// Launched, and not yet there.
    Called,
    Here,
    /// It has ended before commands that were given to it; a copy engine has them, and this is its ticket.
    Rescue(u64),
    /// A launch failed: never again.
    Off,
}

/// What the kernel reads and writes, and the stream that it is on: kept together as long as it may run.
struct Kernel {
    ring: Ring,
    start: Box<dyn Start>,
}

fn say(what: &str, why: &str) {
    hint!("GINRS-W023 small copies go by the copy engine | GINRS_COURIER=1, {what} | {why} | fix: see the cause, or unset it");
}

/// One courier: of one device, for all peers of one engine.
pub struct Courier {
    /// Taken in drop only.
    kernel: Option<Kernel>,
    rescue: Box<dyn CopyQueue>,
    state: State,
    /// Idle, and life, in nanoseconds.
    terms: (u64, u64),
    launches: u64,
    /// Commands given so far, and those of them that are done by whomever. At most [`SLOTS`] apart.
    posted: u64,
    done: u64,
    /// The newest small copy while it was away.
    last: Option<Instant>,
    not_before: Option<Instant>,
    looks: u32,
    rescued: u64,
    owner: u32,
}

impl Courier {
    /// Of `device`, if GINRS_COURIER asks for it and nothing speaks against it.
    pub fn of(device: &Arc<dyn Device>) -> Option<Arc<Mutex<Self>>> {
        if config::int("GINRS_COURIER") != 1 {
            return None;
        }
        let blocking = config::text("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value.trim() != "0");
        let made = match () {
            () if config::int("GINRS_SHARE_DEVICE") != 0 => Err("GINRS_SHARE_DEVICE: others would wait for its block".into()),
            () if blocking => Err("CUDA_LAUNCH_BLOCKING: a launch would wait for its end".into()),
            () => Self::on(device).map_err(|error| error.to_string()),
        };
        made.map(|courier| Arc::new(Mutex::new(courier))).inspect_err(|why: &String| say("it has no courier", why)).ok()
    }

    fn on(device: &Arc<dyn Device>) -> Result<Self> {
        let kernels = device.kernels()?;
        let (threads, slower) = if device.kind() == Kind::Cpu { (32, SLOWER) } else { (THREADS, 1) };
        let start = OnDevice { stream: kernels.urgent_stream()?, kernels, threads };
        Self::new(&**device, Box::new(start), device.copy_queue()?, slower)
    }

    fn new(device: &dyn Device, start: Box<dyn Start>, rescue: Box<dyn CopyQueue>, slower: u32) -> Result<Self> {
        let terms = [IDLE, LIFE].map(|term| (term * slower).as_nanos() as u64).into();
        Ok(Self {
            kernel: Some(Kernel { ring: Ring::new(device)?, start }),
            rescue,
            state: State::Away,
            terms,
            launches: 0,
            posted: 0,
            done: 0,
            last: None,
            not_before: None,
            looks: 0,
            rescued: 0,
            owner: pid(),
        })
    }

    fn kernel(&mut self) -> &mut Kernel {
        self.kernel.as_mut().expect("taken in drop only")
    }

    fn ring(&mut self) -> &Ring {
        &self.kernel().ring
    }

    /// Gives these to the kernel if it is there and has room for all: the number of commands that are then to be done. Else they are the caller's.
    fn give(&mut self, commands: &[Command]) -> Result<Option<u64>> {
        self.look()?;
        // One place stays free, for the order to stop.
        let room = SLOTS - 1 - (self.posted - self.done);
        if self.state != State::Here || commands.len() as u64 > room {
            return Ok(None);
        }
        for &command in commands {
            let number = self.posted;
            self.ring().put(number, command);
            self.posted += 1;
        }
        Ok(Some(self.posted))
    }

    /// A small copy went another way: where they follow each other the kernel is called.
    fn miss(&mut self) {
        if self.state != State::Away {
            return;
        }
        let now = Instant::now();
        let before = self.last.replace(now);
        let brisk = before.is_some_and(|before| now - before < BRISK);
        if !brisk || self.not_before.is_some_and(|at| now < at) {
            return;
        }
        let (first, launch, terms) = (self.posted, self.launches + 1, self.terms);
        let kernel = self.kernel();
        let work = kernel.ring.work(first, launch, terms);
        self.state = match kernel.start.start(&work) {
            Ok(()) => State::Called,
            Err(error) => {
                say("its courier cannot be started", &error.to_string());
                State::Off
            }
        };
        self.launches = launch;
        self.last = None;
    }

    /// What is done by now, after a look at what the kernel says.
    fn look(&mut self) -> Result<u64> {
        match self.state {
            State::Called | State::Here => {
                let seen = self.ring().seen();
                self.done = self.done.max(seen.done.min(self.posted));
                if seen.ended == self.launches {
                    self.not_before = seen.aged.then(|| Instant::now() + PAUSE);
                    self.state = if self.done == self.posted { State::Away } else { self.rescue()? };
                } else if seen.begun == self.launches {
                    self.state = State::Here;
                }
                self.looks = self.looks.wrapping_add(1);
                if self.done < self.posted && self.looks.is_multiple_of(LOOKS) {
                    self.kernel().start.is_over()?;
                }
            }
            State::Rescue(ticket) if self.rescue.finished()? >= ticket => {
                self.done = self.posted;
                self.state = State::Away;
            }
            State::Rescue(_) | State::Away | State::Off => {}
        }
        Ok(self.done)
    }

    /// What the kernel has left is a copy engine's: their slots stay as they are until it is done.
    #[cold]
    fn rescue(&mut self) -> Result<State> {
        let (done, posted) = (self.done, self.posted);
        let ring = self.ring();
        let copies: Vec<MemCopy> = (done..posted).filter_map(|number| ring.as_copy(number)).collect();
        self.rescued += posted - done;
        if !copies.is_empty() {
            self.rescue.copy(&copies)?;
        }
        Ok(State::Rescue(self.rescue.mark()?))
    }
}

/// The kernel is told to end, and waited for, but not for ever: one that gets no room may still come, and what it reads then must be there. Its memory
/// and its stream are left to it for good.
impl Drop for Courier {
    fn drop(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        if self.owner != pid() {
            return std::mem::forget(kernel); // a forked child: it is the parent's
        }
        info!(NET, "the courier was started {} times, given {} commands, and left {}", self.launches, self.posted, self.rescued);
        if matches!(self.state, State::Called | State::Here) {
            kernel.ring.put(self.posted, Command::Stop);
        }
        let end = Instant::now() + PATIENCE;
        // An error means that nothing runs any more.
        while !kernel.start.is_over().unwrap_or(true) {
            if Instant::now() > end {
                return std::mem::forget(kernel);
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
pub mod fakes;
#[cfg(test)]
mod tests;
