//! What every rank tells every other when a communicator is made: a fixed layout, checked when it arrives.

use super::Config;
use crate::bootstrap::FdAddress;
use crate::device::{Device, Kind};
use crate::error::Result;
use crate::topo::Reach;
use crate::{bail, config, process};
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Version of this layout and of everything that ranks exchange; equal on all ranks.
pub const WIRE_VERSION: u32 = 6;

/// A rank's place in the communicator that was made from an id, of which this one is a part, or a part of a part.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct Origin {
    /// Its rank there.
    pub rank: u32,
    /// How many ranks there are.
    pub n_ranks: u32,
}

/// One rank, as the others see it. It travels as it stands here.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct PeerInfo {
    /// [`WIRE_VERSION`]; stays the first word.
    pub wire: u32,
    /// API version, 22809.
    pub version: u32,
    /// World rank.
    pub rank: u32,
    /// In the peer's own namespace.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Ordinal in the peer's process.
    pub device: i32,
    /// Its place where no parent is above: what settings by rank count by.
    pub origin: Origin,
    /// Blocks of the collectives' kernels that its device surely runs at the same time; 0: it has no such kernels.
    pub kernel_blocks: u32,
    /// minCTAs and maxCTAs, 0 where nobody set that one.
    pub ctas: [u16; 2],
    /// Equal for ranks on one LSA node.
    pub host_hash: u64,
    /// Equal for ranks that reach each other by memfd and abstract sockets, unless GINRS_FAKE_MACHINES makes them strangers.
    pub machine: u64,
    /// Equal means the same device, on one machine.
    pub bus_id: u64,
    /// Bytes.
    pub total_memory: u64,
    /// Of the settings that must agree.
    pub config_hash: u64,
    /// Random per process, renewed after fork. Ranks of one process on different fake machines have different ones.
    pub process: [u8; 16],
    /// An [`FdAddress`].
    pub(crate) fd_address: [u8; 32],
    /// Program name, cut to 16 bytes, then zeros.
    pub(crate) name: [u8; 16],
}

impl PeerInfo {
    /// This rank.
    pub fn own(rank: u32, origin: Origin, config: &Config, device: &dyn Device, fd_address: FdAddress) -> Result<Self> {
        let (machine, process) = whereabouts(origin)?;
        Ok(Self {
            rank,
            version: crate::layout::NCCL_VERSION_CODE as u32,
            wire: WIRE_VERSION,
            host_hash: host_hash(origin, machine)?,
            machine,
            process,
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            device: device.ordinal(),
            bus_id: device.bus_id(),
            total_memory: device.total_memory(),
            config_hash: hash(agreed_settings(device.kind()).as_bytes()),
            origin,
            fd_address: fd_address.to_bytes(),
            kernel_blocks: device.kernels().map_or(0, |kernels| kernels.blocks()),
            ctas: [config.min_ctas as u16, config.max_ctas.unwrap_or(0) as u16],
            name: program_name(),
        })
    }

    /// What `rank` sent. Another wire version is told as such, before anything else is read.
    pub fn decode(rank: u32, bytes: &[u8]) -> Result<Self> {
        let wire = u32::read_from_prefix(bytes).ok().map(|(wire, _)| wire);
        let Some(peer) = Self::read_from_bytes(bytes).ok().filter(|_| wire == Some(WIRE_VERSION)) else {
            bail!(
                InvalidUsage,
                13,
                "ranks run different versions of ginrs | rank {rank} | it speaks wire version {}, this rank {WIRE_VERSION} | \
                 fix: load the same libginrs on every rank",
                wire.map_or("?".into(), |w| w.to_string())
            );
        };
        if peer.rank != rank || peer.origin.rank >= peer.origin.n_ranks {
            bail!(
                RemoteError,
                13,
                "a rank's record is out of place | rank {rank} | it says it is rank {} | fix: report this",
                peer.rank
            );
        }
        peer.fd_address()?;
        Ok(peer)
    }

