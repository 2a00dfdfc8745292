//! Which signals and counters stand beside one that a kernel waits for, and hold what has come to them: of a program that raises another
//! than the one that is awaited; and what this rank has raised of each peer's. Only of proxied contexts: words of direct ones and of a
//! card's lie otherwise, and nothing is said of them.
#![forbid(unsafe_code)]

use super::Gin;
use super::sets::Asked;
use super::signal::released;
use crate::abort::{Beside, Held, Sums};
use crate::device::DevPtr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words of one context from its first on, where that is, and what of each is waited for, if kernels say so.
type Pool<'a> = (DevPtr, &'a [AtomicU64], &'a [AtomicU64]);

/// GINRS_AWAITED: somebody has waited for the signal, or read or reset it.
const AWAITED: u64 = 1 << 63;

impl Gin {
    /// See [`crate::abort::Abort::beside`].
    pub fn beside(&self, at: DevPtr) -> Beside {
        let (signals, counters) = self.pools();
        let signal = find(&signals, at);
        // Whoever takes or gives back contexts may be long at it; then this is asked again soon.
        let asked = self.sets.try_lock().map_or(Vec::new(), |sets| sets.asked());
        let of = |words: &[Pool], ids: fn(&Asked) -> &Range<u32>| {
            let (context, id) = find(words, at)?;
            let ids = asked.iter().map(ids).find(|ids| ids.contains(&id))?.clone();
            let mut held = held(words, ids.clone());
            held.retain(|one| one.is_idle() && (one.context, one.word) != (context, id));
            held.sort_by_key(|one| (one.word.abs_diff(id), one.context.abs_diff(context)));
            Some(held)
        };
        let held = of(&signals, |asked| &asked.signals).or_else(|| of(&counters, |asked| &asked.counters));
        Beside { signal, held: held.unwrap_or_default() }
    }

    /// See [`crate::abort::Abort::sums`].
    pub fn sums(&self, may_wait: bool) -> Option<Sums> {
        if self.card.is_some() {
            return None;
        }
        let sets = if may_wait { Some(self.sets.lock()) } else { self.sets.try_lock() };
        let asked = sets?.asked();
        let mut sums = Sums::default();
        let engine = if may_wait { self.pump.engine().ok() } else { self.pump.engine_now() };
        engine?.contexts.iter().for_each(|context| context.tell_sums(&mut sums));
        let (signals, _) = self.pools();
        sums.own = asked.into_iter().flat_map(|asked| held(&signals, asked.signals)).collect();
        Some(sums)
    }

    /// Signals and counters of the proxied contexts, by number.
    fn pools(&self) -> (Vec<Pool<'_>>, Vec<Pool<'_>>) {
        self.words
            .iter()
            .map(|words| {
                let (addresses, on_host) = (words.addresses(), words.on_host());
                let awaited = words.awaited().map_or(&[][..], |awaited| awaited);
                ((addresses.0, on_host.0, awaited), (addresses.1, on_host.1, &[][..]))
            })
            .unzip()
    }
}

/// The context and the id of the word at `at`.
fn find(words: &[Pool], at: DevPtr) -> Option<(u32, u32)> {
    (0..).zip(words).find_map(|(context, (first, words, _))| {
        let offset = at.checked_sub(*first).filter(|offset| *first != 0 && offset / 8 < words.len() as u64)?;
        offset.is_multiple_of(8).then_some((context, (offset / 8) as u32))
    })
}

/// Those of these ids in all contexts that hold something, or were ever waited for; as the program counts them.
fn held(words: &[Pool], ids: Range<u32>) -> Vec<Held> {
    let mut held = Vec::new();
    for (context, (first, words, awaited)) in (0..).zip(words) {
        let values = (ids.clone()).zip(words.get(ids.start as usize..ids.end as usize).unwrap_or_default());
        held.extend(values.filter_map(|(word, now)| {
            let value = now.load(Ordering::Relaxed);
            let awaited = awaited.get(word as usize).map_or(0, |awaited| awaited.load(Ordering::Relaxed));
            let awaited = (awaited & AWAITED != 0).then_some(awaited & !AWAITED);
            // After an abort all are moved.
            let says = (value != 0 || awaited.is_some()) && released(value).is_some();
            says.then_some(Held { at: first + u64::from(word) * 8, context, word, id: word - ids.start, value, awaited })
        }));
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_same_device_communicator_that_hold_more_than_is_waited_for() {
        let pool = || (0..8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (zero, one, awaited) = (pool(), pool(), pool());
        let words: [Pool; 2] = [(0x1000, &zero, &[]), (0x2000, &one, &awaited)];
        assert_eq!((find(&words, 0x1018), find(&words, 0x2038)), (Some((0, 3)), Some((1, 7))));
        assert_eq!((find(&words, 0x1004), find(&words, 0x1040), find(&words, 0x800)), (None, None, None));

        let ids = 2..6;
        for (words, id, value) in
            [(&zero, 1, 9), (&zero, 3, 1), (&zero, 5, 4), (&one, 3, 7), (&one, 2, 8), (&one, 4, 2), (&one, 6, 9)]
        {
            words[id].store(value, Ordering::Relaxed);
        }
        awaited[3].store(AWAITED | 5, Ordering::Relaxed);
        awaited[4].store(AWAITED | 2, Ordering::Relaxed);
        awaited[5].store(AWAITED, Ordering::Relaxed);
        let seen = |held: Vec<Held>| held.iter().map(|one| (one.context, one.id, one.value, one.awaited)).collect::<Vec<_>>();
        let all = [(0, 1, 1, None), (0, 3, 4, None), (1, 0, 8, None), (1, 1, 7, Some(5)), (1, 2, 2, Some(2)), (1, 3, 0, Some(0))];
        assert_eq!(seen(held(&words, ids.clone())), all);
        assert_eq!(held(&words, ids.clone()).iter().filter(|one| one.is_idle()).count(), 4);
        zero[5].store(4 + super::super::signal::RELEASE, Ordering::Relaxed);
        assert_eq!(
            seen(held(&words, ids.clone()))[..2],
            [(0, 1, 1, None), (1, 0, 8, None)],
            "one that an abort has moved says nothing"
        );
        let first = held(&words, ids)[0];
        assert_eq!((first.at, first.word), (0x1018, 3));
        assert!(held(&words, 7..9).is_empty(), "beyond the pool");
    }
}
