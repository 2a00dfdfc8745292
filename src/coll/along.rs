//! How a call goes along the rails: few bytes or few rounds.

use super::call::Kind;
use super::sizes::Sizes;
use super::table::Shape;
use crate::device;

/// How Buffered goes along a rail; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// From neighbour to neighbour: 2 (teams - 1) rounds of an all-reduce, the fewest bytes. What has other bytes for each rank: straight to
    /// the team that they are for.
    Ring = 0,
    /// Recursive doubling, Bruck's rounds, or a binomial tree where there is a root: log2(teams) rounds.
    Tree = 1,
}

/// Latency of a rail times its bandwidth (docs/results/collectives.md): so many bytes may a round less cost. Bytes.
fn round(device: device::Kind) -> u64 {
    match device {
        device::Kind::Cuda => 16 << 10,
        device::Kind::Cpu => 4 << 10,
    }
}

/// Whether few rounds beat few bytes along a rail of more than two teams, for a rank's piece: log2 of them beside 2 (teams - 1), and
/// log2 pieces beside 2 (teams - 1) / teams.
fn is_small(shape: &Shape) -> bool {
    let (teams, piece) = (u64::from(shape.teams()), shape.part / u64::from(shape.lsa_size));
    let doublings = u64::from(shape.teams().ilog2());
    // What is more than a power of two gives before, and is told after.
    let (rounds, pieces) = if teams.is_power_of_two() { (doublings, doublings) } else { (doublings + 2, doublings + 1) };
    let (more_rounds, more_bytes) = ((2 * (teams - 1)).saturating_sub(rounds), pieces * teams - 2 * (teams - 1));
    piece.saturating_mul(more_bytes) <= round(shape.device) * more_rounds * teams
}

/// What an all-gather or reduce-scatter in rounds carries at a time, at most: a block of every team. Beyond it a ring, whose steps
/// overlap, copies less: on GPUs 64 KiB are 1.7 times as fast in rounds with 8 teams, 256 KiB 1.2 times as slow
/// (docs/results/collectives.md). Bytes.
const BRUCK: u64 = 64 << 10;

/// A root that talks to fewer teams talks to each of them. With 8 a tree was mostly faster up to 4 KiB for each rank, with 4 it was not
/// (docs/results/collectives.md).
const TREES: u32 = 8;

/// Of what a rank has for one other rank, so much goes along a rail at a time (cuda/collectives/personal.cuh). Bytes, a multiple of 128; 0:
/// the memory is too little for this way.
pub fn block(shape: &Shape, sizes: &Sizes, along: Along) -> u32 {
    // Of them in a message. An all-to-all's messages to a team are as many as it has slots, at most.
    let together = match (shape.kind, along) {
        (Kind::AlltoAll, _) => shape.lsa_size.div_ceil(sizes.pairs.slots),
        (_, Along::Ring) => 1,
        (_, Along::Tree) => (shape.teams() / 2).max(1),
    };
    (sizes.pairs.payload() / together).min(sizes.piece / shape.teams()) / 128 * 128
}

/// Of a scatter through few teams, for each rank, at least. Bytes.
const SCATTER: u64 = 16 << 10;

/// Whether what has other bytes for each rank goes along rails sooner than from each to each.
pub fn rails_win(shape: &Shape, sizes: &Sizes) -> bool {
    let along = along(shape, sizes, None);
    let (block, payload, team) =
        (u64::from(block(shape, sizes, along)), u64::from(sizes.pairs.payload()), u64::from(shape.lsa_size));
    // No block where there is no room for a line of every team.
    team > 1
        && block > 0
        && match shape.kind {
            // Each message has blocks of several ranks. Longer ones are as many as from each to each, and are copied once more; so are those
            // that very many teams leave little room for.
            Kind::AlltoAll => {
                let messages = shape.part.div_ceil(block) * team.div_ceil(payload / shape.part.clamp(1, block));
                2 * shape.part <= payload && messages < team
            }
            // The rank that has most of the messages has fewer. A scatter's root first deals to its team, which small ones pay for.
            _ => {
                let fewer = shape.part.div_ceil(block) <= team.saturating_mul(shape.part.div_ceil(payload));
                fewer && (shape.kind == Kind::Gather || along == Along::Tree || shape.part >= SCATTER)
            }
        }
}

