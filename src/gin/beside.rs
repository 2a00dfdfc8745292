//! Which signals and counters stand beside one that a kernel waits for, and hold what has come to them: of a program that raises another
//! than the one that is awaited. Only of proxied contexts: words of direct ones and of a card's lie otherwise, and nothing is said of them.
#![forbid(unsafe_code)]

use super::Gin;
use super::sets::Asked;
use super::signal::released;
use crate::abort::Held;
use crate::device::DevPtr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

impl Gin {
    /// See [`crate::abort::Abort::beside`].
    pub fn beside(&self, at: DevPtr) -> Vec<Held> {
        let (signals, counters): (Vec<_>, Vec<_>) = self
            .words
            .iter()
            .map(|words| {
                let (addresses, words) = (words.addresses(), words.on_host());
                ((addresses.0, words.0), (addresses.1, words.1))
            })
            .unzip();
        // Whoever takes or gives back contexts may be long at it; then this is asked again soon.
        let Some(asked) = self.sets.try_lock().map(|sets| sets.asked()) else { return Vec::new() };
        let of = |words: &[(DevPtr, &[AtomicU64])], ids: fn(&Asked) -> &Range<u32>| {
            let (context, id) = find(words, at)?;
            let ids = asked.iter().map(ids).find(|ids| ids.contains(&id))?.clone();
            Some(held(words, ids, (context, id)))
        };
        of(&signals, |asked| &asked.signals).or_else(|| of(&counters, |asked| &asked.counters)).unwrap_or_default()
    }
}

/// The context and the id of the word at `at`.
fn find(words: &[(DevPtr, &[AtomicU64])], at: DevPtr) -> Option<(u32, u32)> {
    (0..).zip(words).find_map(|(context, (first, words))| {
        let offset = at.checked_sub(*first).filter(|offset| *first != 0 && offset / 8 < words.len() as u64)?;
        offset.is_multiple_of(8).then_some((context, (offset / 8) as u32))
    })
}

/// Of these ids in all contexts, but for that one; as the program counts them.
fn held(words: &[(DevPtr, &[AtomicU64])], ids: Range<u32>, (context, id): (u32, u32)) -> Vec<Held> {
    let mut held = Vec::new();
    for (of, (first, words)) in (0..).zip(words) {
        let values = (ids.clone()).zip(words.get(ids.start as usize..ids.end as usize).unwrap_or_default());
        held.extend(values.filter(|(other, _)| (of, *other) != (context, id)).filter_map(|(other, word)| {
            let value = word.load(Ordering::Relaxed);
            // After an abort all are moved.
            let says = value != 0 && released(value).is_some();
            says.then_some(Held { at: first + u64::from(other) * 8, context: of, id: other - ids.start, value })
        }));
    }
    held.sort_by_key(|one| ((one.id + ids.start).abs_diff(id), one.context.abs_diff(context)));
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_only_of_the_same_device_communicator() {
        let pool = || (0..8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (zero, one) = (pool(), pool());
        let words: [(DevPtr, &[AtomicU64]); 2] = [(0x1000, &zero), (0x2000, &one)];
        assert_eq!((find(&words, 0x1018), find(&words, 0x2038)), (Some((0, 3)), Some((1, 7))));
        assert_eq!((find(&words, 0x1004), find(&words, 0x1040), find(&words, 0x800)), (None, None, None));

        let ids = 2..6;
        for (words, id, value) in [(&zero, 1, 9), (&zero, 3, 1), (&zero, 5, 4), (&one, 3, 7), (&one, 2, 8), (&one, 6, 9)] {
            words[id].store(value, Ordering::Relaxed);
        }
        let seen = |held: Vec<Held>| held.iter().map(|one| (one.context, one.id, one.value)).collect::<Vec<_>>();
        assert_eq!(seen(held(&words, ids.clone(), (0, 3))), [(1, 1, 7), (1, 0, 8), (0, 3, 4)]);
        zero[5].store(4 + super::super::signal::RELEASE, Ordering::Relaxed);
        assert_eq!(seen(held(&words, ids.clone(), (1, 2))), [(1, 1, 7), (0, 1, 1)], "one that an abort has moved says nothing");
        assert_eq!(held(&words, ids, (1, 2))[0].at, 0x2018);
        assert!(held(&words, 7..9, (0, 7)).is_empty(), "beyond the pool");
    }
}
