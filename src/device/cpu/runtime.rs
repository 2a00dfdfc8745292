//! The stand-in CUDA runtime (libginrs_cpu.so), if this process has it: the Rust twin of `ginrs_cpu/library.h`.

use super::waits::{Blocks, SeeThread, SeeWait};
use crate::device::kernels::Span;
use crate::device::{DevPtr, PostBell, Targets};
use crate::sync::OnceBox;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `ginrsCpuRuntimeV1`, field by field.
#[repr(C)]
pub(super) struct Table {
    version: u32,
    bytes: u32,
    device_count: unsafe extern "C" fn() -> c_int,
    current_device: unsafe extern "C" fn() -> c_int,
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    kernels_running: unsafe extern "C" fn(c_int) -> c_int,
    add_progress: unsafe extern "C" fn(c_int, Step, *mut c_void),
    remove_progress: unsafe extern "C" fn(c_int, Step, *mut c_void),
    note_allocation: unsafe extern "C" fn(*mut c_void, usize, c_int),
    forget_allocation: unsafe extern "C" fn(*mut c_void),
    find_allocation: unsafe extern "C" fn(*const c_void, *mut *mut c_void, *mut usize, *mut c_int) -> c_int,
    failure: unsafe extern "C" fn(c_int) -> c_int,
    add_multicast: unsafe extern "C" fn(u64, usize, u64, usize, u32),
    remove_multicast: unsafe extern "C" fn(u64),
    // Appended since: a program that brings an older stand-in has none of them.
    wake: Option<unsafe extern "C" fn(c_int)>,
    pub(super) each_wait: Option<EachWait>,
    pub(super) stillness: Option<LookAtBlocks>,
    bell: Option<unsafe extern "C" fn(c_int, *mut *mut u32) -> c_int>,
    pub(super) each_lasting: Option<EachWait>,
}

type Step = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(super) type EachWait = unsafe extern "C" fn(SeeWait, *mut c_void);
pub(super) type LookAtBlocks = unsafe extern "C" fn(*mut Blocks, SeeThread, *mut c_void);

const VERSION: u32 = 1;
/// Of the first stand-in's table.
const LEAST: usize = std::mem::offset_of!(Table, wake);
const _: () = assert!(LEAST == 104 && size_of::<Table>() == 144);

/// The functions of the stand-in; all of them may be called from any thread.
pub struct Runtime(pub(super) Table);

/// Memory of the stand-in that the library did not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// cudaMallocHost, cudaHostAlloc.
    Pinned,
    /// cudaMalloc.
    Device,
    /// cudaMallocManaged.
    Managed,
}

impl Foreign {
    /// The function that made it.
    pub fn function(self) -> &'static str {
        match self {
            Foreign::Pinned => "cudaMallocHost",
            Foreign::Device => "cudaMalloc",
            Foreign::Managed => "cudaMallocManaged",
        }
    }
}

/// A function of this process by its symbol.
///
/// # Safety
/// `F` is a function pointer of the symbol's type.
pub unsafe fn symbol<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a plain lookup with a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: not NULL, and of type F by the caller's promise.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// What the race detector of the CPU device has to know of communicators (ginrs_cpu/race.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Race {
    /// Ranks of one are on other machines, whose accesses nobody sees here.
    Far = 1,
    /// A rank has destroyed a communicator or device communicator: what it had posted has been done, and its signals are zero for the next
    /// owner.
    Settled = 2,
    /// The same after a failure: what it had posted may be done yet, or never.
    Failed = 4,
    /// Ranks of one are in other processes, which are not watched as one job.
    Apart = 5,
}

