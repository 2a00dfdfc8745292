//! Copies and fills. Checked when they are asked for, and again when a stream carries them out: memory that was unmapped between the
//! two breaks the context (CUDA_ERROR_ILLEGAL_ADDRESS), as it does on a GPU.

use crate::entry::enter;
use crate::error::{Code, Result};
use crate::queue::{Operation, Stream};
use crate::world::{Seen, WORLD, World};
use crate::{context, inject, standin, stream};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One copy of a stream.
pub struct One {
    pub to: u64,
    pub from: u64,
    pub bytes: u64,
    /// Pageable memory, read when the copy was asked for.
    pub staged: Option<Box<[u8]>>,
}

/// Where an argument must lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Device,
    Host,
    Any,
}

fn check_place(place: Place, device: usize, at: u64, bytes: u64, write: bool) -> Result<Seen> {
    let seen = WORLD.read().see(device, at, bytes, write);
    let ok = match seen {
        Seen::Refused => false,
        Seen::Unknown => place != Place::Device && at >= 4096,
        Seen::Device | Seen::Pinned => true,
    };
    if ok { Ok(seen) } else { Err(Code::INVALID_VALUE) }
}

/// Copies between addresses of any kind, piece by piece where they are seen in pieces.
fn transfer(world: &World, mut to: u64, mut from: u64, mut bytes: u64) {
    while bytes > 0 {
        let ((target, room), (source, left)) = (world.host(to), world.host(from));
        let piece = bytes.min(room).min(left);
        move_bytes(target, source, piece);
        (to, from, bytes) = (to + piece, from + piece, bytes - piece);
    }
}

fn move_bytes(to: u64, from: u64, bytes: u64) {
    // SAFETY: the callers have checked both ranges, and hold the lock that keeps them mapped. Kernels may touch them at the same
    // time, as on a GPU; a word is moved as one, so that flags that travel in a copy are never torn.
    unsafe {
        if bytes == 8 && to.is_multiple_of(8) && from.is_multiple_of(8) {
            let word = (*(from as *const AtomicU64)).load(Ordering::SeqCst);
            (*(to as *const AtomicU64)).store(word, Ordering::SeqCst);
        } else {
            std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize);
        }
    }
}

/// Carries out one copy of a stream.
pub fn perform(device: usize, one: &One) -> Result {
    if let Some(code) = inject::due("copy") {
        return Err(code);
    }
    let world = WORLD.read();
    let from = one.staged.as_ref().map_or(one.from, |bytes| bytes.as_ptr() as u64);
    let readable = one.staged.is_some() || world.see(device, one.from, one.bytes, false) != Seen::Refused;
    if !readable || world.see(device, one.to, one.bytes, true) == Seen::Refused {
        return Err(Code::ILLEGAL_ADDRESS);
    }
    transfer(&world, one.to, from, one.bytes);
    Ok(())
}

/// The device for whose work a single copy of `stream` looks its addresses up: measured, the current context's where there is one.
fn asking(stream: &Stream) -> usize {
    context::current_if_any().unwrap_or(stream.device)
}

/// Checks a copy of `stream` whose addresses `device` too must be allowed to touch.
pub fn plan(stream: &Stream, device: usize, to: u64, from: u64, bytes: u64, places: (Place, Place)) -> Result<(One, Seen)> {
    let (mut source, mut target) = (Seen::Unknown, Seen::Unknown);
    for device in [stream.device, device] {
        target = check_place(places.0, device, to, bytes, true)?;
        source = check_place(places.1, device, from, bytes, false)?;
    }
    let staged = (source == Seen::Unknown).then(|| {
        let mut copy = vec![0u8; bytes as usize].into_boxed_slice();
        move_bytes(copy.as_mut_ptr() as u64, from, bytes);
        copy
    });
    Ok((One { to, from, bytes, staged }, target))
}

