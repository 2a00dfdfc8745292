//! What is known to have happened: a vector clock over groups of threads.
//!
//! A group is the threads of one block's run, or one queue of puts. After a barrier of a whole block all that is known of it is one
//! number; threads that are known to be further stand beside it. So a clock has a few words for each block, not for each thread.

/// Which group; numbers are never used again.
pub type Group = u32;

use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// All its threads have come so far.
    base: u32,
    /// And these further: (thread, how far), by thread.
    more: Vec<(u16, u32)>,
}

impl Known {
    fn of(&self, thread: u16) -> u32 {
        self.more.binary_search_by_key(&thread, |more| more.0).map_or(self.base, |at| self.more[at].1)
    }

    fn learn(&mut self, thread: u16, epoch: u32) {
        if epoch <= self.base {
            return;
        }
        match self.more.binary_search_by_key(&thread, |more| more.0) {
            Ok(at) => self.more[at].1 = self.more[at].1.max(epoch),
            Err(at) => self.more.insert(at, (thread, epoch)),
        }
    }

    fn learn_all(&mut self, epoch: u32) {
        if epoch > self.base {
            self.base = epoch;
            self.more.retain(|more| more.1 > epoch);
        }
    }

    /// Whether it has all of `other`.
    fn covers(&self, other: &Known) -> bool {
        let mut mine = self.more.iter().peekable();
        self.base >= other.base
            && other.more.iter().all(|&(thread, epoch)| {
                while mine.next_if(|more| more.0 < thread).is_some() {}
                epoch <= mine.peek().filter(|more| more.0 == thread).map_or(self.base, |more| more.1)
            })
    }

    /// What both have.
    fn common(&self, other: &Known) -> Known {
        let mut known = Known { base: self.base.min(other.base), more: Vec::new() };
        let mut threads: Vec<u16> = self.more.iter().chain(&other.more).map(|more| more.0).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.iter().for_each(|&thread| known.learn(thread, self.of(thread).min(other.of(thread))));
        known
    }

    fn joined(&self, other: &Known) -> Known {
        let base = self.base.max(other.base);
        let mut more = Vec::with_capacity(self.more.len().max(other.more.len()));
        let (mut mine, mut theirs) = (self.more.iter().copied().peekable(), other.more.iter().copied().peekable());
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => (a.0, mine.next().map_or(0, |a| a.1).max(theirs.next().map_or(0, |b| b.1))),
                (Some(a), Some(b)) if a.0 > b.0 => *b,
                (Some(a), _) => *a,
                (None, Some(b)) => *b,
                (None, None) => break,
            };
            let _ = (mine.next_if(|a| a.0 == next.0), theirs.next_if(|b| b.0 == next.0));
            if next.1 > base {
                more.push(next);
            }
        }
        Known { base, more }
    }
}

/// See the module. What two clocks know of a group in common is kept once: a block's threads, and all who have used one word, know
/// nearly the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// All grids that ended as this number or an earlier one, with all that was known to them.
    pub ended: u64,
    groups: Vec<(Group, Arc<Known>)>,
}

impl Clock {
    /// Nothing has happened.
    pub const NOTHING: Clock = Clock { ended: 0, groups: Vec::new() };

    fn entry(&mut self, group: Group) -> &mut Arc<Known> {
        let at = match self.groups.binary_search_by_key(&group, |known| known.0) {
            Ok(at) => at,
            Err(at) => {
                self.groups.insert(at, (group, Arc::default()));
                at
            }
        };
        &mut self.groups[at].1
    }

    /// Whether what `thread` of `group` did in `epoch` is known.
    pub fn knows(&self, group: Group, thread: u16, epoch: u32) -> bool {
        let at = self.groups.binary_search_by_key(&group, |known| known.0);
        at.is_ok_and(|at| epoch <= self.groups[at].1.of(thread))
    }

    /// A thread of a group has come so far.
    pub fn learn(&mut self, group: Group, thread: u16, epoch: u32) {
        Arc::make_mut(self.entry(group)).learn(thread, epoch);
    }

    /// All threads of a group have.
    pub fn learn_all(&mut self, group: Group, epoch: u32) {
        Arc::make_mut(self.entry(group)).learn_all(epoch);
    }

    /// What `other` knows, too, of all that had ended when this one began.
    pub fn common(&self, other: &Clock) -> Clock {
        let both = self.groups.iter().filter_map(|(group, mine)| {
            let at = other.groups.binary_search_by_key(group, |known| known.0).ok()?;
            Some((*group, Arc::new(mine.common(&other.groups[at].1))))
        });
        Clock { ended: self.ended, groups: both.collect() }
    }

