//! Communicators made of another (nccl.h): split and shrink. Where the parent is non-blocking it is the parent that is in progress
//! until the child stands; the child's handle is NULL before.

use super::deferred::{collective, submit, submit_checked};
use super::entry::{entry, nothing_yet, out};
use super::handles;
use crate::bail;
use crate::comm::group::Stage;
use crate::comm::{Comm, child};
use crate::error::Result;
use crate::layout::*;
use crate::team::Config;
use std::ffi::c_int;
use std::sync::Arc;

const NCCL_SHRINK_ABORT: c_int = 1;

/// Parts the ranks by `color`, ordered by `key` and then by rank. Collective over all ranks of `comm`; NCCL_SPLIT_NOCOLOR takes
/// part and gets NULL. `config` NULL is the parent's.
///
/// # Safety
/// `config` is NULL or a config whose `size` field is right and whose strings are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclCommSplit(
    comm: ncclComm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    nothing_yet(newcomm);
    entry!(ncclCommSplit(comm; color, key, newcomm, config) |c| {
        collective(|| {
            c.may_have_children()?;
            // SAFETY: the contract above.
            let config = unsafe { prepare(c, newcomm, config) };
            let (parent, result) = (c.clone(), newcomm as usize);
            submit_checked(c, Stage::Create, config, move |config| {
                if let Some(made) = child::split(&parent, color, key, config)? {
                    hand_over(&parent, made, result);
                }
                Ok(())
            })
        })
    })
}

/// Makes a communicator of the ranks that are not in the list, in their old order. Only they call it; the others may be gone. The
/// list is sorted in place. NCCL_SHRINK_ABORT ends what the parent does first, on all its ranks. `config` NULL is the parent's.
///
/// # Safety
/// `excludeRanksList` holds `excludeRanksCount` numbers; `config` as in [`pncclCommSplit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclCommShrink(
    comm: ncclComm_t,
    excludeRanksList: *mut c_int,
    excludeRanksCount: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    shrinkFlags: c_int,
) -> ncclResult_t {
    nothing_yet(newcomm);
    entry!(ncclCommShrink(comm; excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags) |c| {
        collective(|| {
            // SAFETY: the contract above.
            let config = unsafe { prepare(c, newcomm, config) }.and_then(|config| known(shrinkFlags).map(|()| config));
            // SAFETY: the contract above.
            let excluded =
                unsafe { excluded(c, excludeRanksList, excludeRanksCount) }.inspect_err(|error| child::decline_list(c, error))?;
            let config = config.inspect_err(|error| child::decline_shrink(c, &excluded, error))?;
            let (parent, result) = (c.clone(), newcomm as usize);
            submit(c, Stage::Create, move |before| {
                before.inspect_err(|error| child::decline_shrink(&parent, &excluded, error))?;
                let made = child::shrink(&parent, &excluded, config, shrinkFlags == NCCL_SHRINK_ABORT)?;
                hand_over(&parent, made, result);
                Ok(())
            })
        })
    })
}

fn known(flags: c_int) -> Result<()> {
    match flags {
        0 | NCCL_SHRINK_ABORT => Ok(()),
        _ => refuse(format!("unknown flags | ncclCommShrink | {flags:#x} | fix: pass NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT")),
    }
}

fn refuse(text: String) -> Result<()> {
    bail!(InvalidArgument, 62, "{text}")
}

/// Checks what both functions take.
///
/// # Safety
/// As [`pncclCommSplit`].
unsafe fn prepare(parent: &Comm, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t) -> Result<Config> {
    out("newcomm", newcomm)?;
    parent.may_have_children()?;
    match config.is_null() {
        true => Ok(parent.team.config.clone()),
        // SAFETY: the contract above.
        false => unsafe { super::config::from_c(config) },
    }
}

/// The list, sorted in place; each rank counts once.
///
/// # Safety
/// As [`pncclCommShrink`].
unsafe fn excluded(parent: &Comm, list: *mut c_int, count: c_int) -> Result<Vec<u32>> {
    out("excludeRanksList", list)?;
    if !(1..=parent.team.n_ranks as i64).contains(&i64::from(count)) {
        refuse(format!(
            "number of excluded ranks is out of range | ncclCommShrink | {count} of {} ranks | fix: exclude at least one rank, and each once",
            parent.team.n_ranks
        ))?;
    }
    // SAFETY: the contract above.
    let list = unsafe { std::slice::from_raw_parts_mut(list, count as usize) };
    list.sort_unstable();
    if let Some(wrong) = list.iter().find(|&&rank| rank < 0 || rank >= parent.team.n_ranks as c_int) {
        refuse(format!(
            "excluded rank is out of range | ncclCommShrink | rank {wrong} of {} ranks | fix: list ranks of the communicator",
            parent.team.n_ranks
        ))?;
    }
    let mut ranks: Vec<u32> = list.iter().map(|&rank| rank as u32).collect();
    ranks.dedup();
    if ranks.contains(&parent.team.rank) {
        refuse(format!(
            "the calling rank is excluded | ncclCommShrink | {} | fix: call it on the ranks that stay only",
            parent.team.tag()
        ))?;
    }
    Ok(ranks)
}

/// Gives C the child. If the parent was destroyed meanwhile nobody is there to take it, so it ends with the parent.
fn hand_over(parent: &Comm, made: Arc<Comm>, result: usize) {
    let mut made = Some(made);
    // SAFETY: checked at the call; it lives until the call is done, says the C contract.
    parent.deliver(|| unsafe { (result as *mut ncclComm_t).write(handles::add(made.take().expect("once"))) });
    if let Some(made) = made {
        crate::comm::finish::destroy(made);
    }
}
