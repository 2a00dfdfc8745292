//! Buffers where kernels of other ranks see them, of which these know nothing yet: what a launch of How::Mapped tells them (cuda/collectives/mapped.cuh).
//!
//! What lies in a window all ranks of the team see in the flat space: they are told how far from the collectives' own window. Else ranks of one process see cudaMalloc and ncclMemAlloc memory of each other at its own addresses, and nothing is kept of it. To ranks of
//! other processes it is lent: `own` says what, `page` is how they hear of it, `service` opens it off everybody's way. A rank that cannot
//! tell where all others see its buffer tells 0, and the call is staged on all of them.
//!
//! What is lent and freed stays the GPU's until all others have closed it. So there is little of it, none where memory is scarce, and what was freed is
//! wanted back ([`Maps::tidy`]).
//!
//! Traps: a board is read behind a meeting that may have ended by an abort, and is not believed then; memory may be freed, and its addresses
//! used again, between any two calls, so every call asks the device what its buffer is; a captured launch tells what it was told when it was captured, so its loans
//! stay, and it waits until all see them; a rank that is told of a loan may launch the call later than the one that tells, so nothing is withdrawn before
//! all launches that told of it are over.

mod own;
mod page;
mod service;

use super::call::Call;
use super::table::How;
use super::work::MAPPED_RANKS;
use crate::device::{DevPtr, Device, Holding, Kind, Lends, Physical};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use crate::team::{Offer, Said, Team, offers_of};
use crate::window::Windows;
use crate::{bail, config, info};
use own::{Lent, Own};
use page::Page;
use service::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a rank's buffers are told to the others.
pub struct Maps {
    team: Arc<Team>,
    /// Handle of the boards.
    pub board: u32,
    /// Where the first rank of the team has the window of the boards, as this one sees it.
    window: DevPtr,
    /// This rank's kernels see the memory of all ranks of its process.
    sees: bool,
    /// No other rank is in this process.
    alone: bool,
    /// Where there are other processes.
    far: Option<Far>,
}

/// To ranks of other processes.
struct Far {
    own: Mutex<Own>,
    service: Service,
    /// Of all memory of the device, in bytes, if it is to be looked after.
    guarded: Option<u64>,
    /// Bytes that this communicator has added to [`lent`].
    counted: AtomicU64,
    /// Captured calls wait for nobody any more.
    tired: AtomicBool,
}

/// Bytes that this process lends.
fn lent() -> &'static AtomicU64 {
    static LENT: PerProcess<AtomicU64> = PerProcess::new();
    LENT.get(AtomicU64::default)
}

/// By itself a process lends at most so much of a GPU's memory, and only while so much is free; where less is, it wants all of it back.
const MOST: u64 = 8;
const PLENTY: u64 = 8;
const SCARCE: u64 = 16;

/// How long a captured call waits for the others to open a buffer, which their threads do whatever else they do, and how often it looks.
const OPENED: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(100);

/// By rank of the team: where its kernels see a buffer ([`in_window`] if that lies in one); or 0 for all.
pub type Places = [DevPtr; MAPPED_RANKS];

/// Whether the ranks of a communicator tell each other of their buffers.
pub fn wanted(team: &Team, forced: Option<How>) -> bool {
    let (size, most) = (team.topo.lsa_size, MAPPED_RANKS as u32);
    let wanted = match config::int("GINRS_MAP_BUFFERS") {
        -1 => team.device.kind() == Kind::Cuda,
        set => set == 1,
    };
    (wanted || forced == Some(How::Mapped)) && size == team.n_ranks && (2..=most).contains(&size)
}

/// So far behind another place of the same rank, or before it: where that rank has it, whoever looks.
fn in_window(at: DevPtr, from: DevPtr) -> DevPtr {
    1 << 63 | at.wrapping_sub(from)
}

fn is_near(team: &Team, rank: u32) -> bool {
    team.peers[rank as usize].process == team.peers[team.rank as usize].process
}

