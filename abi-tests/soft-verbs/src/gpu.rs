//! Memory of GPUs, which the host cannot touch: copied by the driver, on a stream of this library's own beside the kernels that run.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock};

type Copy = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_int;

struct Driver {
    attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    push: unsafe extern "C" fn(*mut c_void) -> c_int,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    create: unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int,
    pinned: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int,
    copy: Copy,
    wait: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// A device's context and stream, and pinned bytes to copy through.
struct Device {
    context: usize,
    stream: usize,
    bytes: usize,
}

const THROUGH: usize = 1 << 20;
/// cuPointerGetAttribute.
const MEMORY_TYPE: c_int = 2;
const ORDINAL: c_int = 9;
const DEVICE: u32 = 2;

fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let load = || {
        std::env::var_os("SOFTVERBS_GPU")?;
        // SAFETY: the program has it already.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        let symbol = |name: &CStr| {
            // SAFETY: a plain lookup.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!found.is_null(), "SOFTVERBS_GPU: libcuda.so.1 has no {name:?}");
            found
        };
        // SAFETY: as cuda.h declares them.
        unsafe {
            use std::mem::transmute;
            Some(Driver {
                attribute: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int>(symbol(
                    c"cuPointerGetAttribute",
                )),
                retain: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(symbol(
                    c"cuDevicePrimaryCtxRetain",
                )),
                push: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(symbol(c"cuCtxPushCurrent_v2")),
                pop: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void) -> c_int>(symbol(c"cuCtxPopCurrent_v2")),
                create: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int>(symbol(c"cuStreamCreate")),
                pinned: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int>(symbol(
                    c"cuMemHostAlloc",
                )),
                copy: transmute::<*mut c_void, Copy>(symbol(c"cuMemcpyAsync")),
                wait: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(symbol(c"cuStreamSynchronize")),
            })
        }
    };
    DRIVER.get_or_init(load).as_ref()
}

/// The device whose memory that is; None: the host's.
fn device_of(driver: &Driver, at: usize) -> Option<c_int> {
    let (mut kind, mut ordinal) = (0u32, 0);
    // SAFETY: both write an int; an address that the driver does not know is an error.
    unsafe {
        let found = (driver.attribute)((&raw mut kind).cast(), MEMORY_TYPE, at as u64) == 0 && kind == DEVICE;
        (found && (driver.attribute)((&raw mut ordinal).cast(), ORDINAL, at as u64) == 0).then_some(ordinal)
    }
}

pub fn is_there(at: usize) -> bool {
    driver().is_some_and(|driver| device_of(driver, at).is_some())
}

static DEVICES: Mutex<Vec<(c_int, Device)>> = Mutex::new(Vec::new());

fn devices() -> MutexGuard<'static, Vec<(c_int, Device)>> {
    DEVICES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Is told of memory that is registered: what its device needs is made now, for an allocation may wait for kernels that wait for copies.
pub fn know(at: usize) {
    let Some(driver) = driver() else { return };
    let Some(ordinal) = device_of(driver, at) else { return };
    let mut devices = devices();
    if !devices.iter().any(|(number, _)| *number == ordinal) {
        devices.push((ordinal, Device::new(driver, ordinal)));
    }
}

/// Copies, if either end is on a GPU; false: neither is.
pub fn copy(to: usize, from: usize, bytes: usize) -> bool {
    let Some(driver) = driver() else { return false };
    let ends = [from, to].map(|at| device_of(driver, at));
    if ends == [None, None] {
        return false;
    }
    let devices = devices();
    let device = |ordinal| devices.iter().find(|(number, _)| *number == ordinal).map(|(_, device)| device);
    let [source, target] = ends.map(|end| end.and_then(device));
    for at in (0..bytes).step_by(THROUGH) {
        let n = (bytes - at).min(THROUGH);
        // Through pinned bytes of the target's device, or of the source's.
        let through = target.or(source).expect("registered memory's device is known").bytes;
        match source {
            Some(device) => device.run(driver, through, from + at, n),
            // SAFETY: memory of the host, as registered.
            None => unsafe { std::ptr::copy((from + at) as *const u8, through as *mut u8, n) },
        }
        match target {
            Some(device) => device.run(driver, to + at, through, n),
            // SAFETY: as above.
            None => unsafe { std::ptr::copy(through as *const u8, (to + at) as *mut u8, n) },
        }
    }
    true
}

impl Device {
    fn new(driver: &Driver, ordinal: c_int) -> Self {
        let (mut context, mut stream, mut bytes) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let mut popped = std::ptr::null_mut();
        // SAFETY: all write where they are told; the stream does not wait for the default one (1), and the bytes are every context's (1).
        let results = unsafe {
            [
                (driver.retain)(&mut context, ordinal),
                (driver.push)(context),
                (driver.create)(&mut stream, 1),
                (driver.pinned)(&mut bytes, THROUGH, 1),
                (driver.pop)(&mut popped),
            ]
        };
        assert_eq!(results, [0; 5], "SOFTVERBS_GPU: a stream and pinned memory of device {ordinal}");
        Self { context: context as usize, stream: stream as usize, bytes: bytes as usize }
    }

    fn run(&self, driver: &Driver, to: usize, from: usize, bytes: usize) {
        let mut popped = std::ptr::null_mut();
        let stream = self.stream as *mut c_void;
        // SAFETY: one end is this device's, the other pinned bytes, and both stay until the stream has done it.
        let results = unsafe {
            [
                (driver.push)(self.context as *mut c_void),
                (driver.copy)(to as u64, from as u64, bytes, stream),
                (driver.wait)(stream),
                (driver.pop)(&mut popped),
            ]
        };
        assert_eq!(results, [0; 4], "SOFTVERBS_GPU: a copy of {bytes} bytes from {from:#x} to {to:#x}");
    }
}
