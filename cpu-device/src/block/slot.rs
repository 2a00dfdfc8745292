//! One CUDA thread of a block: made once, taken by one thread after the other.

use std::cell::{Cell, UnsafeCell};

use corosensei::Yielder;

use super::{Fiber, State, Switch};
use crate::launch::{Launch, Place};
use crate::stack::Limit;
use crate::thread::ThreadView;
use crate::waits::Wait;

pub(super) struct Slot {
    pub(super) view: UnsafeCell<ThreadView>,
    pub(super) fiber: Cell<Option<Fiber>>,
    pub(super) yielder: Cell<*const Yielder<(), Switch>>,
    pub(super) limit: Cell<Limit>,
    pub(super) state: Cell<State>,
    pub(super) place: Cell<Place>,
    /// Basic blocks it spent before its last poll: another number shows that it did something in between.
    pub(super) spent: Cell<i32>,
    /// A wait of the device headers that lasts.
    pub(super) wait: Cell<Wait>,
}

impl Slot {
    /// For threads of `launch`, the first of them.
    pub(super) fn new(launch: &Launch, device: i32) -> Slot {
        Slot {
            view: UnsafeCell::new(ThreadView::of(launch, 0, device)),
            fiber: Cell::new(None),
            yielder: Cell::new(std::ptr::null()),
            limit: Cell::new(Limit::NONE),
            state: Cell::new(State::Exited),
            place: Cell::new(Place::new(std::ptr::null(), std::ptr::null(), 0)),
            spent: Cell::new(0),
            wait: Cell::default(),
        }
    }
}
