//! Small transfers between host and device on a stream of the library's own, beside whatever kernels run.
//!
//! Everything goes through the copy engines: a memset or a copy within the device is a kernel to the GPU, and would wait for
//! room beside kernels that wait for it.

use super::context::Context;
use super::driver::{code, cu, driver};
use crate::device::{ControlMemory, DevPtr};
use crate::error::Result;
use cudarc::driver::sys::{self, CUstream};

/// Bytes of the staging buffer, and of the zeros.
pub const STAGING: usize = 64 << 10;

/// CU_STREAM_NON_BLOCKING: not ordered with the legacy stream, which kernels may hold.
const NON_BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;

/// A stream that is destroyed at drop; what it was told to do is done all the same.
pub struct RawStream(CUstream);

// SAFETY: a stream may be used from any thread; the pointer is only handed to the driver.
unsafe impl Send for RawStream {}

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
}

impl Drop for RawStream {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once. An error means that the context has gone, and the stream with it.
        let _ = unsafe { cu!(cuStreamDestroy_v2(self.0)) };
    }
}

/// The stream and its pinned buffers: the first half is staging, the second half zeros. One user at a time.
pub struct Transfers {
    stream: RawStream,
    pinned: ControlMemory,
}

impl Transfers {
    /// In the current context; `pinned` has 2 * [`STAGING`] bytes.
    pub fn new(pinned: ControlMemory) -> Result<Self> {
        Ok(Self { stream: RawStream::new()?, pinned })
    }

    fn settle(&self) -> Result<()> {
        // SAFETY: the stream is ours and live.
        unsafe { cu!(cuStreamSynchronize(self.stream.raw())) }
    }

    fn staging(&mut self) -> &mut [u8] {
        // SAFETY: the pinned memory is ours alone, STAGING bytes of it are touched here only, and no copy is under way: each
        // function below waits for its own.
        unsafe { std::slice::from_raw_parts_mut(self.pinned.host().as_ptr(), STAGING) }
    }

    /// Copies `bytes` to `at` and waits until they are there.
    pub fn write(&mut self, at: DevPtr, bytes: &[u8]) -> Result<()> {
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
        for (i, part) in into.chunks_mut(STAGING).enumerate() {
            let to = self.pinned.host().as_ptr().cast();
            // SAFETY: as in `write`, the other way round.
            unsafe { cu!(cuMemcpyDtoHAsync_v2(to, at + (i * STAGING) as u64, part.len(), self.stream.raw())) }?;
            self.settle()?;
            part.copy_from_slice(&self.staging()[..part.len()]);
        }
        Ok(())
    }

    /// Err if the context has failed: every call says so then, also about a stream where nothing went wrong.
    pub fn health(&self, context: &Context) -> Result<()> {
        let driver = driver()?;
        let _inside = context.enter();
        // SAFETY: the stream is live; asking does not wait.
        match unsafe { (driver.f.cuStreamQuery)(self.stream.raw()) } {
            0 | code::NOT_READY => Ok(()),
            // The process is about to end.
            code::NOT_INITIALIZED | code::DEINITIALIZED => Ok(()),
            result => Err(driver.error("cuStreamQuery", result)),
        }
    }

    /// Zeroes `bytes` at `at`.
    pub fn zero(&mut self, at: DevPtr, bytes: usize) -> Result<()> {
        let zeros = self.pinned.host().as_ptr().wrapping_add(STAGING).cast_const().cast();
        for done in (0..bytes).step_by(STAGING) {
            // SAFETY: the second half of the pinned memory is zero and never written; the target is the caller's own.
            unsafe { cu!(cuMemcpyHtoDAsync_v2(at + done as u64, zeros, STAGING.min(bytes - done), self.stream.raw())) }?;
        }
        self.settle()
    }
}
