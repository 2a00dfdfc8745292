//! The CUDA driver, loaded when it is first needed: a machine without one gets an error value.
//!
//! cudarc gives the types and opens the library. Its wrappers are not called: they panic where a symbol is missing, and they
//! return a closed enum although newer drivers have newer numbers. The table below holds the same functions with a plain
//! number as result; that their parameters are cudarc's is checked when this file is compiled.

use crate::error::{Code, Error, Result};
use crate::sync::OnceBox;
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUipcMemHandle, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemRangeHandleType, CUmulticastObjectProp, CUpointer_attribute, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

/// The oldest driver that has all of the table: CUDA 12.2.
const OLDEST: c_int = 12020;

/// Numbers of the results that somebody here tells apart.
pub mod code {
    pub const OUT_OF_MEMORY: i32 = 2;
    pub const NOT_INITIALIZED: i32 = 3;
    pub const DEINITIALIZED: i32 = 4;
    pub const STUB_LIBRARY: i32 = 34;
    pub const NO_DEVICE: i32 = 100;
    pub const INVALID_CONTEXT: i32 = 201;
    pub const NO_BINARY_FOR_GPU: i32 = 209;
    pub const NOT_READY: i32 = 600;
    pub const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
    pub const NOT_PERMITTED: i32 = 800;
    pub const NOT_SUPPORTED: i32 = 801;
    pub const SYSTEM_DRIVER_MISMATCH: i32 = 803;
    pub const COMPAT_NOT_SUPPORTED: i32 = 804;
    pub const STREAM_CAPTURE_UNSUPPORTED: i32 = 900;
    pub const STREAM_CAPTURE_IMPLICIT: i32 = 906;
}

