//! Which algorithm takes a call, and with how many blocks: a table by device, kind, bytes and what is registered. The limits are
//! measured ones (docs/results/collectives.md). Every rank comes to the same answer, since all that goes in is equal on all.

use super::along::{Along, along, block, rails_win};
use super::call::Kind;
use super::forced::Forced;
use super::room::Room;
use super::rounds::Batch;
use super::sizes::{LL_PACK, LL_RANKS, LL_SPREAD, Sizes, ll_limit, movers, threads};
use super::work::{PASSING_RANKS, SUM_RANKS};
use crate::device;

/// The algorithms; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every datum with a flag, in one hop: small, within one LSA team.
    Ll = 0,
    /// Loads and stores between the callers' own buffers: within one LSA team, where peers can reach them.
    Direct = 1,
    /// By messages, through the inboxes of all pairs. Reductions within one LSA team.
    Staged = 2,
    /// Buffers that peers cannot reach, through scratch that they can; between LSA teams along the rails.
    Buffered = 3,
    /// As Direct on any buffers where kernels of all ranks turn out to see them, else as Staged.
    Mapped = 4,
    /// As Direct, through the switch that adds up and multicasts (NVLS). Only where it is asked for: it has run on no GPU.
    Multicast = 5,
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What runs the kernels.
    pub device: device::Kind,
    /// Of the communicator.
    pub n_ranks: u32,
    /// Of an LSA team.
    pub lsa_size: u32,
    /// Which function.
    pub kind: Kind,
    /// Bytes of `count` elements.
    pub part: u64,
    /// This rank's send buffer is in a symmetric window.
    pub send_registered: bool,
    /// Likewise its receive buffer.
    pub recv_registered: bool,
    /// Each rank has a factor of its own, of which Direct does not hear.
    pub local: bool,
    /// Ranks tell each other of their buffers.
    pub maps: bool,
    /// The switch has the operation, and multicast addresses of the buffers that peers touch, in whole words.
    pub switched: bool,
}

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub how: How,
    /// Of Buffered.
    pub along: Along,
    /// Grid.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that a row of a launch has, at most, also where several calls share it.
    pub most: u32,
}

/// How the sends and receives of a launch run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointToPointChoice {
    /// Of rounds, side by side.
    pub sets: u32,
    /// Channels of the inbox that are used.
    pub channels: u32,
    /// Of them, for a message that does not go straight.
    pub narrow: u32,
    /// Grid.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
}

/// Threads of an LL block of a small call.
const LL_SPREAD_SMALL: u64 = 128;
/// Bytes of a small one, at most.
const LL_SMALL: u64 = 32 << 10;

/// Bytes of a team's ranks together that are worth another block of Buffered. Its slices may be longer: with as few blocks as those need,
/// 1 MB took twice as long (docs/results/collectives.md).
const SLICE: u32 = 64 << 10;

/// Whether Mapped is faster than messages for so many bytes of a team's ranks together, between two H100 or H200 and between four H100 (docs/results/collectives.md).
fn is_mapped_size(kind: Kind, n_ranks: u32, bytes: u64) -> bool {
    let pair = n_ranks == 2;
    match kind {
        Kind::AllReduce | Kind::Reduce => bytes >= 1 << 20,
        Kind::AllGather | Kind::AlltoAll | Kind::ReduceScatter if pair => bytes >= 2 << 20,
        Kind::AllGather | Kind::AlltoAll | Kind::ReduceScatter => bytes >= 1 << 20,
        Kind::Scatter if pair => bytes >= 16 << 20,
        Kind::Scatter => bytes >= 256 << 10,
        Kind::Gather if pair => bytes >= 64 << 20,
        // Between these the root's link is the limit, and slots keep it busier.
        Kind::Gather => (256 << 10..=2 << 20).contains(&bytes) || bytes >= 128 << 20,
        Kind::Broadcast if pair => bytes >= 16 << 20,
        Kind::Broadcast => bytes >= 1 << 20,
    }
}

/// Whether an all-reduce of so many bytes reads and writes by turns: isApart of cuda/collectives/mapped.cuh.
fn is_apart(n_ranks: u32, bytes: u64) -> bool {
    bytes >= if n_ranks == 2 { 4 << 20 } else { 64 << 20 }
}

/// Of a broadcast by more than two ranks of a team on GPUs: through scratch over messages.
const BROADCAST_SHARED: std::ops::Range<u64> = 256 << 10..4 << 20;

fn ll_wins(shape: &Shape) -> bool {
    shape.part.saturating_mul(u64::from(shape.n_ranks.max(2) - 1)) <= ll_limit(shape.device)
}

impl Shape {
    /// LSA teams.
    pub fn teams(&self) -> u32 {
        self.n_ranks / self.lsa_size
    }

    /// Nothing goes along a rail.
    pub fn one_team(&self) -> bool {
        self.teams() == 1
    }

    /// Bytes that a team's ranks give, or get, of which each has a part.
    pub fn of_team(&self) -> u64 {
        match self.kind {
            Kind::AllReduce | Kind::Reduce | Kind::Broadcast => self.part,
            _ => self.part.saturating_mul(self.n_ranks.into()),
        }
    }
}