/// A rank's piece from which on two teams of the CPU device all-reduce by a ring: it has a round more, and as many bytes on the way, but of
/// what it reduces and copies half (docs/results/ofi.md). Bytes.
const HALVES: u64 = 1 << 20;

/// With two teams recursive doubling has as few bytes as a ring, and a tree is a line. `asked`: what whoever measures wants.
pub fn along(shape: &Shape, sizes: &Sizes, asked: Option<Along>) -> Along {
    let (teams, message) = (u64::from(shape.teams()), u64::from(sizes.message()));
    match shape.kind {
        // Not even a line of every team fits.
        Kind::AllGather | Kind::ReduceScatter if shape.one_team() || message / teams < 128 => Along::Ring,
        Kind::AllGather | Kind::ReduceScatter => {
            let small = teams > 2 && shape.part.div_ceil(128).saturating_mul(128 * teams) <= message.min(BRUCK);
            asked.unwrap_or(if small { Along::Tree } else { Along::Ring })
        }
        Kind::AlltoAll => Along::Ring,
        Kind::Gather | Kind::Scatter if shape.one_team() || block(shape, sizes, Along::Tree) == 0 => Along::Ring,
        // Half of all blocks, which is what the largest subtree has, in one message.
        Kind::Gather | Kind::Scatter => {
            let small = shape.teams() >= TREES && shape.part <= block(shape, sizes, Along::Tree).into();
            asked.unwrap_or(if small { Along::Tree } else { Along::Ring })
        }
        _ if shape.one_team() => Along::Tree,
        _ if shape.teams() == 2 => {
            let halves = shape.device == device::Kind::Cpu && shape.part / u64::from(shape.lsa_size) >= HALVES;
            asked.unwrap_or(if halves { Along::Ring } else { Along::Tree })
        }
        _ => asked.unwrap_or(if is_small(shape) { Along::Tree } else { Along::Ring }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::room::Room;
    use crate::coll::table::tests::shape;
    use crate::coll::table::{How, choose};

    #[test]
    fn so_many_teams_that_no_block_has_room_take_no_rails() {
        let call = Shape { n_ranks: 1 << 21, lsa_size: 2, ..shape(Kind::AlltoAll, 8) };
        let sizes = Sizes::of(call.device, call.n_ranks, 2, Room { most: 66, least: 1 }, true);
        assert_eq!(block(&call, &sizes, Along::Ring), 0);
        assert!(!rails_win(&call, &sizes));
    }

    /// What has other bytes for each rank: along rails where that is fewer messages, from each to each where teams have one rank.
    #[test]
    fn small_calls_of_other_bytes_for_each_go_along_rails() {
        use Along::{Ring, Tree};
        let large = 64 << 20;
        for (kind, n_ranks, lsa_size, part, wanted) in [
            (Kind::AlltoAll, 8, 4, 8, Some(Ring)),
            (Kind::AlltoAll, 64, 8, 8 << 10, Some(Ring)),
            (Kind::AlltoAll, 8, 4, large, None),
            (Kind::AlltoAll, 8, 1, 8, None),
            // Blocks of a line: 16 messages in place of 8.
            (Kind::AlltoAll, 1 << 16, 8, 2 << 10, None),
            (Kind::AlltoAll, 1 << 16, 8, 8, Some(Ring)),
            (Kind::Gather, 8, 4, 8, Some(Ring)),
            (Kind::Gather, 8, 4, large, Some(Ring)),
            (Kind::Gather, 64, 8, 8, Some(Tree)),
            (Kind::Gather, 64, 8, large, Some(Ring)),
            (Kind::Gather, 64, 1, 8, None),
            (Kind::Scatter, 8, 4, 8, None),
            (Kind::Scatter, 8, 4, large, Some(Ring)),
            (Kind::Scatter, 64, 8, 8, Some(Tree)),
            // Blocks of less than a line: no memory for it.
            (Kind::Gather, 1 << 20, 2, 8, None),
        ] {
            let call = Shape { n_ranks, lsa_size, send_registered: false, recv_registered: false, ..shape(kind, part) };
            let choice = choose(&call, &Sizes::of(call.device, n_ranks, lsa_size, Room { most: 66, least: 1 }, true), None);
            let along = (choice.how == How::Buffered).then_some(choice.along);
            assert_eq!(along, wanted, "{kind:?} of {part} bytes on {n_ranks} by {lsa_size}: {choice:?}");
        }
    }
}
