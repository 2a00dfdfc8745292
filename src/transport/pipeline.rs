//! Copies that a device makes in the background, in batches: what the transports share that leave the moving to it.
//!
//! A copy joins the open batch. A batch starts as soon as fewer than [`FLIGHT`] are under way, so a lone copy starts at once
//! and copies that come faster than the device takes them go together: starting one takes 1.4 us of this thread's time on an
//! H200, starting 64 together 26 us. Larger batches gain another 5 % and keep all other peers waiting four times as long.
//! Batches end in the order in which they started, and the entries of a batch in the order in which they came.
#![cfg_attr(not(test), forbid(unsafe_code))]

use super::wait::{Step, wait};
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::{Code, Error, Result};
use std::time::{Duration, Instant};

/// Most copies of a batch.
pub(in crate::transport) const COPIES: usize = 64;
/// Most batches started and not ended.
const FLIGHT: u64 = 4;
/// Batches in all: those and the open one.
pub(in crate::transport) const BATCHES: usize = FLIGHT as usize + 1;
/// Most entries of a batch: its copies, and what only waits for them.
const ENTRIES: usize = 4 * COPIES;

/// How long an abort waits for copies that have been started.
pub(in crate::transport) const LAST_COPIES: Duration = Duration::from_millis(20);
/// How long a device may finish nothing before it counts as failed, where its memory is to go.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most words of a batch that are stored one by one. More take less time as copies (H200: 1.1 us a word after the first).
const WORDS: usize = 16;

struct Batch<T> {
    copies: Vec<MemCopy>,
    /// Values, and the same as copies out of host memory.
    words: Vec<Word>,
    values: Vec<MemCopy>,
    entries: Vec<T>,
    ticket: u64,
}

/// One queue of copies and what is to be done when they have ended.
pub(in crate::transport) struct Pipeline<T> {
    queue: Box<dyn CopyQueue>,
    /// Batch `n` stands at `n % BATCHES`. Nothing here is allocated again after `new`.
    batches: Vec<Batch<T>>,
    /// The oldest batch that has not ended; those before `open` have been started.
    first: u64,
    open: u64,
    /// False once the queue has said that it stores no words.
    stores: bool,
    /// The queue's first error. What it says later is no news of what came before: a signal must not follow lost bytes.
    broken: Option<Error>,
}

impl<T> Batch<T> {
    fn new() -> Self {
        Self {
            copies: Vec::with_capacity(COPIES),
            words: Vec::with_capacity(COPIES),
            values: Vec::with_capacity(COPIES),
            entries: Vec::with_capacity(ENTRIES),
            ticket: 0,
        }
    }

    fn len(&self) -> usize {
        self.copies.len() + self.words.len()
    }

    fn clear(&mut self) {
        self.copies.clear();
        self.words.clear();
        self.values.clear();
    }

    /// Gives it to `queue`; words by stores as long as that pays and `stores` says that it works.
    fn start(&mut self, queue: &mut dyn CopyQueue, stores: &mut bool) -> Result<()> {
        if self.words.len() > WORDS || !*stores {
            self.copies.append(&mut self.values);
            self.words.clear();
        }
        if !self.copies.is_empty() {
            queue.copy(&self.copies)?;
        }
        if !self.words.is_empty() {
            if let Some(ticket) = queue.store(&self.words)? {
                self.ticket = ticket;
                return Ok(());
            }
            *stores = false;
            queue.copy(&self.values)?;
        }
        self.ticket = queue.mark()?;
        Ok(())
    }
}

impl<T> Pipeline<T> {
    /// Over a queue of its own.
    pub fn new(queue: Box<dyn CopyQueue>) -> Self {
        // From 1 on, so that 0 names a batch that has ended.
        let batches = std::iter::repeat_with(Batch::new).take(BATCHES).collect();
        Self { queue, batches, first: 1, open: 1, stores: true, broken: None }
    }

    #[inline]
    fn batch(&mut self, number: u64) -> &mut Batch<T> {
        &mut self.batches[(number % BATCHES as u64) as usize]
    }

    /// Number of the newest batch that holds anything; everything before it has started.
    #[inline]
    pub fn newest(&mut self) -> u64 {
        let open = self.open;
        if self.batch(open).entries.is_empty() { open - 1 } else { open }
    }

