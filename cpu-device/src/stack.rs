//! Stacks of CUDA threads: equal slices of large mappings, kept for ever, handed out last in, first out.
//!
//! One mapping per stack would end at 32,750 of them (vm.max_map_count); 65,536 slices take about 280 MiB. Below each stack
//! lies a red zone of a page that is never used: its upper 64 bytes stay zero (a read maps the shared zero page, so the
//! check costs no memory). With GINRS_CPU_STACK_GUARD=1 that page has no access at all. Otherwise the page below it has none, for the
//! first stacks of the process: compiled kernels touch every page of a large frame in turn (-fstack-clash-protection), so what
//! goes further than the red zone stops there. Beyond the first stacks each basic block looks (shim/thread.c).

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;

use crate::asan;
use crate::config::{Guard, config};
use crate::error::{Code, Result, refuse};

const PAGE: usize = 4096;
/// Stacks with a guard page unless the environment says otherwise. Each takes two mappings, of the 65,530 that a process has.
const GUARDED: usize = 4096;
/// Slices of one mapping.
const SLAB: usize = 256;
/// Stacks that change hands at once.
const BATCH: usize = 64;
/// Stacks are moved by multiples of this: slices lie a multiple of 4 KiB apart, and equal offsets share a few cache sets
/// (examples/switch_cost: 64 blocks of 1024 threads switch in 156 ns with 16 colours, in 277 ns with one).
const COLOUR: usize = 192;
const COLOURS: usize = 16;

/// One stack. Its memory belongs to whoever holds it.
pub struct Stack {
    base: NonZeroUsize,
    limit: NonZeroUsize,
}

// SAFETY: base and limit bound memory that is mapped for the life of the process and that only the holder uses. In place
// of an inaccessible guard there is by default a page of red zone, checked by `red_zone` at every switch of fibers.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> NonZeroUsize {
        self.base
    }
    fn limit(&self) -> NonZeroUsize {
        self.limit
    }
}

/// What the check of a stack's red zone found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedZone {
    /// Nothing was written there.
    Clean,
    /// The thread used more than its stack, but no other thread's memory.
    Dirty,
    /// The thread wrote past the red zone: into the stack of another thread.
    Crossed,
}

/// The lowest address of a stack: names it while a fiber owns it.
#[derive(Clone, Copy)]
pub struct Limit(usize);

impl Limit {
    /// Of no stack.
    pub const NONE: Limit = Limit(0);

    /// Looks whether the thread on this stack went beyond it.
    ///
    /// # Safety
    /// The limit is of a stack (not NONE), which no other OS thread runs on now.
    #[inline]
    pub unsafe fn red_zone(self) -> RedZone {
        if config().stack_guard == Guard::Exact {
            return RedZone::Clean;
        }
        // SAFETY: [limit, limit + PAGE) is the red zone of that slice, mapped for ever and readable.
        unsafe {
            if line_is_zero(self.0 + PAGE - 64) {
                RedZone::Clean
            } else if line_is_zero(self.0) {
                RedZone::Dirty
            } else {
                RedZone::Crossed
            }
        }
    }
}

impl Limit {
    /// The lowest byte that its thread may use; 0 if the red zone has no access, which says it all.
    #[inline]
    pub fn end(self) -> usize {
        if config().stack_guard == Guard::Exact { 0 } else { self.0 + PAGE }
    }

    /// First byte of the thread's memory, and the one behind it.
    pub fn stack(self) -> (usize, usize) {
        (self.0, self.0 + span())
    }

    /// Whether `address` is in the red zone or in the guard below it.
    pub fn is_below(self, address: usize) -> bool {
        (self.0.saturating_sub(2 * PAGE)..self.0 + PAGE).contains(&address)
    }
}

impl Stack {
    /// Where it ends.
    pub fn limit(&self) -> Limit {
        Limit(self.limit.get())
    }

