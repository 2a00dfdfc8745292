//! Buffers that run over the end of their allocation: the stand-in knows how much the program has asked for.

use super::runtime::symbol;
use crate::device::{Allocated, DevPtr};
use crate::sync::OnceBox;
use std::ffi::c_int;

/// `ginrs_cpu_overrun` of ginrs_cpu/library.h.
type Overrun = unsafe extern "C" fn(u64, u64, *mut u64, *mut u64) -> c_int;

/// See [`crate::device::Memory::overrun`].
pub fn overrun(ptr: DevPtr, bytes: u64) -> Option<Allocated> {
    static FOUND: OnceBox<Option<Overrun>> = OnceBox::new();
    // SAFETY: library.h gives the symbol this type.
    let overrun = (*FOUND.get_or_init(|| Box::new(unsafe { symbol::<Overrun>(c"ginrs_cpu_overrun") })))?;
    let mut found = Allocated { base: 0, bytes: 0 };
    // SAFETY: two places to write to; the numbers are only compared.
    let runs_over = unsafe { overrun(ptr, bytes, &mut found.base, &mut found.bytes) } != 0;
    runs_over.then_some(found)
}
