//! Kernels of the library's own: the fatbin that the build embedded, loaded once for each device.

use super::CudaDevice;
use super::driver::{code, cu, driver};
use super::facts::attribute;
use super::stream::RawStream;
use crate::device::MemCopy;
use crate::device::kernels::{EVENTS, Events, Inside, Kernels, Launch, Order, OwnStream, Stream, StreamCopies, captured};
use crate::error::Result;
use crate::sync::Mutex;
use crate::{bail, config};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::Arc;

/// What nvcc made of cuda/collectives (build.rs); empty where the build found no nvcc.
static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collectives.fatbin"));

/// How a fatbin begins.
const MAGIC: [u8; 4] = 0xba55_ed50u32.to_le_bytes();

#[repr(align(64))]
struct Line([u8; 64]);

/// The loaded module. Kept for the life of the context, as the device is.
pub struct CudaKernels {
    device: Arc<CudaDevice>,
    module: usize,
    functions: Mutex<HashMap<&'static CStr, usize>>,
}

impl CudaKernels {
    /// Loads the kernels. All of them are on the device afterwards, with drivers for CUDA 12.4 and newer or CUDA_MODULE_LOADING=EAGER:
    /// later loading would wait for kernels that run.
    pub fn load(device: Arc<CudaDevice>) -> Result<Self> {
        let image = aligned(&image()?);
        let mut module = std::ptr::null_mut();
        {
            let _inside = device.context.enter()?;
            // SAFETY: a valid place to write to; the image is a fatbin, which carries its own length.
            let result = driver().map(|driver| unsafe { (driver.f.cuModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
            if result == code::NO_BINARY_FOR_GPU {
                let (name, own) = (&device.facts.name, architecture()?);
                let built = match config::text("GINRS_KERNELS") {
                    Some(path) => format!("the kernels in {path}"),
                    None => format!("architectures {}", env!("GINRS_GPU_ARCHS_BUILT")),
                };
                bail!(
                    InvalidUsage,
                    90,
                    "the collectives' kernels were not built for this GPU | {name} | architecture {own}; built: {built} | fix: build with \
                     GINRS_GPU_ARCHS={own} or GINRS_GPU_ARCHS=all"
                );
            }
            driver()?.check("cuModuleLoadData", result)?;
            if device.facts.lazy {
                load_all(module)?;
            }
        }
        Ok(Self { device, module: module as usize, functions: Mutex::default() })
    }

    fn function(&self, name: &'static CStr) -> Result<sys::CUfunction> {
        let mut functions = self.functions.lock();
        if let Some(&known) = functions.get(name) {
            return Ok(known as sys::CUfunction);
        }
        let mut function = std::ptr::null_mut();
        // SAFETY: a valid place to write to, a terminated name; the module is never unloaded.
        unsafe { cu!(cuModuleGetFunction(&mut function, self.module as sys::CUmodule, name.as_ptr())) }?;
        functions.insert(name, function as usize);
        Ok(function)
    }
}

/// The current device's, as GINRS_GPU_ARCHS has it: 90 for compute capability 9.0.
fn architecture() -> Result<i32> {
    let mut device = 0;
    // SAFETY: valid for writes of an int; the caller has made a context current.
    unsafe { cu!(cuCtxGetDevice(&mut device)) }?;
    let [major, minor] =
        [Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]
            .map(|which| attribute(device, which));
    Ok(10 * major? + minor?)
}

/// Loads all functions of a module of a context that loads lazily, where the driver can. The context is current.
fn load_all(module: sys::CUmodule) -> Result<()> {
    let driver = driver()?;
    let names = [c"cuModuleGetFunctionCount", c"cuModuleEnumerateFunctions", c"cuFuncLoad"];
    let [count, list, load] = names.map(|name| driver.newer(name, 12040));
    if [count, list, load].iter().any(|function| function.is_null()) {
        return Ok(());
    }
    // SAFETY: the signatures that CUDA 12.4 gives these names.
    let (count, list, load) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_uint, sys::CUmodule) -> c_int>(count),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut sys::CUfunction, c_uint, sys::CUmodule) -> c_int>(list),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(sys::CUfunction) -> c_int>(load),
        )
    };
    let mut n = 0;
    // SAFETY: a valid place to write to, and a module that was just loaded.
    driver.check("cuModuleGetFunctionCount", unsafe { count(&mut n, module) })?;
    let mut functions = vec![std::ptr::null_mut(); n as usize];
    // SAFETY: room for `n` functions.
    driver.check("cuModuleEnumerateFunctions", unsafe { list(functions.as_mut_ptr(), n, module) })?;
    // SAFETY: the module's functions.
    functions.into_iter().try_for_each(|function| driver.check("cuFuncLoad", unsafe { load(function) }))
}

