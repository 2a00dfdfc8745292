//! A copy queue for tests, as unkind as a device may be: it finishes late, out of order within a batch, or fails.

use crate::bail;
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::Result;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// What has been started, and whether anything may finish.
#[derive(Default)]
pub struct Started {
    /// Copies of each call.
    sizes: Vec<usize>,
    /// False: nothing finishes.
    pub go: bool,
    /// Copies that still succeed; None for all.
    pub good: Option<usize>,
}

impl Started {
    /// Calls so far.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Copies of the last call.
    pub fn last(&self) -> Option<usize> {
        self.sizes.last().copied()
    }
}

/// Copies when it is asked whether it has finished, and then not always. It stores words for even seeds only.
pub struct Delayed {
    waiting: VecDeque<(Vec<MemCopy>, u64)>,
    /// Words behind the batch with that ticket.
    words: VecDeque<(Vec<Word>, u64)>,
    stores: bool,
    unmarked: Vec<MemCopy>,
    marked: u64,
    finished: u64,
    random: u64,
    started: Arc<Mutex<Started>>,
}

impl Delayed {
    /// Goes on by itself; `seed` decides when.
    pub fn new(seed: u64) -> Self {
        let queue = Self {
            waiting: VecDeque::new(),
            words: VecDeque::new(),
            stores: seed.is_multiple_of(2),
            unmarked: Vec::new(),
            marked: 0,
            finished: 0,
            random: seed | 1,
            started: Arc::default(),
        };
        queue.started.lock().go = true;
        queue
    }

    /// Finishes nothing until `started().lock().go` is set.
    pub fn stopped() -> Self {
        let queue = Self::new(1);
        queue.started.lock().go = false;
        queue
    }

    /// To look at it, and to steer it, from outside.
    pub fn started(&self) -> Arc<Mutex<Started>> {
        self.started.clone()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % n
    }
}

impl CopyQueue for Delayed {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        assert!(!copies.is_empty() && copies.iter().all(|copy| copy.bytes > 0), "nothing to copy is no work");
        self.started.lock().sizes.push(copies.len());
        // All start after those of earlier calls have ended, so calls stay apart.
        self.waiting.push_back((std::mem::take(&mut self.unmarked), 0));
        self.unmarked = copies.to_vec();
        Ok(())
    }

    fn mark(&mut self) -> Result<u64> {
        self.marked += 1;
        self.waiting.push_back((std::mem::take(&mut self.unmarked), self.marked));
        Ok(self.marked)
    }

    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        if !self.stores {
            return Ok(None);
        }
        self.started.lock().sizes.push(words.len());
        let ticket = self.mark()?;
        self.words.push_back((words.to_vec(), ticket));
        Ok(Some(ticket))
    }

    fn finished(&mut self) -> Result<u64> {
        if !self.started.lock().go {
            return Ok(self.finished);
        }
        for _ in 0..self.below(3) {
            let Some((mut copies, ticket)) = self.waiting.pop_front() else { break };
            while !copies.is_empty() {
                if let Some(good) = &mut self.started.lock().good {
                    if *good == 0 {
                        bail!(UnhandledCudaError, 76, "planted failure of a copy | in a test | fix: none");
                    }
                    *good -= 1;
                }
                let at = self.below(copies.len() as u64) as usize;
                let copy = copies.swap_remove(at);
                // SAFETY: tests give ranges of live memory of their own.
                unsafe { std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes as usize) };
            }
            if self.words.front().is_some_and(|(_, after)| *after == ticket) {
                for word in self.words.pop_front().into_iter().flat_map(|(words, _)| words) {
                    assert!(matches!(word.bytes, 4 | 8) && word.at.is_multiple_of(word.bytes.into()));
                    let value = word.value.to_le_bytes();
                    // SAFETY: tests give words of live memory of their own.
                    unsafe { std::ptr::copy(value.as_ptr(), word.at as *mut u8, word.bytes as usize) };
                }
            }
            self.finished = self.finished.max(ticket);
        }
        Ok(self.finished)
    }
}