    /// The stack reads as zeros afterwards.
    fn release_memory(&self) {
        let low = (self.limit.get() + PAGE).next_multiple_of(PAGE);
        let length = self.base.get().next_multiple_of(PAGE) - low;
        // SAFETY: the pages of this slice above its red zone: whoever holds the stack has no fiber on it now.
        unsafe { libc::madvise(low as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }

    fn clean(&mut self) {
        // SAFETY: the red zone is ours (see above), and this zeroes it.
        unsafe { std::ptr::write_bytes(self.limit.get() as *mut u8, 0, PAGE) }
    }
}

#[inline]
unsafe fn line_is_zero(address: usize) -> bool {
    let words = address as *const u64;
    // SAFETY: the caller gives 64 readable bytes, 8-aligned. Volatile: the compiler must not know better.
    (0..8).fold(0, |sum, i| sum | unsafe { words.add(i).read_volatile() }) == 0
}

/// From the limit of a stack to its base.
pub fn span() -> usize {
    PAGE + config().stack_bytes
}

/// Unused stacks whose memory is kept (about 4 KiB each).
const KEEP_RESIDENT: usize = 1 << 17;

/// Unused stacks, in batches of at most BATCH. Without a lock: of 512 block threads on two cores, one that sleeps on a lock
/// sleeps for a turn of all the others (512 blocks that need new stacks took 8 s to begin, now under 1 s).
static FREE: SegQueue<Vec<Stack>> = SegQueue::new();
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The stacks that one block thread has at hand.
#[derive(Default)]
pub struct Cache {
    spare: Vec<Stack>,
}

impl Cache {
    /// A stack, from the cache if it has one.
    ///
    /// # Errors
    /// `LaunchOutOfResources` when the system gives no more address space.
    pub fn take(&mut self) -> Result<Stack> {
        loop {
            if let Some(stack) = self.spare.pop() {
                return Ok(stack);
            }
            match FREE.pop() {
                Some(batch) => self.spare = batch,
                None => map_slab(&mut self.spare)?,
            }
        }
    }

    /// Takes a stack back that no fiber is on, with what its red zone was found to be.
    pub fn put(&mut self, mut stack: Stack, zone: RedZone) {
        if zone != RedZone::Clean {
            stack.clean();
        }
        // Frames that did not return (a trap, an exit of the thread) have left their marks.
        asan::unpoison(stack.limit.get(), span());
        self.spare.push(stack);
    }

    /// Gives all but a few to the other block threads, and their memory to the system if there are many.
    pub fn trim(&mut self) {
        while self.spare.len() > 2 * BATCH {
            let batch = self.spare.split_off(self.spare.len() - BATCH);
            if FREE.len() > KEEP_RESIDENT / BATCH {
                batch.iter().for_each(Stack::release_memory);
            }
            FREE.push(batch);
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        FREE.push(std::mem::take(&mut self.spare));
    }
}

unsafe extern "C" {
    fn ginrs_shim_valgrind_stack(low: usize, high: usize);
}

/// Maps SLAB stacks: a batch goes to `mine`, the rest to everybody.
fn map_slab(mine: &mut Vec<Stack>) -> Result {
    let mut stacks = Vec::with_capacity(SLAB);
    let config = config();
    // Guard, red zone, stack, and a page in which the latter two are moved by their colour.
    let slice = config.stack_bytes + 3 * PAGE;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let slab = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            slice * SLAB,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
            -1,
            0,
        )
    };
    if slab == libc::MAP_FAILED {
        let have = MAPPED.load(Ordering::Relaxed);
        return refuse(
            Code::LAUNCH_OUT_OF_RESOURCES,
            &format!(
                "no memory for more stacks of CUDA threads: {} ({have} stacks of {} bytes mapped)\n\
                 fix: launch fewer threads, or set GINRS_CPU_STACK lower",
                std::io::Error::last_os_error(),
                config.stack_bytes
            ),
        );
    }
    // A huge page would make 32 stacks resident at once. Refusal (no such kernel option) changes nothing.
    // SAFETY: the range is the mapping just made.
    unsafe { libc::madvise(slab, slice * SLAB, libc::MADV_NOHUGEPAGE) };
    let first = MAPPED.fetch_add(SLAB, Ordering::Relaxed);
    for i in (0..SLAB).rev() {
        // A guard page has to be a page.
        let colour = if config.stack_guard == Guard::Exact { 0 } else { (first + i) % COLOURS * COLOUR };
        let limit = slab as usize + i * slice + 2 * PAGE - colour;
        let guard = match config.stack_guard {
            Guard::Exact => Some(limit),
            Guard::Some if first + i < GUARDED => Some(slab as usize + i * slice),
            _ => None,
        };
        // SAFETY: the page is the red zone of slice i of this mapping, or the one below it.
        let refused = guard.is_some_and(|page| unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, libc::PROT_NONE) } != 0);
        if refused && config.stack_guard == Guard::Exact {
            // SAFETY: the mapping just made, of which nothing was handed out.
            unsafe { libc::munmap(slab, slice * SLAB) };
            return refuse(
                Code::LAUNCH_OUT_OF_RESOURCES,
                "no more guard pages: each takes two of the mappings that vm.max_map_count bounds\n\
                 fix: leave out GINRS_CPU_STACK_GUARD, or launch fewer threads",
            );
        }
        let base = limit + span();
        // SAFETY: says something of memory that is mapped; touches none.
        unsafe { ginrs_shim_valgrind_stack(limit, base - 1) };
        stacks.push(Stack {
            base: NonZeroUsize::new(base).expect("mappings are not at 0"),
            limit: NonZeroUsize::new(limit).expect("mappings are not at 0"),
        });
    }
    while stacks.len() > BATCH {
        FREE.push(stacks.split_off(stacks.len() - BATCH));
    }
    mine.append(&mut stacks);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_do_not_overlap_and_the_red_zone_is_seen() {
        let mut cache = Cache::default();
        let mut stacks: Vec<Stack> = (0..300).map(|_| cache.take().unwrap()).collect();
        stacks.sort_by_key(|s| s.base);
        for pair in stacks.windows(2) {
            assert!(pair[0].base <= pair[1].limit);
        }
        let stack = &mut stacks[0];
        let limit = stack.limit();
        // SAFETY: the red zone of a stack that this test holds.
        unsafe {
            assert_eq!(limit.red_zone(), RedZone::Clean);
            ((limit.0 + PAGE - 8) as *mut u64).write(1);
            assert_eq!(limit.red_zone(), RedZone::Dirty);
            (limit.0 as *mut u64).write(1);
            assert_eq!(limit.red_zone(), RedZone::Crossed);
            stack.clean();
            assert_eq!(limit.red_zone(), RedZone::Clean);
        }
    }
}
