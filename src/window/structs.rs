//! Device memory for window structs: many to a page, at an address that is a window's handle.

use crate::abi::types::ncclWindow_vidmem;
use crate::device::{DevPtr, Device, DeviceMemory};
use crate::error::Result;
use std::collections::VecDeque;

/// Bytes from one struct to the next: 72 rounded up, so that none straddles two cache lines more than it must.
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
    pub fn put(&mut self, device: &dyn Device, window: &ncclWindow_vidmem) -> Result<DevPtr> {
        if self.free.is_empty() {
            let page = device.objects(PER_PAGE * STEP)?;
            self.free.extend((0..PER_PAGE).map(|i| page.device() + (i * STEP) as u64));
            self.pages.push(page);
        }
        let at = *self.free.front().expect("filled above");
        write(device, at, window)?;
        self.free.pop_front();
        Ok(at)
    }

    /// Zeroes the struct and takes the address back.
    pub fn take_back(&mut self, device: &dyn Device, at: DevPtr) -> Result<()> {
        self.free.push_back(at);
        write(device, at, &ncclWindow_vidmem::default())
    }
}

/// Writes `window` at `at`.
pub fn write(device: &dyn Device, at: DevPtr, window: &ncclWindow_vidmem) -> Result<()> {
    device.write(at, &bytes(window))
}

/// The struct as kernels read it, little endian.
pub fn bytes(window: &ncclWindow_vidmem) -> [u8; 72] {
    let mut out = [0u8; 72];
    let mut put = |at: usize, value: &[u8]| out[at..at + value.len()].copy_from_slice(value);
    put(0, &window.winHost.to_le_bytes());
    put(8, &window.lsaFlatBase.to_le_bytes());
    put(16, &window.lsaRank.to_le_bytes());
    put(20, &window.worldRank.to_le_bytes());
    put(24, &window.stride4G.to_le_bytes());
    put(28, &window.mcOffset4K.to_le_bytes());
    put(32, &window.ginOffset4K.to_le_bytes());
    put(36, &window.marker.to_le_bytes());
    for (i, handle) in window.ginWins.iter().enumerate() {
        put(40 + 8 * i, &handle.to_le_bytes());
    }
    out
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
        let first = structs.put(&*device, &window).unwrap();
        // SAFETY: written just now by this thread.
        assert_eq!(unsafe { *(first as *const ncclWindow_vidmem) }, window);
        structs.take_back(&*device, first).unwrap();
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
