//! Which algorithm takes a call, and with how many blocks: a table by device, kind, bytes and what is registered. The limits are
//! measured ones (docs/measured/collectives.md). Every rank comes to the same answer, since all that goes in is equal on all.

use super::along::{Along, along, block, rails_win};
use super::call::Kind;
use super::forced::Forced;
use super::room::Room;
use super::rounds::Batch;
use super::sizes::{LL_PACK, LL_RANKS, LL_SPREAD, Sizes, ll_limit, movers, threads};
use crate::device;

/// The algorithms; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every datum with a flag, in one hop: small, within one LSA team.
    Ll = 0,
    /// Loads and stores between the callers' own buffers: within one LSA team, where peers can reach them.
    Direct = 1,
    /// Through the inboxes of all pairs: what does not reduce.
    Staged = 2,
    /// Buffers that peers cannot reach, through scratch that they can; between LSA teams along the rails.
    Buffered = 3,
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
    /// Each rank's own factor has to meet its own input.
    pub local: bool,
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
    /// Channels of the inbox that are used.
    pub channels: u32,
}

/// How the sends and receives of a launch run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointToPointChoice {
    /// Of rounds, side by side.
    pub sets: u32,
    /// Channels of the inbox that are used.
    pub channels: u32,
    /// Grid.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
}

/// Threads of an LL block of a small all-reduce.
const LL_SPREAD_SMALL: u64 = 128;
/// Bytes of a small one, at most.
const LL_SMALL: u64 = 32 << 10;

/// Bytes of a team's ranks together that are worth another block of Buffered. Its slices may be longer: with as few blocks as those need,
/// 1 MB took twice as long (docs/measured/collectives.md).
const SLICE: u32 = 64 << 10;

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
    fn of_team(&self) -> u64 {
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
            Choice { how, along, blocks: (blocks, 1), threads, channels: 0 }
        }
        How::Direct => {
            let each = if shape.device == device::Kind::Cpu { 64 << 10 } else { 16 << 10 };
            let blocks = grid.blocks.unwrap_or(enough(shape.part, each, least, sizes.barriers)).min(sizes.barriers);
            Choice { how, along, blocks: (blocks, 1), threads: most, channels: 0 }
        }
        How::Buffered => {
            let blocks = enough(buffered_blocks(shape, sizes, along), 1, least, sizes.barriers);
            let limit = if shape.kind.is_personal() { sizes.barriers.min(sizes.pairs.channels) } else { sizes.barriers };
            let blocks = grid.blocks.unwrap_or(blocks).min(limit);
            Choice { how, along, blocks: (blocks, 1), threads: most, channels: 0 }
        }
        How::Staged => {
            let channels = sizes.pairs.channels.min(room / sizes.rows).max(1);
            let each = sizes.pairs.payload().min(sizes.bytes_per_channel);
            let channels =
                grid.blocks.unwrap_or(enough(shape.part, each.into(), least.div_ceil(sizes.rows), channels)).min(channels);
            Choice { how, along, blocks: (channels, sizes.rows), threads: most, channels }
        }
    }
}