macro_rules! functions {
    ($($name:ident($($arg:ty),* $(,)?);)*) => {
        /// Functions of the driver by their symbols.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl Functions {
            /// All of them, or the name of one that is missing.
            fn load() -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the symbol's type is cudarc's (checked below), but for the result: an int that C calls an enum.
                    $($name: unsafe { symbol(concat!(stringify!($name), "\0")) }.ok_or(stringify!($name))?,)*
                })
            }
        }

        $(const _: unsafe fn($($arg),*) -> sys::CUresult = sys::$name;)*
    };
}

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxGetState(CUdevice, *mut c_uint, *mut c_int);
    cuCtxGetId(CUcontext, *mut c_ulonglong);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuCtxGetDevice(*mut CUdevice);
    cuCtxSynchronize();
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuThreadExchangeStreamCaptureMode(*mut CUstreamCaptureMode);
    cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    cuMemRelease(CUmemGenericAllocationHandle);
    cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    cuMemUnmap(CUdeviceptr, usize);
    cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    cuMemAddressFree(CUdeviceptr, usize);
    cuMemRetainAllocationHandle(*mut CUmemGenericAllocationHandle, *mut c_void);
    cuMemGetAllocationPropertiesFromHandle(*mut CUmemAllocationProp, CUmemGenericAllocationHandle);
    cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    cuMemImportFromShareableHandle(*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
    cuMulticastCreate(*mut CUmemGenericAllocationHandle, *const CUmulticastObjectProp);
    cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
    cuMulticastBindMem(CUmemGenericAllocationHandle, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, usize, usize);
    cuMemGetAddressRange_v2(*mut CUdeviceptr, *mut usize, CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemGetHandleForAddressRange(*mut c_void, CUdeviceptr, usize, CUmemRangeHandleType, c_ulonglong);
    cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr);
    cuPointerGetAttributes(c_uint, *mut CUpointer_attribute, *mut *mut c_void, CUdeviceptr);
    cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
    cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    cuIpcCloseMemHandle(CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
    cuStreamDestroy_v2(CUstream);
    cuStreamQuery(CUstream);
    cuStreamIsCapturing(CUstream, *mut CUstreamCaptureStatus);
    cuStreamWriteValue64_v2(CUstream, CUdeviceptr, u64, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventDestroy_v2(CUevent);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuStreamGetId(CUstream, *mut c_ulonglong);
    cuStreamGetCaptureInfo_v2(
        CUstream,
        *mut CUstreamCaptureStatus,
        *mut u64,
        *mut sys::CUgraph,
        *mut *const sys::CUgraphNode,
        *mut usize
    );
    cuModuleLoadData(*mut sys::CUmodule, *const c_void);
    cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
    cuLaunchKernel(
        sys::CUfunction,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void
    );
    cuGetErrorName(sys::CUresult, *mut *const c_char);
    cuGetErrorString(sys::CUresult, *mut *const c_char);
    cuGetProcAddress_v2(*const c_char, *mut *mut c_void, c_int, u64, *mut sys::CUdriverProcAddressQueryResult);
}

/// # Safety
/// `F` is a function pointer of the symbol's type; `name` ends with NUL. The library is there.
unsafe fn symbol<F: Copy>(name: &str) -> Option<F> {
    // SAFETY: the caller's; `driver` has seen to it that the library can be opened, so cudarc does not panic.
    unsafe { sys::culib().get::<F>(name.as_bytes()) }.ok().map(|found| *found)
}

/// The loaded and initialised driver.
pub struct Driver {
    /// What every supported driver has.
    pub f: Functions,
    /// CUDA version that it serves, as 13000.
    pub version: c_int,
}

/// The driver, or why there is none: the answer of the first call.
pub fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceBox<Result<Driver>> = OnceBox::new();
    DRIVER.get_or_init(|| Box::new(load())).as_ref().map_err(Clone::clone)
}

fn absent(what: &str, measured: &str, fix: &str) -> Error {
    Error::new(Code::UnhandledCudaError, 70, format!("no CUDA driver to work with | {what} | {measured} | fix: {fix}"))
}

fn load() -> Result<Driver> {
    // SAFETY: opens and closes a library; its constructors are the driver's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(absent(
            "libcuda.so.1 cannot be opened",
            "searched in the loader's path",
            "install the NVIDIA driver (in a container: start it with the NVIDIA runtime)",
        ));
    }
    let f = Functions::load().map_err(|name| {
        absent("libcuda.so.1 is too old", &format!("it has no {name}"), "install a driver for CUDA 12.2 or newer (535 and up)")
    })?;
    let mut version = 0;
    // SAFETY: a valid place to write to; the function may be called before cuInit.
    unsafe { (f.cuDriverGetVersion)(&mut version) };
    let driver = Driver { f, version };
    // SAFETY: flags must be 0.
    let result = unsafe { (driver.f.cuInit)(0) };
    if result != 0 {
        let said = driver.describe(result);
        let fix = match result {
            code::STUB_LIBRARY => "take the toolkit's stubs folder out of LD_LIBRARY_PATH",
            code::NO_DEVICE => "look at CUDA_VISIBLE_DEVICES and nvidia-smi -L",
            code::SYSTEM_DRIVER_MISMATCH | code::COMPAT_NOT_SUPPORTED => {
                "make libcuda.so.1 and the kernel driver the same version"
            }
            _ => "see that nvidia-smi works for this user",
        };
        return Err(absent("cuInit failed", &said, fix));
    }
    if version < OLDEST {
        return Err(absent(
            "the driver is too old",
            &format!("it serves CUDA {}.{}, needed 12.2", version / 1000, version % 1000 / 10),
            "install driver 535 or newer",
        ));
    }
    Ok(driver)
}

impl Driver {
    /// `Err` with the driver's words if `result` is none of success.
    pub fn check(&self, function: &str, result: c_int) -> Result<()> {
        if result == 0 { Ok(()) } else { Err(self.error(function, result)) }
    }

