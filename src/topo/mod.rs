//! Which ranks share a node, and which of those form one LSA team.
#![forbid(unsafe_code)]

mod reach;
pub use reach::Reach;

use std::sync::Arc;

/// Nodes and LSA team as one rank sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Node number of each world rank, counted in order of first appearance.
    pub node_of: Arc<[u32]>,
    /// Number of nodes.
    pub n_nodes: u32,
    /// Ranks in each LSA team; divides the number of ranks.
    pub lsa_size: u32,
    /// This rank's place in its team.
    pub lsa_rank: u32,
    /// World rank of the team's first member.
    pub lsa_first: u32,
    /// Whose GPU reaches whose memory.
    pub reach: Reach,
    /// Two ranks of one node that are in different teams because one does not reach the other.
    pub apart: Option<(u32, u32)>,
}

/// Which ranks share a node: the same for all ranks, and made once for those of a process.
#[derive(Clone, Debug)]
pub struct Nodes {
    node_of: Arc<[u32]>,
    n_nodes: u32,
    /// See [`Topology::new`].
    most: u32,
}

impl Nodes {
    /// `host_hashes[r]` names the node of world rank `r`.
    pub fn new(host_hashes: &[u64]) -> Self {
        let mut seen = std::collections::HashMap::new();
        let mut node_of = Vec::with_capacity(host_hashes.len());
        for hash in host_hashes {
            let next = seen.len() as u32;
            node_of.push(*seen.entry(*hash).or_insert(next));
        }
        let most = host_hashes.chunk_by(|a, b| a == b).fold(0, |size, run| gcd(size, run.len() as u32));
        Self { node_of: node_of.into(), n_nodes: seen.len() as u32, most }
    }
}

impl Topology {
    /// As `rank`, one of those of `nodes`, sees them.
    ///
    /// Every team has the same size and holds consecutive ranks of one node, so the size is the greatest common divisor of
    /// the lengths of the runs of ranks that share a node: 8+8 gives 8, 8+4 gives 4, 2+1 and round robin give 1. Where
    /// members would not reach each other it is the largest divisor of that with which they do: two groups of four give 4.
    pub fn new(nodes: &Nodes, reach: Reach, rank: u32) -> Self {
        let Nodes { node_of, n_nodes, most } = nodes.clone();
        assert!((rank as usize) < node_of.len(), "rank {rank} of {}", node_of.len());
        let (lsa_size, apart) = reach.team(most, node_of.len() as u32);
        let lsa_rank = rank % lsa_size;
        Self { node_of, n_nodes, lsa_size, lsa_rank, lsa_first: rank - lsa_rank, reach, apart }
    }

    /// World ranks of the LSA team, by LSA rank.
    pub fn lsa_members(&self) -> std::ops::Range<u32> {
        self.lsa_first..self.lsa_first + self.lsa_size
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(runs: &[(u64, usize)]) -> Vec<u64> {
        runs.iter().flat_map(|&(host, n)| std::iter::repeat_n(host, n)).collect()
    }

    #[test]
    fn the_team_is_the_divisor_of_all_runs() {
        type Case = (&'static [(u64, usize)], u32, u32); // runs of ranks on a host; LSA size; nodes
        let cases: [Case; 8] = [
            (&[(7, 8), (9, 8)], 8, 2),
            (&[(7, 8), (9, 4)], 4, 2),
            (&[(7, 2), (9, 1)], 1, 2),
            (&[(7, 1), (9, 1), (7, 1), (9, 1)], 1, 2),
            (&[(7, 6)], 6, 1),
            (&[(7, 6), (9, 9), (8, 3)], 3, 3),
            (&[(7, 2), (9, 2), (7, 2)], 2, 2),
            (&[(1, 1)], 1, 1),
        ];
        for (runs, lsa_size, n_nodes) in cases {
            let topology = Topology::new(&Nodes::new(&hosts(runs)), Reach::full(), 0);
            assert_eq!((topology.lsa_size, topology.n_nodes), (lsa_size, n_nodes), "{runs:?}");
        }
    }

    #[test]
    fn members_are_the_consecutive_ranks_around_me() {
        let topology = Topology::new(&Nodes::new(&hosts(&[(7, 8), (9, 4)])), Reach::full(), 6);
        assert_eq!((topology.lsa_rank, topology.lsa_first), (2, 4));
        assert_eq!(topology.lsa_members(), 4..8);
        assert_eq!(topology.node_of[7..9], [0, 1]);
    }
}