    /// Whether it is a rank of this very process, be it on another machine that GINRS_FAKE_MACHINES pretends.
    pub fn is_here(&self) -> bool {
        whereabouts(self.origin).is_ok_and(|(_, process)| process == self.process)
    }

    /// Where its process serves descriptors.
    pub fn fd_address(&self) -> Result<FdAddress> {
        FdAddress::from_bytes(&self.fd_address)
    }

    /// How messages name it: `rank 3 (pid 4411, ring)`.
    pub fn tag(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        format!("rank {} (pid {}, {})", self.rank, self.pid, name.trim_end_matches('\0'))
    }
}

/// FNV-1a: for equality between ranks, not against an adversary.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Machine and process of a rank. GINRS_FAKE_MACHINES, by rank, splits what is one machine into several that share nothing.
fn whereabouts(origin: Origin) -> Result<(u64, [u8; 16])> {
    const NAME: &str = "GINRS_FAKE_MACHINES";
    let (machine, process) = (process::machine(), process::token());
    let Some(spec) = config::text(NAME) else { return Ok((machine, process)) };
    let fake = hash(format!("{machine:016x} fake {}", by_rank(NAME, &spec, origin)?).as_bytes());
    let mixed = u128::from_le_bytes(process) ^ u128::from(fake);
    Ok((fake, mixed.to_le_bytes()))
}

/// The machine of a rank. Where GINRS_FAKE_MACHINES makes no sense the ranks meet all the same, to hear of it.
pub fn machine(origin: Origin) -> u64 {
    whereabouts(origin).map_or_else(|_| process::machine(), |(machine, _)| machine)
}

/// The LSA node of a rank: GINRS_FAKE_NODES by rank, else NCCL_HOSTID, else host name and boot id. A node is never larger than a
/// machine: containers may share all of these and no memory.
fn host_hash(origin: Origin, machine: u64) -> Result<u64> {
    let identity = match config::text("GINRS_FAKE_NODES") {
        Some(spec) => format!("{} fake {}", host_identity(), by_rank("GINRS_FAKE_NODES", &spec, origin)?),
        None => config::text("NCCL_HOSTID").unwrap_or_else(host_identity),
    };
    Ok(hash(format!("{machine:016x} {identity}").as_bytes()))
}

fn host_identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{} {}", rustix::system::uname().nodename().to_string_lossy(), boot.trim())
}

/// What variable `name` says of a rank: `per-rank`, or one name for each rank, as `0,0,1,1`.
fn by_rank(name: &str, spec: &str, Origin { rank, n_ranks }: Origin) -> Result<String> {
    if spec.trim() == "per-rank" {
        return Ok(rank.to_string());
    }
    let groups: Vec<&str> = spec.split(',').map(str::trim).collect();
    if groups.len() != n_ranks as usize || groups.iter().any(|group| group.is_empty()) {
        bail!(
            InvalidUsage,
            14,
            "{name} does not fit | {n_ranks} ranks | \"{spec}\" has {} names | fix: one name per rank, as 0,0,1,1, or per-rank",
            groups.len()
        );
    }
    Ok(groups[rank as usize].to_owned())
}

/// This rank's row of the reach matrix. Other machines count as reached: that they are not has errors of its own. None where
/// there is nothing to ask: the CPU device reaches everything.
pub fn reach_row(rank: u32, peers: &[PeerInfo], device: &dyn Device) -> Result<Option<Arc<[u8]>>> {
    const FAKE: &str = "GINRS_FAKE_REACH";
    let own = &peers[rank as usize];
    let near = |peer: &PeerInfo| peer.machine != own.machine || device.reaches(peer.bus_id);
    let Some(spec) = config::text(FAKE) else {
        return Ok((device.kind() == Kind::Cuda).then(|| Reach::row(peers.iter().map(near))));
    };
    let group = by_rank(FAKE, &spec, own.origin)?;
    let mut row = Vec::with_capacity(peers.len());
    for peer in peers {
        row.push(near(peer) && by_rank(FAKE, &spec, peer.origin)? == group);
    }
    Ok(Some(Reach::row(row)))
}

