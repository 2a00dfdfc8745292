//! Ranks of a communicator that is a part of another one, which counts them otherwise: reports name all by their numbers in the job, as one device is one rank.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::device::is_forked;

/// By communicator.
static FAMILIES: RwLock<Option<HashMap<u64, Vec<u32>>>> = RwLock::new(None);

/// See race.h.
///
/// # Safety
/// There are so many ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_family(name: u64, ranks: *const u32, count: usize) {
    if !is_forked() {
        // SAFETY: the caller's.
        let ranks = unsafe { std::slice::from_raw_parts(ranks, count) }.to_vec();
        FAMILIES.write().get_or_insert_default().insert(name, ranks);
    }
}

/// The number of a communicator's rank in the job.
pub fn rank_in_job(comm: u64, rank: i32) -> i32 {
    let families = FAMILIES.read();
    let family = families.as_ref().and_then(|families| families.get(&comm));
    family.and_then(|ranks| Some(*ranks.get(usize::try_from(rank).ok()?)? as i32)).unwrap_or(rank)
}
