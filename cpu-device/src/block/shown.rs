//! What a debugger reads of a process that it does not run (tools/gdb/ginrs-gdb.py): which threads of which blocks are where, and on which
//! stacks those stand that do not run. It is there in any case; [`ginrs_cpu_shown`] says at which offsets. So nothing is written for it
//! when fibers switch: once for each block thread, and once for each kernel that it takes blocks of.

use std::cell::Cell;
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Block, Fiber, Slot, State, Switch};
use crate::grid::Grid;
use crate::launch::Place;
use crate::thread::ThreadView;

/// Of a block, what stands nowhere else in a form that C knows.
#[repr(C)]
pub(super) struct Shown {
    next: Cell<*const Block>,
    slots: Cell<*const Slot>,
    name: Cell<*const u8>,
    name_bytes: Cell<usize>,
    launched: Cell<Place>,
    grid: Cell<u64>,
    stack_bytes: usize,
    os_thread: i32,
    device: Cell<i32>,
}

impl Shown {
    /// Of the calling OS thread.
    pub(super) fn of_this_thread() -> Shown {
        Shown {
            next: Cell::default(),
            slots: Cell::default(),
            name: Cell::default(),
            name_bytes: Cell::default(),
            launched: Cell::new(Place::new(std::ptr::null(), std::ptr::null(), 0)),
            grid: Cell::default(),
            stack_bytes: crate::stack::span(),
            // SAFETY: takes nothing.
            os_thread: unsafe { libc::gettid() },
            device: Cell::default(),
        }
    }

    /// The block's threads are of `grid`, which stays while they live; `slots` do not move until the next call.
    pub(super) fn takes(&self, grid: &Grid, slots: &[Slot]) {
        self.slots.set(slots.as_ptr());
        self.name.set(grid.launch.name.as_ptr());
        self.name_bytes.set(grid.launch.name.len());
        self.launched.set(grid.launch.place);
        self.grid.set(grid.number);
        self.device.set(grid.device.id);
    }
}

/// The block, which lives for ever, can be found.
pub(super) fn show(block: &'static Block) {
    let newest = &ginrs_cpu_shown.newest;
    let link = |next: *mut Block| {
        block.shown.next.set(next);
        Some((&raw const *block).cast_mut())
    };
    let _ = newest.fetch_update(Ordering::Release, Ordering::Relaxed, link);
}

/// Where things are; ginrs-gdb.py reads it in this order.
#[repr(C)]
pub struct Table {
    version: u32,
    bytes: u32,
    newest: AtomicPtr<Block>,
    /// In a block.
    shown: u32,
    running: u32,
    live: u32,
    threads: u32,
    /// In a slot.
    slot_bytes: u32,
    view: u32,
    fiber: u32,
    fiber_bytes: u32,
    limit: u32,
    state: u32,
    place: u32,
    wait: u32,
    /// In what a thread knows of itself (ginrsCpuThread).
    call: u32,
    /// How [`State`] is written: not started, on its way, exited, and what it gave the core away for.
    states: [u8; 8],
}

/// See [`Table`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name of C's")]
pub static ginrs_cpu_shown: Table = Table {
    version: 1,
    bytes: size_of::<Table>() as u32,
    newest: AtomicPtr::new(std::ptr::null_mut()),
    shown: offset_of!(Block, shown) as u32,
    running: offset_of!(Block, current) as u32,
    live: offset_of!(Block, live) as u32,
    threads: offset_of!(Block, shape) as u32,
    slot_bytes: size_of::<Slot>() as u32,
    view: offset_of!(Slot, view) as u32,
    fiber: offset_of!(Slot, fiber) as u32,
    fiber_bytes: size_of::<Cell<Option<Fiber>>>() as u32,
    limit: offset_of!(Slot, limit) as u32,
    state: offset_of!(Slot, state) as u32,
    place: offset_of!(Slot, place) as u32,
    wait: offset_of!(Slot, wait) as u32,
    call: offset_of!(ThreadView, call) as u32,
    states: [
        byte(State::NotStarted),
        byte(State::OnItsWay),
        byte(State::Exited),
        byte(State::Gave(Switch::Preempted)),
        byte(State::Gave(Switch::Polling)),
        byte(State::Gave(Switch::AtSite)),
        byte(State::Gave(Switch::Blocked)),
        byte(State::Gave(Switch::Dropped)),
    ],
};

const fn byte(state: State) -> u8 {
    // SAFETY: a State is one initialized byte, or this does not compile.
    unsafe { std::mem::transmute(state) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Cache;
    use corosensei::stack::Stack as _;

    /// What the script relies on: of the words of a suspended fiber two lie within its stack, where it stands and, above, where it began.
    #[test]
    fn a_suspended_fiber_says_where_it_stands() {
        let stack = Cache::default().take().unwrap();
        let (base, limit) = (stack.base().get(), stack.base().get() - crate::stack::span());
        let inner = Cell::new(0_usize);
        let at = &raw const inner;
        let mut fiber = Fiber::with_stack(stack, move |me, ()| {
            let local = 0_u8;
            // SAFETY: `inner` outlives the fiber.
            unsafe { (*at.cast_mut()).set((&raw const local).addr()) };
            me.suspend(Switch::Preempted);
            std::hint::black_box(local);
        });
        fiber.resume(());
        // SAFETY: plain words: pointers and numbers, all written.
        let words: &[usize] = unsafe { std::slice::from_raw_parts((&raw const fiber).cast(), size_of::<Fiber>() / 8) };
        let mut within: Vec<usize> = words.iter().copied().filter(|&word| limit < word && word < base).collect();
        within.sort_unstable();
        assert_eq!(within.len(), 2, "{words:x?}");
        assert!(within[0] < inner.get() && inner.get() < within[1], "{within:x?}, a local variable at {:x}", inner.get());
        assert!(base - within[1] < 512 && inner.get() - within[0] < 2048, "{within:x?}");
        fiber.resume(());
    }
}
