//! Device memory for small structs that kernels read: parts of chunks that are never given back.
#![forbid(unsafe_code)]

use super::CudaDevice;
use super::memory::CudaPhysical;
use super::space::CudaReservation;
use crate::device::{DevPtr, DeviceMemory, Physical, Reservation, Transfers};
use crate::error::Result;
use crate::ranges::Ranges;
use std::sync::Arc;

/// Device memory for small structs, and the mappings that it is cut from.
pub struct Objects {
    ranges: Ranges,
    chunks: Vec<CudaReservation>,
}

impl Default for Objects {
    fn default() -> Self {
        Self { ranges: Ranges::new(256), chunks: Vec::new() }
    }
}

/// Bytes of a chunk of small structs.
const CHUNK: usize = 2 << 20;

/// Part of the device's small structs; goes back at drop.
struct Object {
    device: Arc<CudaDevice>,
    at: DevPtr,
    bytes: u64,
}

impl Drop for Object {
    fn drop(&mut self) {
        self.device.objects.lock().ranges.give(self.at, self.bytes);
    }
}

/// `bytes` of zeroed device memory.
pub fn take(device: &Arc<CudaDevice>, bytes: usize) -> Result<DeviceMemory> {
    let mut objects = device.objects.lock();
    let Objects { ranges, chunks } = &mut *objects;
    let rounded = ranges.rounded(bytes as u64).unwrap_or(u64::MAX);
    let at = ranges.take_or_add(rounded, || {
        let physical: Arc<dyn Physical> = CudaPhysical::create(device, CHUNK.max(rounded as usize))?;
        let chunk = CudaReservation::new(device.clone(), physical.bytes(), device.facts.granularity)?;
        chunk.map(0, &physical)?;
        let added = (chunk.base(), physical.bytes() as u64);
        chunks.push(chunk);
        Ok(added)
    })?;
    drop(objects);
    let object = Object { device: device.clone(), at, bytes: rounded };
    device.zero(at, rounded as usize)?;
    Ok(DeviceMemory::new(at, bytes, Box::new(object)))
}