/// Blocks of Buffered that are worth their meetings. Each has slices of its own.
fn buffered_blocks(shape: &Shape, sizes: &Sizes, along: Along) -> u64 {
    let message = u64::from(if shape.kind.is_personal() { block(shape, sizes, along) } else { sizes.message() });
    let piece = u64::from(sizes.piece);
    // Along a rail in messages of a quarter of a slot, before there is another block; of a whole one where blocks share cores.
    let message = if shape.device == device::Kind::Cpu { message } else { message / 4 };
    let each = match (shape.kind, along) {
        _ if shape.one_team() => piece.min(u64::from(SLICE / shape.lsa_size).max(128)),
        (Kind::AllReduce, Along::Ring) => piece.min(message * u64::from(shape.teams())),
        (Kind::AllReduce | Kind::Reduce | Kind::Broadcast, _) => message,
        _ => message * u64::from(shape.teams()),
    };
    shape.of_team().div_ceil(each.max(1) * u64::from(shape.lsa_size))
}

/// The choice for a collective.
pub fn choose(shape: &Shape, sizes: &Sizes, forced: Option<Forced>) -> Choice {
    let how = pick(shape, sizes, forced.map(|forced| forced.how));
    let grid = forced.filter(|forced| forced.how == how).unwrap_or(Forced { how, along: None, blocks: None, threads: None });
    let widest = if how == How::Ll { threads(shape.device) } else { movers(shape.device) };
    let most = grid.threads.unwrap_or(widest).min(widest);
    // As many as `bytes` need at `each`.
    let enough = |bytes: u64, each: u64, least: u32, most: u32| bytes.div_ceil(each).max(least.into()).min(most.into()) as u32;
    let Room { most: room, least } = sizes.room;
    let along = along(shape, sizes, grid.along);
    match how {
        How::Ll => {
            // Many small blocks, over many multiprocessors; larger ones where they are not enough for one round.
            let packs = shape.part.div_ceil(LL_PACK);
            let block = if shape.part <= LL_SMALL { LL_SPREAD_SMALL } else { LL_SPREAD };
            let spread = packs.div_ceil(sizes.ll_blocks.into()).max(packs.min(block));
            let threads = grid.threads.unwrap_or(spread.next_multiple_of(32).min(most.into()) as u32).min(most);
            let blocks = grid.blocks.unwrap_or(enough(packs, threads.into(), least, sizes.ll_blocks)).min(sizes.ll_blocks);
            Choice { how, along, blocks: (blocks, 1), threads, most: sizes.ll_blocks }
        }
        How::Direct | How::Multicast => {
            let each = if shape.device == device::Kind::Cpu { 64 << 10 } else { 16 << 10 };
            let blocks = grid.blocks.unwrap_or(enough(shape.part, each, least, sizes.barriers)).min(sizes.barriers);
            Choice { how, along, blocks: (blocks, 1), threads: most, most: blocks }
        }
        How::Buffered => {
            let blocks = enough(buffered_blocks(shape, sizes, along), 1, least, sizes.barriers);
            let limit = if shape.kind.is_personal() { sizes.barriers.min(sizes.pairs.channels) } else { sizes.barriers };
            let blocks = grid.blocks.unwrap_or(blocks).min(limit);
            Choice { how, along, blocks: (blocks, 1), threads: most, most: blocks }
        }
        How::Staged | How::Mapped => {
            // Of a reduction a message is what one rank makes.
            let rows = sizes.rows_of(shape.kind.reduces());
            let message = if shape.kind.reduces() { shape.of_team().div_ceil(shape.n_ranks.into()) } else { shape.part };
            let channels = sizes.pairs.channels.min(room / rows).max(1);
            let channels = if shape.kind.reduces() { channels.min(sizes.sums.channels) } else { channels };
            // Blocks that are mapped meet.
            let channels = if how == How::Mapped { channels.min(sizes.meetings() / rows) } else { channels };
            let each = sizes.pairs.payload().min(sizes.bytes_per_channel);
            let blocks = grid.blocks.unwrap_or(enough(message, each.into(), least.div_ceil(rows), channels)).min(channels);
            // Of the roles one has a quarter of the threads, in whole warps.
            let threads = if shape.kind.reduces() && rows == 1 { most.next_multiple_of(128) } else { most };
            Choice { how, along, blocks: (blocks, rows), threads, most: channels }
        }
    }
}

