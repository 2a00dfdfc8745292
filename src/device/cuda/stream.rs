//! Streams of the library's own.

use super::driver::{code, cu, driver};
use crate::error::Result;
use crate::{bail, config};
use cudarc::driver::sys::{self, CUstream};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// CU_STREAM_NON_BLOCKING: not ordered with the legacy stream, which kernels may hold.
const NON_BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;

/// A stream that is destroyed at drop; what it was told to do is done all the same.
pub struct RawStream(CUstream);

// SAFETY: a stream may be used from any thread; the pointer is only handed to the driver.
unsafe impl Send for RawStream {}
// SAFETY: as above, by several at once: the driver has its own locks.
unsafe impl Sync for RawStream {}

impl RawStream {
    /// Of the current context.
    pub fn new() -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place to write to.
        unsafe { cu!(cuStreamCreate(&mut raw, NON_BLOCKING)) }?;
        Ok(Self(raw))
    }

    /// Of the current context; its kernels' blocks come before those of all others that wait for room.
    pub fn urgent() -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place to write to. The driver takes the nearest priority that it has, and lower numbers come first.
        unsafe { cu!(cuStreamCreateWithPriority(&mut raw, NON_BLOCKING, c_int::MIN)) }?;
        Ok(Self(raw))
    }

    /// For the driver.
    pub fn raw(&self) -> CUstream {
        self.0
    }

    /// Whether what it was told to do is done. Waits for nothing; inside the context.
    pub fn is_idle(&self) -> Result<bool> {
        let driver = driver()?;
        // SAFETY: the stream is live.
        match unsafe { (driver.f.cuStreamQuery)(self.0) } {
            0 => Ok(true),
            // The process is about to end, and nothing is under way any more.
            code::NOT_INITIALIZED | code::DEINITIALIZED => Ok(true),
            code::NOT_READY => Ok(false),
            result => Err(driver.error("cuStreamQuery", result)),
        }
    }

    /// Until what it was told to do is done, but not for longer than GINRS_TIMEOUT: the driver's own wait has no end. `what` for the
    /// message, E004.
    pub fn drain(&self, what: &str) -> Result<()> {
        let (begin, patience) = (Instant::now(), config::seconds("GINRS_TIMEOUT"));
        while !self.is_idle()? {
            let waited = begin.elapsed();
            if waited > patience {
                bail!(
                    UnhandledCudaError,
                    4,
                    "the GPU does not finish | {what} | not done after {} s | fix: look at dmesg for Xid lines and at nvidia-smi; a kernel of \
                     the program that never ends may hold its copies up",
                    patience.as_secs()
                );
            }
            match waited > SPIN {
                true => std::thread::sleep(NAP),
                false => std::hint::spin_loop(),
            }
        }
        Ok(())
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once. An error means that the context has gone, and the stream with it.
        let _ = unsafe { cu!(cuStreamDestroy_v2(self.0)) };
    }
}

/// How long a wait looks again at once, and how long it sleeps between two looks then. Small copies take some 10 us.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);