fn start(stream: *mut c_void, to: u64, from: u64, bytes: usize, places: (Place, Place)) -> Result {
    let stream = stream::find(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let (one, target) = plan(&stream, asking(&stream), to, from, bytes as u64, places)?;
    submit(&stream, vec![one], target == Seen::Unknown);
    Ok(())
}

/// Starts copies; pageable memory as a target makes the call wait, as it does there.
pub fn submit(stream: &Arc<Stream>, copies: Vec<One>, pageable: bool) {
    drop(standin::FREEING.read());
    stream.submit(Operation::Copies(copies));
    if pageable && stream.capture.lock().is_none() {
        stream.drain();
    }
}

/// A synchronous copy: on the legacy stream, after the kernels and the blocking streams of the device.
fn now(name: &str, to: u64, from: u64, bytes: usize, places: (Place, Place)) -> i32 {
    enter(name, || {
        let device = context::current()?;
        if bytes == 0 {
            return Ok(());
        }
        check_place(places.0, device, to, bytes as u64, true)?;
        check_place(places.1, device, from, bytes as u64, false)?;
        standin::wait_for_kernels(device, name);
        stream::drain_blocking(device);
        context::usable(device)?;
        let world = WORLD.read();
        let gone =
            [(to, true), (from, false)].iter().any(|&(at, write)| world.see(device, at, bytes as u64, write) == Seen::Refused);
        if gone {
            return Err(Code::INVALID_VALUE);
        }
        transfer(&world, to, from, bytes as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> i32 {
    now("cuMemcpy", to, from, bytes, (Place::Any, Place::Any))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> i32 {
    now("cuMemcpyHtoD", to, from as u64, bytes, (Place::Device, Place::Host))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> i32 {
    now("cuMemcpyDtoH", to as u64, from, bytes, (Place::Host, Place::Device))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    now("cuMemcpyDtoD", to, from, bytes, (Place::Device, Place::Device))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: *mut c_void) -> i32 {
    enter("cuMemcpyAsync", || start(stream, to, from, bytes, (Place::Any, Place::Any)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) -> i32 {
    enter("cuMemcpyHtoDAsync", || start(stream, to, from as u64, bytes, (Place::Device, Place::Host)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) -> i32 {
    enter("cuMemcpyDtoHAsync", || start(stream, to as u64, from, bytes, (Place::Host, Place::Device)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) -> i32 {
    enter("cuMemcpyDtoDAsync", || start(stream, to, from, bytes, (Place::Device, Place::Device)))
}

/// Carries out a fill.
pub fn fill(device: usize, at: u64, value: u32, unit: u8, count: u64) -> Result {
    let world = WORLD.read();
    if !matches!(world.see(device, at, count * u64::from(unit), true), Seen::Device | Seen::Pinned) {
        return Err(Code::ILLEGAL_ADDRESS);
    }
    let (mut at, mut bytes) = (at, count * u64::from(unit));
    while bytes > 0 {
        let (target, room) = world.host(at);
        let piece = bytes.min(room);
        // SAFETY: checked just now, aligned by `check_fill`, and not unmapped while the lock is held.
        unsafe {
            if unit == 1 {
                std::ptr::write_bytes(target as *mut u8, value as u8, piece as usize);
            } else {
                std::slice::from_raw_parts_mut(target as *mut u32, piece as usize / 4).fill(value);
            }
        }
        (at, bytes) = (at + piece, bytes - piece);
    }
    Ok(())
}

fn check_fill(device: usize, at: u64, unit: u8, count: usize) -> Result {
    let bytes = (count as u64).checked_mul(unit.into()).filter(|_| at.is_multiple_of(unit.into())).ok_or(Code::INVALID_VALUE)?;
    check_place(Place::Device, device, at, bytes, true).map(drop)
}

fn fill_now(name: &str, at: u64, value: u32, unit: u8, count: usize) -> i32 {
    enter(name, || {
        let device = context::current()?;
        if count == 0 {
            return Ok(());
        }
        check_fill(device, at, unit, count)?;
        standin::wait_for_kernels(device, name);
        stream::drain_blocking(device);
        context::usable(device)?;
        fill(device, at, value, unit, count as u64).map_err(|_| Code::INVALID_VALUE)
    })
}

fn fill_later(name: &str, at: u64, value: u32, unit: u8, count: usize, stream: *mut c_void) -> i32 {
    enter(name, || {
        let stream = stream::find(stream)?;
        if count > 0 {
            check_fill(stream.device, at, unit, count)?;
            stream.submit(Operation::Fill { at, value, unit, count: count as u64 });
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(at: u64, value: u8, count: usize) -> i32 {
    fill_now("cuMemsetD8", at, value.into(), 1, count)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32_v2(at: u64, value: u32, count: usize) -> i32 {
    fill_now("cuMemsetD32", at, value, 4, count)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(at: u64, value: u8, count: usize, stream: *mut c_void) -> i32 {
    fill_later("cuMemsetD8Async", at, value.into(), 1, count, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(at: u64, value: u32, count: usize, stream: *mut c_void) -> i32 {
    fill_later("cuMemsetD32Async", at, value, 4, count, stream)
}