    /// What the failure of `function` means.
    pub fn error(&self, function: &str, result: c_int) -> Error {
        let said = self.describe(result);
        let (id, fix) = meaning(result);
        Error::new(Code::UnhandledCudaError, id, format!("{} failed | {said} | fix: {fix}", plain(function)))
    }

    /// Name, number and sentence of a result.
    pub fn describe(&self, result: c_int) -> String {
        let text = |get: unsafe extern "C" fn(sys::CUresult, *mut *const c_char) -> c_int| {
            // SAFETY: differs from the table's type in the enum's Rust face only; passed as the int that C passes.
            let get: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int = unsafe { std::mem::transmute(get) };
            let mut at = std::ptr::null();
            // SAFETY: any number may be asked about; on success `at` is a constant of the driver.
            let found = unsafe { get(result, &mut at) } == 0 && !at.is_null();
            // SAFETY: as above.
            found.then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
        };
        let name = text(self.f.cuGetErrorName).unwrap_or_else(|| "unknown CUresult".into());
        match text(self.f.cuGetErrorString) {
            Some(sentence) => format!("{name} ({result}): {sentence}"),
            None => format!("{name} ({result})"),
        }
    }

    /// A function that is not in the table, as newer drivers have them; null where this one has none. `version` is the CUDA version whose
    /// signature is meant.
    pub fn newer(&self, name: &CStr, version: c_int) -> *mut c_void {
        let mut at = std::ptr::null_mut();
        let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
        if version > self.version {
            return at;
        }
        // SAFETY: a terminated name and two places to write to; the status has three values since it exists.
        let result = unsafe { (self.f.cuGetProcAddress_v2)(name.as_ptr(), &mut at, version, 0, &mut status) };
        if result == 0 { at } else { std::ptr::null_mut() }
    }
}

/// The symbol without its version.
fn plain(function: &str) -> &str {
    function.strip_suffix("_v2").unwrap_or(function)
}

/// Number of an error that a call returned, where no other says more.
const CALL: u16 = 71;

/// Catalogue number and mending of a result.
fn meaning(result: c_int) -> (u16, &'static str) {
    match result {
        code::OUT_OF_MEMORY => (72, "free memory of this device or ask for less; nvidia-smi shows who has it"),
        code::NOT_INITIALIZED | code::DEINITIALIZED => (
            CALL,
            "the driver is shut down or belongs to the parent of this forked process: use CUDA before main ends and after fork()",
        ),
        code::INVALID_CONTEXT => (CALL, "do not call cudaDeviceReset while communicators live"),
        // Illegal address, launch timeout, assert, stack error, ... : the context is lost and every later call says so.
        214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=722 => {
            (73, "a kernel of this process failed before and took its context along: run it under compute-sanitizer")
        }
        code::STREAM_CAPTURE_UNSUPPORTED..=910 => (CALL, "end the stream capture first, or report this"),
        _ => (CALL, "look the function up in CUDA's driver API; report this if the call was legal"),
    }
}

/// `cu!(cuMemRelease(handle))`: calls a function of the driver; a failure names it. The call is unsafe and argued where it is made.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => {
        $crate::device::cuda::driver::driver()
            .and_then(|driver| driver.check(stringify!($name), (driver.f.$name)($($arg),*)))
    };
}
pub(super) use cu;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_apart() {
        assert_eq!(meaning(code::OUT_OF_MEMORY).0, 72);
        assert_eq!(meaning(700).0, 73);
        assert_eq!(meaning(1).0, 71);
        assert!(meaning(code::NOT_INITIALIZED).1.contains("fork"));
        assert_eq!((plain("cuMemHostRegister_v2"), plain("cuMemCreate")), ("cuMemHostRegister", "cuMemCreate"));
    }

    #[test]
    fn absence_is_an_error_that_says_what_to_do() {
        if let Err(error) = driver() {
            assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 70));
            assert!(error.text.contains("fix: "), "{error}");
        }
    }
}
