//! A multicast object: a team of devices, and the memory of each that one address stands for.
//!
//! It has a slab of addresses of its own, a part as large as itself for each device in turn; what is bound is mapped there as well, so the
//! members' places of one byte lie a part apart, as [`crate::multicast`] wants them.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{GRANULE, Object, granules, map_over, reserve_aligned, wrong};
use crate::error::{Code, Result, refuse};

/// A multicast object.
pub struct Multicast {
    slab: usize,
    bytes: usize,
    wanted: usize,
    team: Mutex<Team>,
    joined: Condvar,
}

#[derive(Default)]
struct Team {
    devices: Vec<i32>,
    bound: Vec<Bound>,
}

/// Memory of member number `member`, at `offset` of the object.
struct Bound {
    member: usize,
    offset: usize,
    bytes: usize,
    _memory: Arc<Object>,
}

impl Multicast {
    /// For a team of `wanted` devices.
    ///
    /// # Errors
    /// `InvalidValue` for an odd size or more devices than there are.
    pub fn new(wanted: usize, bytes: usize) -> Result<Multicast> {
        granules("cuMulticastCreate", &[bytes])?;
        let all = bytes.checked_mul(wanted).unwrap_or_default();
        if all == 0 || wanted > crate::device::count() {
            return wrong(&format!(
                "cuMulticastCreate: {bytes} bytes on each of {wanted} devices, of {}",
                crate::device::count()
            ));
        }
        let slab = reserve_aligned(all, GRANULE)?;
        Ok(Multicast { slab, bytes, wanted, team: Mutex::default(), joined: Condvar::new() })
    }

    /// Lets instructions for multicast memory find it at `base`. Nothing is mapped there: only they, which ask, reach it.
    pub(super) fn open(&self, base: usize) {
        crate::multicast::add(base, self.bytes, self.slab, self.bytes, self.wanted as u32);
    }

    /// `cuMulticastAddDevice`
    ///
    /// # Errors
    /// `InvalidValue` if it is in the team, or that is complete.
    pub fn add_device(&self, device: i32) -> Result {
        let mut team = self.team.lock();
        if team.devices.contains(&device) || team.devices.len() == self.wanted {
            return wrong(&format!(
                "cuMulticastAddDevice: device {device} is in the team, or that has its {} devices",
                self.wanted
            ));
        }
        team.devices.push(device);
        self.joined.notify_all();
        Ok(())
    }

    /// Its size, once all devices are in the team: waits for them, as CUDA's calls do.
    pub(super) fn complete(&self) -> usize {
        let mut team = self.team.lock();
        while team.devices.len() < self.wanted {
            self.joined.wait(&mut team);
        }
        self.bytes
    }

    /// `cuMulticastBindMem`
    ///
    /// # Errors
    /// `InvalidDevice` for memory of a device outside of the team; `InvalidValue` for what does not fit, or is bound already.
    pub fn bind(&self, at: usize, memory: Arc<Object>, offset: usize, bytes: usize) -> Result {
        granules("cuMulticastBindMem", &[at, offset, bytes])?;
        let Object::Memory(physical) = &*memory else { return wrong("cuMulticastBindMem: the memory is a multicast object") };
        self.complete();
        let mut team = self.team.lock();
        let Some(member) = team.devices.iter().position(|&device| device == physical.device) else {
            return refuse(Code::INVALID_DEVICE, &format!("cuMulticastBindMem: device {} is not in the team", physical.device));
        };
        let fits = |from: usize, all: usize| from.checked_add(bytes).is_some_and(|end| end <= all);
        let taken = |b: &Bound| b.member == member && b.offset < at + bytes && at < b.offset + b.bytes;
        if bytes == 0 || !fits(at, self.bytes) || !fits(offset, physical.bytes) || team.bound.iter().any(taken) {
            return wrong(&format!("cuMulticastBindMem: {bytes} bytes at {at:#x} do not fit, or something is bound there"));
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        map_over(self.slab + member * self.bytes + at, bytes, Some((&physical.file, offset)), both)?;
        team.bound.push(Bound { member, offset: at, bytes, _memory: memory.clone() });
        Ok(())
    }

    /// `cuMulticastUnbind`
    ///
    /// # Errors
    /// `InvalidValue` unless that was bound so.
    pub fn unbind(&self, device: i32, at: usize, bytes: usize) -> Result {
        let mut team = self.team.lock();
        let member = team.devices.iter().position(|&other| other == device);
        let found = team.bound.iter().position(|b| Some(b.member) == member && (b.offset, b.bytes) == (at, bytes));
        let Some(found) = found else { return wrong(&format!("cuMulticastUnbind: {bytes} bytes at {at:#x} were not bound so")) };
        let gone = team.bound.swap_remove(found);
        map_over(self.slab + gone.member * self.bytes + at, bytes, None, libc::PROT_NONE)
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        // SAFETY: its slab, which nothing names any more.
        unsafe { libc::munmap(self.slab as *mut _, self.bytes * self.wanted) };
    }
}
