//! How a call goes along the rails: few bytes or few rounds.

use super::call::Kind;
use super::sizes::Sizes;
use super::table::Shape;
use crate::device;

/// How Buffered goes along a rail; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// From neighbour to neighbour: 2 (teams - 1) rounds of an all-reduce, the fewest bytes.
    Ring = 0,
    /// Recursive doubling, Bruck's rounds, or a binomial tree where there is a root: log2(teams) rounds.
    Tree = 1,
}

/// Latency of a rail times its bandwidth (docs/measured/collectives.md): so many bytes may a round less cost. Bytes.
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
/// (docs/measured/collectives.md). Bytes.
const BRUCK: u64 = 64 << 10;

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
        _ if shape.one_team() => Along::Tree,
        _ => asked.unwrap_or(if shape.teams() == 2 || is_small(shape) { Along::Tree } else { Along::Ring }),
    }
}