impl Maps {
    /// Collective. Lets this rank's kernels into the memory of its process, and makes the pages. `board` is a handle of a buffer in `window`.
    pub fn new(team: &Arc<Team>, board: u32, window: DevPtr) -> Result<Self> {
        let near: Vec<_> = team.peers.iter().filter(|peer| is_near(team, peer.rank)).collect();
        let sees = near
            .iter()
            .try_for_each(|peer| team.device.see(peer.device))
            .inspect_err(|error| info!(COLL, "{} maps no buffers: {error}", team.tag()))
            .is_ok();
        let far = (0..team.n_ranks).any(|rank| !is_near(team, rank)).then(|| Far::new(team)).transpose()?;
        Ok(Self { team: team.clone(), board, window, sees, alone: near.len() == 1, far })
    }

    /// Where the ranks see those buffers of a call that they touch, send and receive, for a launch that is about to be made.
    pub fn places(&self, windows: &Windows, call: &Call, captured: bool) -> (Places, Places) {
        // What others lend is opened, whatever this rank's buffers are.
        if let Some(far) = &self.far {
            far.service.look(self.team.rank);
        }
        let ((reads, writes), (sends, receives)) = (call.lends(self.team.rank, self.team.n_ranks), call.spans(self.team.n_ranks));
        let of = |lends: bool, at, bytes| if lends { self.anywhere(windows, at, bytes, captured) } else { [0; MAPPED_RANKS] };
        (of(reads, call.send, sends), of(writes, call.recv, receives))
    }

    /// Where they see one buffer of this rank, likewise.
    pub fn place(&self, windows: &Windows, at: DevPtr, bytes: u64, captured: bool) -> Places {
        if let Some(far) = &self.far {
            far.service.look(self.team.rank);
        }
        self.anywhere(windows, at, bytes, captured)
    }

    /// In a window or not.
    fn anywhere(&self, windows: &Windows, at: DevPtr, bytes: u64, captured: bool) -> Places {
        match windows.flat_at(at, bytes) {
            Some(flat) => [in_window(flat, self.window); MAPPED_RANKS],
            None => self.of(at, bytes, captured),
        }
    }

    fn of(&self, at: DevPtr, bytes: u64, captured: bool) -> Places {
        let mut places = [0; MAPPED_RANKS];
        let device = &self.team.device;
        let Some(holding) = device.holding(at, bytes).filter(|holding| self.sees && holding.covers(at, bytes)) else {
            return places;
        };
        if !holding.is_open() && !self.alone {
            return places;
        }
        let Some(far) = &self.far else {
            places[..self.team.n_ranks as usize].fill(at);
            return places;
        };
        if holding.lends == Lends::Nothing {
            return places;
        }
        let Some(slot) = far.slot(&**device, holding, captured) else { return places };
        if captured {
            self.await_others(far, slot);
        }
        self.seen(&holding, slot, &far.service, at).unwrap_or(places)
    }