/// Far more than the kernels of all architectures take.
const MOST_BYTES: u64 = 1 << 30;

/// The fatbin: the file that GINRS_KERNELS names, else what the build embedded.
fn image() -> Result<Cow<'static, [u8]>> {
    match config::text("GINRS_KERNELS") {
        Some(path) => match config::file::read(&path, MOST_BYTES) {
            Ok(bytes) if bytes.starts_with(&MAGIC) => Ok(bytes.into()),
            Ok(bytes) => bail!(
                InvalidUsage,
                90,
                "no fatbin | GINRS_KERNELS={path} | {} bytes, which do not begin as nvcc's do | fix: scripts/build-kernels.sh gpu makes it",
                bytes.len()
            ),
            Err(cause) => bail!(InvalidUsage, 90, "cannot read the kernels | GINRS_KERNELS={path} | {cause} | fix: unset it"),
        },
        None if FATBIN.is_empty() => bail!(
            InvalidUsage,
            90,
            "this build of ginrs has no GPU kernels for collectives | make build found no nvcc | fix: build where nvcc is in PATH, or NVCC or \
             CUDA_HOME names it, or name a fatbin with GINRS_KERNELS; the device API works without"
        ),
        None => Ok(FATBIN.into()),
    }
}

/// A copy at an address that fits a fatbin's header.
fn aligned(bytes: &[u8]) -> Vec<Line> {
    bytes
        .chunks(64)
        .map(|chunk| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        })
        .collect()
}

/// CU_LAUNCH_PARAM_END, _BUFFER_POINTER, _BUFFER_SIZE.
const END: *mut c_void = std::ptr::null_mut();
const BUFFER: *mut c_void = std::ptr::without_provenance_mut(1);
const SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

impl StreamCopies for CudaKernels {
    fn copy(&self, copy: &MemCopy, stream: Stream) -> Result<()> {
        let _inside = self.device.context.enter()?;
        // SAFETY: the addresses and the stream are the caller's, as in any call of CUDA's.
        unsafe { cu!(cuMemcpyAsync(copy.to, copy.from, copy.bytes as usize, stream as sys::CUstream)) }
    }
}

impl Kernels for CudaKernels {
    fn launch(&self, launch: &Launch) -> Result<()> {
        let _inside = self.device.context.enter()?;
        let function = self.function(launch.kernel)?;
        let mut bytes = launch.parameter.len();
        let mut extra = [BUFFER, launch.parameter.as_ptr() as *mut c_void, SIZE, (&raw mut bytes).cast(), END];
        let (x, y) = launch.blocks;
        // SAFETY: the parameter's bytes are the kernel's one parameter (the driver compares their number) and are copied before
        // the call returns. The stream is the caller's: a wrong one is what it is in any call of CUDA's.
        unsafe {
            cu!(cuLaunchKernel(
                function,
                x,
                y,
                1,
                launch.threads,
                1,
                1,
                0,
                launch.stream as sys::CUstream,
                std::ptr::null_mut(),
                extra.as_mut_ptr()
            ))
        }
    }

    fn copies(&self) -> Option<&dyn StreamCopies> {
        Some(self)
    }

    fn order(&self) -> Result<Order> {
        Ok(Order::new(Box::new(CudaEvents::new(self.device.clone())?)))
    }

    /// One for each multiprocessor, whatever a kernel needs.
    fn blocks(&self) -> u32 {
        self.device.facts.multiprocessors
    }

