//! The PTX instructions `mbarrier.*`, as the running CUDA thread calls them.

use std::time::Instant;

use crate::block::Block;
use crate::error::Code;
use crate::launch::Place;
use crate::mbarrier::{MOST, Object, Waiter};

/// What the object's memory holds, mixed with its address.
const MARK: u64 = 0x6d62_6172_7269_6572;

/// What ends a wait.
#[derive(Clone, Copy)]
pub enum Until {
    /// The end of the phase that `arrive` returned.
    Phase(u64),
    /// The end of a phase of this parity.
    Parity(u32),
}

/// What an arrival asks for besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Arrive {
    /// Nothing.
    Plain,
    /// It also lowers the count of the phases that follow.
    Drop,
    /// It must not be the last.
    NoComplete,
}

impl Block {
    /// `mbarrier.init`
    pub fn mbarrier_init(&self, at: usize, count: u32, place: Place) {
        self.check_address(at, place);
        let count = i64::from(count);
        if !(1..=MOST).contains(&count) {
            self.wrong(place, &format!("a count of {count}\nfix: an mbarrier counts 1 to {MOST} arrivals"));
        }
        let mut table = self.mbarriers.borrow_mut();
        let waited_for = table.objects.get(&at).is_some_and(|object| !object.waiters.is_empty());
        if !waited_for {
            table.objects.insert(at, Object { expected: count, pending: count, bytes: 0, phase: 0, waiters: Vec::new() });
            table.operations += 1;
        }
        drop(table);
        if waited_for {
            self.wrong(
                place,
                "the object is initialised again while threads wait for it\nfix: mbarrier.inval after the last wait",
            );
        }
        // SAFETY: 8 aligned bytes that the program gave for the object.
        unsafe { (at as *mut u64).write_volatile(MARK ^ at as u64) };
    }

    /// `mbarrier.inval`
    pub fn mbarrier_inval(&self, at: usize, place: Place) {
        self.with_object(at, place, |_| Ok(()));
        self.mbarriers.borrow_mut().objects.remove(&at);
        // SAFETY: 8 aligned bytes that the program gave for the object.
        unsafe { (at as *mut u64).write_volatile(0) };
    }

    /// `mbarrier.arrive`, after `bytes` more were announced. What the phase was, for a wait.
    pub fn mbarrier_arrive(&self, at: usize, count: u32, bytes: i64, how: Arrive, place: Place) -> u64 {
        let count = i64::from(count);
        let state = self.with_object(at, place, |object| {
            let state = u64::from(object.phase) << 32 | object.pending as u64;
            object.expect(bytes)?;
            if count < 1 || count > object.pending {
                return Err(format!(
                    "{count} arrivals where the phase lacks {} of {}\nfix: initialise the object with the number of arrivals of a \
                     phase, and wait for its end before arriving for the next",
                    object.pending, object.expected
                ));
            }
            if how == Arrive::NoComplete && count == object.pending {
                return Err("arrive.noComplete would complete the phase\nfix: let the last arrival be a plain one".into());
            }
            object.pending -= count;
            object.expected -= if how == Arrive::Drop { count } else { 0 };
            Ok(state)
        });
        self.end_phase(at);
        state
    }

    /// `mbarrier.expect_tx` (above 0), `mbarrier.complete_tx` and the end of a copy (below 0).
    pub fn mbarrier_bytes(&self, at: usize, bytes: i64, place: Place) {
        self.with_object(at, place, |object| object.expect(bytes));
        self.end_phase(at);
    }

    /// Waits; false: not yet, look again. `for_ever`: it is not asked again, so it ends with the phase or with the kernel.
    pub fn mbarrier_wait(&self, at: usize, until: Until, for_ever: bool, place: Place) -> bool {
        let me = self.thread();
        let done = self.with_object(at, place, |object| {
            let done = match until {
                Until::Phase(state) => (state >> 32) as u32 != object.phase,
                Until::Parity(parity @ (0 | 1)) => parity != object.phase & 1,
                Until::Parity(other) => return Err(format!("a parity of {other}\nfix: wait for parity 0 or 1")),
            };
            if !done {
                object.waiters.push(Waiter { thread: me, since: (!for_ever).then(Instant::now) });
            }
            Ok(done)
        });
        if done {
            return true;
        }
        self.block_at(place);
        let mut table = self.mbarriers.borrow_mut();
        let expired = table.expired.iter().position(|&thread| thread == me);
        expired.map(|at| table.expired.swap_remove(at)).is_none()
    }

    fn with_object<R>(&self, at: usize, place: Place, act: impl FnOnce(&mut Object) -> Result<R, String>) -> R {
        self.check_address(at, place);
        let mut table = self.mbarriers.borrow_mut();
        // SAFETY: 8 aligned bytes; the program says that its object is there.
        let marked = unsafe { (at as *const u64).read_volatile() } == MARK ^ at as u64;
        let result = match table.objects.get_mut(&at) {
            None => {
                Err("there is no mbarrier: it was not initialised in this block, or has been invalidated\nfix: mbarrier.init \
                         by one thread, then __syncthreads, before its first use"
                    .into())
            }
            Some(_) if !marked => {
                Err("the mbarrier's memory was written over since mbarrier.init\nfix: give it 8 bytes of shared \
                                       memory that nothing else uses, and mbarrier.inval before they are used again"
                    .into())
            }
            Some(object) => act(object),
        };
        drop(table);
        result.unwrap_or_else(|wrong| self.wrong(place, &wrong))
    }

    fn check_address(&self, at: usize, place: Place) {
        if at == 0 || !at.is_multiple_of(8) {
            self.wrong(place, &format!("an mbarrier at {at:#x}\nfix: align it to 8 bytes"));
        }
    }

    fn wrong(&self, place: Place, what: &str) -> ! {
        self.fatal(Code::LAUNCH_FAILURE, &format!("{} at {}: {what}", place.what(), place.line()))
    }

    /// The next phase begins once nothing is missing.
    fn end_phase(&self, at: usize) {
        let mut table = self.mbarriers.borrow_mut();
        table.operations += 1;
        let Some(object) = table.objects.get_mut(&at).filter(|object| object.pending == 0 && object.bytes == 0) else { return };
        object.phase = object.phase.wrapping_add(1);
        object.pending = object.expected;
        let woken = std::mem::take(&mut object.waiters);
        drop(table);
        self.wake(woken.into_iter().map(|waiter| waiter.thread));
    }
}
