//! Small transfers between host and device on a stream of the library's own, beside whatever kernels run.
//!
//! Everything goes through the copy engines: a memset or a copy within the device is a kernel to the GPU, and would wait for
//! room beside kernels that wait for it.

use super::driver::{code, cu, driver};
use crate::device::{ControlMemory, DevPtr};
use crate::error::{Error, Result};
use crate::{bail, config, info};
use cudarc::driver::sys::{self, CUstream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the staging buffer, and of the zeros.
pub const STAGING: usize = 64 << 10;

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
    pub fn settle(&self, what: &str) -> Result<()> {
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

/// The stream and its pinned buffers: the first half is staging, the second half zeros. One user at a time.
pub struct Transfers {
    stream: Arc<RawStream>,
    pinned: ControlMemory,
    /// A transfer did not end in time: it may still use the buffers.
    stuck: Option<Error>,
}

impl Transfers {
    /// In the current context; `pinned` has 2 * [`STAGING`] bytes.
    pub fn new(stream: Arc<RawStream>, pinned: ControlMemory) -> Self {
        Self { stream, pinned, stuck: None }
    }

    /// Err while an earlier transfer is stuck: who comes next does not wait as long again.
    fn begin(&mut self) -> Result<()> {
        if let Some(error) = self.stuck.take_if(|_| self.stream.is_idle().unwrap_or(true)) {
            info!(INIT, "goes on: {error}");
        }
        self.stuck.clone().map_or(Ok(()), Err)
    }

    fn settle(&mut self) -> Result<()> {
        let settled = self.stream.settle("a small copy between host and device");
        self.stuck = settled.clone().err().filter(|error| error.id == 4);
        settled
    }

    fn staging(&mut self) -> &mut [u8] {
        // SAFETY: the pinned memory is ours alone, STAGING bytes of it are touched here only, and no copy is under way: each
        // function below waits for its own.
        unsafe { std::slice::from_raw_parts_mut(self.pinned.host().as_ptr(), STAGING) }
    }

    /// Copies `bytes` to `at` and waits until they are there.
    pub fn write(&mut self, at: DevPtr, bytes: &[u8]) -> Result<()> {
        self.begin()?;
        for (i, part) in bytes.chunks(STAGING).enumerate() {
            self.staging()[..part.len()].copy_from_slice(part);
            let from = self.pinned.host().as_ptr().cast_const().cast();
            // SAFETY: the source stays until `settle`; the target is the caller's own device memory.
            unsafe { cu!(cuMemcpyHtoDAsync_v2(at + (i * STAGING) as u64, from, part.len(), self.stream.raw())) }?;
            self.settle()?;
        }
        Ok(())
    }

    /// Copies from `at` into `into`.
    pub fn read(&mut self, at: DevPtr, into: &mut [u8]) -> Result<()> {
        self.begin()?;
        for (i, part) in into.chunks_mut(STAGING).enumerate() {
            let to = self.pinned.host().as_ptr().cast();
            // SAFETY: as in `write`, the other way round.
            unsafe { cu!(cuMemcpyDtoHAsync_v2(to, at + (i * STAGING) as u64, part.len(), self.stream.raw())) }?;
            self.settle()?;
            part.copy_from_slice(&self.staging()[..part.len()]);
        }
        Ok(())
    }

    /// Zeroes `bytes` at `at`.
    pub fn zero(&mut self, at: DevPtr, bytes: usize) -> Result<()> {
        self.begin()?;
        let zeros = self.pinned.host().as_ptr().wrapping_add(STAGING).cast_const().cast();
        for done in (0..bytes).step_by(STAGING) {
            // SAFETY: the second half of the pinned memory is zero and never written; the target is the caller's own.
            unsafe { cu!(cuMemcpyHtoDAsync_v2(at + done as u64, zeros, STAGING.min(bytes - done), self.stream.raw())) }?;
        }
        self.settle()
    }
}
