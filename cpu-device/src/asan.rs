//! AddressSanitizer, in a program that is compiled with it (`ginrs-cc -fsanitize=address`). The library is not, so it says by the
//! sanitizer's public functions which bytes around the memory that it gives out are nobody's. They are looked for when the first memory is
//! made; without them a look at one word is all that is left.

use std::ffi::{CStr, c_char, c_void};

use crate::once::OnceLock;

type Mark = unsafe extern "C" fn(*const c_void, usize);
type Address = unsafe extern "C" fn() -> *const c_void;
type Listener = unsafe extern "C" fn(*const c_char);
type Listen = unsafe extern "C" fn(Listener);

struct Functions {
    poison: Mark,
    unpoison: Mark,
    address: Address,
    listen: Listen,
}

/// So much on a side of a memory is marked at most: the notes take an eighth of it.
const MOST: usize = 256 << 10;

fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<Functions> {
    /// # Safety
    /// `F` is a function pointer of the symbol's type.
    unsafe fn symbol<F: Copy>(name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a plain lookup with a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: not NULL, and of type F by the caller's promise.
        (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
    }
    // SAFETY: sanitizer/asan_interface.h gives the symbols these types.
    unsafe {
        Some(Functions {
            poison: symbol(c"__asan_poison_memory_region")?,
            unpoison: symbol(c"__asan_unpoison_memory_region")?,
            address: symbol(c"__asan_get_report_address")?,
            listen: symbol(c"__asan_set_error_report_callback")?,
        })
    }
}

/// Whether the program is compiled with it.
#[inline]
pub fn present() -> bool {
    functions().is_some()
}

/// From now on compiled code that touches one of these bytes is reported. Of many the first.
pub fn poison(at: usize, bytes: usize) {
    if let Some(functions) = functions().filter(|_| bytes > 0) {
        // SAFETY: it notes something about the memory, and does not touch it.
        unsafe { (functions.poison)(at as *const c_void, bytes.min(MOST)) }
    }
}

/// The same of the last bytes in front of `end`.
pub fn poison_before(end: usize, bytes: usize) {
    let bytes = bytes.min(MOST);
    poison(end - bytes, bytes);
}

/// They are somebody's.
pub fn unpoison(at: usize, bytes: usize) {
    if let Some(functions) = functions().filter(|_| bytes > 0) {
        // SAFETY: as above.
        unsafe { (functions.unpoison)(at as *const c_void, bytes) }
    }
}

/// `listener` hears of each report, behind its text and before the process ends.
pub fn listen(listener: Listener) {
    if let Some(functions) = functions() {
        // SAFETY: the listener takes what the sanitizer gives it, and lives as long as the process.
        unsafe { (functions.listen)(listener) }
    }
}

/// The address that the report is about.
pub fn reported() -> Option<usize> {
    // SAFETY: no arguments; valid while a report is made.
    functions().map(|functions| unsafe { (functions.address)() } as usize)
}