    fn urgent_stream(&self) -> Result<Box<dyn OwnStream>> {
        if self.device.facts.lazy {
            bail!(
                InvalidUsage,
                90,
                "first launches of the program may keep it back | kernels are loaded lazily | fix: set CUDA_MODULE_LOADING=EAGER before the program's first \
                 CUDA call"
            );
        }
        let _inside = self.device.context.enter()?;
        Ok(Box::new(Urgent { device: self.device.clone(), stream: RawStream::urgent()? }))
    }
}

struct Urgent {
    device: Arc<CudaDevice>,
    stream: RawStream,
}

impl OwnStream for Urgent {
    fn handle(&self) -> Stream {
        self.stream.raw() as Stream
    }

    fn is_idle(&self) -> Result<bool> {
        let _inside = self.device.context.enter()?;
        self.stream.is_idle()
    }
}

/// Events of a device, without times.
struct CudaEvents {
    device: Arc<CudaDevice>,
    events: [usize; EVENTS],
}

/// CU_EVENT_DISABLE_TIMING.
const NO_TIMING: c_uint = 2;

impl CudaEvents {
    fn new(device: Arc<CudaDevice>) -> Result<Self> {
        let _inside = device.context.enter()?;
        let mut own = Self { device: device.clone(), events: [0; EVENTS] };
        for event in &mut own.events {
            let mut made = std::ptr::null_mut();
            // SAFETY: a valid place to write to.
            unsafe { cu!(cuEventCreate(&mut made, NO_TIMING)) }?;
            *event = made as usize;
        }
        Ok(own)
    }
}

impl Drop for CudaEvents {
    fn drop(&mut self) {
        let Ok(_inside) = self.device.context.enter() else { return };
        for event in self.events.into_iter().filter(|&event| event != 0) {
            // SAFETY: made above, destroyed once; streams that wait for it go on waiting for what it marked.
            let _ = unsafe { cu!(cuEventDestroy_v2(event as sys::CUevent)) };
        }
    }
}

impl Events for CudaEvents {
    fn enter(&self) -> Result<Inside> {
        Ok(Box::new(self.device.context.enter()?))
    }

    fn identity(&self, stream: Stream) -> Result<u64> {
        let _inside = self.device.context.enter()?;
        let mut id = 0;
        // SAFETY: a valid place to write to; the stream is the caller's.
        unsafe { cu!(cuStreamGetId(stream as sys::CUstream, &mut id)) }?;
        Ok(id)
    }

    fn capture(&self, stream: Stream) -> Result<Option<u64>> {
        let _inside = self.device.context.enter()?;
        let (mut status, mut id) = (0, 0);
        let (graph, nodes, count) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let at = (&raw mut status).cast();
        // SAFETY: two valid places to write to (the status is an int to C), and NULL for what is not wanted.
        unsafe { cu!(cuStreamGetCaptureInfo_v2(stream as sys::CUstream, at, &mut id, graph, nodes, count)) }?;
        captured(status, id)
    }

    fn record(&self, event: usize, stream: Stream) -> Result<()> {
        let _inside = self.device.context.enter()?;
        // SAFETY: our event; the caller's stream.
        unsafe { cu!(cuEventRecord(self.events[event] as sys::CUevent, stream as sys::CUstream)) }
    }

    fn wait(&self, event: usize, stream: Stream) -> Result<()> {
        let _inside = self.device.context.enter()?;
        // SAFETY: our event; the caller's stream.
        unsafe { cu!(cuStreamWaitEvent(stream as sys::CUstream, self.events[event] as sys::CUevent, 0)) }
    }

    fn passed(&self, event: usize) -> Result<bool> {
        let _inside = self.device.context.enter()?;
        // SAFETY: our event.
        let result = driver().map(|driver| unsafe { (driver.f.cuEventQuery)(self.events[event] as sys::CUevent) })?;
        match result {
            code::NOT_READY => Ok(false),
            _ => driver()?.check("cuEventQuery", result).map(|()| true),
        }
    }
}