    /// Until all others see a loan, or one of them cannot, or takes too long: for that the communicator waits once.
    fn await_others(&self, far: &Far, slot: usize) {
        let (rank, since) = (self.team.rank, Instant::now());
        let others = || (0..self.team.n_ranks).filter(|&peer| !is_near(&self.team, peer));
        let waits = || !others().all(|peer| far.service.seen(rank, slot, peer).is_some()) && !far.service.is_refused(rank, slot);
        while waits() && !self.team.abort.is_raised() && !far.tired.load(Ordering::Relaxed) {
            if since.elapsed() > OPENED {
                far.tired.store(true, Ordering::Relaxed);
                info!(
                    COLL,
                    "{} captures a call by messages: others take more than {OPENED:?} to open its buffers",
                    self.team.tag()
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    fn seen(&self, holding: &Holding, slot: usize, service: &Service, at: DevPtr) -> Option<Places> {
        let mut places = [0; MAPPED_RANKS];
        for (rank, place) in (0..self.team.n_ranks).zip(&mut places) {
            *place = match is_near(&self.team, rank) {
                true => at,
                false => service.seen(self.team.rank, slot, rank)? + (at - holding.base),
            };
        }
        Some(places)
    }

    /// Now and then: wants back what was freed, or, where memory is scarce, all; and has let go of what others want back. `is_over`: no launch of the
    /// communicator is on its way.
    pub fn tidy(&self, is_over: impl FnOnce() -> bool) {
        let (Some(far), device, rank) = (&self.far, &self.team.device, self.team.rank) else { return };
        far.service.look(rank);
        far.service.look_again(rank);
        if far.counted.load(Ordering::Relaxed) == 0 {
            return;
        }
        // No launch waits for the driver's answer.
        let scarce = far.has_less_than(&**device, SCARCE);
        let mut own = far.own.lock();
        own.retire(scarce, |holding| device.holding(holding.base, holding.bytes) != Some(*holding));
        // Behind the above: launches that are told of a loan count from before they are.
        if is_over() {
            own.withdraw(|slot| far.service.withdraw(slot));
        }
        own.collect(|slot| far.service.is_empty(rank, slot));
        far.count(&own);
    }
}

impl Far {
    fn new(team: &Arc<Team>) -> Result<Self> {
        let guarded = (config::int("GINRS_MAP_BUFFERS") != 1).then(|| team.device.total_memory());
        Ok(Self {
            own: Mutex::default(),
            service: service(team)?,
            guarded,
            counted: AtomicU64::new(0),
            tired: AtomicBool::new(false),
        })
    }

    /// Where one more call's buffer is lent.
    fn slot(&self, device: &dyn Device, holding: Holding, captured: bool) -> Option<usize> {
        let mut own = self.own.lock();
        let may = || match self.guarded {
            Some(total) => lent().load(Ordering::Relaxed) + holding.bytes <= total / MOST && !self.has_less_than(device, PLENTY),
            None => true,
        };
        match own.call(holding, captured, may) {
            Lent::No => None,
            Lent::Yes(slot) => Some(slot),
            Lent::New(slot) => {
                self.count(&own);
                self.service.lend(slot, holding);
                Some(slot)
            }
        }
    }

    /// Less of the device's memory is free than one part in so many, if that is looked after.
    fn has_less_than(&self, device: &dyn Device, parts: u64) -> bool {
        self.guarded.zip(device.free_memory()).is_some_and(|(total, free)| free < total / parts)
    }

    fn count(&self, own: &Own) {
        let (now, before) = (own.bytes(), self.counted.load(Ordering::Relaxed));
        self.counted.store(now, Ordering::Relaxed);
        // It wraps where there is less.
        lent().fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        lent().fetch_sub(self.counted.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Collective: every rank's page, and the thread for them. It fails on all ranks or on none.
fn service(team: &Arc<Team>) -> Result<Service> {
    const WHAT: &str = "pages of mapped buffers";
    let made = team.device.create_shared(Page::BYTES).and_then(|own| Ok((Offer::new(team, &own)?, own)));
    let said = made.as_ref().map(|(offer, own)| Said { agreed: Vec::new(), own: offer.words(own).to_vec() });
    let all = team.round(WHAT, said.map_err(Clone::clone))?;
    let started = made.and_then(|(offer, own)| {
        let taken = offer.take_all(&own, &offers_of(&all, 0)?, |device, fd, bytes| device.import_shared(fd, bytes))?;
        let pages = (0..).zip(&taken).map(|(rank, memory)| page(team, rank, memory)).collect::<Result<_>>()?;
        Ok((Service::start(team, pages)?, offer))
    });
    // An offer stands until all have taken it.
    team.done(WHAT, &started)?;
    started.map(|(service, _offer)| service)
}

/// The page of this rank, or of one in another process.
fn page(team: &Team, rank: u32, memory: &Option<Arc<dyn Physical>>) -> Result<Option<Page>> {
    let Some(memory) = memory.as_ref().filter(|_| rank == team.rank || !is_near(team, rank)) else { return Ok(None) };
    match Page::of(memory) {
        Some(page) => Ok(Some(page)),
        None => bail!(
            RemoteError,
            53,
            "a page of rank {rank} is too small | {} bytes | fix: load the same libginrs on every rank",
            memory.bytes()
        ),
    }
}
