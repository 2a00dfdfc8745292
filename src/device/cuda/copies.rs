//! The queue of background copies: a stream of its own on the copy engines, and a host word that says how far it is.

use super::driver::{code, cu, driver};
use super::stream::RawStream;
use super::{CudaDevice, eager};
use crate::device::{ControlMemory, CopyQueue, MemCopy, Memory, Word};
use crate::error::Result;
use crate::log;
use crate::sync::OnceBox;
use cudarc::driver::sys::{CUdeviceptr, CUevent, CUstream};
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// cuMemcpyBatchAsync's attributes with plain numbers.
#[repr(C)]
struct Attributes {
    source_order: c_int,
    from: [c_int; 2],
    to: [c_int; 2],
    flags: c_uint,
}

type BatchOf12 = unsafe extern "C" fn(
    *mut CUdeviceptr,
    *mut CUdeviceptr,
    *mut usize,
    usize,
    *mut Attributes,
    *mut usize,
    usize,
    *mut usize,
    CUstream,
) -> c_int;
type BatchOf13 = unsafe extern "C" fn(
    *mut CUdeviceptr,
    *mut CUdeviceptr,
    *mut usize,
    usize,
    *mut Attributes,
    *mut usize,
    usize,
    CUstream,
) -> c_int;

/// Many copies in one call: a quarter of the cost of as many calls. Drivers for CUDA 12.8 and newer have it.
#[derive(Clone, Copy)]
enum Batch {
    Of12(BatchOf12),
    Of13(BatchOf13),
}

fn batch() -> Option<Batch> {
    static FOUND: OnceBox<Option<Batch>> = OnceBox::new();
    let find = || {
        let driver = driver().ok()?;
        let newest = driver.newer(c"cuMemcpyBatchAsync", 13000);
        if !newest.is_null() {
            // SAFETY: the signature that CUDA 13.0 gives this name (cuMemcpyBatchAsync_v2).
            return Some(Batch::Of13(unsafe { std::mem::transmute::<*mut std::ffi::c_void, BatchOf13>(newest) }));
        }
        let older = driver.newer(c"cuMemcpyBatchAsync", 12080);
        // SAFETY: the signature of CUDA 12.8.
        (!older.is_null()).then(|| Batch::Of12(unsafe { std::mem::transmute::<*mut std::ffi::c_void, BatchOf12>(older) }))
    };
    *FOUND.get_or_init(|| Box::new(find()))
}

/// One entry of cuStreamBatchMemOp: CU_STREAM_MEM_OP_WRITE_VALUE_32 or _64. The union is six 8-byte words long.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MemOp {
    operation: c_uint,
    address: CUdeviceptr,
    value: u64,
    flags: c_uint,
    rest: [u64; 2],
}
const _: () = assert!(size_of::<MemOp>() == size_of::<cudarc::driver::sys::CUstreamBatchMemOpParams>());

impl MemOp {
    fn write(address: CUdeviceptr, value: u64, bytes: u32) -> Self {
        Self { operation: if bytes == 4 { 2 } else { 5 }, address, value, ..Self::default() }
    }
}

type MemOps = unsafe extern "C" fn(CUstream, c_uint, *mut MemOp, c_uint) -> c_int;

fn mem_ops() -> Option<MemOps> {
    static FOUND: OnceBox<Option<MemOps>> = OnceBox::new();
    let find = || {
        let found = driver().ok()?.newer(c"cuStreamBatchMemOp", 12000);
        // SAFETY: the signature that CUDA 12.0 gives this name (cuStreamBatchMemOp_v2), with a twin of its array's entries.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut std::ffi::c_void, MemOps>(found) })
    };
    *FOUND.get_or_init(|| Box::new(find()))
}

/// Looks at the word between two looks at the stream itself, which costs a driver call: only it tells of a failed copy.
const LOOKS: u32 = 4096;

/// How the host learns what has finished.
enum Marks {
    /// The stream writes the ticket into a pinned word, after what came before it.
    Word(ControlMemory),
    /// Devices without stream writes: an event per ticket, and the newest reached.
    Events(VecDeque<(u64, Event)>, u64),
}

struct Event(CUevent);

// SAFETY: an event may be used from any thread; the pointer is only handed to the driver.
unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `mark`, destroyed once.
        let _ = unsafe { cu!(cuEventDestroy_v2(self.0)) };
    }
}

/// A stream, its marks, and arrays for batches.
pub struct Copies {
    device: Arc<CudaDevice>,
    work: Option<(RawStream, Marks)>,
    marked: u64,
    looks: u32,
    from: Vec<CUdeviceptr>,
    to: Vec<CUdeviceptr>,
    bytes: Vec<usize>,
    ops: Vec<MemOp>,
}

impl Copies {
    /// A new queue of `device`.
    pub fn new(device: Arc<CudaDevice>) -> Result<Self> {
        let _inside = device.context.enter()?;
        let marks = match device.facts.write_value {
            true => Marks::Word(device.control(8)?),
            false => Marks::Events(VecDeque::new(), 0),
        };
        let work = Some((RawStream::new()?, marks));
        Ok(Self {
            device: device.clone(),
            work,
            marked: 0,
            looks: 0,
            from: Vec::new(),
            to: Vec::new(),
            bytes: Vec::new(),
            ops: Vec::new(),
        })
    }

    fn work(&mut self) -> &mut (RawStream, Marks) {
        self.work.as_mut().expect("taken in drop only")
    }

    /// Where a first launch would keep back what is moved, that is told (W027).
    fn tell(&self) {
        if self.device.facts.lazy {
            eager::tell_of_lazy_loading();
        }
    }

    fn stream(&mut self) -> CUstream {
        self.work().0.raw()
    }

