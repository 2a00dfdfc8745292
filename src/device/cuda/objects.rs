//! Device memory for small structs that kernels read: parts of chunks that are never given back.
#![forbid(unsafe_code)]

use super::CudaDevice;
use super::memory::CudaPhysical;
use super::pool::Pool;
use super::space::CudaReservation;
use crate::device::{DevPtr, DeviceMemory, Physical, Reservation, Transfers};
use crate::error::Result;
use std::sync::Arc;

/// Device memory for small structs, and the mappings that it is cut from.
pub struct Objects {
    pool: Pool,
    chunks: Vec<CudaReservation>,
}

impl Default for Objects {
    fn default() -> Self {
        Self { pool: Pool::new(256), chunks: Vec::new() }
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
        self.device.objects.lock().pool.give(self.at, self.bytes);
    }
}

/// `bytes` of zeroed device memory.
pub fn take(device: &Arc<CudaDevice>, bytes: usize) -> Result<DeviceMemory> {
    let (at, rounded) = {
        let mut objects = device.objects.lock();
        let rounded = objects.pool.rounded(bytes);
        let at = match objects.pool.take(rounded) {
            Some(at) => at,
            None => {
                let physical: Arc<dyn Physical> = CudaPhysical::create(device, CHUNK.max(rounded as usize))?;
                let chunk = CudaReservation::new(device.clone(), physical.bytes(), device.facts.granularity)?;
                chunk.map(0, &physical)?;
                objects.pool.add(chunk.base(), physical.bytes() as u64);
                objects.chunks.push(chunk);
                objects.pool.take(rounded).expect("a chunk that holds it was added")
            }
        };
        (at, rounded)
    };
    let object = Object { device: device.clone(), at, bytes: rounded };
    device.zero(at, rounded as usize)?;
    Ok(DeviceMemory::new(at, bytes, Box::new(object)))
}