    /// True if nothing is under way.
    #[inline]
    pub fn is_idle(&mut self) -> bool {
        self.newest() < self.first
    }

    /// True if batch `number` has ended.
    #[inline]
    pub fn has_ended(&self, number: u64) -> bool {
        number < self.first
    }

    /// Where the next copy will stand, unique among the copies under way: below `BATCHES * COPIES`. None: full.
    #[inline]
    pub fn place(&mut self) -> Option<usize> {
        let open = self.open;
        let batch = self.batch(open);
        let room = batch.len() < COPIES && batch.entries.len() < ENTRIES;
        room.then(|| (open % BATCHES as u64) as usize * COPIES + batch.len())
    }

    /// Adds a copy for which there is a [`Self::place`]. Returns its batch's number.
    #[inline]
    pub fn push(&mut self, copy: MemCopy, entry: T) -> u64 {
        let open = self.open;
        let batch = self.batch(open);
        debug_assert!(batch.len() < COPIES);
        batch.copies.push(copy);
        batch.entries.push(entry);
        open
    }

    /// Adds a value for which there is a [`Self::place`]: `copy` brings it out of host memory, where `word` cannot be stored.
    #[inline]
    pub fn push_word(&mut self, word: Word, copy: MemCopy, entry: T) -> u64 {
        let open = self.open;
        let batch = self.batch(open);
        debug_assert!(batch.len() < COPIES);
        batch.words.push(word);
        batch.values.push(copy);
        batch.entries.push(entry);
        open
    }

    /// Lets `entry` end with batch `number`, which holds something and has not ended. False: full.
    #[inline]
    pub fn follow(&mut self, number: u64, entry: T) -> bool {
        debug_assert!((self.first..=self.newest()).contains(&number));
        let entries = &mut self.batch(number).entries;
        let room = entries.len() < ENTRIES;
        if room {
            entries.push(entry);
        }
        room
    }

