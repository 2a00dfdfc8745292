//! Copies, fills, and the copies to and from device variables.

use std::ffi::c_void;

use super::give;
use crate::api::stream::stream;
use crate::device;
use crate::entry::entry_on_device;
use crate::error::{Code, Result, refuse};
use crate::memory::check_range;
use crate::race::{self, Called};
use crate::symbol;
use crate::task::Work;

type Pointer = *mut c_void;
type Source = *const c_void;

/// Queues the work; `wait`: and waits for it, as the calls without Async do.
fn submit(mut work: Work, on: Pointer, wait: bool) -> Result {
    let stream = stream(on)?;
    let is_queued = !wait && stream.capture.lock().is_none();
    let called = if is_queued { queue(&mut work) } else { Called::default() };
    stream.push(work).inspect_err(|_| called.done())?;
    if wait { stream.synchronize() } else { Ok(()) }
}

/// A copy that the host does not wait for.
fn queue(work: &mut Work) -> Called {
    let Work::Copy { to, to_pitch, from, from_pitch, width, height, called } = work else { return Called::default() };
    let rows = |at: usize, pitch: usize, writes: bool| race::Rows { at, pitch, width: *width, height: *height, writes };
    called.queue(&[rows(*from, *from_pitch, false), rows(*to, *to_pitch, true)]);
    *called
}

struct Rows {
    to_pitch: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
}

impl Rows {
    fn flat(bytes: usize) -> Rows {
        Rows { to_pitch: bytes, from_pitch: bytes, width: bytes, height: 1 }
    }
}

/// Bytes from the first to the last of `height` rows.
fn span(pitch: usize, width: usize, height: usize) -> Result<usize> {
    if width == 0 || height == 0 {
        return Ok(0);
    }
    pitch.checked_mul(height - 1).and_then(|bytes| bytes.checked_add(width)).ok_or(Code::INVALID_VALUE)
}

fn copy(to: usize, from: usize, rows: Rows, kind: i32, on: Pointer, wait: bool) -> Result {
    let Rows { to_pitch, from_pitch, width, height } = rows;
    if !(0..=4).contains(&kind) {
        return refuse(Code::INVALID_MEMCPY_DIRECTION, &format!("a copy of kind {kind}: 0 to 4 exist"));
    }
    if width > to_pitch || width > from_pitch {
        return refuse(
            Code::INVALID_PITCH_VALUE,
            &format!("rows of {width} bytes do not fit pitches {to_pitch} and {from_pitch}"),
        );
    }
    check_range(to, span(to_pitch, width, height)?, "destination of a copy")?;
    check_range(from, span(from_pitch, width, height)?, "source of a copy")?;
    let called = Called::here("cudaMemcpy");
    submit(Work::Copy { to, to_pitch, from, from_pitch, width, height, called }, on, wait)
}

fn fill(to: usize, pitch: usize, value: i32, (width, height): (usize, usize), on: Pointer, wait: bool) -> Result {
    if width > pitch {
        return refuse(Code::INVALID_PITCH_VALUE, &format!("rows of {width} bytes do not fit a pitch of {pitch}"));
    }
    check_range(to, span(pitch, width, height)?, "destination of a memset")?;
    let called = Called::here("cudaMemset");
    submit(Work::Fill { to, pitch, value: value as u8, width, height, called }, on, wait)
}

