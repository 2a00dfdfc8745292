//! What a launch says: the kernel, its arguments, its extents, and where the program has it.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `uint3` and `dim3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Dim3 {
    /// Extent or index, fastest.
    pub x: u32,
    /// Second.
    pub y: u32,
    /// Slowest.
    pub z: u32,
}

impl Dim3 {
    /// The product of the extents.
    pub fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// Where number `linear` is in these extents, x fastest.
    pub fn at(self, linear: u64) -> Dim3 {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        Dim3 { x: (linear % x) as u32, y: (linear / x % y) as u32, z: (linear / x / y) as u32 }
    }
}

impl std::fmt::Display for Dim3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({},{},{})", self.x, self.y, self.z)
    }
}

/// The packed arguments of a launch; destroyed when the last run of the launch is over.
pub struct Packed {
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    ended: AtomicBool,
}

// SAFETY: runtime.h makes the packed arguments shared by all CUDA threads and const, and destroy callable on any thread.
unsafe impl Send for Packed {}
// SAFETY: as above.
unsafe impl Sync for Packed {}

impl Packed {
    /// Takes ownership of `data`, to be ended by `destroy`.
    pub fn new(data: *mut c_void, destroy: Option<unsafe extern "C" fn(*mut c_void)>) -> Self {
        Packed { data, destroy, ended: AtomicBool::new(false) }
    }
    /// What `invoke` is given.
    pub fn data(&self) -> *mut c_void {
        self.data
    }
    /// Destroys them, once; nobody runs any more. Before the launch is told to be over: the program may unload what destroys them then.
    pub fn end(&self) {
        if let Some(destroy) = self.destroy.filter(|_| !self.ended.swap(true, Ordering::AcqRel)) {
            // SAFETY: the launcher gave data and destroy together, and this is the only call.
            unsafe { destroy(self.data) }
        }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        self.end();
    }
}

/// A place in a program, as the compiler wrote it: strings that live as long as the program.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    what: *const c_char,
    file: *const c_char,
    line: i32,
}

// SAFETY: what and file are string literals (or NULL): immutable, and alive while their program is loaded.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// `what` names the CUDA function; NULL pointers read as unknown.
    pub const fn new(what: *const c_char, file: *const c_char, line: i32) -> Self {
        Place { what, file, line }
    }
    /// The CUDA function.
    pub fn what(&self) -> String {
        text(self.what, "?")
    }
    /// The file, if it is known, and the line.
    pub(crate) fn parts(&self) -> (Option<&[u8]>, i32) {
        // SAFETY: as for `text`.
        ((!self.file.is_null()).then(|| unsafe { CStr::from_ptr(self.file) }.to_bytes()), self.line)
    }
    /// file:line.
    pub fn line(&self) -> String {
        format!("{}:{}", text(self.file, "unknown file"), self.line)
    }
    /// Same file and line (files are compared by content: one literal may exist in several translation units).
    pub fn same_line(&self, other: &Place) -> bool {
        self.line == other.line && (self.file == other.file || text(self.file, "") == text(other.file, ""))
    }
}

/// file:line, without allocating.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_null() {
            // SAFETY: as for `text`.
            for part in unsafe { CStr::from_ptr(self.file) }.to_bytes().utf8_chunks() {
                f.write_str(part.valid())?;
            }
        }
        write!(f, ":{}", self.line)
    }
}

/// A C string as text, or `or` for NULL.
pub(crate) fn text(string: *const c_char, or: &str) -> String {
    if string.is_null() {
        return or.to_string();
    }
    // SAFETY: callers of the C API give NUL-terminated strings.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// Bytes that a launch reads or writes: `ginrsCpuRaceSpan`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Span {
    /// The first one.
    pub at: usize,
    /// How many.
    pub bytes: u64,
    /// 0: they are read.
    pub writes: i32,
}

/// What a launch of the library's touches for a call of the program's.
pub struct Touched {
    /// The call.
    pub name: String,
    /// The address behind it; 0: not known.
    pub place: usize,
    /// What it touches.
    pub spans: Vec<Span>,
    /// Which launch of its communicator's; 0: not known.
    pub number: u64,
}

/// What a launch says; may run several times (graphs).
pub struct Launch {
    /// The kernel's name for messages.
    pub name: String,
    /// Called once per CUDA thread.
    pub invoke: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub packed: Packed,
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Whether `grid_sync` may be called: all blocks run at the same time.
    pub cooperative: bool,
    /// Whether it asked for clusters of more than one block, which run as blocks of their own.
    pub clusters: bool,
    /// Where the host program launched it.
    pub place: Place,
    /// A collective's: what it is, and what it reads and writes, for the race detector.
    pub touched: Option<Arc<Touched>>,
    /// [`crate::timeline::number`]
    pub number: u64,
}

impl Launch {
    /// "kernel `name` (launched at file:line)"
    pub fn describe(&self) -> String {
        format!("kernel {} (launched at {})", self.name, self.place.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_numbers_and_indices_agree() {
        let extents = Dim3 { x: 3, y: 5, z: 2 };
        let mut linear = 0;
        for z in 0..2 {
            for y in 0..5 {
                for x in 0..3 {
                    assert_eq!(extents.at(linear), Dim3 { x, y, z });
                    linear += 1;
                }
            }
        }
        assert_eq!(linear, extents.count());
        let largest = Dim3 { x: i32::MAX as u32, y: 65535, z: 65535 };
        assert_eq!(largest.at(largest.count() - 1), Dim3 { x: i32::MAX as u32 - 1, y: 65534, z: 65534 });
    }
}
