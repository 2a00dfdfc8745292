//! Memory of messages that go through an endpoint without connections, and the words that a provider may want for itself with each
//! operation (FI_CONTEXT, FI_CONTEXT2).

use super::session::{ENVELOPE, ORIGIN};
use super::sys::fid_mr;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;

/// Messages that may be on their way to the provider, and as many receives for those of all peers: fewer where they are large.
const MOST: usize = 64;
const LEAST: usize = 8;
const TOTAL: usize = 4 << 20;

/// What a place, or a context without one, is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    Receive,
    Send {
        link: u32,
    },
    /// Its number for the upper floors.
    Write {
        link: u32,
        cookie: u64,
    },
}

#[repr(C)]
struct Context {
    /// The provider's: eight words are the most that any asks for.
    room: [u64; 8],
    place: usize,
}

/// First the places of sends, then those of receives, then contexts alone, for writes.
pub(super) struct Places {
    /// Bytes of each: the largest message with its envelope, in whole lines of the cache.
    place: usize,
    /// Those of sends, and as many of receives.
    half: usize,
    at: *mut u8,
    mr: *mut fid_mr,
    contexts: Vec<*mut Context>,
    pub uses: Vec<Use>,
    sends: Vec<usize>,
    writes: Vec<usize>,
    /// Receives that the provider has not taken back.
    pub unposted: Vec<usize>,
}

impl Places {
    /// For messages of `message` bytes.
    pub fn new(message: usize) -> Self {
        let place = (ENVELOPE + ORIGIN + message).next_multiple_of(64);
        let half = (TOTAL / 2 / place).clamp(LEAST, MOST);
        let layout = Self::layout(2 * half * place);
        // SAFETY: not of size zero.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        let mut places = Self {
            place,
            half,
            at,
            mr: std::ptr::null_mut(),
            contexts: Vec::new(),
            uses: Vec::new(),
            sends: (0..half).rev().collect(),
            writes: Vec::new(),
            unposted: Vec::new(),
        };
        (0..2 * half).for_each(|_| _ = places.add());
        places
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).expect("a few pages")
    }

    /// Bytes of all.
    pub fn total(&self) -> usize {
        2 * self.half * self.place
    }

    /// Places of receives.
    pub fn receives(&self) -> std::ops::Range<usize> {
        self.half..2 * self.half
    }

    fn add(&mut self) -> usize {
        let place = self.contexts.len();
        self.contexts.push(Box::into_raw(Box::new(Context { room: [0; 8], place })));
        self.uses.push(Use::Free);
        place
    }

    /// All of them, to be registered where the provider asks for that.
    pub fn base(&self) -> *mut u8 {
        self.at
    }

    /// Takes over their registration.
    pub fn registered(&mut self, mr: *mut fid_mr) {
        self.mr = mr;
    }

    pub fn deregister(&mut self) {
        super::net::close(std::mem::replace(&mut self.mr, std::ptr::null_mut()).cast());
    }

    pub fn has_room(&self) -> bool {
        !self.sends.is_empty()
    }

    /// A place to send from.
    pub fn take(&mut self, of: Use) -> Option<usize> {
        let place = self.sends.pop()?;
        self.uses[place] = of;
        Some(place)
    }

    /// A context without a place.
    pub fn context_for(&mut self, of: Use) -> usize {
        let place = self.writes.pop().unwrap_or_else(|| self.add());
        self.uses[place] = of;
        place
    }

    pub fn give(&mut self, place: usize) {
        self.uses[place] = Use::Free;
        if place < self.half { self.sends.push(place) } else { self.writes.push(place) }
    }

    pub fn context(&self, place: usize) -> *mut c_void {
        self.contexts[place].cast()
    }

    /// Whose context that is.
    pub fn of(&self, context: *mut c_void) -> Option<usize> {
        if context.is_null() {
            return None;
        }
        // SAFETY: what is given with operations are contexts of this struct, which stay until it goes; the word is ours alone.
        Some(unsafe { (*context.cast::<Context>()).place })
    }

    /// For a call: where, how much, and the descriptor.
    pub fn range(&self, place: usize) -> (*mut u8, usize, *mut c_void) {
        assert!(place < 2 * self.half);
        // SAFETY: inside the allocation; the registration is live where there is one.
        unsafe {
            let descriptor = if self.mr.is_null() { std::ptr::null_mut() } else { (*self.mr).mem_desc };
            (self.at.add(place * self.place), self.place, descriptor)
        }
    }

    /// The first `bytes` of a place that the provider has given back.
    pub fn bytes(&mut self, place: usize, bytes: usize) -> &mut [u8] {
        let (at, most, _) = self.range(place);
        // SAFETY: initialised, and nobody's but ours until it is posted again, for which the borrow has to end.
        unsafe { std::slice::from_raw_parts_mut(at, bytes.min(most)) }
    }

    /// Puts the parts there, one behind the other; how many bytes.
    pub fn fill(&mut self, place: usize, parts: &[&[u8]]) -> usize {
        let total = parts.iter().map(|part| part.len()).sum();
        let mut into = self.bytes(place, total);
        assert!(into.len() == total, "no message is larger than a place");
        for part in parts {
            let (here, rest) = into.split_at_mut(part.len());
            here.copy_from_slice(part);
            into = rest;
        }
        total
    }

    /// Leaves it all to a provider that may still use it.
    pub fn leak(&mut self) {
        self.at = std::ptr::null_mut();
        self.contexts.clear();
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.deregister();
        // SAFETY: allocated so, once; the endpoint that used them is closed.
        unsafe {
            self.contexts.drain(..).for_each(|context| drop(Box::from_raw(context)));
            if !self.at.is_null() {
                dealloc(self.at, Self::layout(self.total()));
            }
        }
    }
}
