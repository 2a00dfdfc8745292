//! ThreadSanitizer, in a program that is compiled with it (`ginrs-cc -fsanitize=thread`). The library is not, so it says by the sanitizer's
//! public functions what orders host code: work knows what its thread has done before it gave the work away, and what other work
//! before it did; who waits for work, or finds it over, knows what that did. What kernels do is not looked at: threads of a block take turns on one
//! thread of the system, and their order by barriers is none that the sanitizer sees (--check=race looks at them). Without the sanitizer a
//! look at one word is all that is left.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::once::OnceLock;

type Hand = unsafe extern "C" fn(*mut c_void);
type Ignore = unsafe extern "C" fn(*const c_char, c_int);

struct Functions {
    acquire: Hand,
    release: Hand,
    /// Reads and writes of the calling thread: begin and end.
    ignore: [[Ignore; 2]; 2],
}

/// What the loader calls before the program begins. Later is too late: a thread that looks for a name while another is in dlclose, whose
/// destructors wait for that thread, never finds it (abi-tests/tests/exits.rs).
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    functions();
}

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
    // SAFETY: sanitizer/tsan_interface.h gives the first two these types, and the runtime's dynamic annotations the others.
    unsafe {
        Some(Functions {
            acquire: symbol(c"__tsan_acquire")?,
            release: symbol(c"__tsan_release")?,
            ignore: [
                [symbol(c"AnnotateIgnoreReadsBegin")?, symbol(c"AnnotateIgnoreWritesBegin")?],
                [symbol(c"AnnotateIgnoreReadsEnd")?, symbol(c"AnnotateIgnoreWritesEnd")?],
            ],
        })
    }
}

/// The calling thread knows from here on what was handed over under the address of `token`.
pub fn acquire<T>(token: &T) {
    if let Some(functions) = functions() {
        // SAFETY: it notes something about the address, and does not touch the memory.
        unsafe { (functions.acquire)(std::ptr::from_ref(token).cast_mut().cast()) }
    }
}

/// The calling thread hands over what it knows.
pub fn release<T>(token: &T) {
    if let Some(functions) = functions() {
        // SAFETY: as above.
        unsafe { (functions.release)(std::ptr::from_ref(token).cast_mut().cast()) }
    }
}

/// What the calling thread touches from here on is no host code's, or is again.
pub fn ignore(begins: bool) {
    if let Some(functions) = functions().filter(|_| !cfg!(feature = "instrumented")) {
        for call in functions.ignore[usize::from(!begins)] {
            // SAFETY: the place is for messages: a file's name that is a literal, and a line.
            unsafe { call(c"ginrs".as_ptr(), 0) }
        }
    }
}
