//! The five team functions of nccl_device/core.h (spec host 3.2). They cannot report errors: a communicator that is not
//! usable gives an all-zero team or -1, and a WARN that says why.

use super::entry::say;
use super::handles;
use crate::comm::Comm;
use crate::layout::{ncclComm_t, ncclTeam_t};
use crate::panic::catch;
use std::ffi::c_int;

fn ask<T>(name: &str, comm: ncclComm_t, otherwise: T, answer: impl FnOnce(&Comm) -> T) -> T {
    let asked = catch(name, || Ok::<T, crate::error::Error>(answer(&*handles::get(comm)?)));
    asked.unwrap_or_else(|error| {
        say(&error);
        otherwise
    })
}

/// All ranks.
#[unsafe(no_mangle)]
pub extern "C" fn pncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t {
    ask("ncclTeamWorld", comm, ncclTeam_t::default(), |c| ncclTeam_t {
        nRanks: c.team.n_ranks as i32,
        rank: c.team.rank as i32,
        stride: 1,
    })
}

/// The ranks whose windows kernels of this rank can address.
#[unsafe(no_mangle)]
pub extern "C" fn pncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t {
    ask("ncclTeamLsa", comm, ncclTeam_t::default(), |c| ncclTeam_t {
        nRanks: c.team.topo.lsa_size as i32,
        rank: c.team.topo.lsa_rank as i32,
        stride: 1,
    })
}

/// The ranks with this rank's place in their LSA teams.
#[unsafe(no_mangle)]
pub extern "C" fn pncclTeamRail(comm: ncclComm_t) -> ncclTeam_t {
    ask("ncclTeamRail", comm, ncclTeam_t::default(), |c| ncclTeam_t {
        nRanks: (c.team.n_ranks / c.team.topo.lsa_size) as i32,
        rank: (c.team.rank / c.team.topo.lsa_size) as i32,
        stride: c.team.topo.lsa_size as i32,
    })
}

/// World rank of `rank` of `team`; not range-checked, wrapping, as the device function.
#[unsafe(no_mangle)]
pub extern "C" fn pncclTeamRankToWorld(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int {
    ask("ncclTeamRankToWorld", comm, -1, |c| along(c.team.rank, team, rank))
}

/// LSA rank of `rank` of `team`; not range-checked, wrapping, as the device function.
#[unsafe(no_mangle)]
pub extern "C" fn pncclTeamRankToLsa(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int {
    ask("ncclTeamRankToLsa", comm, -1, |c| along(c.team.topo.lsa_rank, team, rank))
}

fn along(own: u32, team: ncclTeam_t, rank: c_int) -> c_int {
    (own as i32).wrapping_add(rank.wrapping_sub(team.rank).wrapping_mul(team.stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_walk_along_a_team_from_the_own_rank() {
        let rail = ncclTeam_t { nRanks: 4, rank: 1, stride: 8 };
        assert_eq!(along(11, rail, 0), 3);
        assert_eq!(along(11, rail, 3), 27);
        assert_eq!(along(11, ncclTeam_t { nRanks: 1, rank: 0, stride: 1 }, -12), -1);
    }

    #[test]
    fn garbage_handles_give_empty_teams() {
        let garbage = 0x1234 as ncclComm_t;
        assert_eq!(pncclTeamLsa(garbage), ncclTeam_t::default());
        assert_eq!(pncclTeamRail(std::ptr::null_mut()), ncclTeam_t::default());
        assert_eq!(pncclTeamRankToLsa(garbage, ncclTeam_t::default(), 0), -1);
    }
}
