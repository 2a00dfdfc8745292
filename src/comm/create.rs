//! Makes one rank's end of a communicator: join, compare, watch.

use super::notice::Notice;
use super::peer::{Origin, PeerInfo, agreed_settings, reach_row};
use super::{Buffers, Calls, Comm, CommConfig, finish};
use crate::abort::Abort;
use crate::bootstrap::{Bootstrap, Cancel, UniqueId};
use crate::device::{Device, graveyard};
use crate::error::Result;
use crate::layout::NCCL_VERSION_CODE;
use crate::sync::Mutex;
use crate::topo::{Reach, Topology};
use crate::watch::{Pulse, Watch};
use crate::{bail, coll, config, devcomm, info, log, process, window};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a rank needs to join.
pub struct Request {
    /// The communicator's id, or one for each block of its ranks; at least one.
    pub ids: Vec<UniqueId>,
    /// Number of ranks, at least 1.
    pub n_ranks: u32,
    /// This rank, below `n_ranks`.
    pub rank: u32,
    /// Checked settings.
    pub config: CommConfig,
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
    process::watch_exit(finish::goodbye);
    info!(
        INIT,
        "comm 0x{:016x} rank {rank} nRanks {n_ranks} cudaDev {} - ginrs {}, NCCL {NCCL_VERSION_CODE} - Init START",
        ids[0].comm_hash(),
        device.ordinal(),
        env!("CARGO_PKG_VERSION")
    );
    let bootstrap = Bootstrap::join_at(&ids, rank, n_ranks, &cancel)?;
    let origin = origin.unwrap_or(Origin { rank, n_ranks });
    let made = assemble(bootstrap, origin, config, device).map_err(|error| cancel.check().err().unwrap_or(error))?;
    coll::prepare(&made)?;
    info!(
        INIT,
        "{} nRanks {n_ranks} nNodes {} lsaRank {} lsaSize {} cudaDev {} busId {:x} - Init COMPLETE",
        made.tag(),
        made.topo.n_nodes,
        made.topo.lsa_rank,
        made.topo.lsa_size,
        made.device.ordinal(),
        made.device.bus_id()
    );
    Ok(Arc::new(made))
}

fn assemble(bootstrap: Bootstrap, origin: Origin, config: CommConfig, device: Arc<dyn Device>) -> Result<Comm> {
    let (rank, n_ranks) = (bootstrap.rank(), bootstrap.n_ranks());
    let made = (|| {
        let own = PeerInfo::own(rank, origin, &config, &*device, bootstrap.fd_address())?;
        let peers = meet(&bootstrap, &own, &*device)?;
        let reach = match reach_row(rank, &peers, &*device)? {
            Some(row) => Reach::from_rows(bootstrap.allgather("peer access", &row)?)?,
            None => Reach::full(),
        };
        let abort = Arc::new(Abort::of(&device)?);
        bootstrap.attach_abort(abort.clone());
        let watch = Watch::start(&bootstrap, &abort)?;
        Ok((peers, reach, abort, watch))
    })();
    let (peers, reach, abort, watch) = made.inspect_err(|error| bootstrap.poison(error))?;
    let hash = bootstrap.comm_hash();
    let release = devcomm::Release::new(device.clone(), format!("comm 0x{hash:016x} rank {rank}"));
    let (start, notice) = (release.starter(), Notice::new(rank));
    let told = notice.clone();
    abort.on_raise(move |cause| {
        let kernels = start();
        told.raised(cause, format!("{cause} | seen by comm 0x{hash:016x} rank {rank}{kernels}"));
    });
    let hosts: Vec<u64> = peers.iter().map(|peer| peer.host_hash).collect();
    let topo = Topology::new(&hosts, reach, rank);
    if let Some((a, b)) = topo.apart {
        info!(
            INIT,
            "comm 0x{hash:016x} LSA teams have {} ranks: the GPU of rank {a} does not reach the memory of rank {b}; puts between such \
             ranks go through host memory",
            topo.lsa_size
        );
    }
    let pulse = Pulse::watch(&device, &abort, rank, format!("comm 0x{hash:016x}"), Some((watch.signs(), release.words())))
        .inspect_err(|error| bootstrap.poison(error))?;
    Ok(Comm {
        rank,
        n_ranks,
        hash,
        origin,
        config,
        collectives: coll::Collectives::new(),
        calls: Calls::default(),
        gin: Mutex::new(None),
        devcomms: devcomm::Registry::new(),
        pulse,
        release,
        windows: window::Registry::new(),
        topo,
        peers,
        watch,
        bootstrap,
        abort,
        device,
        notice,
        finalized: AtomicBool::new(false),
        buffers: Mutex::new(Buffers::default()),
    })
}

