//! Who is in a multicast team, its addresses, and the memory that is bound there.

use crate::device::{Device, Physical, Reservation};
use crate::error::Result;
use crate::team::Team;
use crate::{bail, info};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A strided part of an LSA team, in world ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// From one to the next.
    pub stride: u32,
}

impl Members {
    /// All of this rank's LSA team.
    pub fn lsa(team: &Team) -> Self {
        Self { first: team.topo.lsa_first, count: team.topo.lsa_size, stride: 1 }
    }

    /// Of an `ncclTeam_t` as this rank has it; an error that names it as `what` if it is no part of the LSA team with this rank in it.
    pub fn of(team: &Team, what: &str, [count, rank, stride]: [i32; 3]) -> Result<Self> {
        let lsa = Self::lsa(team);
        match Self::within(lsa.first..lsa.first + lsa.count, team.rank, [count, rank, stride]) {
            Some(members) => Ok(members),
            None => bail!(
                InvalidArgument,
                85,
                "multicast team is not within the LSA team | {} | {what}: {count} ranks with stride {stride}, this one is number {rank}; LSA \
                 rank {} of {} | fix: use ncclTeamLsa or a part of it",
                team.tag(),
                team.topo.lsa_rank,
                team.topo.lsa_size
            ),
        }
    }

    fn within(lsa: Range<u32>, me: u32, team: [i32; 3]) -> Option<Self> {
        let [count, place, stride] = team.map(|n| u32::try_from(n).ok());
        let (count, place) = (count?, place.filter(|&place| place < count.unwrap_or(0))?);
        // The stride of a team of one means nothing.
        let stride = if count == 1 { 1 } else { stride.filter(|&stride| stride > 0)? };
        let first = me.checked_sub(place.checked_mul(stride)?)?;
        let last = first.checked_add((count - 1).checked_mul(stride)?)?;
        (lsa.contains(&first) && lsa.contains(&last)).then_some(Self { first, count, stride })
    }

    /// Their world ranks.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        let Self { first, count, stride } = *self;
        (0..count).map(move |i| first + i * stride)
    }

    /// As they travel.
    pub fn words(self) -> [u64; 3] {
        [self.first, self.count, self.stride].map(u64::from)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ranks from {} in steps of {}", self.count, self.first, self.stride)
    }
}

/// A team's addresses, and the object that is mapped there, if it takes one. Drops the mapping before the object.
pub(super) struct MulticastTeam {
    pub members: Members,
    pub mapping: Arc<dyn Reservation>,
    pub object: Option<Arc<dyn Physical>>,
}

/// Memory's place in a team's object; taken away at drop.
pub(crate) struct Binding {
    pub device: Arc<dyn Device>,
    pub object: Arc<dyn Physical>,
    pub at: u64,
    pub bytes: usize,
}

impl Drop for Binding {
    fn drop(&mut self) {
        if let Some(nvls) = self.device.multicast(true)
            && let Err(error) = nvls.unbind(&*self.object, self.at, self.bytes)
        {
            info!(REG, "multicast memory stays bound: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Members;

    #[test]
    fn a_team_is_a_strided_part_of_the_lsa_team_with_this_rank_in_it() {
        let within = |me, team| Members::within(8..16, me, team).map(|m| (m.first, m.count, m.stride));
        assert_eq!(within(11, [8, 3, 1]), Some((8, 8, 1)));
        assert_eq!(within(11, [4, 1, 2]), Some((9, 4, 2)));
        assert_eq!(within(15, [2, 1, 7]), Some((8, 2, 7)));
        assert_eq!(within(11, [1, 0, 0]), Some((11, 1, 1)), "the stride of one rank means nothing");
        for team in [[9, 3, 1], [8, 4, 1], [4, 1, 3], [4, 4, 1], [4, -1, 1], [0, 0, 1], [-2, 0, 1], [2, 0, 0], [2, 0, -1]] {
            assert_eq!(within(11, team), None, "{team:?}");
        }
        for far in [[2, 1, i32::MAX], [i32::MAX, 3, 1], [i32::MAX, 0, i32::MAX]] {
            assert_eq!(within(11, far), None, "{far:?}");
        }
    }
}
