//! One rank, from its coming to its going: what a program does, and how it ends.

use crate::plan::{Canary, Plan};
use crate::traffic::{Traffic, window_bytes};
use ginrs::bootstrap::{Cancel, UniqueId};
use ginrs::comm::create::{Request, create};
use ginrs::comm::{Comm, child, finish};
use ginrs::devcomm::{self, Requirements};
use ginrs::device;
use ginrs::error::Error;
use ginrs::team::Config;
use std::cell::Cell;
use std::sync::Arc;

/// Why a rank goes no further.
#[derive(Debug)]
pub enum Stop {
    /// A call failed; ranks by their number in the first communicator.
    Failed { error: Error, culprit: Option<u32> },
    /// It was its turn to end.
    Ends,
    /// What must not be.
    Violation(String),
}

impl Stop {
    /// Of a call on `comm`: where the communicator has failed, that is the reason.
    pub fn error(comm: &Comm, error: Error) -> Stop {
        let error = comm.team.failure().cloned().unwrap_or(error);
        Stop::Failed { culprit: error.culprit.map(|rank| comm.team.peers[rank as usize].origin.rank), error }
    }

    /// A kernel saw the abort word.
    pub fn aborted(comm: &Comm) -> Stop {
        match comm.team.failure() {
            Some(error) => Stop::error(comm, error.clone()),
            None => Stop::Violation(format!("rank {}: the abort word is set, and there is no cause", comm.team.rank)),
        }
    }
}

/// A rank of a plan.
pub struct Rank<'a> {
    pub plan: &'a Plan,
    pub rank: u32,
    pub id: &'a UniqueId,
    steps: Cell<u32>,
}

impl<'a> Rank<'a> {
    pub fn new(plan: &'a Plan, id: &'a UniqueId, rank: u32) -> Self {
        Self { plan, rank, id, steps: Cell::new(0) }
    }

    /// Before each step: this may be the one in place of which the rank ends.
    fn step(&self) -> Result<(), Stop> {
        let step = self.steps.replace(self.steps.get() + 1);
        let canary = self.plan.canary == Some(Canary::Failure) && (self.rank, step) == (1, 3);
        if self.plan.ends(self.rank) == Some(step) || canary { Err(Stop::Ends) } else { Ok(()) }
    }

    /// All of it.
    pub fn run(&self) -> Result<(), Stop> {
        self.step()?;
        device::set_current(self.rank as i32).expect("a device");
        let (device, cancel) = (device::current().expect("a device"), Cancel::new());
        let comm = create(Request {
            ids: vec![self.id.clone()],
            n_ranks: self.plan.ranks,
            rank: self.rank,
            config: Config::default(),
            device,
            origin: None,
            cancel,
        })
        .map_err(|error| Stop::Failed { culprit: error.culprit, error })?;
        let lived = self.with(&comm, 0, |_| self.part(&comm));
        self.leave(comm, lived)
    }

    /// The children, at the end of their parent's life.
    fn part(&self, comm: &Arc<Comm>) -> Result<(), Stop> {
        if self.plan.children == 0 {
            return Ok(());
        }
        self.step()?;
        let color = self.plan.color(self.rank);
        let part = child::split(comm, color, -(self.rank as i32), Ok(Config::default()));
        let part = part.map_err(|error| Stop::error(comm, error))?.expect("it has a colour");
        let lived = self.with(&part, 1 + color as u64, |_| Ok(()));
        self.leave(part, lived)
    }

    /// Ends its part of `comm`: in order after success, and where only a call has failed; else by an abort, as a program does that is told.
    fn leave(&self, comm: Arc<Comm>, lived: Result<(), Stop>) -> Result<(), Stop> {
        let aborts = matches!(lived, Err(Stop::Ends | Stop::Violation(_))) || comm.team.failure().is_some();
        match aborts {
            true => finish::abort(comm),
            false => finish::destroy(comm),
        }
        lived
    }

    /// A window and a device communicator, the rounds, and `last` while they stand.
    fn with(&self, comm: &Arc<Comm>, of: u64, last: impl FnOnce(()) -> Result<(), Stop>) -> Result<(), Stop> {
        self.step()?;
        let bytes = window_bytes(self.plan, comm.team.n_ranks);
        let memory = comm.team.device.alloc(bytes).map_err(|error| Stop::error(comm, error))?;
        let lived = self.with_memory(comm, of, memory, bytes, last);
        comm.team.device.free(memory).map_err(|error| Stop::error(comm, error))?;
        lived
    }

    fn with_memory(
        &self,
        comm: &Arc<Comm>,
        of: u64,
        memory: u64,
        bytes: usize,
        last: impl FnOnce(()) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let failed = |error| Stop::error(comm, error);
        self.step()?;
        let window = comm.windows.register(memory, bytes, 0).map_err(failed)?;
        self.step()?;
        let needs = Requirements {
            gin_force_enable: true,
            gin_signal_count: comm.team.n_ranks as i32,
            gin_counter_count: 1,
            ..Default::default()
        };
        let made = devcomm::create(&comm.devcomms, &comm.windows, &needs).map_err(failed)?.dev_comm;
        let mut traffic = Traffic::new(self.plan, comm, of, memory, window, made);
        comm.team.bootstrap.barrier("begin").map_err(failed)?;
        for round in 0..self.plan.rounds {
            self.step()?;
            traffic.round(round)?;
        }
        last(())?;
        self.step()?;
        devcomm::destroy(&comm.devcomms, &comm.windows, &made).map_err(failed)?;
        comm.team.bootstrap.barrier("end").map_err(failed)?;
        comm.windows.deregister(window).map_err(failed)
    }
}
