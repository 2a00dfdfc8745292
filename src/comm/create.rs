//! Makes one rank's end of a communicator: join, compare, watch.

use super::notice::Notice;
use super::{Calls, Comm};
use crate::abort::Abort;
use crate::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use crate::coll::{self, Collectives};
use crate::devcomm::{DevComms, Release};
use crate::device::{Device, graveyard};
use crate::error::Result;
use crate::layout::NCCL_VERSION_CODE;
use crate::process::rest;
use crate::team::peer::machine;
use crate::team::{Config, Origin, Team};
use crate::watch::{Looks, Pulse};
use crate::window::Windows;
use crate::{info, log};
use std::sync::Arc;

/// What a rank needs to join.
pub struct Request {
    /// The communicator's id, or one for each block of its ranks; at least one.
    pub ids: Vec<UniqueId>,
    /// Number of ranks, at least 1.
    pub n_ranks: u32,
    /// This rank, below `n_ranks`.
    pub rank: u32,
    /// Checked settings.
    pub config: Config,
    /// The device that was current when the caller asked.
    pub device: Arc<dyn Device>,
    /// Where its ranks come from; None: from nowhere.
    pub origin: Option<Origin>,
    /// Who may end the creation.
    pub cancel: Arc<Cancel>,
}

/// Collective: returns on every rank or gives every rank the reason.
pub fn create(request: Request) -> Result<Arc<Comm>> {
    let Request { ids, n_ranks, rank, config, device, origin, cancel } = request;
    log::set_device(device.ordinal());
    graveyard::sweep();
    info!(
        INIT,
        "comm 0x{:016x} rank {rank} nRanks {n_ranks} cudaDev {} - ginrs {}, NCCL {NCCL_VERSION_CODE} - Init START",
        ids[0].comm_hash(),
        device.ordinal(),
        env!("CARGO_PKG_VERSION")
    );
    let origin = origin.unwrap_or(Origin { rank, n_ranks });
    let bootstrap = Bootstrap::join_at(&ids, Seat { rank, n_ranks, machine: machine(origin) }, &cancel)?;
    let team = Team::meet(bootstrap, origin, config, device);
    let made = team.and_then(compose).map_err(|error| cancel.check().err().unwrap_or(error))?;
    coll::prepare(&made.collectives, &made.windows)?;
    let team = &made.team;
    info!(
        INIT,
        "{} nRanks {n_ranks} nNodes {} lsaRank {} lsaSize {} cudaDev {} busId {:x} - Init COMPLETE",
        team.tag(),
        team.topo.n_nodes,
        team.topo.lsa_rank,
        team.topo.lsa_size,
        team.device.ordinal(),
        team.device.bus_id()
    );
    Ok(Arc::new(made))
}

fn compose(team: Team) -> Result<Comm> {
    let tag = team.tag();
    let release = Release::new(team.device.clone(), tag.clone());
    let (start, notice) = (release.starter(), Notice::new(team.rank));
    let collectives = Arc::new(Collectives::new());
    let (told, launches, quiescent_process) = (notice.clone(), Arc::downgrade(&collectives), team.watch.quiescent_process());
    team.abort.on_raise(move |cause| {
        let kernels = start();
        let busy = !kernels.is_empty() || launches.upgrade().is_none_or(|launches| launches.is_busy());
        let ends = if busy { None } else { quiescent_process(cause) };
        told.raised(cause, format!("{cause} | seen by {tag}{kernels}"), ends);
    });
    let launches = Arc::downgrade(&collectives);
    let launches = Arc::new(move |abort: &Abort| launches.upgrade().into_iter().for_each(|launches| launches.look(abort)));
    let looks = Looks { signs: team.watch.signs(), words: release.words(), launches };
    let pulse = Pulse::watch(&team.device, &team.abort, team.rank, format!("comm 0x{:016x}", team.hash), Some(looks))
        .inspect_err(|error| team.bootstrap.poison(error))?;
    // Neither keeps the collectives: who asks may be their thread, which they wait for when they end.
    let (used, busy) = (release.used(), collectives.busy());
    let rests = rest::join(move || used() || busy());
    let team = Arc::new(team);
    Ok(Comm {
        rests,
        calls: Calls::default(),
        collectives,
        devcomms: DevComms::new(release),
        pulse,
        windows: Windows::new(team.clone()),
        team,
        notice,
        blamed: Default::default(),
    })
}
