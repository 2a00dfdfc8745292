//! `__device__` and `__constant__` variables: one copy per device, also where ranks are threads of one process.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::once::OnceLock;
use parking_lot::RwLock;

use crate::error::{Code, Result, refuse, report};
use crate::launch::text;

struct Variable {
    bytes: usize,
    name: String,
    /// What the variable held when it was registered: every copy begins so.
    initial: Box<[u8]>,
    copies: Vec<OnceLock<usize>>,
}

static VARIABLES: RwLock<BTreeMap<usize, Arc<Variable>>> = RwLock::new(BTreeMap::new());

/// The device's copy of the variable, or the variable itself on a host thread (`device` None). Registers it.
///
/// # Safety
/// `master` is a variable of `bytes` bytes that lives as long as the program; `name` is a string or NULL.
pub unsafe fn resolve(master: *mut c_void, bytes: usize, name: *const c_char, device: Option<i32>) -> *mut c_void {
    let known = VARIABLES.read().get(&(master as usize)).cloned();
    let variable = known.unwrap_or_else(|| {
        let mut variables = VARIABLES.write();
        let make = || {
            // SAFETY: the caller's.
            let initial = unsafe { std::slice::from_raw_parts(master.cast::<u8>(), bytes) }.into();
            let copies = (0..crate::device::count()).map(|_| OnceLock::new()).collect();
            Arc::new(Variable { bytes, name: text(name, "?"), initial, copies })
        };
        variables.entry(master as usize).or_insert_with(make).clone()
    });
    match device {
        Some(device) => variable.copy_on(device) as *mut c_void,
        None => master,
    }
}

impl Variable {
    fn copy_on(&self, device: i32) -> usize {
        *self.copies[device as usize].get_or_init(|| {
            let mut copy: *mut c_void = std::ptr::null_mut();
            // Whole pages where races are looked for: that is asked of pages.
            let page = if crate::race::on() { crate::race::PAGE } else { 1 };
            // SAFETY: a fresh piece of memory of at least `bytes`, filled from a slice of that length. It is never freed.
            unsafe {
                if libc::posix_memalign(&raw mut copy, page.max(256), self.bytes.max(1).next_multiple_of(page)) != 0 {
                    report(&format!("no memory for the copy of {} on device {device}: {} bytes", self.name, self.bytes));
                    std::process::abort();
                }
                std::ptr::copy_nonoverlapping(self.initial.as_ptr(), copy.cast(), self.bytes);
            }
            crate::race::add_variable(copy as usize, self.bytes, &self.name);
            copy as usize
        })
    }
}

/// Address and size of the copy on `device` of the variable that `symbol` points to (or into).
///
/// # Errors
/// `InvalidSymbol`.
pub fn find(symbol: usize, device: i32) -> Result<(usize, usize)> {
    let variables = VARIABLES.read();
    let found = variables.range(..=symbol).next_back().filter(|(master, v)| symbol - **master < v.bytes.max(1));
    let Some((master, variable)) = found else {
        return refuse(
            Code::INVALID_SYMBOL,
            &format!(
                "{symbol:#x} is not a __device__ or __constant__ variable\nfix: give the variable, not a string or a copy of it"
            ),
        );
    };
    let offset = symbol - master;
    Ok((variable.copy_on(device) + offset, variable.bytes - offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_copy() {
        let master: &'static mut [u32; 4] = Box::leak(Box::new([1, 2, 3, 4]));
        let p = master.as_mut_ptr().cast::<c_void>();
        // SAFETY: a leaked array of 16 bytes, used by this test alone.
        unsafe {
            assert_eq!(resolve(p, 16, c"v".as_ptr(), None), p);
            (*p.cast::<[u32; 4]>())[0] = 9; // after registration: copies do not see it
            let (a, b) = (resolve(p, 16, c"v".as_ptr(), Some(0)), resolve(p, 16, c"v".as_ptr(), Some(1)));
            assert!(a != b && a != p);
            assert_eq!(*a.cast::<[u32; 4]>(), [1, 2, 3, 4]);
            a.cast::<u32>().add(2).write(7);
            assert_eq!(*b.cast::<[u32; 4]>(), [1, 2, 3, 4]);
            assert_eq!(find(p as usize + 8, 0), Ok((a as usize + 8, 8)));
            assert_eq!(find(p as usize + 16, 0), Err(Code::INVALID_SYMBOL));
        }
    }
}
