//! Pointers of the wrong side: a host thread touches memory that only devices have, a kernel touches the stack of a host thread. On the CPU
//! device both work, on a GPU neither does.
//!
//! Only what is certain is told. A kernel's use of the host's heap is not: what a kernel has allocated itself lies there, too.

use std::cell::RefCell;

use parking_lot::RwLock;

use super::pinned::{self, Touched};
use super::report;
use super::wrong::Side;
use crate::memory::{self, Kind};

/// Of host threads that have launched kernels: first byte, and the one behind it.
static STACKS: RwLock<Vec<(usize, usize)>> = RwLock::new(Vec::new());

/// That of one thread, until it ends.
struct Stack(usize, usize);

impl Drop for Stack {
    fn drop(&mut self) {
        STACKS.write().retain(|stack| *stack != (self.0, self.1));
    }
}

thread_local! {
    static HOST_STACK: RefCell<Option<Stack>> = const { RefCell::new(None) };
}

/// The calling host thread launches a kernel.
pub fn launches() {
    if !super::on() {
        return;
    }
    // A thread that ends has no such value any more, and then launches unseen.
    let _ = HOST_STACK.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.is_none()
            && let Some((low, high)) = stack()
        {
            STACKS.write().push((low, high));
            *own = Some(Stack(low, high));
        }
    });
}

/// Of the calling thread: what is in use, for the main thread's may grow down to what others have by then.
fn stack() -> Option<(usize, usize)> {
    let mut low = std::ptr::null_mut();
    let mut bytes = 0;
    // SAFETY: the attributes are made by pthread_getattr_np, asked and given back.
    let error = unsafe {
        let mut attributes = std::mem::zeroed();
        let error = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        if error != 0 {
            return None;
        }
        let error = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        error
    };
    let high = low as usize + bytes;
    // What glibc keeps for the thread, thread-local variables with it, stands above.
    let here = &raw const error as usize;
    (error == 0 && (low as usize..high).contains(&here)).then_some((low as usize, high))
}

/// Whether a host thread that has launched kernels has this page on its stack.
pub fn is_hosts(page: usize) -> bool {
    STACKS.read().iter().any(|(low, high)| (*low..*high).contains(&page))
}

/// A host thread touches memory between the lowest and the highest byte of what is looked at. 0: nothing is said of this page until that changes.
#[unsafe(no_mangle)]
extern "C" fn ginrs_race_host(at: usize, bytes: usize, writes: i32, place: usize) -> i32 {
    if !super::on() {
        return 0;
    }
    match pinned::touch(at, bytes, writes != 0) {
        Touched::Clean => {}
        Touched::Free => return 1,
        Touched::Early(copy) => {
            report::wrong_side(place as u64, Side::Early { writes: writes != 0, copy });
            report::print();
            return 1;
        }
    }
    let Some(found) = memory::find(at).filter(|found| found.kind == Kind::Device) else { return 0 };
    let what = format!("{at:#x} is byte {} of the {} bytes of {}", at - found.base, found.bytes, found.function());
    report::wrong_side(place as u64, Side::Host { writes: writes != 0, what });
    report::print();
    1
}
