//! Pointers of the wrong side: a host thread touches memory that only devices have, a kernel touches the stack of a host thread. On the CPU
//! device both work, on a GPU neither does.
//!
//! Only what is certain is told. Of the heap that is what host code is known to have made: what a kernel has made itself lies there, too.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::RwLock;

use super::globals::{self, Global};
use super::heap::{self, Made};
use super::lines::users_line;
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

/// Memory of the host alone.
#[derive(Clone)]
pub enum Hosts {
    /// The stack of a thread that has launched kernels.
    Stack,
    /// What host code has made.
    Heap(Made),
    /// A variable of host code.
    Global(Global),
}

/// What of a page may be the host's alone.
pub enum OnPage {
    /// Nothing.
    Nothing,
    /// A stack, or some of the heap: that is asked of each byte.
    Unknown,
    /// These variables.
    Globals(Arc<[Global]>),
}

impl Hosts {
    /// In words, of an address in it.
    pub fn text(&self, at: usize) -> String {
        match self {
            Hosts::Stack => "on the stack of a host thread".into(),
            Hosts::Global(global) => {
                format!("byte {} of the {} bytes of the host's variable {}", at - global.base, global.bytes, global.name())
            }
            Hosts::Heap(made) => {
                let line = users_line(made.place).map_or_else(String::new, |line| format!(" at {line}"));
                format!("byte {} of the {} bytes of {} in host code{line}", at - made.base, made.bytes, made.by())
            }
        }
    }
}

impl OnPage {
    /// Of a page that is not that of memory of the CUDA API, or that is an object's.
    pub fn look(page: usize, is_objects: bool) -> OnPage {
        match is_objects {
            true => globals::on_page(page).map_or(OnPage::Nothing, OnPage::Globals),
            false if is_on_stack(page) || heap::find(page, page + super::PAGE).is_some() => OnPage::Unknown,
            false => OnPage::Nothing,
        }
    }

    /// The host's memory that a byte is of. Asked at each access: most pages have none.
    #[inline]
    pub fn at(&self, at: usize) -> Option<Hosts> {
        if matches!(self, OnPage::Nothing) { None } else { self.find(at) }
    }

    #[cold]
    fn find(&self, at: usize) -> Option<Hosts> {
        let found = match self {
            OnPage::Nothing => return None,
            OnPage::Unknown if is_on_stack(at) => Hosts::Stack,
            OnPage::Unknown => Hosts::Heap(heap::find(at, at + 1)?),
            OnPage::Globals(all) => {
                Hosts::Global(all.iter().find(|global| (global.base..global.base + global.bytes).contains(&at))?.clone())
            }
        };
        memory::find(at).is_none().then_some(found)
    }
}

fn is_on_stack(at: usize) -> bool {
    STACKS.read().iter().any(|(low, high)| (*low..*high).contains(&at))
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
