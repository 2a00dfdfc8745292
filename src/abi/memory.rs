//! Memory that windows are made of (nccl.h).

use super::entry::{entry, out};
use crate::device::cpu::calling_line;
use crate::device::{self, DevPtr, Kind, graveyard};
use crate::layout::ncclResult_t;
use crate::window::standing_on;
use crate::{hint, info};
use std::ffi::c_void;

/// Device memory on the current device, rounded up to its granularity; zeroed on the CPU device, but where `--check=race` looks for what nobody has written. `size` 0 gives NULL.
#[unsafe(no_mangle)]
pub extern "C" fn pncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t {
    entry!(ncclMemAlloc(ptr, size) {
        let at = out("ptr", ptr)?;
        graveyard::sweep();
        let memory = match size {
            0 => 0,
            _ => device::current()?.alloc(size)?,
        };
        at.write(memory as *mut c_void);
        Ok(())
    })
}

/// Gives memory of ncclMemAlloc back; a window that still stands on it keeps what it uses, and is told (W024; on GPUs at INFO). NULL is success.
#[unsafe(no_mangle)]
pub extern "C" fn pncclMemFree(ptr: *mut c_void) -> ncclResult_t {
    if ptr.is_null() {
        return 0;
    }
    entry!(ncclMemFree(ptr) {
        let device = device::current()?;
        let wrong = device.lookup(ptr as DevPtr).ok().and_then(|found| standing_on(&(found.base..found.base + found.bytes as u64)));
        device.free(ptr as DevPtr)?;
        if let Some(wrong) = wrong {
            let called = calling_line().map_or(String::new(), |line| format!(" | called by host code at {line}"));
            let text = format!("GINRS-W024 {wrong}{called} | fix: ncclCommWindowDeregister before, when no rank uses the window any more");
            match device.kind() {
                Kind::Cpu => hint!("{text}"),
                // Here nothing comes of it, and PyTorch's symmetric memory does so at the end of each process.
                Kind::Cuda => info!(ALLOC, "{text}"),
            }
        }
        graveyard::sweep();
        Ok(())
    })
}