/// Settings that must be equal on all ranks, because layouts and ids follow from them: `NAME=value` lines. `kind` is what
/// GINRS_DEVICE came to.
pub fn agreed_settings(kind: Kind) -> String {
    const NUMBERS: [&str; 7] = [
        "NCCL_WIN_ENABLE",
        "NCCL_WIN_STRIDE",
        "NCCL_GIN_ENABLE",
        "NCCL_GIN_NCONTEXTS",
        "NCCL_GIN_SIGNAL_POOL_SIZE",
        "NCCL_GIN_COUNTER_POOL_SIZE",
        "GINRS_MAP_BUFFERS",
    ];
    let mut lines: Vec<String> = NUMBERS.iter().map(|name| format!("{name}={}", config::int(name))).collect();
    for name in [
        "GINRS_FAKE_MACHINES",
        "GINRS_FAKE_NODES",
        "GINRS_FAKE_REACH",
        "GINRS_TRANSPORT",
        "GINRS_OFI_PROVIDER",
        "GINRS_COLLECTIVE",
    ] {
        lines.push(format!("{name}={}", config::text(name).unwrap_or_default()));
    }
    lines.push(format!("GINRS_DEVICE={}", if kind == Kind::Cuda { "cuda" } else { "cpu" }));
    lines.join("\n")
}

fn program_name() -> [u8; 16] {
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let name: String = comm.trim().chars().filter(|c| !c.is_control()).collect();
    let mut bytes = name.into_bytes();
    bytes.resize(16, 0);
    bytes.try_into().expect("16 bytes")
}

#[cfg(test)]
impl PeerInfo {
    /// One for tests.
    pub fn sample() -> Self {
        Self {
            rank: 3,
            version: 22809,
            wire: WIRE_VERSION,
            host_hash: 1,
            machine: 2,
            process: [7; 16],
            pid: 4411,
            uid: 1000,
            device: -1,
            bus_id: 0x0000_0001_0000_0000,
            total_memory: 8 << 30,
            config_hash: 5,
            origin: Origin { rank: 7, n_ranks: 9 },
            fd_address: [0; 32],
            kernel_blocks: 16,
            ctas: [1, 0],
            name: *b"ring\0\0\0\0\0\0\0\0\0\0\0\0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_way_and_a_wrong_one_is_told() {
        let info = PeerInfo::sample();
        let bytes = info.as_bytes();
        assert_eq!(PeerInfo::decode(3, bytes).unwrap(), info);
        assert_eq!(info.tag(), "rank 3 (pid 4411, ring)");
        assert!(PeerInfo::decode(2, bytes).unwrap_err().text.contains("rank 3"));
        for wrong in [&bytes[..bytes.len() - 1], &[], &vec![9; bytes.len()]] {
            assert_eq!(PeerInfo::decode(3, wrong).unwrap_err().id, 13);
        }
    }

    #[test]
    fn a_node_is_never_more_than_a_machine() {
        let origin = Origin { rank: 0, n_ranks: 1 };
        assert_eq!(host_hash(origin, 1).unwrap(), host_hash(origin, 1).unwrap());
        assert_ne!(host_hash(origin, 1).unwrap(), host_hash(origin, 2).unwrap());
    }

    #[test]
    fn fake_nodes_go_by_rank() {
        assert_eq!(by_rank("X", "0,0, 1,1", Origin { rank: 2, n_ranks: 4 }).unwrap(), "1");
        assert_eq!(by_rank("X", "per-rank", Origin { rank: 2, n_ranks: 4 }).unwrap(), "2");
        assert!(by_rank("X", "0,0,1", Origin { rank: 0, n_ranks: 4 }).unwrap_err().text.contains("3 names"));
        assert!(by_rank("X", "0,,1,1", Origin { rank: 0, n_ranks: 4 }).is_err());
    }
}
