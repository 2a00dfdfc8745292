//! Which algorithm takes a call, and with how many blocks: a table by device, kind, bytes and what is registered. The limits are
//! measured ones (docs/measured/collectives.md). Every rank comes to the same answer, since all that goes in is equal on all.

use super::call::Kind;
use super::room::Room;
use super::rounds::Batch;
use crate::error::Result;
use crate::{bail, config, device};

/// The algorithms; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every datum with a flag, in one hop: small, within one LSA team.
    Ll = 0,
    /// Loads and stores between the callers' own buffers: within one LSA team, where peers can reach them.
    Direct = 1,
    /// Through the inboxes: always.
    Staged = 2,
    /// All-reduce of buffers that peers cannot reach, through scratch that they can: within one LSA team.
    Buffered = 3,
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
    /// Scratch of a block of Buffered, for its input and again for its results. Bytes.
    pub scratch_bytes: u32,
    /// Of a launch.
    pub room: Room,
}

/// Bytes of a rank's inbox, at most: channels and slots shrink where there are many ranks.
const INBOX: u64 = 64 << 20;
/// At the head of every slot, for the kernels. Bytes.
const SLOT_HEADER: u32 = 128;
/// What an LL thread takes at a time, in slots of 8 bytes. Bytes.
const LL_PACK: u64 = 16;
/// Threads of an LL block before there is another block: small all-reduces gain from more multiprocessors.
const LL_SPREAD: u64 = 256;
const LL_SPREAD_SMALL: u64 = 128;
/// Bytes of a small one, at most.
const LL_SMALL: u64 = 32 << 10;
/// More ranks than that take no LL.
const LL_RANKS: u32 = 16;
/// More ranks than that cannot reduce through the inboxes: the kernel has a table of that size.
pub const STAGED_RANKS: u32 = 1024;
/// A message of that many bytes gets one more channel; the kernel for sends and receives knows it too.
const BYTES_PER_CHANNEL: u64 = 64 << 10;