/// Its functions, and those of who keeps [`Bounds`]: NULL where there are none.
pub(super) struct Watchers {
    told: Option<unsafe extern "C" fn(c_int, c_int)>,
    offer: Option<unsafe extern "C" fn(*mut c_int, *mut u64) -> c_int>,
    join: Option<unsafe extern "C" fn(c_int)>,
    comm: Option<unsafe extern "C" fn(DevPtr, u64)>,
    family: Option<unsafe extern "C" fn(u64, *const u32, usize)>,
    landing: Option<unsafe extern "C" fn(u64, c_int, u64, u64, DevPtr)>,
    registered: Option<unsafe extern "C" fn(c_int, *const RaceWindow, u64, u64)>,
    pub(super) site: Option<unsafe extern "C" fn() -> u64>,
    pub(super) line: Option<unsafe extern "C" fn(u64, *mut c_char, usize) -> usize>,
    touches: Option<unsafe extern "C" fn(*const c_char, *const RaceSpan, usize, u64)>,
    mapped: Option<unsafe extern "C" fn(DevPtr, usize, c_int)>,
    unmapped: Option<unsafe extern "C" fn(DevPtr, usize)>,
    pub(super) in_host_function: Option<unsafe extern "C" fn() -> c_int>,
    bounds_unmapped: Option<unsafe extern "C" fn(DevPtr, usize)>,
    bounded: Option<unsafe extern "C" fn(DevPtr, usize, usize, usize, c_int)>,
}

impl Watchers {
    fn find() -> Self {
        // SAFETY: race.h and library.h give the symbols these types.
        unsafe {
            Self {
                told: symbol(c"ginrs_cpu_race_told"),
                offer: symbol(c"ginrs_cpu_race_offer"),
                join: symbol(c"ginrs_cpu_race_join"),
                comm: symbol(c"ginrs_cpu_race_comm"),
                family: symbol(c"ginrs_cpu_race_family"),
                landing: symbol(c"ginrs_cpu_race_landing"),
                registered: symbol(c"ginrs_cpu_race_registered"),
                site: symbol(c"ginrs_cpu_race_site"),
                line: symbol(c"ginrs_cpu_race_line"),
                touches: symbol(c"ginrs_cpu_race_touches"),
                mapped: symbol(c"ginrs_cpu_race_mapped"),
                unmapped: symbol(c"ginrs_cpu_race_unmapped"),
                in_host_function: symbol(c"ginrs_cpu_in_host_function"),
                bounds_unmapped: symbol(c"ginrs_cpu_unmapped"),
                bounded: symbol(c"ginrs_cpu_bounded"),
            }
        }
    }
}

/// Found together with the stand-in, by a thread of the program. Threads of ours never look for a name: another may be in dlclose, whose
/// destructors wait for them, and a child of fork would find the loader's lock held (abi-tests/tests/exits.rs).
pub(super) fn watchers() -> Option<&'static Watchers> {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    // Each collective asks: no word that all threads write.
    if !LOOKED.load(Ordering::Relaxed) && !LOOKED.swap(true, Ordering::Relaxed) {
        find();
    }
    FOUND.get().map(|found| &found.1)
}

/// Tells it, where there is one.
pub fn tell_race(what: Race, rank: u32) {
    if let Some(told) = watchers().and_then(|watchers| watchers.told) {
        // SAFETY: any numbers are allowed.
        unsafe { told(what as c_int, rank as c_int) }
    }
}

/// What this process offers, to be watched with others as one job: a descriptor, its bytes, and whether they are a job's already. Nothing:
/// nobody watches here.
pub fn race_offer() -> Option<(OwnedFd, usize, bool)> {
    let offer = watchers()?.offer?;
    let (mut joined, mut bytes) = (0, 0);
    // SAFETY: both are valid for the call; what it returns is a descriptor of ours, or below 0.
    let fd = unsafe { offer(&raw mut joined, &raw mut bytes) };
    // SAFETY: as above.
    (fd >= 0).then(|| (unsafe { OwnedFd::from_raw_fd(fd) }, bytes as usize, joined != 0))
}

