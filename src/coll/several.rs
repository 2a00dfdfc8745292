//! Which collectives of a group go side by side in one launch, and with how many blocks each: `cuda/collectives/several.cuh` runs them.
//!
//! One launch after the other costs each its start and its meetings, and leaves links idle that another would use: of broadcasts with several roots each goes one way
//! alone. In one launch each has fewer blocks, so it takes those that are about equally long. Reductions, one for each rank as root, go together with all blocks, as the
//! reduce-scatter of uneven parts that they are. All ranks come to the same answer: what goes in is equal on all.

use std::cmp::Reverse;
use std::ffi::CStr;

/// A call that may go beside others of the same kernel and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which runs several.
    pub kernel: &'static CStr,
    /// Of its grid.
    pub rows: u32,
    /// What its blocks share.
    pub bytes: u64,
    /// In a row, if it were alone.
    pub blocks: u32,
    /// Blocks in a row of a launch, at most.
    pub room: u32,
    /// Calls of a launch, at most.
    pub calls: usize,
    /// A reduction between mapped buffers.
    pub sum: Option<Sum>,
}

/// What makes of reductions those of one reduce-scatter: other roots, all else equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Whose it is.
    pub root: u32,
    /// Of so many.
    pub n_ranks: u32,
    /// With which operation, as the kernels have it.
    pub op: u32,
}

/// Calls of one launch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// By their numbers, each with its blocks in a row; 0 where a call has no [`Member`].
    pub calls: Vec<(usize, u32)>,
    /// Reductions, one for each rank as root, which go together.
    pub is_for_each: bool,
}

/// What a block could move while a launch starts and its blocks meet, in bytes: some 10 us at 360 GB/s by 33 blocks. A choice.
const LAUNCH: u64 = 128 << 10;

/// The launches for the calls of a group, in order. `None`: it goes alone.
pub fn launches(calls: &[Option<Member>]) -> Vec<Launch> {
    let for_each = for_each(calls);
    let mut launches: Vec<Launch> = for_each.iter().map(|all| Launch { calls: divide(all), is_for_each: true }).collect();
    let mut alike: Vec<Vec<(usize, &Member)>> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        match call {
            _ if for_each.iter().flatten().any(|&(of, _)| of == number) => {}
            None => launches.push(Launch { calls: vec![(number, 0)], is_for_each: false }),
            Some(member) => match alike.iter_mut().find(|all| (all[0].1.kernel, all[0].1.rows) == (member.kernel, member.rows)) {
                Some(all) => all.push((number, member)),
                None => alike.push(vec![(number, member)]),
            },
        }
    }
    for mut all in alike {
        all.sort_by_key(|(_, member)| Reverse(member.bytes));
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (these, behind) = rest.split_at(worth_it(rest));
            launches.push(Launch { calls: divide(these), is_for_each: false });
            rest = behind;
        }
    }
    launches
}

/// Reductions, one for each rank as root, of which no rank has so long a one that the others would have to help it: alone it reads what all have, where
/// of a single reduction each but the root reads a part of it. Two never have.
fn for_each(calls: &[Option<Member>]) -> Vec<Vec<(usize, &Member)>> {
    let mut sets: Vec<Vec<(usize, &Member, Sum)>> = Vec::new();
    let members = calls.iter().enumerate().filter_map(|(number, call)| call.as_ref().map(|member| (number, member)));
    for (number, member) in members {
        let Some(sum) = member.sum else { continue };
        let fits = |(_, other, of): &(usize, &Member, Sum)| {
            (other.kernel, other.rows, of.op) == (member.kernel, member.rows, sum.op) && of.root != sum.root
        };
        match sets.iter_mut().find(|set| set.iter().all(fits)) {
            Some(set) => set.push((number, member, sum)),
            None => sets.push(vec![(number, member, sum)]),
        }
    }
    sets.retain(|set| {
        let (_, one, Sum { n_ranks, .. }) = set[0];
        let longest = set.iter().map(|(_, member, _)| member.bytes).max().unwrap_or(0);
        let bytes: u64 = set.iter().map(|(_, member, _)| member.bytes).sum();
        let room = one.calls.min(one.room as usize);
        set.len() == n_ranks as usize && set.len() <= room && longest * u64::from(n_ranks - 1) <= bytes
    });
    sets.into_iter().map(|set| set.into_iter().map(|(number, member, _)| (number, member)).collect()).collect()
}

/// How many of the first, the longest, gain by one launch.
fn worth_it(all: &[(usize, &Member)]) -> usize {
    let longest = all[0].1;
    // What the busiest block has to move.
    let busiest = |calls: u64, bytes: u64| {
        let room = u64::from(longest.room);
        let left = u64::from(longest.blocks).min(room + 1 - calls);
        (longest.bytes / left).max(bytes / room)
    };
    let (mut calls, mut bytes) = (1, longest.bytes);
    for (_, next) in all.iter().skip(1).take(longest.calls.min(longest.room as usize) - 1) {
        let behind = busiest(calls, bytes) + LAUNCH + next.bytes / u64::from(next.blocks);
        if busiest(calls + 1, bytes + next.bytes) > behind {
            break;
        }
        (calls, bytes) = (calls + 1, bytes + next.bytes);
    }
    calls as usize
}

