//! libfabric, loaded when a peer on another machine needs it: never linked. Its exported functions; the rest are tables of them.

use super::starting;
use super::sys::{VERSION, fi_fabric_attr, fi_info, fid_fabric};
use crate::sync::OnceBox;
use crate::sync::system::loading;
use std::ffi::{CStr, c_char, c_int, c_void};

/// What is loaded, from the package libfabric1 where that has a name.
const FILE: &CStr = c"libfabric.so.1";

macro_rules! functions {
    ($($name:ident: $type:ty;)*) => {
        /// The exported functions that are called.
        pub(super) struct Functions { $(pub $name: $type,)* }

        impl Functions {
            fn find(library: *mut c_void) -> Result<Self, String> {
                Ok(Self { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library stays loaded; the name ends with NUL.
                    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if found.is_null() {
                        return Err(format!("{} has no {}", FILE.to_string_lossy(), stringify!($name)));
                    }
                    // SAFETY: the symbol's type is the header's.
                    unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                },)* })
            }
        }
    };
}

functions! {
    fi_version: unsafe extern "C" fn() -> u32;
    fi_getinfo: unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
    fi_freeinfo: unsafe extern "C" fn(*mut fi_info);
    fi_dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
    fi_fabric: unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
    fi_strerror: unsafe extern "C" fn(c_int) -> *const c_char;
}

impl Functions {
    /// What libfabric calls an error number.
    pub fn explain(&self, error: i64) -> String {
        // SAFETY: it knows all numbers, and returns static text.
        let text = unsafe { CStr::from_ptr((self.fi_strerror)(error.unsigned_abs() as c_int)) };
        format!("{} ({})", text.to_string_lossy(), error.unsigned_abs())
    }
}

/// The library, loaded once and never unloaded; or why there is none.
pub(super) fn library() -> &'static Result<Functions, String> {
    // Whoever races to load it loads the same: no lock that a forked child could find held.
    static LOADED: OnceBox<Result<Functions, String>> = OnceBox::new();
    LOADED.get_or_init(|| Box::new(starting::ask(load)))
}

fn load() -> Result<Functions, String> {
    // A provider with a cache of registrations (verbs, efa) watches the program's memory for it: it patches munmap and its like, or has
    // the kernel stop whoever unmaps. What is registered here is registered until it is taken back: nothing needs a cache.
    // And a library that Debian's libfabric is linked with takes SIGINT, SIGTERM, SIGSEGV and others for itself, unless it is told not to.
    for (name, value) in [(c"FI_MR_CACHE_MONITOR", c"disabled"), (c"IPATH_NO_BACKTRACE", c"1")] {
        // SAFETY: strings of ours; 0: a value that is there stays. That another thread reads the environment meanwhile is the risk of every
        // setenv; each is read once, when libfabric is loaded and first used.
        unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 0 as c_int) };
    }
    // SAFETY: its constructors open no device; providers start when they are asked for, below.
    let library = loading(|| unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) });
    if library.is_null() {
        // SAFETY: after a failure dlerror has a text of this thread's.
        let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned()) };
        return Err(format!("{}; install the package libfabric1", why.unwrap_or_default()));
    }
    let functions = Functions::find(library)?;
    // SAFETY: no arguments.
    let found = unsafe { (functions.fi_version)() };
    if found < VERSION {
        return Err(format!("libfabric is {}.{}, the oldest that serves is 1.17", found >> 16, found & 0xffff));
    }
    Ok(functions)
}