/// Which of the offers all processes have chosen.
pub fn race_join(fd: &OwnedFd) {
    if let Some(join) = watchers().and_then(|watchers| watchers.join) {
        // SAFETY: any descriptor that is open.
        unsafe { join(fd.as_raw_fd()) }
    }
}

/// Tells it the name that a communicator has in all processes; `table` is its table of windows here.
pub fn tell_comm(table: DevPtr, name: u64) {
    if let Some(told) = watchers().and_then(|watchers| watchers.comm) {
        // SAFETY: any numbers are allowed.
        unsafe { told(table, name) }
    }
}

/// Tells it which ranks of the job a communicator is made of, by its own ranks.
pub fn tell_family(comm: u64, ranks: &[u32]) {
    if let Some(family) = watchers().and_then(|watchers| watchers.family) {
        // SAFETY: so many ranks, which live for the call.
        unsafe { family(comm, ranks.as_ptr(), ranks.len()) }
    }
}

/// Tells it where a window of `rank` begins in this process: puts of that rank know it by its handle, all ranks by its number. `comm` is the
/// communicator's name.
pub fn tell_landing(comm: u64, rank: u32, handle: u64, number: u64, at: DevPtr) {
    if let Some(landing) = watchers().and_then(|watchers| watchers.landing) {
        // SAFETY: any numbers are allowed.
        unsafe { landing(comm, rank as c_int, handle, number, at) }
    }
}

/// A window as its rank sees it: `ginrsCpuRaceWindow`.
#[repr(C)]
pub struct RaceWindow {
    /// Where the program has its memory.
    pub base: DevPtr,
    /// Of each rank.
    pub bytes: u64,
    /// Where the first LSA rank's part is.
    pub first: DevPtr,
    /// From one rank's part to the next one's.
    pub stride: u64,
    /// World rank.
    pub rank: c_int,
    /// In the LSA team.
    pub lsa_rank: c_int,
    /// Ranks of that.
    pub lsa_size: c_int,
}

/// Tells it of a window that a rank with this device has registered as its `number`-th with that communicator.
pub fn tell_registered(device: i32, window: &RaceWindow, number: u64, comm: u64) {
    if let Some(registered) = watchers().and_then(|watchers| watchers.registered) {
        // SAFETY: a window that lives for the call, as race.h has it; any numbers are allowed.
        unsafe { registered(device, window, number, comm) }
    }
}

/// `ginrsCpuRaceSpan`
#[repr(C)]
struct RaceSpan {
    at: DevPtr,
    bytes: u64,
    writes: c_int,
}

/// Tells it what the next launch of this thread touches, for that call of the program's, and its number. Nothing: what was told is taken back.
pub fn tell_touched(call: &str, spans: &[Span], number: u64) {
    let Some(touches) = watchers().and_then(|watchers| watchers.touches) else { return };
    let spans: Vec<RaceSpan> =
        spans.iter().map(|span| RaceSpan { at: span.at, bytes: span.bytes, writes: span.writes.into() }).collect();
    let name = CString::new(call).unwrap_or_default();
    // SAFETY: a terminated name and so many spans, which live for the call.
    unsafe { touches(name.as_ptr(), spans.as_ptr(), spans.len(), number) }
}

/// Tells it that a file is mapped there, whole.
pub fn tell_mapped(at: DevPtr, bytes: usize, fd: BorrowedFd) {
    if let Some(mapped) = watchers().and_then(|watchers| watchers.mapped) {
        // SAFETY: any numbers are allowed.
        unsafe { mapped(at, bytes, fd.as_raw_fd()) }
    }
}

/// Tells it, and what keeps [`Bounds`], that addresses mean nothing any more: what is mapped there next is another memory.
pub fn tell_unmapped(at: DevPtr, bytes: usize) {
    let Some(watchers) = watchers() else { return };
    let bounds = watchers.bounds_unmapped.filter(|_| is_sanitized());
    for unmapped in watchers.unmapped.into_iter().chain(bounds) {
        // SAFETY: any numbers are allowed.
        unsafe { unmapped(at, bytes) }
    }
}

