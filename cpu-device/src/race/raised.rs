//! A signal or counter that is reset while it is raised: what was raised in between is lost, or is not, as it happens. Raises are like reads of
//! the word, which need no order among them, and a reset is a write.
//!
//! A raise is over when its signal, its counter or a flush says so, or its grid has ended; a reset is one with all that raises afterwards.

use super::clock::Clock;
use super::report;
use super::shadow::{self, Access, PAGE, Page};
use super::touched::Place;
use super::{all, family, job, words};

/// `word` of a communicator (which kind, rank, context, id) is raised, or reset, by a thread that knows `clock`.
pub fn note([what, rank, context, id]: [u32; 4], comm: u64, new: Access, clock: &Clock) {
    // Of two device communicators' signals of one name nobody knows which was awaited.
    if words::is_mixed() {
        return;
    }
    const EACH: u32 = PAGE as u32 / 8;
    let name =
        u64::from(what & 1) << 62 | u64::from(rank & 0x3f_ffff) << 40 | u64::from(context & 0xff) << 32 | u64::from(id / EACH);
    let at = (id % EACH) as usize * 8;
    let found = |_, old: Access| {
        // All threads of a group may reset it.
        if !(old.writes && new.writes) {
            let rank = family::rank_in_job(comm, rank as i32) as u32;
            report::found(Place::Raised { what, rank, context }, new, old, clock, None);
        }
    };
    if job::is_joined() {
        if let Some(page) = Page::of_words([comm, name]) {
            shadow::note(&page, at, 8, new, clock, found);
        }
        return;
    }
    // No address is so large; of the name bit 63 would be lost in it.
    let place = (comm ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
    shadow::note(&all().page(place as usize & !(PAGE - 1)), at, 8, new, clock, found);
}
