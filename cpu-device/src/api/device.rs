//! Devices, versions, errors.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{give, need};
use crate::api::properties::{self, DeviceProp};
use crate::config::config;
use crate::device::{self, count, get};
use crate::entry::{entry, entry_on_device, last};
use crate::error::{Code, refuse};
use crate::stream;

/// The version of CUDA whose names, numbers and layouts these are.
pub const VERSION: i32 = 13000;

thread_local! {
    static FLAGS: Cell<u32> = const { Cell::new(0) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDriverGetVersion(version: *mut i32) -> i32 {
    // SAFETY: see the module `api`, also below.
    entry(|| unsafe { give(version, VERSION) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(version, VERSION) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> i32 {
    last(true).0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> i32 {
    last(false).0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: i32) -> *const c_char {
    Code(error).name().as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: i32) -> *const c_char {
    Code(error).text().as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, count() as i32) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDevice(id: i32) -> i32 {
    entry(|| match device::set_current(id) {
        Err(Code::INVALID_DEVICE) => refuse(
            Code::INVALID_DEVICE,
            &format!(
                "cudaSetDevice({id}): there are {} devices\nfix: set GINRS_CPU_DEVICES higher, or use 0 to {}",
                count(),
                count() - 1
            ),
        ),
        other => other,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDevice(out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, device::current_id()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaInitDevice(id: i32, _device_flags: u32, _flags: u32) -> i32 {
    entry(|| get(id).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDeviceFlags(flags: u32) -> i32 {
    entry(|| {
        FLAGS.set(flags);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceFlags(out: *mut u32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, FLAGS.get()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetValidDevices(ids: *mut i32, length: i32) -> i32 {
    entry(|| {
        for i in 0..length.max(0) as usize {
            // SAFETY: the caller gives `length` numbers.
            get(unsafe { *ids.add(i) })?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaChooseDevice(out: *mut i32, _wanted: *const DeviceProp) -> i32 {
    // All devices are alike.
    // SAFETY: as above.
    entry(|| unsafe { give(out, 0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties(out: *mut DeviceProp, id: i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, properties::of(get(id)?)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetAttribute(out: *mut i32, attribute: i32, id: i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, properties::attribute(get(id)?, attribute)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetPCIBusId(out: *mut c_char, length: i32, id: i32) -> i32 {
    entry(|| {
        need(out)?;
        let text = properties::bus_id(get(id)?.id);
        if length <= text.len() as i32 {
            return refuse(
                Code::INVALID_VALUE,
                &format!("cudaDeviceGetPCIBusId: {length} bytes given, {} needed", text.len() + 1),
            );
        }
        // SAFETY: the caller gives `length` bytes, and length exceeds the text by at least the NUL.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
            *out.add(text.len()) = 0;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetByPCIBusId(out: *mut i32, bus_id: *const c_char) -> i32 {
    entry(|| {
        if bus_id.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: a string from the caller.
        let wanted = unsafe { CStr::from_ptr(bus_id) }.to_string_lossy().to_ascii_lowercase();
        // The domain has four or eight digits (NVML's way), or is left out.
        let plain = |id: &str| id.trim_start_matches(['0', ':']).to_string();
        let found = (0..count() as i32).find(|&id| plain(&properties::bus_id(id)) == plain(&wanted));
        // SAFETY: as above.
        unsafe { give(out, found.ok_or(Code::INVALID_DEVICE)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSynchronize() -> i32 {
    entry(|| {
        let device = device::current()?;
        stream::of(device).wait_for_all();
        device.healthy()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceReset() -> i32 {
    entry(|| {
        let device = device::current()?;
        stream::of(device).wait_for_all();
        device.reset();
        last(true);
        Ok(())
    })
}

/// `cudaLimit`: stack, printf buffer and heap sizes are kept and have no effect (a thread's stack is GINRS_CPU_STACK).
static LIMITS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetLimit(limit: i32, value: usize) -> i32 {
    entry_on_device(|_| {
        let slot = LIMITS.get(limit as usize).ok_or(Code::UNSUPPORTED_LIMIT)?;
        slot.store(value as u64, Ordering::Relaxed);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetLimit(out: *mut usize, limit: i32) -> i32 {
    entry_on_device(|_| {
        let defaults = [config().stack_bytes, 1 << 20, 8 << 20];
        let slot = LIMITS.get(limit as usize).ok_or(Code::UNSUPPORTED_LIMIT)?;
        let set = slot.load(Ordering::Relaxed) as usize;
        // SAFETY: as above.
        unsafe { give(out, if set == 0 { defaults[limit as usize] } else { set }) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetCacheConfig(_config: i32) -> i32 {
    entry_on_device(|_| Ok(()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetCacheConfig(out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry_on_device(|_| unsafe { give(out, 0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> i32 {
    entry_on_device(|_| {
        // SAFETY: as above; CUDA lets either be NULL.
        unsafe {
            if !least.is_null() {
                give(least, 0)?;
            }
            if greatest.is_null() { Ok(()) } else { give(greatest, -5) }
        }
    })
}

/// Peer accesses that are enabled, as (from, to). All memory is reachable anyway; the calls keep CUDA's rules.
static PEERS: parking_lot::Mutex<Vec<(i32, i32)>> = parking_lot::Mutex::new(Vec::new());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceCanAccessPeer(out: *mut i32, from: i32, to: i32) -> i32 {
    entry(|| {
        let differ = get(from)?.id != get(to)?.id;
        // SAFETY: as above.
        unsafe { give(out, i32::from(differ)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceEnablePeerAccess(to: i32, flags: u32) -> i32 {
    entry_on_device(|from| {
        let pair = (from.id, get(to)?.id);
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if pair.0 == pair.1 {
            return Err(Code::INVALID_DEVICE);
        }
        let mut peers = PEERS.lock();
        if peers.contains(&pair) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(pair);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceDisablePeerAccess(to: i32) -> i32 {
    entry_on_device(|from| {
        let pair = (from.id, get(to)?.id);
        let mut peers = PEERS.lock();
        let at = peers.iter().position(|&p| p == pair).ok_or(Code::PEER_ACCESS_NOT_ENABLED)?;
        peers.swap_remove(at);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetP2PAttribute(out: *mut i32, attribute: i32, from: i32, to: i32) -> i32 {
    entry(|| {
        if get(from)?.id == get(to)?.id {
            return Err(Code::INVALID_DEVICE);
        }
        let value = match attribute {
            1 => 0,     // performance rank: all pairs are alike
            2 | 3 => 1, // access, atomics
            4 | 5 => 0, // arrays; "only some atomics"
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: as above.
        unsafe { give(out, value) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceFlushGPUDirectRDMAWrites(_target: i32, _scope: i32) -> i32 {
    // The memory is the CPU's: whatever was written is visible.
    entry_on_device(|_| Ok(()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaProfilerStart() -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaProfilerStop() -> i32 {
    0
}