/// What of a mapping is the program's (library.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounds {
    /// What ncclMemAlloc was asked for.
    Allocation = 0,
    /// A window; of several from the first to the last.
    Window = 1,
    /// Nothing any more.
    Freed = 2,
}

/// Whether the program is compiled with AddressSanitizer, which then is told so.
pub fn is_sanitized() -> bool {
    static FOUND: OnceBox<bool> = OnceBox::new();
    // SAFETY: looked for, and not called.
    let find = || unsafe { symbol::<*const c_void>(c"__asan_poison_memory_region") }.is_some();
    *FOUND.get_or_init(|| Box::new(find()))
}

/// Tells it that of the mapping of `bytes` at `at` bytes `part` are the program's, and which part that is.
pub fn tell_bounds(at: DevPtr, bytes: usize, part: std::ops::Range<usize>, what: Bounds) {
    if let Some(told) = watchers().and_then(|watchers| watchers.bounded).filter(|_| is_sanitized()) {
        // SAFETY: a mapping of ours, and a part of it.
        unsafe { told(at, bytes, part.start, part.end, what as c_int) }
    }
}

static FOUND: OnceBox<(Runtime, Watchers)> = OnceBox::new();

/// The stand-in, looked for until it is found (a program may load it after us).
pub fn find() -> Option<&'static Runtime> {
    if let Some(found) = FOUND.get() {
        return Some(&found.0);
    }
    // SAFETY: library.h gives the symbol this type, and the name carries its version.
    let entry = unsafe { symbol::<unsafe extern "C" fn() -> *const Table>(c"ginrs_cpu_runtime_v1") }?;
    // SAFETY: the function takes nothing and returns NULL or a table that lives as long as the process.
    let found = unsafe { entry() };
    // SAFETY: a table begins with its version and its size in bytes.
    let [version, bytes] = unsafe { found.cast::<[u32; 2]>().as_ref() }?;
    if *version < VERSION || (*bytes as usize) < LEAST {
        return None;
    }
    let mut table = std::mem::MaybeUninit::<Table>::zeroed();
    // SAFETY: so many bytes are there. What is left zero is an Option of a function: None.
    let table = unsafe {
        found.cast::<u8>().copy_to_nonoverlapping(table.as_mut_ptr().cast(), size_of::<Table>().min(*bytes as usize));
        table.assume_init()
    };
    Some(&FOUND.get_or_init(|| Box::new((Runtime(table), Watchers::find()))).0)
}

impl Runtime {
    /// Devices of this process.
    pub fn device_count(&self) -> i32 {
        // SAFETY: see `find`; no arguments.
        unsafe { (self.0.device_count)() }
    }

    /// The calling thread's device.
    pub fn current_device(&self) -> i32 {
        // SAFETY: see `find`; no arguments.
        unsafe { (self.0.current_device)() }
    }

    /// Makes `device` the calling thread's; 0 or a cudaError_t.
    pub fn set_device(&self, device: i32) -> i32 {
        // SAFETY: see `find`; any number is allowed, a wrong one is an error code.
        unsafe { (self.0.set_device)(device) }
    }

    /// Kernels launched and not finished.
    pub fn kernels_running(&self, device: i32) -> i32 {
        // SAFETY: see `find`.
        unsafe { (self.0.kernels_running)(device) }
    }

    /// The cudaError_t of a kernel that failed; it stays until cudaDeviceReset.
    pub fn failure(&self, device: i32) -> Option<i32> {
        // SAFETY: see `find`.
        Some(unsafe { (self.0.failure)(device) }).filter(|&code| code != 0)
    }

    /// Blocks of `device` that sleep look again.
    pub fn wake(&self, device: i32) {
        if let Some(wake) = self.0.wake {
            // SAFETY: see `find`.
            unsafe { wake(device) }
        }
    }