/// Every rank's record, compared: versions, settings, devices. All ranks see the same records and so the same verdict.
fn meet(bootstrap: &Bootstrap, own: &PeerInfo, device: &dyn Device) -> Result<Vec<PeerInfo>> {
    let records = bootstrap.allgather("peer info", &own.encode())?;
    let peers = records.iter().zip(0..).map(|(bytes, rank)| PeerInfo::decode(rank, bytes)).collect::<Result<Vec<_>>>()?;
    same_version(&peers)?;
    if peers.iter().any(|peer| peer.config_hash != peers[0].config_hash) {
        same_settings(&bootstrap.allgather("settings", agreed_settings(device.kind()).as_bytes())?)?;
    }
    distinct_devices(&peers)?;
    Ok(peers)
}

fn same_version(peers: &[PeerInfo]) -> Result<()> {
    match peers.iter().find(|peer| peer.version != peers[0].version) {
        Some(other) => bail!(
            InvalidUsage,
            13,
            "ranks run different API versions | {} | it has {}, rank 0 has {} | fix: load the same libginrs on every rank",
            other.tag(),
            other.version,
            peers[0].version
        ),
        None => Ok(()),
    }
}

/// Names the first setting that differs, and who has which value.
fn same_settings(texts: &[Vec<u8>]) -> Result<()> {
    let texts: Vec<String> = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    for (rank, text) in texts.iter().enumerate() {
        for (first, other) in texts[0].lines().zip(text.lines()) {
            if first != other {
                let (name, value) = first.split_once('=').unwrap_or((first, ""));
                let theirs = other.split_once('=').map_or(other, |(_, value)| value);
                bail!(
                    InvalidUsage,
                    14,
                    "a setting differs between ranks | {name} | rank 0 has \"{value}\", rank {rank} has \"{theirs}\" | fix: set {name} \
                     alike on every rank (environment, NCCL_CONF_FILE, ~/.nccl.conf, /etc/nccl.conf)"
                );
            }
        }
    }
    Ok(())
}

/// Two ranks on one device would share its memory slice and its kernels' scheduling: refused, as NVIDIA's library does, unless
/// GINRS_SHARE_DEVICE allows it.
fn distinct_devices(peers: &[PeerInfo]) -> Result<()> {
    if config::int("GINRS_SHARE_DEVICE") != 0 {
        return Ok(());
    }
    let mut seen = std::collections::HashMap::new();
    for peer in peers {
        if let Some(first) = seen.insert((peer.machine, peer.bus_id), peer) {
            bail!(
                InvalidUsage,
                15,
                "Duplicate GPU detected | {} and {} | both on device busId {:x} (ordinals {} and {}) | fix: call cudaSetDevice with \
                 another device on each rank, or give each process its own; GINRS_SHARE_DEVICE=1 allows it, for tests",
                first.tag(),
                peer.tag(),
                peer.bus_id,
                first.device,
                peer.device
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_differing_setting_is_named_with_both_values() {
        let texts = [b"A=1\nB=2".to_vec(), b"A=1\nB=2".to_vec(), b"A=1\nB=7".to_vec()];
        let error = same_settings(&texts).unwrap_err();
        assert!(error.text.contains("| B | rank 0 has \"2\", rank 2 has \"7\""), "{error}");
        assert!(same_settings(&texts[..2]).is_ok());
    }
}
