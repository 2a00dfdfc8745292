//! What kernels of a rank do: puts with signals and counters, waits, flushes, and the looks that nothing was lost, came twice or came
//! before its payload.

use crate::common::{load, read};
use crate::kernel::Kernel;
use crate::plan::{Canary, MOST, Message, Plan};
use crate::rank::Stop;
use ginrs::comm::Comm;
use ginrs::device::DevPtr;
use ginrs::gin::descriptor::{Descriptor, SignalOp, Source};
use ginrs::layout::{ncclDevComm, ncclGinProxyGpuCtx_t, ncclWindow_vidmem};
use std::time::{Duration, Instant};

/// Longer than any wait may be that ends with an error: virtual time.
const ENDLESS: Duration = Duration::from_secs(300);
/// What a landing holds between two messages.
const MARK: u8 = 0xa5;

/// A communicator's windows, as the kernels of one rank see them.
pub struct Traffic<'a> {
    pub plan: &'a Plan,
    pub comm: &'a Comm,
    /// Which communicator of the plan it is.
    pub of: u64,
    pub memory: DevPtr,
    window: ncclWindow_vidmem,
    dev_comm: ncclDevComm,
    /// By context and rank: what its signals came to.
    signals: Vec<u64>,
    /// By context.
    counters: Vec<u64>,
}

/// Bytes of a window: two halves to land in, in turns, and one to send from.
pub fn window_bytes(plan: &Plan, ranks: u32) -> usize {
    (2 * ranks as usize + 1) * plan.messages as usize * MOST
}

impl<'a> Traffic<'a> {
    pub fn new(plan: &'a Plan, comm: &'a Comm, of: u64, memory: DevPtr, window: DevPtr, dev_comm: ncclDevComm) -> Self {
        let contexts = plan.contexts as usize;
        let mut traffic = Self {
            plan,
            comm,
            of,
            memory,
            window: read(window),
            dev_comm,
            signals: vec![0; contexts * comm.team.n_ranks as usize],
            counters: vec![0; contexts],
        };
        let all = window_bytes(plan, comm.team.n_ranks);
        traffic.bytes(0, all).fill(MARK);
        traffic
    }

    /// Of this rank's window. Nobody else touches what is read and written here, or that is the fault that is looked for.
    fn bytes(&mut self, at: usize, length: usize) -> &mut [u8] {
        assert!(at + length <= window_bytes(self.plan, self.comm.team.n_ranks));
        // SAFETY: within the window, as just seen, which lives until this rank frees it.
        unsafe { std::slice::from_raw_parts_mut((self.memory as usize + at) as *mut u8, length) }
    }

    fn landing(&self, round: u32, from: u32, message: &Message) -> usize {
        let ranks = self.comm.team.n_ranks as usize;
        ((round as usize % 2 * ranks + from as usize) * self.plan.messages as usize + message.place) * MOST
    }

    fn source(&self, message: &Message) -> usize {
        (2 * self.comm.team.n_ranks as usize * self.plan.messages as usize + message.place) * MOST
    }

    fn kernel(&self, context: u32) -> Kernel {
        // SAFETY: contexts live as long as the communicator, and this as long as its user.
        unsafe { Kernel::attach(self.dev_comm.ginHandles[context as usize]) }
    }

    fn signal(&self, context: u32, from: u32) -> u64 {
        let at = read::<ncclGinProxyGpuCtx_t>(self.dev_comm.ginHandles[context as usize]).signals;
        load(at + 8 * u64::from(self.dev_comm.ginSignalBase + from))
    }

    fn counter(&self, context: u32) -> u64 {
        let at = read::<ncclGinProxyGpuCtx_t>(self.dev_comm.ginHandles[context as usize]).counters;
        load(at + 8 * u64::from(self.dev_comm.ginCounterBase))
    }

    fn descriptor(&self, round: u32, message: &Message) -> Descriptor {
        let own = self.comm.team.rank;
        let handle = self.window.ginWins[message.context as usize];
        let start = u64::from(self.window.ginOffset4K) << 12;
        let source = match message.inline {
            true => Source::Inline((0..message.bytes).fold(0, |value, at| value | u64::from(message.byte(at)) << (8 * at))),
            false => Source::Memory { handle, offset: start + self.source(message) as u64 },
        };
        let op = if message.add == 1 { SignalOp::Inc } else { SignalOp::Add(message.add) };
        Descriptor {
            bytes: message.bytes as u64,
            source,
            dst_handle: handle,
            dst_offset: start + self.landing(round, own, message) as u64,
            signal: Some(((self.dev_comm.ginSignalBase + own) as u16, op)),
            counter: message.counts.then_some(self.dev_comm.ginCounterBase as u16),
        }
    }

