//! Memory that a domain knows: what peers write to, and what is sent from here.

use super::net::{Net, close};
use super::sys::*;
use crate::error::Result;
use std::ffi::c_void;
use std::sync::Arc;

impl Net {
    /// Registers memory: for peers' writes under about `key`, or for what is sent from here.
    ///
    /// # Safety
    /// `bytes` from `at` stay mapped until the registration is dropped.
    pub unsafe fn register(self: &Arc<Self>, at: *mut u8, bytes: usize, access: u64, key: u64) -> Result<Memory> {
        let ep = self.rdm().map(|rdm| rdm.ep);
        // SAFETY: the caller's; the endpoint lives as long as self.
        let mr = unsafe { self.register_for(ep, at, bytes, access, key)? };
        Ok(Memory { net: self.clone(), mr, at })
    }

    /// The same, for `ep` where the provider wants to know it; who calls closes it.
    ///
    /// # Safety
    /// As [`Self::register`].
    pub unsafe fn register_for(
        &self,
        ep: Option<*mut fid_ep>,
        at: *mut u8,
        bytes: usize,
        access: u64,
        key: u64,
    ) -> Result<*mut fid_mr> {
        let mut mr = std::ptr::null_mut();
        // SAFETY: a live domain; the memory is the caller's care.
        let mut result = unsafe {
            let reg = (*(*self.domain).mr).reg;
            reg(
                &raw mut (*self.domain).fid,
                at.cast(),
                bytes,
                access,
                0,
                key & self.traits.keys,
                0,
                &mut mr,
                std::ptr::null_mut(),
            )
        };
        if let Some(ep) = ep.filter(|ep| result == 0 && self.traits.enable && !ep.is_null()) {
            // SAFETY: both live; the endpoint outlives the registration or keeps itself open.
            unsafe {
                let (fid, ops) = (&raw mut (*mr).fid, &*(*mr).fid.ops);
                if self.traits.bind {
                    result = (ops.bind)(fid, &raw mut (*ep).fid, 0);
                }
                if result == 0 {
                    result = (ops.control)(fid, FI_ENABLE, std::ptr::null_mut());
                }
                if result != 0 {
                    close(fid);
                }
            }
        }
        if result != 0 {
            return Err(self.failed(&format!("fi_mr_reg of {bytes} bytes"), result as isize));
        }
        Ok(mr)
    }
}

/// Registered memory.
pub(super) struct Memory {
    net: Arc<Net>,
    mr: *mut fid_mr,
    at: *mut u8,
}

// SAFETY: see `Net`.
unsafe impl Send for Memory {}

impl Memory {
    pub fn key(&self) -> u64 {
        // SAFETY: live.
        unsafe { (*self.mr).key }
    }

    /// Its first byte.
    pub fn base(&self) -> *mut u8 {
        self.at
    }

    /// For calls that send from it.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: live.
        unsafe { (*self.mr).mem_desc }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.net.rdm().is_some_and(|rdm| rdm.orphans()) {
            // A link has ended, and the provider may still send from here for it: it is given a moment, and is then stopped.
            self.net.settle(|rdm| !rdm.orphans());
            if let Some(mut rdm) = self.net.rdm().filter(|rdm| rdm.orphans()) {
                rdm.shut();
            }
        }
        close(self.mr.cast());
    }
}
