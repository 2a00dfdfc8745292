//! Which barriers, and blocks of an LL all-to-all, are in a session: each belongs to one group at a time, which keeps its epoch. A second session
//! of one would count with an epoch that is not its own.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::launch::Dim3;
use crate::waits::Call;

/// By the word that holds the epoch between sessions.
static OPEN: Mutex<BTreeMap<usize, Session>> = parking_lot::const_mutex(BTreeMap::new());

/// A block.
#[derive(Clone, Copy, PartialEq)]
pub struct Who {
    /// The kernel's number.
    pub grid: u64,
    /// blockIdx.
    pub block: Dim3,
}

struct Session {
    who: Who,
    thread: Dim3,
    /// The outermost call, which has the user's line, and the one that is the session's: both while their kernel runs.
    calls: Option<(Call, Call)>,
}

// SAFETY: of the calls only the pointers to string literals are read, whose code is loaded as long as its kernel runs; with that the session ends.
unsafe impl Send for Session {}

/// A group of `who` begins one by its thread `thread`, whose innermost call is `call`; what is wrong, if it is open.
///
/// # Safety
/// The calls are alive.
pub unsafe fn begin(word: usize, who: Who, thread: Dim3, call: *const Call) -> Option<String> {
    // SAFETY: the caller's.
    let calls = unsafe { Call::ends(call) };
    let open = OPEN.lock().insert(word, Session { who, thread, calls })?;
    // SAFETY: the same.
    let described = unsafe { Call::describe(call) };
    let name = described.as_deref().and_then(|text| text.split(" at ").next()).unwrap_or("a session").to_owned();
    let at = open.calls.map_or_else(String::new, |(outer, _)| format!(", which began at {}", outer.place()));
    let (of, own) = match open.who.grid == who.grid {
        true => ("", "give each block and group an index of its own"),
        false => (" of another kernel", "give kernels that run at the same time a device communicator each"),
    };
    Some(format!(
        "{name} is in a session already, of thread {} of block {}{of}{at}; fix: end that one first, or {own}",
        open.thread, open.who.block
    ))
}

/// The block ends it.
pub fn end(word: usize, who: Who) {
    let mut open = OPEN.lock();
    if open.get(&word).is_some_and(|session| session.who == who) {
        open.remove(&word);
    }
}

/// The block has ended, perhaps without its destructors.
pub fn forget(who: Who) {
    OPEN.lock().retain(|_, session| session.who != who);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_in_one_session_until_that_ends_or_its_block_does() {
        let [one, other] = [(7, 0), (7, 1)].map(|(grid, x)| Who { grid, block: Dim3 { x, y: 0, z: 0 } });
        // SAFETY: no call.
        let begin = |at, who| unsafe { begin(at, who, Dim3 { x: 3, y: 0, z: 0 }, std::ptr::null()) };
        assert_eq!((begin(1, one), begin(2, other)), (None, None));
        assert!(begin(1, other).is_some_and(|text| text.contains("of thread (3,0,0) of block (0,0,0)")));
        end(1, one); // not its any more
        assert!(begin(1, one).is_some());
        end(1, one);
        assert_eq!(begin(1, other), None);
        forget(other);
        assert_eq!((begin(1, one), begin(2, one)), (None, None));
        forget(one);
    }
}