/// Block after block goes to whose blocks have the most to move, up to what each has alone.
fn divide(calls: &[(usize, &Member)]) -> Vec<(usize, u32)> {
    let mut shares: Vec<(usize, u32)> = calls.iter().map(|&(number, _)| (number, 1)).collect();
    for _ in calls.len()..calls[0].1.room as usize {
        let wanting = calls.iter().zip(&mut shares).filter(|((_, member), (_, blocks))| *blocks < member.blocks);
        let Some((_, (_, blocks))) = wanting.max_by_key(|((_, member), (_, blocks))| member.bytes / u64::from(*blocks)) else {
            break;
        };
        *blocks += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(bytes: u64, blocks: u32) -> Option<Member> {
        Some(Member { kernel: c"k", rows: 1, bytes, blocks, room: 32, calls: 20, sum: None })
    }

    const MIB: u64 = 1 << 20;

    /// Calls of each launch, none of which are for each.
    fn beside(calls: &[Option<Member>]) -> Vec<Vec<(usize, u32)>> {
        let launches = launches(calls);
        assert!(launches.iter().all(|launch| !launch.is_for_each));
        launches.into_iter().map(|launch| launch.calls).collect()
    }

    #[test]
    fn a_call_alone_has_the_blocks_that_it_would_have() {
        assert_eq!(beside(&[None, member(MIB, 7), None]), [vec![(0, 0)], vec![(2, 0)], vec![(1, 7)]]);
    }

    #[test]
    fn blocks_go_by_bytes_and_all_are_used() {
        assert_eq!(beside(&[member(10 * MIB, 32), member(30 * MIB, 32)]), [[(1, 24), (0, 8)]]);
        assert_eq!(beside(&[member(MIB, 4), member(MIB, 4)]), [[(0, 4), (1, 4)]], "no more than alone");
    }

    #[test]
    fn a_short_call_does_not_take_a_long_ones_blocks() {
        let all = [member(MIB, 32), member(1024 * MIB, 32), member(MIB, 32)];
        assert_eq!(beside(&all), [vec![(1, 32)], vec![(0, 16), (2, 16)]]);
    }

    #[test]
    fn small_ones_go_together_as_many_as_a_launch_takes() {
        let all = vec![member(64, 1); 45];
        let sizes: Vec<usize> = beside(&all).iter().map(Vec::len).collect();
        assert_eq!(sizes, [20, 20, 5]);
        let few = vec![member(64, 2).map(|member| Member { room: 3, ..member }); 7];
        assert_eq!(
            beside(&few).iter().map(|launch| launch.iter().map(|(_, blocks)| blocks).sum()).collect::<Vec<u32>>(),
            [3, 3, 2]
        );
    }

    fn sum(bytes: u64, root: u32, n_ranks: u32) -> Option<Member> {
        member(bytes, 32).map(|member| Member { sum: Some(Sum { root, n_ranks, op: 0 }), ..member })
    }

    #[test]
    fn reductions_for_each_rank_go_together() {
        let two = [sum(4 * MIB, 1, 2), member(MIB, 4), sum(4 * MIB, 0, 2)];
        let together = Launch { calls: vec![(0, 16), (2, 16)], is_for_each: true };
        assert_eq!(launches(&two), [together, Launch { calls: vec![(1, 4)], is_for_each: false }]);
        let lists = [sum(MIB, 0, 2), sum(MIB, 0, 2), sum(MIB, 1, 2), sum(MIB, 0, 2), sum(MIB, 1, 2)];
        let sets: Vec<_> = launches(&lists).into_iter().map(|launch| (launch.calls.len(), launch.is_for_each)).collect();
        assert_eq!(sets, [(2, true), (2, true), (1, false)]);
        // A root without one, another operation, a launch with too few places or blocks, and one that is longer than all others by far.
        let other = |op| sum(MIB, 1, 2).map(|member| Member { sum: member.sum.map(|sum| Sum { op, ..sum }), ..member });
        let narrow = [0, 1].map(|root| sum(MIB, root, 2).map(|member| Member { room: 1, ..member }));
        let few = [0, 1].map(|root| sum(MIB, root, 2).map(|member| Member { calls: 1, ..member }));
        assert!(launches(&[sum(MIB, 0, 2), sum(MIB, 0, 2)]).iter().all(|launch| !launch.is_for_each));
        assert!(launches(&[sum(MIB, 0, 2), other(1)]).iter().all(|launch| !launch.is_for_each));
        assert!(launches(&few).iter().chain(&launches(&narrow)).all(|launch| !launch.is_for_each));
        let three = |longest| launches(&[sum(longest, 0, 3), sum(MIB, 1, 3), sum(MIB, 2, 3)])[0].is_for_each;
        assert!(three(2 * MIB) && !three(2 * MIB + 1));
    }

    #[test]
    fn kernels_and_rows_do_not_mix() {
        let other = member(64, 1).map(|member| Member { kernel: c"other", ..member });
        let rows = member(64, 1).map(|member| Member { rows: 2, ..member });
        assert_eq!(beside(&[member(64, 1), other, rows, member(64, 1)]), [vec![(0, 1), (3, 1)], vec![(1, 1)], vec![(2, 1)]]);
    }

    #[test]
    fn every_call_has_one_launch_and_its_blocks_have_room() {
        for seed in 0..200u64 {
            let word = |i: u64| (seed * 1_000_003 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let all: Vec<_> =
                (0..word(0) % 60).map(|i| member(1 << (word(i + 1) % 31), 1 + (word(i + 99) % 32) as u32)).collect();
            let launches = beside(&all);
            let mut seen: Vec<usize> = launches.iter().flatten().map(|(number, _)| *number).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..all.len()));
            for launch in &launches {
                let blocks: u32 = launch.iter().map(|(_, blocks)| blocks).sum();
                assert!(launch.len() <= 20 && blocks <= 32, "{seed}: {launch:?}");
                assert!(
                    launch.iter().all(|&(number, blocks)| (1..=all[number].unwrap().blocks).contains(&blocks)),
                    "{seed}: {launch:?}"
                );
            }
        }
    }
}
