//! Which algorithm takes a call, and with how many blocks: a table by device, kind, bytes and what is registered. The limits are
//! measured ones (docs/measured/collectives.md). Every rank comes to the same answer, since all that goes in is equal on all.

use super::call::Kind;
use super::rounds::Batch;
use super::work::Inbox;
use crate::config;
use crate::device;

/// The algorithms; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every datum with a flag, in one hop: small, within one LSA team.
    Ll = 0,
    /// Loads and stores between the callers' own buffers: within one LSA team, where peers can reach them.
    Direct = 1,
    /// Through the inboxes: always.
    Staged = 2,
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What runs the kernels.
    pub device: device::Kind,
    /// Of the communicator.
    pub n_ranks: u32,
    /// All ranks are in one LSA team.
    pub one_team: bool,
    /// Which function.
    pub kind: Kind,
    /// Bytes of `count` elements.
    pub part: u64,
    /// This rank's send buffer is in a symmetric window.
    pub send_registered: bool,
    /// Likewise its receive buffer.
    pub recv_registered: bool,
    /// Each rank's own factor has to meet its own input.
    pub local: bool,
}

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub how: How,
    /// Grid.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Channels of the inbox that are used.
    pub channels: u32,
}

/// How the sends and receives of a launch run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointToPointChoice {
    /// Block groups.
    pub groups: u32,
    /// Channels of the inbox that are used.
    pub channels: u32,
    /// Grid.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
}

/// What is made with a communicator, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Channels between each ordered pair of ranks.
    pub channels: u32,
    /// Slots of a channel, a power of two.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 128.
    pub slot_bytes: u32,
    /// LSA barriers: the most blocks that Direct uses.
    pub barriers: u32,
    /// Blocks that LL uses at most.
    pub ll_blocks: u32,
    /// Slots of 8 bytes for each of them.
    pub ll_slots: u32,
}

/// Bytes of a rank's inbox, at most: channels and slots shrink where there are many ranks.
const INBOX: u64 = 64 << 20;
/// Bytes of one LL slot's payload.
const LL_PAYLOAD: u64 = 8;

impl Sizes {
    /// For a communicator of `n_ranks` on such a device.
    pub fn of(device: device::Kind, n_ranks: u32) -> Self {
        let most = match device {
            device::Kind::Cuda => Self { channels: 16, slots: 4, slot_bytes: 64 << 10, barriers: 64, ll_blocks: 16, ll_slots: 0 },
            device::Kind::Cpu => Self { channels: 2, slots: 4, slot_bytes: 16 << 10, barriers: 4, ll_blocks: 2, ll_slots: 0 },
        };
        let mut sizes = most;
        let bytes = |s: &Self| u64::from(n_ranks) * u64::from(s.channels) * u64::from(s.slots) * u64::from(s.slot_bytes);
        while bytes(&sizes) > INBOX && sizes.channels > 1 {
            sizes.channels /= 2;
        }
        while bytes(&sizes) > INBOX && sizes.slot_bytes > 4096 {
            sizes.slot_bytes /= 2;
        }
        // Each rank's part of a block's data, from every rank.
        let per_block = ll_limit(device).div_ceil(u64::from(sizes.ll_blocks) * LL_PAYLOAD);
        sizes.ll_slots = per_block as u32 * n_ranks.min(LL_RANKS);
        sizes
    }
}

/// More ranks than that take no LL.
const LL_RANKS: u32 = 16;

/// Bytes up to which LL is the fastest.
fn ll_limit(device: device::Kind) -> u64 {
    match device {
        device::Kind::Cuda => 0,
        device::Kind::Cpu => 0,
    }
}

/// The choice for a collective.
pub fn choose(shape: &Shape, sizes: &Sizes) -> Choice {
    let how = pick(shape, forced(config::text("GINRS_COLLECTIVE").as_deref()));
    let cpu = shape.device == device::Kind::Cpu;
    let threads = if cpu { 32 } else { 512 };
    match how {
        How::Ll => Choice { how, blocks: (sizes.ll_blocks, 1), threads, channels: 0 },
        How::Direct => {
            let per_block = if cpu { 64 << 10 } else { 16 << 10 };
            let blocks = shape.part.div_ceil(per_block).clamp(1, if cpu { 2 } else { sizes.barriers.into() }) as u32;
            Choice { how, blocks: (blocks, 1), threads, channels: 0 }
        }
        How::Staged => {
            let channels = shape.part.div_ceil(u64::from(sizes.slot_bytes)).clamp(1, sizes.channels.into()) as u32;
            Choice { how, blocks: (channels, 2), threads, channels }
        }
    }
}

/// The choice for a launch of sends and receives.
pub fn point_to_point(device: device::Kind, inbox: &Inbox, _batch: &Batch) -> PointToPointChoice {
    let cpu = device == device::Kind::Cpu;
    let groups = if cpu { 1 } else { 4 };
    let channels = inbox.channels;
    PointToPointChoice { groups, channels, blocks: (2 * groups * channels, 1), threads: if cpu { 32 } else { 512 } }
}

/// What GINRS_COLLECTIVE asks for.
fn forced(text: Option<&str>) -> Option<How> {
    match text {
        Some("ll") => Some(How::Ll),
        Some("direct") => Some(How::Direct),
        Some("staged") => Some(How::Staged),
        _ => None,
    }
}

fn pick(shape: &Shape, forced: Option<How>) -> How {
    let can = |how| match how {
        How::Ll => ll_can(shape),
        How::Direct => direct_can(shape),
        How::Staged => true,
    };
    match forced {
        Some(how) if can(how) => how,
        _ => [How::Ll, How::Direct].into_iter().find(|how| can(*how)).unwrap_or(How::Staged),
    }
}

fn ll_can(shape: &Shape) -> bool {
    let fits = shape.part <= ll_limit(shape.device) && shape.n_ranks <= LL_RANKS;
    shape.one_team && !shape.local && fits && shape.kind == Kind::AllReduce
}

/// Whether the buffers that peers touch are registered, as far as every rank can tell.
fn direct_can(shape: &Shape) -> bool {
    let Shape { send_registered, recv_registered, .. } = *shape;
    let reachable = match shape.kind {
        Kind::AllReduce => send_registered && recv_registered,
        Kind::ReduceScatter | Kind::Reduce | Kind::Gather => send_registered,
        Kind::AllGather | Kind::Broadcast | Kind::AlltoAll | Kind::Scatter => recv_registered,
    };
    shape.one_team && !shape.local && reachable
}