    /// Waits until `done`, as a kernel does: the abort word ends it.
    fn wait(&self, kernel: &Kernel, what: &dyn Fn() -> String, mut done: impl FnMut() -> bool) -> Result<(), Stop> {
        let (begin, mut nap) = (Instant::now(), Duration::from_micros(1));
        while !done() {
            if kernel.aborted() {
                return Err(Stop::aborted(self.comm));
            }
            if begin.elapsed() > ENDLESS {
                return Err(Stop::Violation(format!("rank {} waits without end for {}", self.comm.team.rank, what())));
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
        Ok(())
    }

    /// All messages of a round, both ways.
    pub fn round(&mut self, round: u32) -> Result<(), Stop> {
        let (own, ranks) = (self.comm.team.rank, self.comm.team.n_ranks);
        let sent = self.plan.messages(self.of, round, own, ranks);
        for message in &sent {
            let at = self.source(message);
            self.bytes(at, message.bytes).iter_mut().enumerate().for_each(|(at, byte)| *byte = message.byte(at));
            let (kernel, words) = (self.kernel(message.context), self.descriptor(round, message).encode());
            let index = kernel.claim(message.to);
            self.wait(&kernel, &|| format!("room in its queue to rank {}", message.to), || kernel.has_credit(message.to, index))?;
            kernel.write(message.to, index, &words.expect("what fits"));
        }
        for from in 0..ranks {
            self.receive(round, from)?;
        }
        self.flush(&sent)?;
        // Not a byte of the round before has come again.
        if round > 0 {
            for from in 0..ranks {
                for message in self.plan.messages(self.of, round - 1, from, ranks).iter().filter(|message| message.to == own) {
                    self.is_marked(round - 1, from, message)?;
                }
            }
        }
        // Nor has a signal: nobody has begun the next round yet.
        let more =
            (0..self.plan.contexts).flat_map(|context| (0..ranks).map(move |from| (context, from))).find(|(context, from)| {
                let expected = self.signals[(context * ranks + from) as usize];
                self.signal(*context, *from) != expected && !self.kernel(*context).aborted()
            });
        match more {
            Some((context, from)) => Err(Stop::Violation(format!(
                "rank {own}: signals of rank {from} on context {context} came to {}, {} were sent",
                self.signal(context, from),
                self.signals[(context * ranks + from) as usize]
            ))),
            None => self.comm.team.bootstrap.barrier("end of a round").map_err(|error| Stop::error(self.comm, error)),
        }
    }

    fn receive(&mut self, round: u32, from: u32) -> Result<(), Stop> {
        let (own, ranks) = (self.comm.team.rank, self.comm.team.n_ranks);
        let mine = self.plan.messages(self.of, round, from, ranks).into_iter().filter(|message| message.to == own);
        for message in mine {
            let (kernel, slot) = (self.kernel(message.context), (message.context * ranks + from) as usize);
            let spoiled = |canary| self.plan.canary == Some(canary) && own == 1;
            let wanted = self.signals[slot] + message.add + u64::from(spoiled(Canary::Signal));
            let what = || format!("signal {wanted} of rank {from} on context {}", message.context);
            self.wait(&kernel, &what, || self.signal(message.context, from) >= wanted)?;
            self.signals[slot] = wanted;
            // An abort moves signals, too.
            let (at, aborted) = (self.landing(round, from, &message), kernel.aborted());
            let spoiled = spoiled(Canary::Payload);
            let landed = self.bytes(at, message.bytes);
            landed.iter_mut().take(1).filter(|_| spoiled).for_each(|byte| *byte ^= 1);
            let wrong = landed.iter().enumerate().position(|(at, byte)| *byte != message.byte(at));
            landed.fill(MARK);
            if aborted {
                return Err(Stop::aborted(self.comm));
            }
            if let Some(wrong) = wrong {
                return Err(Stop::Violation(format!(
                    "rank {own}: byte {wrong} of {} of message {} of rank {from} in round {round} was not there with its signal",
                    message.bytes, message.place
                )));
            }
            self.is_marked(round, from, &Message { bytes: MOST, ..message })?;
        }
        Ok(())
    }

    /// Nobody writes where nothing was sent, nor a second time.
    fn is_marked(&mut self, round: u32, from: u32, message: &Message) -> Result<(), Stop> {
        let at = self.landing(round, from, message);
        match self.bytes(at, message.bytes).iter().position(|byte| *byte != MARK) {
            Some(wrong) => Err(Stop::Violation(format!(
                "rank {}: byte {wrong} of the place of message {} of rank {from}, round {round}, was written and not sent",
                self.comm.team.rank, message.place
            ))),
            None => Ok(()),
        }
    }

    /// What was sent is done: each credit is back, once, and sources are this rank's again.
    fn flush(&mut self, sent: &[Message]) -> Result<(), Stop> {
        for context in 0..self.plan.contexts {
            let kernel = self.kernel(context);
            self.counters[context as usize] +=
                sent.iter().filter(|message| message.context == context && message.counts).count() as u64;
            let counted = self.counters[context as usize];
            self.wait(&kernel, &|| format!("counter {counted}"), || self.counter(context) >= counted)?;
            for peer in 0..self.comm.team.n_ranks {
                let claimed = kernel.claimed(peer);
                self.wait(&kernel, &|| format!("a flush to rank {peer}"), || kernel.flushed(peer, claimed))?;
                let (early, count) = (kernel.flushed(peer, claimed.wrapping_add(1)), self.counter(context));
                if !kernel.aborted() && (early || count != counted) {
                    return Err(Stop::Violation(format!(
                        "rank {}, context {context}: credits to rank {peer} {}; counter {count}, {counted} were to come",
                        self.comm.team.rank,
                        if early { "came twice" } else { "are right" }
                    )));
                }
            }
        }
        for message in sent {
            let at = self.source(message);
            self.bytes(at, MOST).fill(!MARK);
        }
        Ok(())
    }
}