    /// How many groups it speaks of.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Forgets groups of which nothing has to be known any more.
    pub fn retain(&mut self, mut keep: impl FnMut(Group) -> bool) {
        self.groups.retain(|known| keep(known.0));
    }

    /// As words, for other processes, which know groups by the numbers that `name` gives.
    pub fn encoded(&self, name: impl Fn(Group) -> Group) -> Vec<u32> {
        let mut words = vec![self.ended as u32, (self.ended >> 32) as u32];
        for (group, known) in &self.groups {
            words.extend([name(*group), known.base, known.more.len() as u32]);
            words.extend(known.more.iter().flat_map(|more| [more.0.into(), more.1]));
        }
        words
    }

    /// Of such words; no words are nothing.
    pub fn decoded(words: &[u32], name: impl Fn(Group) -> Group) -> Clock {
        let Some((&[low, high], mut words)) = words.split_first_chunk() else { return Clock::default() };
        let mut groups = Vec::new();
        while let Some((&[group, base, more], rest)) = words.split_first_chunk() {
            let (own, rest) = rest.split_at(rest.len().min(2 * more as usize));
            let more = own.chunks_exact(2).map(|pair| (pair[0] as u16, pair[1])).collect();
            groups.push((name(group), Arc::new(Known { base, more })));
            words = rest;
        }
        groups.sort_unstable_by_key(|known| known.0);
        Clock { ended: u64::from(low) | u64::from(high) << 32, groups }
    }

    /// All that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        self.ended = self.ended.max(other.ended);
        if self.groups.is_empty() {
            return self.groups.clone_from(&other.groups);
        }
        for (group, theirs) in &other.groups {
            let mine = self.entry(*group);
            if Arc::ptr_eq(mine, theirs) || mine.covers(theirs) {
                continue;
            }
            *mine = if theirs.covers(mine) { theirs.clone() } else { Arc::new(mine.joined(theirs)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_knows_what_it_was_told_and_no_more() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.learn(7, 3, 5);
        assert!(a.knows(7, 3, 5) && !a.knows(7, 3, 6) && !a.knows(7, 2, 1) && !a.knows(8, 3, 1));
        b.learn_all(7, 4);
        b.learn(2, 0, 9);
        b.ended = 6;
        a.join(&b);
        assert!(a.knows(7, 2, 4) && a.knows(7, 3, 5) && !a.knows(7, 2, 5) && a.knows(2, 0, 9) && a.ended == 6);
        a.learn_all(7, 5);
        assert_eq!(a.groups[1].1.more, [], "one number says it all");
        let whole = a.clone();
        a.join(&b);
        assert_eq!(a, whole);
    }

    #[test]
    fn a_clock_goes_to_another_process_and_comes_back() {
        let mut clock = Clock { ended: 5 << 32 | 3, ..Clock::default() };
        clock.learn_all(1, 4);
        clock.learn(1, 3, 9);
        clock.learn(7 << 24, 2, 1);
        let there = Clock::decoded(&clock.encoded(|group| group + (9 << 24)), |group| group);
        assert!(there.knows(1 + (9 << 24), 3, 9) && !there.knows(1, 3, 9));
        assert_eq!(Clock::decoded(&there.encoded(|group| group), |group| group - (9 << 24)), clock);
        assert_eq!(Clock::decoded(&[], |group| group), Clock::default());
    }

    #[test]
    fn joining_is_the_larger_of_both_for_each_thread() {
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..2000 {
            let mut known = [Known::default(), Known::default()];
            for side in &mut known {
                for _ in 0..random(6) {
                    if random(4) == 0 { side.learn_all(random(5)) } else { side.learn(random(6) as u16, random(8)) }
                }
            }
            let [a, b] = &known;
            let joined = a.joined(b);
            assert!((0..7).all(|thread| joined.of(thread) == a.of(thread).max(b.of(thread))), "{a:?} {b:?} {joined:?}");
            assert!(joined.covers(a) && joined.covers(b) && a.covers(a));
            let common = a.common(b);
            assert!((0..7).all(|thread| common.of(thread) == a.of(thread).min(b.of(thread))), "{a:?} {b:?} {common:?}");
            assert_eq!(a.covers(b), (0..7).all(|thread| a.of(thread) >= b.of(thread)), "{a:?} {b:?}");
        }
    }
}