impl Sizes {
    /// For a communicator of `n_ranks` on such devices.
    /// More channels are faster within one LSA team, and not between nodes (docs/measured/collectives.md).
    pub fn of(device: device::Kind, n_ranks: u32, one_team: bool, room: Room) -> Self {
        let mut sizes = match device {
            device::Kind::Cuda => Self {
                channels: if one_team { 32 } else { 16 },
                slots: 4,
                slot_bytes: 64 << 10,
                barriers: 64,
                ll_blocks: 64,
                ll_slots: 0,
                scratch_bytes: 64 << 10,
                room,
            },
            device::Kind::Cpu => Self {
                channels: 4,
                slots: 4,
                slot_bytes: 16 << 10,
                barriers: 2,
                ll_blocks: 2,
                ll_slots: 0,
                scratch_bytes: 16 << 10,
                room: Room { most: room.most.min(16), least: room.least.min(16) },
            },
        };
        sizes.barriers = sizes.barriers.min(room.most);
        // As many as the largest message needs that LL takes.
        let ll_blocks = ll_limit(device) / u64::from(n_ranks.max(2) - 1) / (LL_SPREAD * LL_PACK);
        sizes.ll_blocks = sizes.ll_blocks.min(room.most).min(ll_blocks.max(2) as u32);
        let bytes = |s: &Self| u64::from(n_ranks) * u64::from(s.channels) * u64::from(s.slots) * u64::from(s.slot_bytes);
        // An all-reduce needs two channels: inputs on one, results on the other.
        while (bytes(&sizes) > INBOX || 2 * sizes.channels > room.most) && sizes.channels > 2 {
            sizes.channels /= 2;
        }
        while bytes(&sizes) > INBOX && sizes.slot_bytes > 4096 {
            sizes.slot_bytes /= 2;
        }
        // A part of each rank, in lines.
        sizes.scratch_bytes = sizes.scratch_bytes.max(128 * n_ranks);
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

/// Bytes that an all-reduce through LL stores into its peers' memory, at most: beyond that the flags, which are half of them,
/// cost more than the barriers of the other ways.
fn ll_limit(device: device::Kind) -> u64 {
    match device {
        device::Kind::Cuda => 512 << 10,
        device::Kind::Cpu => 8 << 10,
    }
}

fn ll_wins(shape: &Shape) -> bool {
    shape.part.saturating_mul(u64::from(shape.n_ranks.max(2) - 1)) <= ll_limit(shape.device)
}

/// The choice for a collective.
pub fn choose(shape: &Shape, sizes: &Sizes, forced: Option<Forced>) -> Choice {
    let how = pick(shape, forced.map(|forced| forced.how));
    let grid = forced.filter(|forced| forced.how == how).unwrap_or(Forced { how, blocks: None, threads: None });
    let most = grid.threads.unwrap_or(threads(shape.device)).min(threads(shape.device));
    // As many as `bytes` need at `each`.
    let enough = |bytes: u64, each: u64, least: u32, most: u32| bytes.div_ceil(each).max(least.into()).min(most.into()) as u32;
    let Room { most: room, least } = sizes.room;
    match how {
        How::Ll => {
            // Many small blocks, over many multiprocessors; larger ones where they are not enough for one round.
            let packs = shape.part.div_ceil(LL_PACK);
            let block = if shape.part <= LL_SMALL { LL_SPREAD_SMALL } else { LL_SPREAD };
            let spread = packs.div_ceil(sizes.ll_blocks.into()).max(packs.min(block));
            let threads = grid.threads.unwrap_or(spread.next_multiple_of(32).min(most.into()) as u32).min(most);
            let blocks = grid.blocks.unwrap_or(enough(packs, threads.into(), least, sizes.ll_blocks)).min(sizes.ll_blocks);
            Choice { how, blocks: (blocks, 1), threads, channels: 0 }
        }
        How::Direct => {
            let each = if shape.device == device::Kind::Cpu { 64 << 10 } else { 16 << 10 };
            let blocks = grid.blocks.unwrap_or(enough(shape.part, each, least, sizes.barriers)).min(sizes.barriers);
            Choice { how, blocks: (blocks, 1), threads: most, channels: 0 }
        }
        How::Buffered => {
            let each = sizes.scratch_bytes.into();
            let blocks = grid.blocks.unwrap_or(enough(shape.part, each, least, sizes.barriers)).min(sizes.barriers);
            Choice { how, blocks: (blocks, 1), threads: most, channels: 0 }
        }
        How::Staged => {
            let payload = u64::from(sizes.slot_bytes - SLOT_HEADER);
            let (bytes, channels, parts) = match shape.kind {
                // Each rank reduces its part, and results have channels of their own.
                Kind::AllReduce => (shape.part.div_ceil(shape.n_ranks.into()), sizes.channels / 2, 3),
                _ => (shape.part, sizes.channels, 2),
            };
            // Of all parts together; one channel there is in any case.
            let channels = channels.min(room / parts).max(1);
            let channels = grid.blocks.unwrap_or(enough(bytes, payload, least.div_ceil(parts), channels)).min(channels);
            Choice { how, blocks: (channels, parts), threads: most, channels }
        }
    }
}

/// The choice for a launch of sends and receives. How many channels a message uses depends on its bytes alone, since its other
/// end must come to the same.
pub fn point_to_point(device: device::Kind, sizes: &Sizes, batch: &Batch) -> PointToPointChoice {
    let items = || batch.sends.iter().chain(&batch.recvs);
    let most = sizes.channels.min(sizes.room.most / 2).max(1);
    let of_message = |bytes: u64| (bytes / BYTES_PER_CHANNEL + 1).min(most.into()) as u32;
    let channels = items().map(|item| of_message(item.bytes)).max().unwrap_or(1);
    let mut rounds: Vec<u32> = items().map(|item| item.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let groups = (rounds.len() as u32).min(sizes.room.most / (2 * channels)).max(1);
    PointToPointChoice { groups, channels, blocks: (groups * channels, 2), threads: threads(device) }
}

/// What GINRS_COLLECTIVE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    how: How,
    /// In x; as many as there can be, at most.
    blocks: Option<u32>,
    threads: Option<u32>,
}

/// None for nothing.
pub fn forced() -> Result<Option<Forced>> {
    parse(config::text("GINRS_COLLECTIVE").as_deref())
}

/// `staged`, `direct:32`, `ll:8x128`.
fn parse(text: Option<&str>) -> Result<Option<Forced>> {
    let Some(text) = text.filter(|text| *text != "auto") else { return Ok(None) };
    let (how, grid) = text.split_once(':').map_or((text, None), |(how, grid)| (how, Some(grid)));
    let how = match how {
        "ll" => Some(How::Ll),
        "direct" => Some(How::Direct),
        "buffered" => Some(How::Buffered),
        "staged" => Some(How::Staged),
        _ => None,
    };
    let number = |text: &str, unit: u32| text.parse().ok().filter(|n: &u32| *n > 0 && n.is_multiple_of(unit));
    let grid = grid.map(|grid| match grid.split_once('x') {
        None => number(grid, 1).map(|blocks| (blocks, None)),
        Some((blocks, threads)) => number(blocks, 1).zip(number(threads, 32)).map(|(blocks, threads)| (blocks, Some(threads))),
    });
    match (how, grid) {
        (Some(how), None) => Ok(Some(Forced { how, blocks: None, threads: None })),
        (Some(how), Some(Some((blocks, threads)))) => Ok(Some(Forced { how, blocks: Some(blocks), threads })),
        _ => bail!(
            InvalidUsage,
            92,
            "GINRS_COLLECTIVE names no way | collectives | \"{text}\" | fix: auto, or ll, direct, buffered or staged, alone or with a grid as direct:32 or \
             ll:8x128 (threads in whole warps)"
        ),
    }
}

fn pick(shape: &Shape, forced: Option<How>) -> How {
    let can = |how| match how {
        How::Ll => ll_can(shape),
        How::Direct => direct_can(shape),
        How::Buffered => shape.one_team && shape.kind == Kind::AllReduce,
        How::Staged => true,
    };
    match forced {
        Some(how) if can(how) => how,
        _ if can(How::Ll) && ll_wins(shape) => How::Ll,
        _ if can(How::Direct) => How::Direct,
        _ if can(How::Buffered) => How::Buffered,
        _ => How::Staged,
    }
}

/// Any size goes, in rounds.
fn ll_can(shape: &Shape) -> bool {
    shape.one_team && !shape.local && shape.n_ranks <= LL_RANKS && shape.kind == Kind::AllReduce
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::work::P2pItem;
    use device::Kind::{Cpu, Cuda};

    fn shape(kind: Kind, part: u64) -> Shape {
        let registered = true;
        Shape {
            device: Cuda,
            n_ranks: 8,
            one_team: true,
            kind,
            part,
            send_registered: registered,
            recv_registered: registered,
            local: false,
        }
    }

    fn room(most: u32) -> Room {
        Room { most, least: 1 }
    }

    fn how(shape: Shape) -> How {
        choose(&shape, &Sizes::of(shape.device, shape.n_ranks, shape.one_team, room(66)), None).how
    }

    #[test]
    fn what_peers_touch_must_be_registered_for_direct() {
        use super::Kind::*;
        let large = 64 << 20;
        for (kind, without_send, without_recv) in [
            (AllReduce, How::Buffered, How::Buffered),
            (ReduceScatter, How::Staged, How::Direct),
            (Reduce, How::Staged, How::Direct),
            (AllGather, How::Direct, How::Staged),
            (Broadcast, How::Direct, How::Staged),
            (AlltoAll, How::Direct, How::Staged),
        ] {
            assert_eq!(how(shape(kind, large)), How::Direct, "{kind:?}");
            assert_eq!(how(Shape { send_registered: false, ..shape(kind, large) }), without_send, "{kind:?}");
            assert_eq!(how(Shape { recv_registered: false, ..shape(kind, large) }), without_recv, "{kind:?}");
            assert_eq!(how(Shape { one_team: false, ..shape(kind, large) }), How::Staged, "{kind:?}");
            let scaled = if kind == AllReduce { How::Buffered } else { How::Staged };
            assert_eq!(how(Shape { local: true, ..shape(kind, large) }), scaled, "{kind:?}");
        }
        for kind in [Gather, Scatter] {
            assert_eq!(how(shape(kind, large)), How::Staged);
        }
    }

    #[test]
    fn small_all_reduces_need_no_registration_and_no_barrier() {
        let small = Shape { send_registered: false, recv_registered: false, ..shape(Kind::AllReduce, 8) };
        assert_eq!(how(small), How::Ll);
        assert_eq!(how(Shape { local: true, ..small }), How::Buffered);
        assert_eq!(how(Shape { one_team: false, ..small }), How::Staged);
        assert_eq!(how(Shape { n_ranks: LL_RANKS + 1, ..small }), How::Buffered);
        assert_eq!(how(Shape { part: 1 << 62, n_ranks: 5, ..small }), How::Buffered, "no wrap-around");
        let sizes = Sizes::of(Cuda, 8, true, room(66));
        for bytes in 1..=ll_limit(Cuda) {
            let choice = choose(&Shape { part: bytes, ..small }, &sizes, None);
            // Two slots of 8 bytes for each thread and rank, in one epoch wherever the blocks suffice.
            assert!(
                choice.threads.is_multiple_of(32)
                    && 2 * choice.threads * 8 <= sizes.ll_slots
                    && choice.blocks.0 <= sizes.ll_blocks,
                "{choice:?}"
            );
        }
    }

    #[test]
    fn a_way_that_is_asked_for_is_taken_where_it_can_be() {
        let sizes = Sizes::of(Cpu, 4, true, room(16));
        let call = Shape { device: Cpu, n_ranks: 4, ..shape(Kind::AllGather, 1 << 20) };
        let with = |text| choose(&call, &sizes, parse(Some(text)).unwrap());
        assert_eq!((with("staged").how, with("ll").how, with("auto").how), (How::Staged, How::Direct, How::Direct));
        assert_eq!((with("direct:1").blocks, with("direct:99").blocks), ((1, 1), (sizes.barriers, 1)));
        assert_eq!((with("staged:3x32").blocks, with("staged:3x32").channels), ((3, 2), 3));
        assert!(parse(None).unwrap().is_none());
        for wrong in ["fast", "ll:", "ll:0", "ll:8x", "ll:8x100", "direct:-1", ":4", "direct:1x32x1"] {
            assert_eq!(parse(Some(wrong)).unwrap_err().id, 92, "{wrong}");
        }
    }

    /// What the kernels rely on, for any size of communicator and of device.
    #[test]
    fn every_grid_fits_its_memory_and_its_device() {
        for device in [Cpu, Cuda] {
            for n_ranks in [1, 2, 3, 8, 16, 64, 500, 1024] {
                for (blocks, one_team) in [1, 2, 3, 4, 14, 16, 33, 40, 64, 1000].into_iter().flat_map(|b| [(b, false), (b, true)])
                {
                    let sizes = Sizes::of(device, n_ranks, one_team, room(blocks));
                    let at = format!("{device:?}, {n_ranks} ranks, {blocks} blocks: {sizes:?}");
                    assert!(sizes.channels >= 2 && sizes.slots.is_power_of_two() && sizes.slot_bytes.is_multiple_of(128), "{at}");
                    assert!(sizes.barriers <= blocks && sizes.ll_blocks <= blocks, "{at}");
                    // With one channel, as few as the way can be played with.
                    let fits = |(x, y): (u32, u32)| x * y <= blocks || (x == 1 && y > blocks);
                    for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AlltoAll] {
                        for part in [1, 1000, 1 << 16, 1 << 22, 1 << 34] {
                            let call = Shape { device, n_ranks, one_team: false, ..shape(kind, part) };
                            let choice = choose(&call, &sizes, None);
                            let used = if kind == Kind::AllReduce { 2 * choice.channels } else { choice.channels };
                            assert!(
                                choice.channels >= 1 && used <= sizes.channels && choice.blocks.0 == choice.channels,
                                "{at}: {choice:?}"
                            );
                            assert!(fits(choice.blocks), "{at}: {choice:?}");
                        }
                    }
                    let item = |round: u32, bytes| P2pItem { round, bytes, ..P2pItem::default() };
                    for (rounds, bytes) in [(1, 8), (64, 8), (3, 1 << 30), (64, 1 << 30), (1, 0)] {
                        let batch =
                            Batch { sends: (0..rounds).map(|round| item(round, bytes)).collect(), recvs: vec![item(0, 1)] };
                        let choice = point_to_point(device, &sizes, &batch);
                        assert!(
                            choice.groups >= 1 && choice.groups <= rounds && choice.channels <= sizes.channels,
                            "{at}: {choice:?}"
                        );
                        assert!(fits(choice.blocks), "{at}: {choice:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_programs_least_number_of_blocks_is_taken_where_the_way_has_them() {
        let sizes = Sizes::of(Cuda, 4, true, Room { most: 32, least: 8 });
        let blocks = |forced, kind, part| {
            let call = Shape { n_ranks: 4, ..shape(kind, part) };
            choose(&call, &sizes, parse(Some(forced)).unwrap()).blocks
        };
        assert_eq!(blocks("ll", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("direct", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("buffered", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("staged", Kind::AllReduce, 8), (3, 3));
        assert_eq!(blocks("staged", Kind::AlltoAll, 8), (4, 2));
        assert_eq!(blocks("direct", Kind::AlltoAll, 1 << 30), (32, 1));
    }
}
