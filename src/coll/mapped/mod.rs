//! Buffers where kernels of other ranks see them, of which these know nothing yet: what a launch of How::Mapped tells them (cuda/collectives/mapped.cuh).
//!
//! What lies in a window all ranks of the team see in the flat space: they are told how far from the collectives' own window. Else ranks of one process see cudaMalloc and ncclMemAlloc memory of each other at its own addresses, and nothing is kept of it. To ranks of
//! other processes it is lent: `own` says what, `page` is how they hear of it, `service` opens it off everybody's way. A rank that cannot
//! tell where all others see its buffer tells 0, and the call is staged on all of them.
//!
//! Traps: a board is read behind a meeting that may have ended by an abort, and is not believed then; memory may be freed, and its addresses
//! used again, between any two calls, so every call asks the device what its buffer is; a captured launch may run when its memory is no more
//! what it was, so it tells nothing to other processes; to close what was opened waits for kernels, so that is left to the communicator's end.

mod own;
mod page;
mod service;

use super::call::Call;
use super::table::How;
use super::work::MAPPED_RANKS;
use crate::device::{DevPtr, Holding, Kind, Lends, Physical};
use crate::error::Result;
use crate::sync::Mutex;
use crate::team::{Offer, Said, Team, offers_of};
use crate::window::Windows;
use crate::{bail, config, info};
use own::Own;
use page::Page;
use service::Service;
use std::sync::Arc;

/// Which buffers ranks tell each other of: equal on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Those in windows.
    Windows,
    /// Those of any memory.
    All,
}

/// How a rank's buffers are told to the others.
pub struct Maps {
    team: Arc<Team>,
    tells: Tells,
    /// Handle of the boards.
    pub board: u32,
    /// Where the first rank of the team has the window of the boards, as this one sees it.
    window: DevPtr,
    /// This rank's kernels see the memory of all ranks of its process.
    sees: bool,
    /// Where there are other processes.
    far: Option<(Mutex<Own>, Service)>,
}

/// By rank of the team: where its kernels see a buffer ([`in_window`] if that lies in one); or 0 for all.
pub type Places = [DevPtr; MAPPED_RANKS];

/// What the ranks of a communicator tell each other.
pub fn wanted(team: &Team, forced: Option<How>) -> Option<Tells> {
    let (size, most) = (team.topo.lsa_size, MAPPED_RANKS as u32);
    let gpus = team.device.kind() == Kind::Cuda;
    let wanted = match config::int("GINRS_MAP_BUFFERS") {
        _ if forced == Some(How::Mapped) => Some(Tells::All),
        1 => Some(Tells::All),
        // Nothing is lent then, so nothing that is freed stays.
        -1 if gpus && team.peers.iter().all(|peer| is_near(team, peer.rank)) => Some(Tells::All),
        -1 if gpus => Some(Tells::Windows),
        _ => None,
    };
    wanted.filter(|_| size == team.n_ranks && (2..=most).contains(&size))
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
    pub fn new(team: &Arc<Team>, tells: Tells, board: u32, window: DevPtr) -> Result<Self> {
        if tells == Tells::Windows {
            return Ok(Self { team: team.clone(), tells, board, window, sees: false, far: None });
        }
        let mut near = team.peers.iter().filter(|peer| is_near(team, peer.rank));
        let sees = near
            .try_for_each(|peer| team.device.see(peer.device))
            .inspect_err(|error| info!(COLL, "{} maps no buffers: {error}", team.tag()))
            .is_ok();
        let far = (0..team.n_ranks).any(|rank| !is_near(team, rank));
        let far = if far { Some((Mutex::default(), service(team)?)) } else { None };
        Ok(Self { team: team.clone(), tells, board, window, sees, far })
    }

    /// What can be told now: nothing of windows where none was ever registered.
    pub fn tells(&self, windows: &Windows) -> Option<Tells> {
        Some(self.tells).filter(|&tells| tells == Tells::All || windows.have_been())
    }

    /// Where the ranks see those buffers of a call that they touch, send and receive, for a launch that is about to be made.
    pub fn places(&self, windows: &Windows, call: &Call, captured: bool) -> (Places, Places) {
        // What others lend is opened, whatever this rank's buffers are.
        if let Some((_, service)) = &self.far {
            service.look(self.team.rank);
        }
        let ((reads, writes), (sends, receives)) = (call.lends(self.team.rank), call.spans(self.team.n_ranks));
        let of = |lends: bool, at, bytes| match lends.then(|| windows.flat_at(at, bytes)) {
            None => [0; MAPPED_RANKS],
            Some(Some(flat)) => [in_window(flat, self.window); MAPPED_RANKS],
            Some(None) => self.of(at, bytes, captured),
        };
        (of(reads, call.send, sends), of(writes, call.recv, receives))
    }

    fn of(&self, at: DevPtr, bytes: u64, captured: bool) -> Places {
        let mut places = [0; MAPPED_RANKS];
        let device = &self.team.device;
        let Some(holding) = device.holding(at).filter(|holding| self.sees && holding.covers(at, bytes)) else { return places };
        let Some((own, service)) = &self.far else {
            places[..self.team.n_ranks as usize].fill(at);
            return places;
        };
        if captured || holding.lends == Lends::Nothing {
            return places;
        }
        let Some((slot, new)) = own.lock().call(holding) else { return places };
        if new {
            service.lend(slot, holding);
        }
        self.seen(&holding, slot, service, at).unwrap_or(places)
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
