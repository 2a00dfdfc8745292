//! The collectives' kernels as `ginrs-cc` compiled them, in the stand-in runtime's library, and its streams and events.

use super::runtime::{self, symbol};
use crate::bail;
use crate::device::kernels::{EVENTS, Events, Kernels, Launch, Order, OwnStream, Stream, captured};
use crate::error::Result;
use crate::sync::OnceBox;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident $name:literal ($($arg:ty),*);)*) => {
        /// Functions of libginrs_cpu.so by their symbols.
        struct Functions {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl Functions {
            /// All of them, or the name of one that is missing.
            fn load() -> std::result::Result<Self, &'static CStr> {
                // SAFETY: each symbol is a function of the type that stands in the table, as cuda_runtime_api.h and
                // cuda/collectives/cpu.cu declare it.
                Ok(Self { $($field: unsafe { symbol($name) }.ok_or($name)?,)* })
            }
        }
    };
}

functions! {
    launch c"ginrs_cpu_collectives_launch_v1" (*const c_char, *const c_void, usize, c_uint, c_uint, c_uint, Handle);
    event_create c"cudaEventCreateWithFlags" (*mut Handle, c_uint);
    event_destroy c"cudaEventDestroy" (Handle);
    event_query c"cudaEventQuery" (Handle);
    event_record c"cudaEventRecord" (Handle, Handle);
    attribute c"cudaDeviceGetAttribute" (*mut c_int, c_int, c_int);
    stream_create c"cudaStreamCreateWithFlags" (*mut Handle, c_uint);
    stream_destroy c"cudaStreamDestroy" (Handle);
    stream_query c"cudaStreamQuery" (Handle);
    stream_wait c"cudaStreamWaitEvent" (Handle, Handle, c_uint);
    stream_id c"cudaStreamGetId" (Handle, *mut c_ulonglong);
    capture_info c"cudaStreamGetCaptureInfo" (Handle, *mut c_int, *mut c_ulonglong, *mut Handle, *mut *const Handle, *mut *const c_void, *mut usize);
    last_error c"cudaGetLastError" ();
}

/// Looked for until they are there.
static FOUND: OnceBox<Functions> = OnceBox::new();

/// The caller's next cudaGetLastError tells nothing of what went wrong in here.
fn forget_error() {
    if let Some(functions) = FOUND.get() {
        // SAFETY: no arguments.
        unsafe { (functions.last_error)() };
    }
}

/// One of 0, or the cudaError_t in words.
fn check(what: &CStr, result: c_int) -> Result<()> {
    if result != 0 {
        forget_error();
        bail!(
            UnhandledCudaError,
            73,
            "{} failed | cudaError {result} | fix: see what the CPU device printed",
            what.to_string_lossy()
        );
    }
    Ok(())
}

/// What a query's result says.
fn is_over(what: &CStr, result: c_int) -> Result<bool> {
    match result {
        NOT_READY => {
            forget_error();
            Ok(false)
        }
        result => check(what, result).map(|()| true),
    }
}

/// The kernels of one CPU device.
pub struct CpuKernels {
    functions: &'static Functions,
    ordinal: i32,
}

impl CpuKernels {
    /// Needs libginrs_cpu.so in the process, as every program of ginrs-cc has it.
    pub fn find(ordinal: i32) -> Result<Self> {
        if let Some(functions) = FOUND.get() {
            return Ok(Self { functions, ordinal });
        }
        match Functions::load() {
            Ok(functions) => Ok(Self { functions: FOUND.get_or_init(|| Box::new(functions)), ordinal }),
            Err(missing) => bail!(
                InvalidUsage,
                90,
                "no kernels for collectives on the CPU device | {} is not in this process | fix: build the program with ginrs-cc, or link \
                 libginrs_cpu.so of this version",
                missing.to_string_lossy()
            ),
        }
    }
}

/// Makes `ordinal` the thread's device while `work` runs: a default stream is the current device's.
fn on<T>(ordinal: i32, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(runtime) = runtime::find() else { return work() };
    let before = runtime.current_device();
    if before == ordinal {
        return work();
    }
    check(c"cudaSetDevice", runtime.set_device(ordinal))?;
    let done = work();
    runtime.set_device(before);
    done
}

impl Kernels for CpuKernels {
    fn launch(&self, launch: &Launch) -> Result<()> {
        let (x, y) = launch.blocks;
        runtime::tell_touched(launch.call, launch.touches, launch.number);
        let launched = on(self.ordinal, || {
            // SAFETY: the parameter is copied before the call returns, and its size checked; the stream is the caller's.
            check(launch.kernel, unsafe {
                (self.functions.launch)(
                    launch.kernel.as_ptr(),
                    launch.parameter.as_ptr().cast(),
                    launch.parameter.len(),
                    x,
                    y,
                    launch.threads,
                    launch.stream as Handle,
                )
            })
        });
        // Where nothing was launched the thread's next launch is the program's.
        runtime::tell_touched(launch.call, &[], 0);
        launched
    }

