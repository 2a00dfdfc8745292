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
/// At the head of every slot, for the kernels. Bytes.
const SLOT_HEADER: u32 = 128;
/// What an LL thread takes at a time, in slots of 8 bytes. Bytes.
const LL_PACK: u64 = 16;
/// More ranks than that take no LL.
const LL_RANKS: u32 = 16;
/// More ranks than that cannot reduce through the inboxes: the kernel has a table of that size.
pub const STAGED_RANKS: u32 = 1024;
/// A message of that many bytes gets one more channel; the kernel for sends and receives knows it too.
const BYTES_PER_CHANNEL: u64 = 64 << 10;
/// Blocks of a launch of sends and receives, at most: all of them must run at the same time.
const BLOCKS: u32 = 128;

impl Sizes {
    /// For a communicator of `n_ranks` on such a device.
    pub fn of(device: device::Kind, n_ranks: u32) -> Self {
        let most = match device {
            device::Kind::Cuda => Self { channels: 16, slots: 4, slot_bytes: 64 << 10, barriers: 64, ll_blocks: 16, ll_slots: 0 },
            device::Kind::Cpu => Self { channels: 4, slots: 4, slot_bytes: 16 << 10, barriers: 2, ll_blocks: 2, ll_slots: 0 },
        };
        let mut sizes = most;
        let bytes = |s: &Self| u64::from(n_ranks) * u64::from(s.channels) * u64::from(s.slots) * u64::from(s.slot_bytes);
        // An all-reduce needs two channels: inputs on one, results on the other.
        while bytes(&sizes) > INBOX && sizes.channels > 2 {
            sizes.channels /= 2;
        }
        while bytes(&sizes) > INBOX && sizes.slot_bytes > 4096 {
            sizes.slot_bytes /= 2;
        }
        sizes.ll_slots = 2 * threads(device) * n_ranks.min(LL_RANKS);
        sizes
    }
}

/// Of a block, at most.
fn threads(device: device::Kind) -> u32 {
    match device {
        device::Kind::Cuda => 512,
        device::Kind::Cpu => 32,
    }
}

/// Bytes up to which LL is the fastest.
fn ll_limit(device: device::Kind) -> u64 {
    match device {
        device::Kind::Cuda => 64 << 10,
        device::Kind::Cpu => 4 << 10,
    }
}

/// The choice for a collective.
pub fn choose(shape: &Shape, sizes: &Sizes) -> Choice {
    let how = pick(shape, forced(config::text("GINRS_COLLECTIVE").as_deref()));
    let most = threads(shape.device);
    // As many as `bytes` need at `each`.
    let enough = |bytes: u64, each: u64, most: u32| bytes.div_ceil(each).clamp(1, most.into()) as u32;
    match how {
        How::Ll => {
            let threads = (shape.part.div_ceil(LL_PACK).next_multiple_of(32)).min(most.into()) as u32;
            let blocks = enough(shape.part, u64::from(threads) * LL_PACK, sizes.ll_blocks);
            Choice { how, blocks: (blocks, 1), threads, channels: 0 }
        }
        How::Direct => {
            let each = if shape.device == device::Kind::Cpu { 64 << 10 } else { 16 << 10 };
            Choice { how, blocks: (enough(shape.part, each, sizes.barriers), 1), threads: most, channels: 0 }
        }
        How::Staged => {
            let payload = u64::from(sizes.slot_bytes - SLOT_HEADER);
            let (channels, parts) = match shape.kind {
                // Each rank reduces its part, and results have channels of their own.
                Kind::AllReduce => (enough(shape.part.div_ceil(shape.n_ranks.into()), payload, sizes.channels / 2), 3),
                _ => (enough(shape.part, payload, sizes.channels), 2),
            };
            Choice { how, blocks: (channels, parts), threads: most, channels }
        }
    }
}

/// The choice for a launch of sends and receives. How many channels a message uses depends on its bytes alone, since its other
/// end must come to the same.
pub fn point_to_point(device: device::Kind, inbox: &Inbox, batch: &Batch) -> PointToPointChoice {
    let items = || batch.sends.iter().chain(&batch.recvs);
    let of_message = |bytes: u64| (bytes / BYTES_PER_CHANNEL + 1).min(inbox.channels.into()) as u32;
    let channels = items().map(|item| of_message(item.bytes)).max().unwrap_or(1);
    let mut rounds: Vec<u32> = items().map(|item| item.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let blocks = if device == device::Kind::Cpu { 16 } else { BLOCKS };
    let groups = (rounds.len() as u32).min(blocks / (2 * channels)).max(1);
    PointToPointChoice { groups, channels, blocks: (groups * channels, 2), threads: threads(device) }
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
        Kind::ReduceScatter | Kind::Reduce => send_registered,
        // The root's buffer for all ranks counts, of which the others know nothing, and in place its offset is another than theirs.
        Kind::Gather | Kind::Scatter => false,
        Kind::AllGather | Kind::Broadcast | Kind::AlltoAll => recv_registered,
    };
    shape.one_team && !shape.local && reachable
}
