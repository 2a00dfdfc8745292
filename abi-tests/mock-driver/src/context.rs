//! Primary contexts, which is all there are, and each thread's stack of current ones.

use crate::entry::{enter, give, give_if};
use crate::error::{Code, Result};
use crate::{capture, device, standin, stream};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering};

/// Most devices.
pub const MOST: usize = 16;

/// A context's handle is this plus its device's number; nobody dereferences it.
const FIRST: usize = 0x6d6f_636b_0000;

struct Primary {
    held: u32,
    peers: [bool; MOST],
}

static PRIMARY: [Mutex<Primary>; MOST] = [const { Mutex::new(Primary { held: 0, peers: [false; MOST] }) }; MOST];
/// An error that a device's work ended in: every later call of its context returns it.
static BROKEN: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];

thread_local! {
    // Without a destructor: a driver answers in destructors of static objects, too. A few bytes of a thread that ends are lost.
    static STACK: RefCell<ManuallyDrop<Vec<usize>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The handle of a device's primary context.
pub fn handle(device: usize) -> *mut c_void {
    (FIRST + device) as *mut c_void
}

/// The device of a context; one that nobody holds is a context all the same, until it is used.
fn device_of(context: *mut c_void) -> Result<usize> {
    if context.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let device = (context as usize).wrapping_sub(FIRST);
    if device < device::count() as usize { Ok(device) } else { Err(Code::INVALID_CONTEXT) }
}

/// The device whose context is current, destroyed or not.
fn top() -> Option<usize> {
    STACK.with_borrow(|stack| stack.last().copied()).or_else(|| {
        // The runtime makes the primary context of its device current by itself, and keeps it.
        let device = device::check(standin::current_device()?).ok()?;
        let mut primary = PRIMARY[device].lock();
        primary.held = primary.held.max(1);
        Some(device)
    })
}

/// The device of the current context, which must be usable.
pub fn current() -> Result<usize> {
    let device = top().ok_or(Code::INVALID_CONTEXT)?;
    if PRIMARY[device].lock().held == 0 {
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    usable(device)
}

/// The device of the current context, if there is one; for calls that need none.
pub fn current_if_any() -> Option<usize> {
    current().ok()
}

/// An error if the work of `device` has failed before.
pub fn usable(device: usize) -> Result<usize> {
    match BROKEN[device].load(Ordering::Acquire) {
        0 => Ok(device),
        code => Err(Code(code)),
    }
}

/// Breaks the context of `device`.
pub fn break_with(device: usize, code: Code) {
    let _ = BROKEN[device].compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether linear memory of `owner` may be touched by work of `device`: its own, or with cuCtxEnablePeerAccess.
pub fn peer_enabled(device: usize, owner: usize) -> bool {
    device == owner || PRIMARY[device].lock().peers[owner]
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut *mut c_void, device: i32) -> i32 {
    enter("cuDevicePrimaryCtxRetain", || {
        let device = device::check(device)?;
        // SAFETY: see the crate; also below.
        unsafe { give(out, handle(device))? };
        PRIMARY[device].lock().held += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    enter("cuDevicePrimaryCtxRelease", || {
        let device = device::check(device)?;
        {
            let mut primary = PRIMARY[device].lock();
            if primary.held == 0 {
                return Err(Code::INVALID_CONTEXT);
            }
            primary.held -= 1;
            if primary.held > 0 {
                return Ok(());
            }
            primary.peers = [false; MOST];
        }
        stream::drain(device);
        crate::linear::forget(device);
        BROKEN[device].store(0, Ordering::Release);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease(device: i32) -> i32 {
    cuDevicePrimaryCtxRelease_v2(device)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) -> i32 {
    enter("cuDevicePrimaryCtxGetState", || {
        let held = PRIMARY[device::check(device)?].lock().held;
        // SAFETY: as above.
        unsafe { give(flags, 0).and(give(active, i32::from(held > 0))) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: *mut c_void) -> i32 {
    enter("cuCtxPushCurrent", || {
        let device = device_of(context)?;
        STACK.with_borrow_mut(|stack| stack.push(device));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(out: *mut *mut c_void) -> i32 {
    enter("cuCtxPopCurrent", || {
        let device = STACK.with_borrow_mut(|stack| stack.pop()).ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: as above.
        unsafe { give_if(out, handle(device)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> i32 {
    enter("cuCtxSetCurrent", || {
        let device = if context.is_null() { None } else { Some(device_of(context)?) };
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend(device);
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut *mut c_void) -> i32 {
    // SAFETY: as above.
    enter("cuCtxGetCurrent", || unsafe { give(out, top().map_or(std::ptr::null_mut(), handle)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(out: *mut i32) -> i32 {
    // SAFETY: as above.
    enter("cuCtxGetDevice", || unsafe { give(out, top().ok_or(Code::INVALID_CONTEXT)? as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetId(context: *mut c_void, out: *mut u64) -> i32 {
    enter("cuCtxGetId", || {
        let device = if context.is_null() { top().ok_or(Code::INVALID_CONTEXT)? } else { device_of(context)? };
        // SAFETY: as above.
        unsafe { give(out, device as u64 + 1) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetFlags(out: *mut u32) -> i32 {
    // SAFETY: as above.
    enter("cuCtxGetFlags", || current().and_then(|_| unsafe { give(out, 0) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetApiVersion(_context: *mut c_void, out: *mut u32) -> i32 {
    // SAFETY: as above.
    enter("cuCtxGetApiVersion", || unsafe { give(out, 3020) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> i32 {
    enter("cuCtxSynchronize", || {
        let device = current()?;
        capture::refuse_implicit()?;
        standin::wait_for_kernels(device, "cuCtxSynchronize");
        stream::drain(device);
        usable(device).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxEnablePeerAccess(peer: *mut c_void, flags: u32) -> i32 {
    enter("cuCtxEnablePeerAccess", || {
        let device = current()?;
        let peer = device_of(peer)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if peer == device || !device::reaches(device, Some(peer)) {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        if std::mem::replace(&mut PRIMARY[device].lock().peers[peer], true) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDisablePeerAccess(peer: *mut c_void) -> i32 {
    enter("cuCtxDisablePeerAccess", || {
        let device = current()?;
        let peer = device_of(peer)?;
        if std::mem::replace(&mut PRIMARY[device].lock().peers[peer], false) {
            Ok(())
        } else {
            Err(Code::PEER_ACCESS_NOT_ENABLED)
        }
    })
}

/// CU_MODULE_EAGER_LOADING 1, CU_MODULE_LAZY_LOADING 2. There are no modules here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetLoadingMode(out: *mut i32) -> i32 {
    let eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|mode| mode == "EAGER");
    // SAFETY: as above.
    enter("cuModuleGetLoadingMode", || unsafe { give(out, if eager { 1 } else { 2 }) })
}