    /// Ends what the device has finished and starts what waits for it. True if anything moved. After an error nothing ends or
    /// starts any more; the error stays.
    #[inline]
    pub fn progress(&mut self, end: impl FnMut(T)) -> Result<bool> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.advance(end).inspect_err(|error| self.broken = Some(error.clone()))
    }

    #[inline]
    fn advance(&mut self, mut end: impl FnMut(T)) -> Result<bool> {
        let mut moved = false;
        if self.first < self.open {
            let finished = self.queue.finished()?;
            while self.first < self.open {
                let first = self.first;
                let batch = self.batch(first);
                if batch.ticket > finished {
                    break;
                }
                batch.entries.drain(..).for_each(&mut end);
                batch.clear();
                self.first += 1;
                moved = true;
            }
        }
        let open = self.open;
        if self.open - self.first < FLIGHT && self.batch(open).len() > 0 {
            let batch = &mut self.batches[(open % BATCHES as u64) as usize];
            batch.start(&mut *self.queue, &mut self.stores)?;
            self.open += 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Goes on until nothing is under way; an error if the device finishes nothing for a second.
    pub fn drain(&mut self, end: impl FnMut(T)) -> Result<()> {
        match self.wait(PATIENCE, end)? {
            true => Ok(()),
            false => Err(Error::new(Code::UnhandledCudaError, 76, format!("the device finished nothing for {PATIENCE:?}"))),
        }
    }

    /// Forgets everything. What has been started cannot be called back: waits for it, at most until `deadline`.
    pub fn abandon(&mut self, deadline: Instant) {
        let open = self.open;
        self.batch(open).clear();
        self.batches.iter_mut().for_each(|batch| batch.entries.clear());
        // An error ends the wait too: a queue that failed copies no more.
        let _ = self.wait(deadline.saturating_duration_since(Instant::now()), drop);
        self.first = self.open;
    }

    fn wait(&mut self, patience: Duration, mut end: impl FnMut(T)) -> Result<bool> {
        wait(patience, || match self.is_idle() {
            true => Ok(Step::Idle),
            false => Ok(Step::of(self.progress(&mut end)?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::delayed::Delayed;

    fn copies(n: usize) -> (Vec<u64>, Vec<u64>) {
        ((1..=n as u64).collect(), vec![0; n])
    }

    fn copy(from: &[u64], to: &[u64], i: usize) -> MemCopy {
        MemCopy { from: &raw const from[i] as u64, to: &raw const to[i] as u64, bytes: 8 }
    }

    /// Thousands of copies and followers over a queue that finishes late: each ends once, in order, after its copy.
    #[test]
    fn entries_end_in_order_and_after_their_copies() {
        let (from, to) = copies(5000);
        let mut pipeline = Pipeline::new(Box::new(Delayed::new(7)));
        let (mut given, mut ended) = (0, Vec::new());
        while ended.len() < 2 * from.len() {
            for _ in 0..given % 97 + 1 {
                if given == from.len() || pipeline.place().is_none() {
                    break;
                }
                let batch = pipeline.push(copy(&from, &to, given), 2 * given);
                assert!(pipeline.follow(batch, 2 * given + 1), "two entries a copy fit");
                given += 1;
            }
            pipeline
                .progress(|entry: usize| {
                    // SAFETY: the test's own memory, written through the address that the copy holds.
                    let landed = unsafe { (&raw const to[entry / 2]).read_volatile() };
                    assert_eq!(landed, from[entry / 2]);
                    ended.push(entry);
                })
                .unwrap();
        }
        assert!(ended.iter().enumerate().all(|(i, &entry)| i == entry));
        assert!(pipeline.is_idle());
    }

    /// What the queue says after an error is no news of the copies before it: nothing ends any more, and nothing starts.
    #[test]
    fn after_an_error_nothing_ends() {
        let (from, to) = copies(20);
        let delayed = Delayed::new(3);
        let started = delayed.started();
        let mut pipeline = Pipeline::new(Box::new(delayed));
        started.lock().good = Some(1);
        for i in 0..FLIGHT as usize {
            pipeline.push(copy(&from, &to, i), i);
            pipeline.progress(|_| ()).unwrap_or_default();
        }
        let mut ended = Vec::new();
        while pipeline.progress(|entry| ended.push(entry)).is_ok() {}
        started.lock().good = None;
        let before = (ended.clone(), started.lock().len());
        for _ in 0..100 {
            assert_eq!(pipeline.progress(|entry| ended.push(entry)).unwrap_err().id, 76, "the same error again");
        }
        assert!(pipeline.drain(|entry| ended.push(entry)).is_err());
        pipeline.abandon(Instant::now() + Duration::from_secs(5));
        assert_eq!((ended, started.lock().len()), before);
    }

    #[test]
    fn a_lone_copy_starts_at_once_and_many_go_together() {
        let (from, to) = copies(8 * COPIES);
        let delayed = Delayed::stopped();
        let started = delayed.started();
        let mut pipeline = Pipeline::new(Box::new(delayed));
        let mut next = 0;
        for batches in 1..=FLIGHT as usize {
            pipeline.push(copy(&from, &to, next), ());
            next += 1;
            assert!(pipeline.progress(|_| ()).unwrap());
            assert_eq!(started.lock().len(), batches, "no waiting for company");
        }
        while pipeline.place().is_some() {
            pipeline.push(copy(&from, &to, next), ());
            next += 1;
        }
        assert!(!pipeline.progress(|_| ()).unwrap(), "four are under way");
        assert!(!pipeline.wait(Duration::from_millis(5), drop).unwrap(), "the device stands still");
        started.lock().go = true;
        pipeline.drain(drop).unwrap();
        assert_eq!(started.lock().last(), Some(COPIES), "those that waited went as one batch");
    }

    #[test]
    fn places_are_unique_among_what_is_under_way() {
        let (from, to) = copies(8);
        let delayed = Delayed::stopped();
        let started = delayed.started();
        let mut pipeline = Pipeline::new(Box::new(delayed));
        let mut places = std::collections::HashSet::new();
        let mut fill = |pipeline: &mut Pipeline<()>| {
            while let Some(place) = pipeline.place() {
                assert!(place < BATCHES * COPIES && places.insert(place), "{place} is in use");
                pipeline.push(copy(&from, &to, place % 8), ());
            }
        };
        for _ in 0..BATCHES {
            fill(&mut pipeline);
            pipeline.progress(|_| ()).unwrap();
        }
        fill(&mut pipeline);
        assert_eq!(places.len(), BATCHES * COPIES);
        pipeline.abandon(Instant::now());
        assert!(pipeline.is_idle());
        assert_eq!(started.lock().len(), FLIGHT as usize, "the open batch never started");
    }
}
