//! The devices: how many, which ones this process sees, and what they say of themselves.

use crate::attributes;
use crate::entry::{enter, give};
use crate::error::{Code, Result};
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

/// Physical numbers of the visible devices, by ordinal.
fn visible() -> &'static [i32] {
    static VISIBLE: OnceLock<Vec<i32>> = OnceLock::new();
    VISIBLE.get_or_init(|| {
        let all = number("GINRS_MOCK_DEVICES", 4) as i32;
        match std::env::var("CUDA_VISIBLE_DEVICES") {
            // As CUDA reads it: the first entry that names no device ends the list.
            Ok(list) => list.split(',').map_while(|word| word.trim().parse().ok().filter(|id| (0..all).contains(id))).collect(),
            Err(_) => (0..all).collect(),
        }
    })
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}

/// Visible devices.
pub fn count() -> i32 {
    visible().len() as i32
}

/// `ordinal`, if there is such a device.
pub fn check(ordinal: i32) -> Result<usize> {
    if (0..count()).contains(&ordinal) { Ok(ordinal as usize) } else { Err(Code::INVALID_DEVICE) }
}

/// The machine's number of a visible device.
pub fn physical(ordinal: usize) -> i32 {
    visible()[ordinal]
}

/// The ordinal of the machine's device `physical`, if this process sees it.
pub fn ordinal_of(physical: i32) -> Option<usize> {
    visible().iter().position(|&id| id == physical)
}

/// Whether kernels of `from` reach memory of `to`; None is a device that this process does not see.
pub fn reaches(from: usize, to: Option<usize>) -> bool {
    Some(from) == to || number("GINRS_MOCK_NO_P2P", 0) == 0
}

/// Bytes of memory that each device has.
pub fn memory() -> u64 {
    number("GINRS_MOCK_MEMORY", 16384) << 20
}

/// PCI bus number; domain, device and function are 0.
pub fn bus(ordinal: usize) -> i32 {
    0x1b + 0x10 * physical(ordinal)
}

fn copy_text(text: &str, out: *mut c_char, length: i32) -> Result {
    if out.is_null() || length <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    let n = text.len().min(length as usize - 1);
    // SAFETY: the caller gave `length` bytes; n + 1 of them are written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, n);
        out.add(n).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(out: *mut i32) -> i32 {
    // SAFETY: see the crate; also below.
    enter("cuDeviceGetCount", || unsafe { give(out, count()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: *mut i32, ordinal: i32) -> i32 {
    // SAFETY: as above.
    enter("cuDeviceGet", || unsafe { give(out, check(ordinal)? as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(out: *mut c_char, length: i32, device: i32) -> i32 {
    enter("cuDeviceGetName", || check(device).and_then(|_| copy_text("Mock H200", out, length)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(out: *mut c_char, length: i32, device: i32) -> i32 {
    enter("cuDeviceGetPCIBusId", || copy_text(&format!("0000:{:02X}:00.0", bus(check(device)?)), out, length))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetByPCIBusId(out: *mut i32, text: *const c_char) -> i32 {
    enter("cuDeviceGetByPCIBusId", || {
        if text.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: see the crate.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_uppercase();
        let found = (0..count()).find(|&device| {
            let full = format!("0000:{:02X}:00.0", bus(device as usize));
            text == full || text == full["0000:".len()..] || text == full[..full.len() - 2]
        });
        // SAFETY: as above.
        unsafe { give(out, found.ok_or(Code::INVALID_DEVICE)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: i32) -> i32 {
    enter("cuDeviceGetUuid", || {
        let mut uuid = *b"ginrs mock gpu 0";
        uuid[15] += physical(check(device)?) as u8;
        // SAFETY: as above.
        unsafe { give(out, uuid) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(out: *mut [u8; 16], device: i32) -> i32 {
    // SAFETY: as above.
    unsafe { cuDeviceGetUuid_v2(out, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, device: i32) -> i32 {
    // SAFETY: as above.
    enter("cuDeviceTotalMem", || check(device).and_then(|_| unsafe { give(out, memory() as usize) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(out: *mut i32, attribute: i32, device: i32) -> i32 {
    enter("cuDeviceGetAttribute", || {
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { give(out, attributes::value(attribute, check(device)?)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(out: *mut i32, device: i32, peer: i32) -> i32 {
    enter("cuDeviceCanAccessPeer", || {
        let (device, peer) = (check(device)?, check(peer)?);
        // SAFETY: as above.
        unsafe { give(out, i32::from(device != peer && reaches(device, Some(peer)))) }
    })
}

/// CU_DEVICE_P2P_ATTRIBUTE_*: rank 1, access 2, native atomics 3, arrays 4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(out: *mut i32, attribute: i32, device: i32, peer: i32) -> i32 {
    enter("cuDeviceGetP2PAttribute", || {
        let (device, peer) = (check(device)?, check(peer)?);
        if device == peer {
            return Err(Code::INVALID_DEVICE);
        }
        let value = match attribute {
            1 => 0,
            2..=4 => i32::from(reaches(device, Some(peer))),
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: as above.
        unsafe { give(out, value) }
    })
}
