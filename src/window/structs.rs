//! Device memory for window structs: many to a page, at an address that is a window's handle.

use crate::device::{DevPtr, Device, DeviceMemory, Transfers};
use crate::error::Result;
use crate::layout::{ExtendedWindow, ncclWindow_vidmem};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Bytes from one [`ExtendedWindow`] to the next, so that each lies in one cache line.
const STEP: usize = 128;
const PER_PAGE: usize = 64;

/// The structs of one communicator and rank.
#[derive(Default)]
pub struct Structs {
    pages: Vec<DeviceMemory>,
    /// Oldest first: an address is reused as late as can be, so that a stale handle is more likely an unknown one.
    free: VecDeque<DevPtr>,
}

impl Structs {
    /// An address for one struct, filled with `window`.
    pub fn put(&mut self, device: &dyn Device, window: &ExtendedWindow) -> Result<DevPtr> {
        if self.free.is_empty() {
            let page = device.objects(PER_PAGE * STEP)?;
            self.free.extend((0..PER_PAGE).map(|i| page.device() + (i * STEP) as u64));
            self.pages.push(page);
        }
        let at = *self.free.front().expect("filled above");
        device.write(at, window.as_bytes())?;
        self.free.pop_front();
        Ok(at)
    }

    /// Zeroes the struct and what stands behind it, so that a stale handle has no bytes and no table, and takes the address back.
    pub fn take_back(&mut self, device: &dyn Transfers, at: DevPtr) -> Result<()> {
        self.free.push_back(at);
        device.write(at, ExtendedWindow::default().as_bytes())
    }
}

/// Writes `window` at `at`.
pub fn write(device: &dyn Transfers, at: DevPtr, window: &ncclWindow_vidmem) -> Result<()> {
    device.write(at, window.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    #[test]
    fn addresses_are_reused_late_and_pages_stay_few() {
        let device = CpuDevice::new(0);
        let mut structs = Structs::default();
        let window = ncclWindow_vidmem {
            winHost: 9,
            lsaFlatBase: 0x1_0000_0000,
            stride4G: 2,
            ginWins: [1, 2, 3, 4],
            ..Default::default()
        };
        let window = ExtendedWindow { window, bytes: 4097, table: 0x5000, number: 3, place: 5, gone: 7, ..Default::default() };
        let first = structs.put(&*device, &window).unwrap();
        // SAFETY: written just now by this thread.
        let read = || unsafe { *(first as *const ExtendedWindow) };
        assert_eq!(read(), window);
        structs.take_back(&*device, first).unwrap();
        assert_eq!(read(), Default::default());
        for _ in 0..PER_PAGE - 1 {
            let at = structs.put(&*device, &window).unwrap();
            assert_ne!(at, first);
            structs.take_back(&*device, at).unwrap();
        }
        assert_eq!(structs.put(&*device, &window).unwrap(), first);
        let _rest: Vec<_> = (0..PER_PAGE).map(|_| structs.put(&*device, &window).unwrap()).collect();
        assert_eq!(structs.pages.len(), 2);
    }
}