    fn copy_batch(&mut self, copies: &[MemCopy], batch: Batch) -> Result<()> {
        self.from.clear();
        self.to.clear();
        self.bytes.clear();
        for copy in copies {
            self.from.push(copy.from);
            self.to.push(copy.to);
            self.bytes.push(copy.bytes as usize);
        }
        let stream = self.stream();
        // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: the source is read in stream order, not before the call returns.
        let mut attributes = Attributes { source_order: 1, from: [0; 2], to: [0; 2], flags: 0 };
        let (mut first, mut failed) = (0, 0);
        let (to, from, bytes) = (self.to.as_mut_ptr(), self.from.as_mut_ptr(), self.bytes.as_mut_ptr());
        // SAFETY: three arrays of that many entries, one attribute that holds from entry 0 on; the driver copies all of it before
        // it returns. The addresses are the caller's own.
        let result = unsafe {
            match batch {
                Batch::Of12(call) => call(to, from, bytes, copies.len(), &mut attributes, &mut first, 1, &mut failed, stream),
                Batch::Of13(call) => call(to, from, bytes, copies.len(), &mut attributes, &mut first, 1, stream),
            }
        };
        driver()?.check("cuMemcpyBatchAsync", result)
    }
}

impl CopyQueue for Copies {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        self.tell();
        let device = self.device.clone();
        let _inside = device.context.enter()?;
        // A batch takes no empty copies.
        if copies.len() > 1
            && copies.iter().all(|copy| copy.bytes > 0)
            && let Some(batch) = batch()
        {
            return self.copy_batch(copies, batch);
        }
        let stream = self.stream();
        for copy in copies.iter().filter(|copy| copy.bytes > 0) {
            // SAFETY: the addresses are the caller's own.
            unsafe { cu!(cuMemcpyAsync(copy.to, copy.from, copy.bytes as usize, stream)) }?;
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<u64> {
        let device = self.device.clone();
        let _inside = device.context.enter()?;
        let ticket = self.marked + 1;
        let (stream, marks) = self.work();
        match marks {
            // SAFETY: the word is pinned, 8-aligned and lives as long as the stream. Flags 0: the write is ordered after all
            // copies before it.
            Marks::Word(word) => unsafe { cu!(cuStreamWriteValue64_v2(stream.raw(), word.device(), ticket, 0)) }?,
            Marks::Events(events, _) => {
                let mut event = std::ptr::null_mut();
                // SAFETY: a valid place to write to (2: CU_EVENT_DISABLE_TIMING); then a live event and stream.
                unsafe {
                    cu!(cuEventCreate(&mut event, 2))?;
                    let event = Event(event);
                    cu!(cuEventRecord(event.0, stream.raw()))?;
                    events.push_back((ticket, event));
                }
            }
        }
        self.marked = ticket;
        Ok(ticket)
    }

    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        self.tell();
        let device = self.device.clone();
        let (stream, marks) = self.work.as_mut().expect("taken in drop only");
        let (Marks::Word(word), Some(call)) = (marks, mem_ops()) else { return Ok(None) };
        let _inside = device.context.enter()?;
        let ticket = self.marked + 1;
        self.ops.clear();
        self.ops.extend(words.iter().map(|word| MemOp::write(word.at, word.value, word.bytes)));
        // The mark goes in the same call, which saves 1.6 us; each write is ordered after those before it.
        self.ops.push(MemOp::write(word.device(), ticket, 8));
        // SAFETY: so many entries, which the driver copies before it returns; the stream is live, the words are the caller's own.
        let result = unsafe { call(stream.raw(), self.ops.len() as c_uint, self.ops.as_mut_ptr(), 0) };
        driver()?.check("cuStreamBatchMemOp", result)?;
        self.marked = ticket;
        Ok(Some(ticket))
    }

    fn finished(&mut self) -> Result<u64> {
        let marked = self.marked;
        self.looks = self.looks.wrapping_add(1);
        let suspicious = self.looks.is_multiple_of(LOOKS);
        let device = &self.device;
        let (stream, marks) = self.work.as_mut().expect("taken in drop only");
        let reached = match marks {
            // SAFETY: the word is 8-aligned and lives as long as self; the device writes it whole. Acquire: what the copies before
            // it wrote to host memory is seen.
            Marks::Word(word) => unsafe { AtomicU64::from_ptr(word.host().as_ptr().cast()) }.load(Ordering::Acquire),
            Marks::Events(events, reached) => {
                let _inside = device.context.enter()?;
                while let Some((ticket, event)) = events.front() {
                    // SAFETY: the event is live.
                    match unsafe { (driver()?.f.cuEventQuery)(event.0) } {
                        0 => *reached = *ticket,
                        code::NOT_READY => break,
                        result => return Err(driver()?.error("cuEventQuery", result)),
                    }
                    events.pop_front();
                }
                *reached
            }
        };
        if suspicious && reached < marked {
            let _inside = device.context.enter()?;
            // SAFETY: the stream is live.
            match unsafe { (driver()?.f.cuStreamQuery)(stream.raw()) } {
                0 | code::NOT_READY => {}
                result => return Err(driver()?.error("a background copy", result)),
            }
        }
        Ok(reached)
    }
}

/// No copy outlives its queue: whose memory it moves may go next. Copies wait for no kernel, so this is short.
impl Drop for Copies {
    fn drop(&mut self) {
        let Some((stream, marks)) = self.work.take() else { return };
        if let Ok(_inside) = self.device.context.enter() {
            // Another error means that nothing is under way any more.
            if let Err(error) = stream.drain("copies of a communicator that ends")
                && error.id == 4
            {
                log::error(&error);
            }
        }
        self.device.drop_later(Box::new((stream, marks)));
    }
}
