//! Local buffer registrations (ncclCommRegister): counted, without effect on the device API.

use super::Windows;
use crate::bail;
use crate::error::Result;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Buffers {
    last: usize,
    live: HashMap<usize, (usize, usize)>,
}

impl Windows {
    /// ncclCommRegister: notes the range; the handle is a number, never an address.
    pub fn register_buffer(&self, at: usize, bytes: usize) -> usize {
        let mut buffers = self.buffers.lock();
        buffers.last += 1;
        let handle = buffers.last;
        buffers.live.insert(handle, (at, bytes));
        handle
    }

    /// ncclCommDeregister.
    pub fn deregister_buffer(&self, handle: usize) -> Result<()> {
        if self.buffers.lock().live.remove(&handle).is_none() {
            bail!(
                InvalidUsage,
                63,
                "unknown buffer handle | {} | 0x{handle:x} | fix: pass what ncclCommRegister gave on this communicator, once",
                self.team().tag()
            );
        }
        Ok(())
    }
}
