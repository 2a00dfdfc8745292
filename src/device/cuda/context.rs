//! The device's primary context, and being inside it for a while without the caller noticing.

use super::driver::{code, cu, driver};
use crate::error::Result;
use cudarc::driver::sys;
use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;

/// The primary context of a device, which the CUDA runtime uses too. Kept for the life of the process.
pub struct Context {
    /// The driver's number of the device.
    pub device: sys::CUdevice,
    raw: sys::CUcontext,
    /// The driver's name for it, never used twice.
    id: u64,
}

// SAFETY: a context may be used from any thread; the pointer is only handed to the driver.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// cudaStreamCaptureModeRelaxed.
const RELAXED: c_int = 2;

thread_local! {
    /// The context that the thread is inside of: its id. A thread of the library's own never leaves it.
    static INSIDE: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Context {
    /// Makes or joins it: the first one of a device takes a fraction of a second.
    pub fn retain(ordinal: c_int) -> Result<Self> {
        let (mut device, mut raw, mut id) = (0, std::ptr::null_mut(), 0);
        // SAFETY: valid places to write to; a wrong ordinal is an error code. Never released: memory, streams and service
        // threads of this device use it until the process ends.
        unsafe {
            cu!(cuDeviceGet(&mut device, ordinal))?;
            cu!(cuDevicePrimaryCtxRetain(&mut raw, device))?;
            cu!(cuCtxGetId(raw, &mut id))?;
        }
        Ok(Self { device, raw, id })
    }

    /// False after cudaDeviceReset: what was made in the context has gone.
    pub fn alive(&self) -> bool {
        let (mut flags, mut active, mut id) = (0, 0, 0);
        // SAFETY: valid places to write to. While the primary context is active our reference keeps the pointer good.
        unsafe {
            cu!(cuDevicePrimaryCtxGetState(self.device, &mut flags, &mut active)).is_ok()
                && active != 0
                && cu!(cuCtxGetId(self.raw, &mut id)).is_ok()
                && id == self.id
        }
    }

    /// Makes it the thread's context until the guard goes; the caller's is then as before, on every path. Costs nothing within itself.
    ///
    /// Inside, the thread's stream capture mode is relaxed: what the library does on streams and memory of its own neither
    /// fails because of a capture of the user's, whatever thread it is in, nor ends it.
    pub fn enter(&self) -> Result<Entered> {
        let before = INSIDE.get();
        let mut entered = Entered { pushed: false, mode: None, before, _thread: PhantomData };
        if before == Some(self.id) {
            return Ok(entered);
        }
        let mut current = std::ptr::null_mut();
        let mut mode = RELAXED;
        // SAFETY: valid places to write to; the context is retained. The capture mode is an enum of three values to C, read and
        // written as the int that it is.
        unsafe {
            cu!(cuCtxGetCurrent(&mut current))?;
            if current != self.raw {
                cu!(cuCtxPushCurrent_v2(self.raw))?;
                entered.pushed = true;
            }
            cu!(cuThreadExchangeStreamCaptureMode((&raw mut mode).cast()))?;
        }
        entered.mode = Some(mode);
        INSIDE.set(Some(self.id));
        Ok(entered)
    }

    /// Kernels of this context reach cudaMalloc memory of `other`, as after cudaDeviceEnablePeerAccess.
    pub fn see(&self, other: &Self) -> Result<()> {
        let _inside = self.enter()?;
        let driver = driver()?;
        // SAFETY: both contexts are retained; flags must be 0.
        match unsafe { (driver.f.cuCtxEnablePeerAccess)(other.raw, 0) } {
            code::PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => driver.check("cuCtxEnablePeerAccess", result),
        }
    }

    /// The calling thread is the library's own and works in this context alone from now on, with relaxed captures: entering
    /// costs it nothing. For the proxy, whose every batch would pay half a microsecond for it.
    pub fn bind_thread(&self) -> Result<()> {
        let mut mode = RELAXED;
        // SAFETY: the context is retained; the mode as in `enter`.
        unsafe {
            cu!(cuCtxSetCurrent(self.raw))?;
            cu!(cuThreadExchangeStreamCaptureMode((&raw mut mode).cast()))?;
        }
        INSIDE.set(Some(self.id));
        Ok(())
    }

    /// Makes it the thread's context, as cudaSetDevice does.
    pub fn set_current(&self) -> Result<()> {
        // SAFETY: the context is retained.
        unsafe { cu!(cuCtxSetCurrent(self.raw)) }
    }
}

/// The calling thread is inside a context; leaving it restores what was.
pub struct Entered {
    pushed: bool,
    mode: Option<c_int>,
    before: Option<u64>,
    // What is restored is the thread's.
    _thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        INSIDE.set(self.before);
        let Ok(driver) = driver() else { return };
        // SAFETY: restores what `enter` found on this thread. Failures change nothing that could be mended here.
        unsafe {
            if let Some(mode) = &mut self.mode {
                (driver.f.cuThreadExchangeStreamCaptureMode)(std::ptr::from_mut(mode).cast());
            }
            if self.pushed {
                let mut popped = std::ptr::null_mut();
                (driver.f.cuCtxPopCurrent_v2)(&mut popped);
            }
        }
    }
}

/// The calling thread's device as cudaGetDevice has it: its context's, 0 without one.
pub fn current() -> Result<c_int> {
    let mut context = std::ptr::null_mut();
    // SAFETY: a valid place to write to.
    unsafe { cu!(cuCtxGetCurrent(&mut context)) }?;
    if context.is_null() {
        return Ok(0);
    }
    let mut device = 0;
    // SAFETY: as above; a CUdevice is the ordinal.
    unsafe { cu!(cuCtxGetDevice(&mut device)) }?;
    Ok(device)
}