    fn order(&self) -> Result<Order> {
        let mut events = CpuEvents { functions: self.functions, ordinal: self.ordinal, events: [0; EVENTS] };
        on(self.ordinal, || {
            for event in &mut events.events {
                let mut made = std::ptr::null_mut();
                // SAFETY: a valid place to write to.
                check(c"cudaEventCreateWithFlags", unsafe { (self.functions.event_create)(&mut made, NO_TIMING) })?;
                *event = made as usize;
            }
            Ok(())
        })?;
        Ok(Order::new(Box::new(events)))
    }

    fn blocks(&self) -> u32 {
        // Where it fails the count stays 0, and the communicator says that it is too few.
        let ask = |attribute| {
            let mut count = 0;
            // SAFETY: a valid place to write to.
            unsafe { (self.functions.attribute)(&mut count, attribute, self.ordinal) };
            count.max(0) as u32
        };
        ask(MULTIPROCESSORS) * ask(BLOCKS_PER_MULTIPROCESSOR)
    }

    fn urgent_stream(&self) -> Result<Box<dyn OwnStream>> {
        let mut made = std::ptr::null_mut();
        on(self.ordinal, || {
            // SAFETY: a valid place to write to.
            check(c"cudaStreamCreateWithFlags", unsafe { (self.functions.stream_create)(&mut made, NON_BLOCKING) })
        })?;
        Ok(Box::new(CpuStream { functions: self.functions, stream: made as usize }))
    }
}

/// cudaStreamNonBlocking.
const NON_BLOCKING: c_uint = 1;

struct CpuStream {
    functions: &'static Functions,
    stream: usize,
}

impl OwnStream for CpuStream {
    fn handle(&self) -> Stream {
        self.stream
    }

    fn is_idle(&self) -> Result<bool> {
        // SAFETY: our stream.
        is_over(c"cudaStreamQuery", unsafe { (self.functions.stream_query)(self.stream as Handle) })
    }
}

impl Drop for CpuStream {
    fn drop(&mut self) {
        // SAFETY: made by `urgent_stream`, destroyed once.
        unsafe { (self.functions.stream_destroy)(self.stream as Handle) };
    }
}

/// cudaDevAttrMultiProcessorCount.
const MULTIPROCESSORS: c_int = 16;
/// cudaDevAttrMaxBlocksPerMultiprocessor.
const BLOCKS_PER_MULTIPROCESSOR: c_int = 106;
/// cudaErrorNotReady.
const NOT_READY: c_int = 600;
/// cudaEventDisableTiming.
const NO_TIMING: c_uint = 2;

struct CpuEvents {
    functions: &'static Functions,
    ordinal: i32,
    events: [usize; EVENTS],
}

impl Drop for CpuEvents {
    fn drop(&mut self) {
        for event in self.events.into_iter().filter(|&event| event != 0) {
            // SAFETY: made by `order`, destroyed once.
            unsafe { (self.functions.event_destroy)(event as Handle) };
        }
    }
}

impl Events for CpuEvents {
    fn identity(&self, stream: Stream) -> Result<u64> {
        let mut id = 0;
        // SAFETY: a valid place to write to; the stream is the caller's.
        on(self.ordinal, || check(c"cudaStreamGetId", unsafe { (self.functions.stream_id)(stream as Handle, &mut id) }))?;
        Ok(id)
    }

    fn capture(&self, stream: Stream) -> Result<Option<u64>> {
        let (mut status, mut id) = (0, 0);
        let (graph, nodes, edges, count) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        on(self.ordinal, || {
            // SAFETY: two valid places to write to, and NULL for what is not wanted.
            check(c"cudaStreamGetCaptureInfo", unsafe {
                (self.functions.capture_info)(stream as Handle, &mut status, &mut id, graph, nodes, edges, count)
            })
        })?;
        captured(status, id)
    }

    fn record(&self, event: usize, stream: Stream) -> Result<()> {
        on(self.ordinal, || {
            // SAFETY: our event; the caller's stream.
            let result = unsafe { (self.functions.event_record)(self.events[event] as Handle, stream as Handle) };
            check(c"cudaEventRecord", result)
        })
    }

    fn passed(&self, event: usize) -> Result<bool> {
        // SAFETY: our event.
        is_over(c"cudaEventQuery", unsafe { (self.functions.event_query)(self.events[event] as Handle) })
    }

    fn wait(&self, event: usize, stream: Stream) -> Result<()> {
        on(self.ordinal, || {
            // SAFETY: our event; the caller's stream.
            let result = unsafe { (self.functions.stream_wait)(stream as Handle, self.events[event] as Handle, 0) };
            check(c"cudaStreamWaitEvent", result)
        })
    }
}

/// What [`super::CpuDevice`] gives out.
pub fn kernels(ordinal: i32) -> Result<Arc<dyn Kernels>> {
    Ok(Arc::new(CpuKernels::find(ordinal)?))
}
