//! How many blocks a launch may have.
//!
//! A collective's blocks wait for those of other ranks, so all of them have to run at the same time; and calls on several
//! communicators that two ranks make in another order wait for each other, so a device must have room for all of them at once. A
//! launch takes a part of it only, unless the program says how much it may take (maxCTAs).

use crate::bail;
use crate::error::Result;
use crate::team::PeerInfo;
use std::collections::HashMap;

/// Communicators whose launches have room on a device side by side.
pub const SIDE_BY_SIDE: u32 = 4;

/// Fewer blocks at the same time are too few for sends and receives side by side, or for the three parts of an all-reduce.
pub const LEAST_BLOCKS: u32 = 4;

/// Of one communicator, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of a launch, at most: its part of what there is, wherever there is least, or the smallest of the ranks' maxCTAs.
    pub most: u32,
    /// Of a collective, where its way has so many: the largest of the ranks' minCTAs.
    pub least: u32,
}

impl Room {
    /// Ranks on one device share what it runs at the same time. Where a part of that is fewer than [`LEAST_BLOCKS`], a launch takes so
    /// many, and fewer communicators have room; where even the whole is fewer, there is none.
    pub fn of(peers: &[PeerInfo]) -> Result<Self> {
        let mut ranks: HashMap<(u64, u64), u32> = HashMap::new();
        for peer in peers {
            *ranks.entry((peer.machine, peer.bus_id)).or_default() += 1;
        }
        let whole = peers.iter().map(|peer| peer.kernel_blocks / ranks[&(peer.machine, peer.bus_id)]).min().unwrap_or(0);
        if whole < LEAST_BLOCKS {
            bail!(
                InvalidUsage,
                92,
                "too few blocks at the same time for collectives | a device of this communicator | {whole} for each of its ranks, at least \
                 {LEAST_BLOCKS} | fix: fewer ranks on a GPU, a larger part of it, or a larger GINRS_CPU_RESIDENT"
            );
        }
        let share = (whole / SIDE_BY_SIDE).max(LEAST_BLOCKS);
        let of = |peer: &PeerInfo| match peer.ctas[1] {
            0 => share,
            max => whole.min(max.into()),
        };
        let most = peers.iter().map(of).min().unwrap_or(share);
        let least = peers.iter().map(|peer| u32::from(peer.ctas[0])).max().unwrap_or(1).clamp(1, most);
        Ok(Self { most, least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(rank: u32, device: u64, kernel_blocks: u32, ctas: (u16, u16)) -> PeerInfo {
        PeerInfo { rank, bus_id: device, kernel_blocks, ctas: ctas.into(), ..PeerInfo::sample() }
    }

    #[test]
    fn four_communicators_fit_wherever_a_launch_can_be_made_so_small() {
        let of = |whole, ctas| Room::of(&[peer(0, 0, 264, (1, 0)), peer(1, 1, whole, ctas)]);
        for whole in 16..1000 {
            let room = of(whole, (1, 0)).unwrap();
            assert!(SIDE_BY_SIDE * room.most <= whole && room.most >= LEAST_BLOCKS, "{whole}: {room:?}");
        }
        for whole in LEAST_BLOCKS..16 {
            assert_eq!(of(whole, (1, 0)).unwrap().most, LEAST_BLOCKS);
        }
        assert_eq!(of(3, (1, 0)).unwrap_err().id, 92);
    }

    #[test]
    fn ranks_on_one_device_share_it() {
        let room = Room::of(&[peer(0, 0, 64, (1, 0)), peer(1, 0, 64, (1, 0)), peer(2, 1, 64, (1, 0))]).unwrap();
        assert_eq!(room.most, 64 / 2 / SIDE_BY_SIDE);
    }

    #[test]
    fn the_strictest_maximum_and_the_largest_minimum_count() {
        let of = |a, b| Room::of(&[peer(0, 0, 264, a), peer(1, 1, 264, b)]).unwrap();
        assert_eq!(of((1, 0), (1, 0)), Room { most: 66, least: 1 });
        assert_eq!(of((1, 0), (1, 128)), Room { most: 66, least: 1 });
        assert_eq!(of((1, 128), (1, 200)), Room { most: 128, least: 1 }, "asked for by all");
        assert_eq!(of((1, 999), (1, 999)), Room { most: 264, least: 1 });
        assert_eq!(of((2, 16), (8, 32)), Room { most: 16, least: 8 });
        assert_eq!(of((32, 64), (1, 2)), Room { most: 2, least: 2 });
    }
}