const DEFAULT_STREAM: Pointer = std::ptr::null_mut();

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy(to: Pointer, from: Source, bytes: usize, kind: i32) -> i32 {
    entry_on_device(|_| copy(to as usize, from as usize, Rows::flat(bytes), kind, DEFAULT_STREAM, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyAsync(to: Pointer, from: Source, bytes: usize, kind: i32, on: Pointer) -> i32 {
    entry_on_device(|_| copy(to as usize, from as usize, Rows::flat(bytes), kind, on, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyPeer(to: Pointer, to_device: i32, from: Source, from_device: i32, bytes: usize) -> i32 {
    entry_on_device(|_| {
        device::get(to_device)?;
        device::get(from_device)?;
        copy(to as usize, from as usize, Rows::flat(bytes), 3, DEFAULT_STREAM, true)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyPeerAsync(
    to: Pointer,
    to_device: i32,
    from: Source,
    from_device: i32,
    bytes: usize,
    on: Pointer,
) -> i32 {
    entry_on_device(|_| {
        device::get(to_device)?;
        device::get(from_device)?;
        copy(to as usize, from as usize, Rows::flat(bytes), 3, on, false)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy2D(
    to: Pointer,
    to_pitch: usize,
    from: Source,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: i32,
) -> i32 {
    let rows = Rows { to_pitch, from_pitch, width, height };
    entry_on_device(|_| copy(to as usize, from as usize, rows, kind, DEFAULT_STREAM, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy2DAsync(
    to: Pointer,
    to_pitch: usize,
    from: Source,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: i32,
    on: Pointer,
) -> i32 {
    let rows = Rows { to_pitch, from_pitch, width, height };
    entry_on_device(|_| copy(to as usize, from as usize, rows, kind, on, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemset(to: Pointer, value: i32, bytes: usize) -> i32 {
    entry_on_device(|_| fill(to as usize, bytes, value, (bytes, 1), DEFAULT_STREAM, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemsetAsync(to: Pointer, value: i32, bytes: usize, on: Pointer) -> i32 {
    entry_on_device(|_| fill(to as usize, bytes, value, (bytes, 1), on, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemset2D(to: Pointer, pitch: usize, value: i32, width: usize, height: usize) -> i32 {
    entry_on_device(|_| fill(to as usize, pitch, value, (width, height), DEFAULT_STREAM, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemset2DAsync(
    to: Pointer,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    on: Pointer,
) -> i32 {
    entry_on_device(|_| fill(to as usize, pitch, value, (width, height), on, false))
}

/// Address of the current device's copy of `symbol`, for `bytes` bytes from `offset`.
fn variable(symbol: Source, offset: usize, bytes: usize) -> Result<usize> {
    let (address, size) = symbol::find(symbol as usize, device::current()?.id)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(address + offset),
        _ => refuse(Code::INVALID_VALUE, &format!("{bytes} bytes at offset {offset} of a device variable of {size} bytes")),
    }
}

fn to_symbol(symbol: Source, from: Source, bytes: usize, offset: usize, kind: i32, on: Pointer, wait: bool) -> i32 {
    entry_on_device(|_| copy(variable(symbol, offset, bytes)?, from as usize, Rows::flat(bytes), kind, on, wait))
}

fn from_symbol(to: Pointer, symbol: Source, bytes: usize, offset: usize, kind: i32, on: Pointer, wait: bool) -> i32 {
    entry_on_device(|_| copy(to as usize, variable(symbol, offset, bytes)?, Rows::flat(bytes), kind, on, wait))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyToSymbol(symbol: Source, from: Source, bytes: usize, offset: usize, kind: i32) -> i32 {
    to_symbol(symbol, from, bytes, offset, kind, DEFAULT_STREAM, true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyToSymbolAsync(
    symbol: Source,
    from: Source,
    bytes: usize,
    offset: usize,
    kind: i32,
    on: Pointer,
) -> i32 {
    to_symbol(symbol, from, bytes, offset, kind, on, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyFromSymbol(to: Pointer, symbol: Source, bytes: usize, offset: usize, kind: i32) -> i32 {
    from_symbol(to, symbol, bytes, offset, kind, DEFAULT_STREAM, true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyFromSymbolAsync(
    to: Pointer,
    symbol: Source,
    bytes: usize,
    offset: usize,
    kind: i32,
    on: Pointer,
) -> i32 {
    from_symbol(to, symbol, bytes, offset, kind, on, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolAddress(out: *mut Pointer, symbol: Source) -> i32 {
    // SAFETY: see the module `api`.
    entry_on_device(|device| unsafe { give(out, symbol::find(symbol as usize, device.id)?.0 as Pointer) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolSize(out: *mut usize, symbol: Source) -> i32 {
    // SAFETY: as above.
    entry_on_device(|device| unsafe { give(out, symbol::find(symbol as usize, device.id)?.1) })
}
