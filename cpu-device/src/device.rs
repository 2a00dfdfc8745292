//! The devices of this process: their sticky error, their progress steps, the device each host thread uses.

use crate::once::OnceLock;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::bell::Bell;
use crate::config::config;
use crate::error::{Code, Result, report};
use crate::naps::Naps;

/// A progress step of libginrs (library.h): must not block; nonzero when it moved something.
pub type StepFn = unsafe extern "C" fn(*mut c_void) -> i32;

struct Step {
    call: StepFn,
    context: *mut c_void,
}

// SAFETY: library.h lets any thread call a step, several at once.
unsafe impl Send for Step {}
// SAFETY: as above.
unsafe impl Sync for Step {}

/// A CPU device.
pub struct Device {
    /// Its ordinal.
    pub id: i32,
    sticky: AtomicI32,
    running: AtomicI32,
    kernels: AtomicU64,
    steps: RwLock<Vec<Step>>,
    step_count: AtomicUsize,
    /// Of its block threads.
    pub naps: Naps,
    /// What its kernels ring for libginrs.
    pub bell: Bell,
}

static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: Cell<i32> = const { Cell::new(0) };
}

extern "C" fn forked() {
    FORKED.store(true, Ordering::Relaxed);
    crate::recorder::stop();
}

/// All devices of the process.
pub fn all() -> &'static [Device] {
    DEVICES.get_or_init(|| {
        // A child of fork has none of our threads: once devices exist it gets an error instead of a hang.
        // SAFETY: `forked` only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        crate::recorder::start();
        (0..config().devices as i32)
            .map(|id| Device {
                id,
                sticky: AtomicI32::new(0),
                running: AtomicI32::new(0),
                kernels: AtomicU64::new(0),
                steps: RwLock::default(),
                step_count: AtomicUsize::new(0),
                naps: Naps::default(),
                bell: Bell::new(),
            })
            .collect()
    })
}

/// How many devices this process sees.
pub fn count() -> usize {
    config().devices
}

/// True in a child forked after its parent had used a device: nothing here may be touched, a thread of the parent may have held its
/// lock.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// # Errors
/// `InitializationError` in such a child; told once.
pub fn not_forked() -> Result {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !is_forked() {
        return Ok(());
    }
    if !TOLD.swap(true, Ordering::Relaxed) {
        report("this process was forked after its parent had used the CPU device\nfix: fork first, or exec a fresh program");
    }
    Err(Code::INITIALIZATION_ERROR)
}

/// Device `id`, for libginrs: none in such a child.
pub fn usable(id: i32) -> Option<&'static Device> {
    if is_forked() { None } else { get(id).ok() }
}

/// Device `id`.
///
/// # Errors
/// `InvalidDevice` beyond the count; `InitializationError` in a child forked after its parent used a device.
pub fn get(id: i32) -> Result<&'static Device> {
    not_forked()?;
    usize::try_from(id).ok().and_then(|id| all().get(id)).ok_or(Code::INVALID_DEVICE)
}

/// The calling thread's device.
///
/// # Errors
/// As [`get`].
pub fn current() -> Result<&'static Device> {
    get(CURRENT.get())
}

/// The calling thread's device number.
pub fn current_id() -> i32 {
    CURRENT.get()
}

/// Makes `id` the calling thread's device.
///
/// # Errors
/// As [`get`].
pub fn set_current(id: i32) -> Result {
    get(id)?;
    CURRENT.set(id);
    Ok(())
}

/// Binds a thread of ours to its device for life.
pub fn bind_worker(device: &Device) {
    CURRENT.set(device.id);
}

/// The calling thread's device; None while no device was ever used.
pub fn of_thread() -> Option<&'static Device> {
    DEVICES.get().and_then(|devices| devices.get(CURRENT.get() as usize))
}

/// Its sticky error; success where there is none.
pub fn sticky_of_current() -> Code {
    of_thread().map_or(Code::SUCCESS, |device| Code(device.sticky.load(Ordering::Acquire)))
}

impl Device {
    /// The error of a kernel that failed: every call returns it until `cudaDeviceReset`.
    ///
    /// # Errors
    /// That error.
    pub fn healthy(&self) -> Result {
        match self.sticky.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// Sets the error unless there is one.
    pub fn set_sticky(&self, code: Code) {
        let _ = self.sticky.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// `cudaDeviceReset`, when nothing runs any more: forgets the error.
    pub fn reset(&self) {
        self.sticky.store(0, Ordering::Release);
    }

    /// A kernel was launched. It may be one of other headers, which posts without a ring: libginrs looks out from here on.
    pub fn kernel_launched(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }

    /// It is over.
    pub fn kernel_ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// A kernel begins; how many have before.
    pub fn count_kernel(&self) -> u64 {
        self.kernels.fetch_add(1, Ordering::Relaxed)
    }

    /// Kernels launched and not over.
    pub fn kernels_running(&self) -> i32 {
        self.running.load(Ordering::Acquire)
    }

    /// Adds a step that waiting blocks run.
    pub fn add_progress(&self, call: StepFn, context: *mut c_void) {
        let mut steps = self.steps.write();
        steps.push(Step { call, context });
        self.step_count.store(steps.len(), Ordering::Release);
    }

    /// Removes it. No thread is inside it any more: steps run under the read lock.
    pub fn remove_progress(&self, call: StepFn, context: *mut c_void) {
        let mut steps = self.steps.write();
        steps.retain(|step| !(std::ptr::fn_addr_eq(step.call, call) && step.context == context));
        self.step_count.store(steps.len(), Ordering::Release);
    }

    /// Runs each step once; whether one moved something.
    pub fn run_progress(&self) -> bool {
        if self.step_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        // A writer waits: let it have its turn, steps come again.
        let Some(steps) = self.steps.try_read() else { return false };
        let mut moved = false;
        for step in steps.iter() {
            // SAFETY: a step's context is valid until remove_progress returns, which needs the lock that we hold.
            moved |= unsafe { (step.call)(step.context) } != 0;
        }
        moved
    }
}
