//! Dynamic shared memory of an OS thread: one place for all the blocks that it runs.

use super::Block;
use crate::asan;
use crate::config::SHARED_BYTES_OPTIN;
use crate::error::Code;
use std::ffi::c_void;

/// On both sides where AddressSanitizer looks.
const RED_ZONE: usize = 4096;

impl Block {
    /// Where it is; made when it is first asked for, for the life of the OS thread.
    pub(crate) fn dynamic_shared(&self) -> *mut c_void {
        if self.shared.get().is_null() {
            let red_zone = if asan::present() { RED_ZONE } else { 0 };
            // SAFETY: a fresh mapping; pages are 4096-aligned.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    SHARED_BYTES_OPTIN + 2 * red_zone,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if memory == libc::MAP_FAILED {
                let error = std::io::Error::last_os_error();
                self.fatal(Code::LAUNCH_OUT_OF_RESOURCES, &format!("no memory for dynamic shared memory: {error}"));
            }
            asan::poison(memory as usize, red_zone);
            let memory = memory.wrapping_byte_add(red_zone);
            asan::poison(memory as usize + SHARED_BYTES_OPTIN, red_zone);
            self.shared.set(memory);
            self.shared_bytes.set(SHARED_BYTES_OPTIN);
            self.with_grid(|grid| self.bound_shared(grid.launch.shared_bytes));
            crate::race::add_shared(memory as usize, SHARED_BYTES_OPTIN);
        }
        self.shared.get()
    }

    /// The block has so much of it: the rest is nobody's.
    pub(super) fn bound_shared(&self, bytes: u32) {
        let at = self.shared.get() as usize;
        if at == 0 || !asan::present() {
            return;
        }
        let now = bytes as usize;
        let before = self.shared_bytes.replace(now);
        if now < before {
            asan::poison(at + now, before - now);
        } else {
            asan::unpoison(at + before, now - before);
        }
    }

    /// How far `address` is behind the end of it (or before it, below 0), and its size.
    pub(crate) fn beside_shared(&self, address: usize) -> Option<(isize, usize)> {
        let (at, bytes) = (self.shared.get() as usize, self.shared_bytes.get());
        let around = at.wrapping_sub(RED_ZONE)..at + SHARED_BYTES_OPTIN + RED_ZONE;
        let distance = if address < at { address as isize - at as isize } else { address as isize - (at + bytes) as isize };
        (at != 0 && around.contains(&address)).then_some((distance, bytes))
    }
}