    /// What kernels of `device` ring when they have posted something.
    pub fn bell(&self, device: i32) -> Option<PostBell> {
        let mut asleep = std::ptr::null_mut();
        // SAFETY: see `find`; it writes the one pointer.
        let descriptor = unsafe { (self.0.bell?)(device, &mut asleep) };
        // SAFETY: library.h: both stay as long as the process, and the word is an atomic one.
        (descriptor >= 0)
            .then(|| unsafe { PostBell { descriptor: BorrowedFd::borrow_raw(descriptor), asleep: AtomicU32::from_ptr(asleep) } })
    }

    /// Tells the stand-in of ncclMemAlloc memory.
    pub fn note_allocation(&self, base: u64, bytes: usize, device: i32) {
        // SAFETY: the range is mapped and stays so until `forget_allocation`.
        unsafe { (self.0.note_allocation)(base as *mut c_void, bytes, device) }
    }

    /// Before the memory goes.
    pub fn forget_allocation(&self, base: u64) {
        // SAFETY: see `find`; an address that is not known is ignored.
        unsafe { (self.0.forget_allocation)(base as *mut c_void) }
    }

    /// Multimem instructions at `base` reach `targets` until [`Self::remove_multicast`].
    pub fn add_multicast(&self, base: u64, targets: &Targets) {
        // SAFETY: the stand-in keeps numbers; that the memory is there is what kernels rely on, as for any address.
        unsafe { (self.0.add_multicast)(base, targets.bytes as usize, targets.first, targets.step as usize, targets.count) }
    }

    /// Before the addresses go.
    pub fn remove_multicast(&self, base: u64) {
        // SAFETY: see `find`; an address that is not known is ignored.
        unsafe { (self.0.remove_multicast)(base) }
    }

    /// Base, size and kind of the stand-in's own allocation around `ptr`.
    pub fn find_allocation(&self, ptr: u64) -> Option<(u64, usize, Foreign)> {
        let (mut base, mut bytes, mut kind) = (std::ptr::null_mut(), 0usize, 0);
        // SAFETY: three valid places to write to; `ptr` is only compared.
        let found = unsafe { (self.0.find_allocation)(ptr as *const c_void, &mut base, &mut bytes, &mut kind) };
        let kind = match kind {
            1 => Foreign::Pinned,
            3 => Foreign::Managed,
            _ => Foreign::Device,
        };
        (found != 0).then_some((base as u64, bytes, kind))
    }
}

/// A step that waiting kernels run between their polls. Dropped: no call is under way any more, and none will come.
pub struct RegisteredStep {
    device: i32,
    // Boxed: its address is the context that the stand-in holds.
    step: Box<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl RegisteredStep {
    /// Starts it. `None` without the stand-in: no kernel can wait here then.
    pub fn start(device: i32, step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Self> {
        let runtime = find()?;
        let registered = Self { device, step: Box::new(step) };
        // SAFETY: the context stays at its address until `drop` has removed it.
        unsafe { (runtime.0.add_progress)(device, trampoline, registered.context()) };
        Some(registered)
    }

    fn context(&self) -> *mut c_void {
        std::ptr::from_ref(&*self.step).cast_mut().cast()
    }
}

impl Drop for RegisteredStep {
    fn drop(&mut self) {
        if let Some(runtime) = find() {
            // SAFETY: the same pair as in `start`; the call returns when no thread is inside the step.
            unsafe { (runtime.0.remove_progress)(self.device, trampoline, self.context()) };
        }
    }
}

unsafe extern "C" fn trampoline(context: *mut c_void) -> c_int {
    // SAFETY: `start` passed the address of a boxed Arc that lives until `remove_progress` has returned.
    let step = unsafe { &*context.cast::<Arc<dyn Fn() -> bool + Send + Sync>>() };
    // A panic must not unwind into a kernel's stack. The step's owner reports it; here it only ends this call.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step())).unwrap_or(false).into()
}