/// The choice for a launch of sends and receives. How many channels a message uses depends on its bytes alone, since its other
/// end must come to the same.
pub fn point_to_point(device: device::Kind, sizes: &Sizes, batch: &Batch) -> PointToPointChoice {
    let items = || batch.sends.iter().chain(&batch.recvs);
    let room = (sizes.room.most / sizes.rows).max(1);
    let most = sizes.pairs.channels.min(room);
    let of_message = |bytes: u64| (bytes / u64::from(sizes.bytes_per_channel) + 1).min(most.into()) as u32;
    let channels = items().map(|item| of_message(item.bytes)).max().unwrap_or(1);
    let mut rounds: Vec<u32> = items().map(|item| item.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let sets = (rounds.len() as u32).min(room / channels).max(1);
    PointToPointChoice { sets, channels, blocks: (sets * channels, sizes.rows), threads: movers(device) }
}

fn pick(shape: &Shape, sizes: &Sizes, forced: Option<How>) -> How {
    let can = |how| match how {
        How::Ll => ll_can(shape),
        How::Direct => direct_can(shape),
        How::Buffered => buffered_can(shape, sizes),
        How::Staged => !shape.kind.reduces(),
    };
    match forced {
        Some(how) if can(how) => how,
        _ if can(How::Ll) && ll_wins(shape) => How::Ll,
        _ if can(How::Direct) => How::Direct,
        _ if can(How::Buffered) && buffered_wins(shape, sizes) => How::Buffered,
        _ => How::Staged,
    }
}

/// What has other bytes for each rank: between teams, if a slot holds a line of all that it would carry.
fn buffered_can(shape: &Shape, sizes: &Sizes) -> bool {
    !shape.kind.is_personal() || !shape.one_team() && block(shape, sizes, Along::Ring) > 0
}

/// Over Staged. In one LSA team bytes that are only moved need not meet.
fn buffered_wins(shape: &Shape, sizes: &Sizes) -> bool {
    shape.kind.reduces() || !shape.one_team() && (!shape.kind.is_personal() || rails_win(shape, sizes))
}

/// Any size goes, in rounds.
fn ll_can(shape: &Shape) -> bool {
    shape.one_team() && !shape.local && shape.n_ranks <= LL_RANKS && shape.kind == Kind::AllReduce
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
    shape.one_team() && !shape.local && reachable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::forced::parse;
    use crate::coll::work::P2pItem;
    use device::Kind::{Cpu, Cuda};

    fn shape(kind: Kind, part: u64) -> Shape {
        let registered = true;
        Shape {
            device: Cuda,
            n_ranks: 8,
            lsa_size: 8,
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
        choose(&shape, &Sizes::of(shape.device, shape.n_ranks, shape.lsa_size, room(66), false), None).how
    }

    #[test]
    fn what_peers_touch_must_be_registered_for_direct() {
        use super::Kind::*;
        let large = 64 << 20;
        for (kind, without_send, without_recv) in [
            (AllReduce, How::Buffered, How::Buffered),
            (ReduceScatter, How::Buffered, How::Direct),
            (Reduce, How::Buffered, How::Direct),
            (AllGather, How::Direct, How::Staged),
            (Broadcast, How::Direct, How::Staged),
            (AlltoAll, How::Direct, How::Staged),
        ] {
            assert_eq!(how(shape(kind, large)), How::Direct, "{kind:?}");
            assert_eq!(how(Shape { send_registered: false, ..shape(kind, large) }), without_send, "{kind:?}");
            assert_eq!(how(Shape { recv_registered: false, ..shape(kind, large) }), without_recv, "{kind:?}");
            let teams = if kind.is_personal() { How::Staged } else { How::Buffered };
            assert_eq!(how(Shape { lsa_size: 4, ..shape(kind, large) }), teams, "{kind:?}");
            if kind.reduces() {
                assert_eq!(how(Shape { local: true, ..shape(kind, large) }), How::Buffered, "{kind:?}");
            }
        }
        for kind in [Gather, Scatter] {
            assert_eq!(how(shape(kind, large)), How::Staged);
        }
    }

    /// Bytes that leave an LSA team, by rank: what is chosen has no more than the ring, but for messages so small that rounds count.
    #[test]
    fn large_calls_take_few_bytes_along_a_rail_and_small_ones_few_rounds() {
        let choice = |n_ranks, lsa_size, part| {
            let call = Shape { n_ranks, lsa_size, ..shape(Kind::AllReduce, part) };
            let choice = choose(&call, &Sizes::of(Cuda, n_ranks, lsa_size, room(66), false), None);
            (choice.how, choice.along)
        };
        assert_eq!(choice(32, 4, 1 << 20), (How::Buffered, Along::Ring));
        assert_eq!(choice(32, 4, 1 << 10), (How::Buffered, Along::Tree));
        assert_eq!(choice(8, 4, 1 << 30), (How::Buffered, Along::Tree), "as few bytes, in one round");
        assert_eq!(choice(8, 1, 1 << 20), (How::Buffered, Along::Ring), "teams of one rank");
        for (kind, n_ranks, part, wanted) in [
            (Kind::AllGather, 32, 1 << 10, Along::Tree),
            (Kind::ReduceScatter, 12, 8, Along::Tree),
            (Kind::AllGather, 8, 8, Along::Ring),
            (Kind::ReduceScatter, 32, 1 << 20, Along::Ring),
            (Kind::ReduceScatter, 4096, 8, Along::Ring),
        ] {
            let sizes = Sizes::of(Cuda, n_ranks, 4, room(66), false);
            let call = Shape { n_ranks, lsa_size: 4, ..shape(kind, part) };
            assert_eq!(choose(&call, &sizes, None).along, wanted, "{kind:?} of {part} bytes on {n_ranks}");
        }
    }

    #[test]
    fn channels_do_not_fall_with_the_number_of_ranks() {
        for (n_ranks, lsa_size) in [(16, 8), (128, 8), (1024, 8), (4096, 8), (128, 1)] {
            let sizes = Sizes::of(Cuda, n_ranks, lsa_size, room(66), false);
            assert!(sizes.rails.channels >= 8 && sizes.rails.bytes >= 64 << 10, "{n_ranks} by {lsa_size}: {sizes:?}");
        }
    }

    #[test]
    fn small_all_reduces_need_no_registration_and_no_barrier() {
        let small = Shape { send_registered: false, recv_registered: false, ..shape(Kind::AllReduce, 8) };
        assert_eq!(how(small), How::Ll);
        assert_eq!(how(Shape { local: true, ..small }), How::Buffered);
        assert_eq!(how(Shape { lsa_size: 4, ..small }), How::Buffered);
        assert_eq!(how(Shape { n_ranks: LL_RANKS + 1, lsa_size: LL_RANKS + 1, ..small }), How::Buffered);
        assert_eq!(how(Shape { part: 1 << 62, n_ranks: 5, lsa_size: 5, ..small }), How::Buffered, "no wrap-around");
        let sizes = Sizes::of(Cuda, 8, 8, room(66), false);
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
        let sizes = Sizes::of(Cpu, 4, 4, room(16), false);
        let call = Shape { device: Cpu, n_ranks: 4, lsa_size: 4, ..shape(Kind::AllGather, 1 << 20) };
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
            let shapes = [
                (1, 1),
                (2, 2),
                (2, 1),
                (3, 1),
                (8, 8),
                (8, 4),
                (16, 1),
                (64, 8),
                (500, 500),
                (1024, 4),
                (4096, 4096),
                (4096, 8),
            ];
            for (n_ranks, lsa_size) in shapes {
                let hosted = n_ranks > lsa_size;
                let blocks = [1, 2, 3, 4, 14, 16, 33, 40, 64, 1000];
                for (blocks, hosted) in blocks.iter().flat_map(|&blocks| [(blocks, false), (blocks, hosted)]) {
                    let sizes = Sizes::of(device, n_ranks, lsa_size, room(blocks), hosted);
                    let at = format!("{device:?}, {n_ranks} ranks, {blocks} blocks, hosted {hosted}: {sizes:?}");
                    for slots in [sizes.pairs, sizes.rails] {
                        assert!(slots.channels >= 1 && slots.slots.is_power_of_two() && slots.bytes.is_multiple_of(128), "{at}");
                    }
                    assert!(sizes.piece > 0 && sizes.piece.is_multiple_of(128), "{at}");
                    if n_ranks > lsa_size {
                        let most = u64::from(n_ranks / lsa_size) * u64::from(sizes.rails.payload());
                        assert!(u64::from(sizes.piece) <= most && sizes.barriers <= sizes.rails.channels, "{at}");
                    }
                    assert!(sizes.barriers <= blocks && sizes.ll_blocks <= blocks, "{at}");
                    // With one channel, as few as the way can be played with.
                    let fits = |(x, y): (u32, u32)| x * y <= blocks || (x == 1 && y > blocks);
                    for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AlltoAll, Kind::Gather] {
                        for part in [1, 1000, 1 << 16, 1 << 22, 1 << 34] {
                            let registered = (part & 1) != 0;
                            let call = Shape { send_registered: registered, recv_registered: registered, ..shape(kind, part) };
                            let choice = choose(&Shape { device, n_ranks, lsa_size, ..call }, &sizes, None);
                            let right = match choice.how {
                                How::Staged => {
                                    choice.channels >= 1
                                        && choice.channels <= sizes.pairs.channels
                                        && choice.blocks.0 == choice.channels
                                }
                                How::Ll => choice.blocks.0 <= sizes.ll_blocks,
                                How::Buffered if kind.is_personal() => {
                                    choice.blocks.0 <= sizes.barriers.min(sizes.pairs.channels)
                                }
                                _ => choice.blocks.0 <= sizes.barriers,
                            };
                            assert!(right, "{at}: {choice:?}");
                            assert!(fits(choice.blocks), "{at}: {choice:?}");
                        }
                    }
                    let item = |round: u32, bytes| P2pItem { round, bytes, ..P2pItem::default() };
                    for (rounds, bytes) in [(1, 8), (64, 8), (3, 1 << 30), (64, 1 << 30), (1, 0)] {
                        let batch =
                            Batch { sends: (0..rounds).map(|round| item(round, bytes)).collect(), recvs: vec![item(0, 1)] };
                        let choice = point_to_point(device, &sizes, &batch);
                        assert!(
                            choice.sets >= 1 && choice.sets <= rounds && choice.channels <= sizes.pairs.channels,
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
        let sizes = Sizes::of(Cuda, 4, 4, Room { most: 32, least: 8 }, false);
        let blocks = |forced, kind, part| {
            let call = Shape { n_ranks: 4, lsa_size: 4, ..shape(kind, part) };
            choose(&call, &sizes, parse(Some(forced)).unwrap()).blocks
        };
        assert_eq!(blocks("ll", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("direct", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("buffered", Kind::AllReduce, 8), (8, 1));
        assert_eq!(blocks("staged", Kind::AlltoAll, 8), (8, 1));
        assert_eq!(blocks("direct", Kind::AlltoAll, 1 << 30), (32, 1));
    }
}