/// The choice for a launch of sends and receives. How many channels a message uses depends on its bytes alone, since its other
/// end must come to the same. One of at least `straight` bytes has all of the room of a GPU: half of a block's threads receive it. On a CPU a block has one thread.
pub fn point_to_point(device: device::Kind, sizes: &Sizes, batch: &Batch, straight: Option<u64>) -> PointToPointChoice {
    let items = || batch.sends.iter().chain(&batch.recvs);
    let is_straight = |bytes: u64| straight.is_some_and(|least| bytes >= least);
    let is_wide = device == device::Kind::Cuda && items().any(|item| is_straight(item.bytes));
    let rows = if is_wide { 1 } else { sizes.rows };
    let room = (sizes.room.most / rows).max(1);
    let narrow = sizes.pairs.channels.min((sizes.room.most / sizes.rows).max(1));
    let most = |bytes| if is_straight(bytes) { sizes.pairs.channels.min(room) } else { narrow };
    let of_message = |bytes: u64| (bytes / u64::from(sizes.bytes_per_channel) + 1).min(most(bytes).into()) as u32;
    let channels = items().map(|item| of_message(item.bytes)).max().unwrap_or(1);
    let mut rounds: Vec<u32> = items().map(|item| item.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let sets = (rounds.len() as u32).min(room / channels).max(1);
    PointToPointChoice { sets, channels, narrow, blocks: (sets * channels, rows), threads: movers(device) }
}

fn pick(shape: &Shape, sizes: &Sizes, forced: Option<How>) -> How {
    let can = |how| match how {
        How::Ll => ll_can(shape),
        How::Direct => direct_can(shape),
        How::Buffered => buffered_can(shape, sizes),
        How::Staged => staged_can(shape),
        How::Mapped => mapped_can(shape),
        How::Multicast => multicast_can(shape),
    };
    match forced {
        Some(how) if can(how) => how,
        _ if can(How::Ll) && ll_wins(shape) => How::Ll,
        _ if can(How::Mapped) && sharing_wins(shape) => How::Mapped,
        _ if can(How::Direct) => How::Direct,
        _ if can(How::Mapped) && mapped_wins(shape) => How::Mapped,
        _ if can(How::Staged) && passing_wins(shape) => How::Staged,
        _ if can(How::Buffered) && buffered_wins(shape, sizes) => How::Buffered,
        _ => How::Staged,
    }
}

/// What does not reduce; and what does, in one LSA team.
fn staged_can(shape: &Shape) -> bool {
    !shape.kind.reduces() || shape.one_team() && (2..=PASSING_RANKS).contains(&shape.n_ranks)
}

/// Reductions by messages over those through scratch.
fn passing_wins(shape: &Shape) -> bool {
    shape.kind.reduces() && shape.device == device::Kind::Cuda
}

/// What has other bytes for each rank: between teams, if a slot holds a line of all that it would carry.
fn buffered_can(shape: &Shape, sizes: &Sizes) -> bool {
    !shape.kind.is_personal() || !shape.one_team() && block(shape, sizes, Along::Ring) > 0
}

/// Over Staged. In one LSA team bytes that are only moved need not meet, but for a broadcast that is long enough to be shared and too short to be passed on.
fn buffered_wins(shape: &Shape, sizes: &Sizes) -> bool {
    let shared = shape.device == device::Kind::Cuda && shape.n_ranks > 2 && BROADCAST_SHARED.contains(&shape.part);
    shape.kind.reduces()
        || shape.one_team() && shape.kind == Kind::Broadcast && shared
        || !shape.one_team() && (!shape.kind.is_personal() || rails_win(shape, sizes))
}

/// Any size goes, in rounds. Where one rank gives, or gets, the others hear nothing of each other (cuda/collectives/ll.cuh).
fn ll_can(shape: &Shape) -> bool {
    let all_hear = matches!(shape.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce | Kind::AllGather | Kind::AlltoAll);
    shape.one_team() && shape.n_ranks <= LL_RANKS && all_hear
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
    shape.one_team() && !shape.local && reachable && (!shape.kind.reduces() || shape.n_ranks <= SUM_RANKS)
}

/// What is staged where a rank's buffer is not seen.
fn mapped_can(shape: &Shape) -> bool {
    shape.maps && staged_can(shape)
}

/// What all get, or all give.
fn multicast_can(shape: &Shape) -> bool {
    shape.switched && direct_can(shape) && matches!(shape.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather)
}

/// Over Direct. There a root has all of a sum to do: its links would carry more than the sum. Places that are counted out in the loop take
/// longer than a list of them: four H100, a reduce-scatter of 64 MiB 219 us, with the list 166; two H200, 127 and 112, a reduce 225 and 192. A long all-reduce reads and writes by turns: two H200, 256 MiB
/// 788, at the same time 950. And a broadcast is read: 256 MiB 727, where the root writes 800; four 768, and 861.
fn sharing_wins(shape: &Shape) -> bool {
    let shares = match shape.kind {
        Kind::Reduce | Kind::ReduceScatter => shape.send_registered,
        Kind::AllReduce => shape.send_registered && is_apart(shape.n_ranks, shape.part),
        Kind::Broadcast => shape.recv_registered,
        _ => false,
    };
    shares && mapped_wins(shape)
}

/// Over Staged. On CPUs sums go through scratch.
fn mapped_wins(shape: &Shape) -> bool {
    is_mapped_size(shape.kind, shape.n_ranks, shape.of_team()) && (shape.device == device::Kind::Cuda || !shape.kind.reduces())
}

#[cfg(test)]
pub(super) mod tests;
