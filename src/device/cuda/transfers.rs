//! Small transfers between host and device on a stream of the library's own, beside whatever kernels run.
//!
//! Everything goes through the copy engines: a memset or a copy within the device is a kernel to the GPU, and would wait for
//! room beside kernels that wait for it.

use super::CudaDevice;
use super::copies::Copies;
use super::driver::cu;
use super::stream::RawStream;
use crate::device::transfers::{check_read, check_write};
use crate::device::{ControlMemory, CopyQueue, DevPtr, Memory, Transfers};
use crate::error::{Error, Result};
use crate::info;
use std::sync::Arc;

/// Bytes of the staging buffer, and of the zeros.
const HALF: usize = 64 << 10;

/// The stream and its pinned buffers: the first half is staging, the second half zeros. One user at a time.
pub struct Staging {
    stream: Arc<RawStream>,
    pinned: ControlMemory,
    /// A transfer did not end in time: it may still use the buffers.
    stuck: Option<Error>,
}

impl Staging {
    /// Err while an earlier transfer is stuck: who comes next does not wait as long again.
    fn begin(&mut self) -> Result<()> {
        if let Some(error) = self.stuck.take_if(|_| self.stream.is_idle().unwrap_or(true)) {
            info!(INIT, "goes on: {error}");
        }
        self.stuck.clone().map_or(Ok(()), Err)
    }

    fn drain(&mut self) -> Result<()> {
        let drained = self.stream.drain("a small copy between host and device");
        self.stuck = drained.clone().err().filter(|error| error.id == 4);
        drained
    }

    fn buffer(&mut self) -> &mut [u8] {
        // SAFETY: the pinned memory is ours alone, HALF bytes of it are touched here only, and no copy is under way: each
        // function below waits for its own.
        unsafe { std::slice::from_raw_parts_mut(self.pinned.host().as_ptr(), HALF) }
    }

    /// Copies `bytes` to `at` and waits until they are there.
    fn write(&mut self, at: DevPtr, bytes: &[u8]) -> Result<()> {
        self.begin()?;
        for (i, part) in bytes.chunks(HALF).enumerate() {
            self.buffer()[..part.len()].copy_from_slice(part);
            let from = self.pinned.host().as_ptr().cast_const().cast();
            // SAFETY: the source stays until `drain`; the target is the caller's own device memory.
            unsafe { cu!(cuMemcpyHtoDAsync_v2(at + (i * HALF) as u64, from, part.len(), self.stream.raw())) }?;
            self.drain()?;
        }
        Ok(())
    }

    /// Copies from `at` into `into`.
    fn read(&mut self, at: DevPtr, into: &mut [u8]) -> Result<()> {
        self.begin()?;
        for (i, part) in into.chunks_mut(HALF).enumerate() {
            let to = self.pinned.host().as_ptr().cast();
            // SAFETY: as in `write`, the other way round.
            unsafe { cu!(cuMemcpyDtoHAsync_v2(to, at + (i * HALF) as u64, part.len(), self.stream.raw())) }?;
            self.drain()?;
            part.copy_from_slice(&self.buffer()[..part.len()]);
        }
        Ok(())
    }

    /// Zeroes `bytes` at `at`.
    fn zero(&mut self, at: DevPtr, bytes: usize) -> Result<()> {
        self.begin()?;
        let zeros = self.pinned.host().as_ptr().wrapping_add(HALF).cast_const().cast();
        for done in (0..bytes).step_by(HALF) {
            // SAFETY: the second half of the pinned memory is zero and never written; the target is the caller's own.
            unsafe { cu!(cuMemcpyHtoDAsync_v2(at + done as u64, zeros, HALF.min(bytes - done), self.stream.raw())) }?;
        }
        self.drain()
    }
}

impl CudaDevice {
    /// Runs `work` with the transfer stream, inside the context.
    fn transfer<T>(&self, work: impl FnOnce(&mut Staging) -> Result<T>) -> Result<T> {
        let _inside = self.context.enter()?;
        let mut staging = self.staging.lock();
        if staging.is_none() {
            let stream = Arc::new(RawStream::new()?);
            *staging = Some(Staging { stream: stream.clone(), pinned: self.control(2 * HALF)?, stuck: None });
            let _ = self.stream.set(stream);
        }
        work(staging.as_mut().expect("made above"))
    }
}

impl Transfers for CudaDevice {
    fn write(&self, at: DevPtr, bytes: &[u8]) -> Result<()> {
        check_write(at)?;
        self.transfer(|staging| staging.write(at, bytes))
    }

    fn read(&self, at: DevPtr, into: &mut [u8]) -> Result<()> {
        check_read(at, into.len())?;
        self.transfer(|staging| staging.read(at, into))
    }

    fn zero(&self, at: DevPtr, bytes: usize) -> Result<()> {
        self.transfer(|staging| staging.zero(at, bytes))
    }

    fn copy_queue(&self) -> Result<Box<dyn CopyQueue>> {
        Ok(Box::new(Copies::new(self.me())?))
    }
}
