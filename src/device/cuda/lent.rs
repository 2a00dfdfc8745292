//! cudaMalloc memory of other processes: cuIpc handles.

use super::CudaDevice;
use super::driver::cu;
use crate::device::{DevPtr, Holding, Mapped};
use crate::error::Result;
use cudarc::driver::sys::CUipcMemHandle;
use std::sync::Arc;

const _: () = assert!(size_of::<CUipcMemHandle>() == 64);
/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: also of another GPU.
const PEER_ACCESS: u32 = 1;

/// See [`crate::device::Memory::lend_handle`].
pub fn handle(device: &CudaDevice, holding: &Holding) -> Result<[u64; 8]> {
    let _inside = device.context.enter()?;
    let mut words = [0; 8];
    // SAFETY: 64 bytes, as long as the struct of bytes that the driver writes.
    unsafe { cu!(cuIpcGetMemHandle((&raw mut words).cast(), holding.base)) }?;
    Ok(words)
}

/// See [`crate::device::Memory::borrow_handle`].
pub fn open(device: &Arc<CudaDevice>, words: [u64; 8]) -> Result<Mapped> {
    let _inside = device.context.enter()?;
    let mut at = 0;
    // SAFETY: a valid place to write to; the struct is 64 bytes of which the driver checks what they mean. It counts how often a context
    // has opened one memory.
    unsafe { cu!(cuIpcOpenMemHandle_v2(&mut at, std::mem::transmute::<[u64; 8], CUipcMemHandle>(words), PEER_ACCESS)) }?;
    Ok(Mapped { at, keep: Box::new(Opened { device: device.clone(), at }) })
}

struct Opened {
    device: Arc<CudaDevice>,
    at: DevPtr,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Ok(_inside) = self.device.context.enter() else { return };
        // SAFETY: opened once by `open`; that no kernel uses it is the argument of who drops it. A driver at its end has closed it.
        let _ = unsafe { cu!(cuIpcCloseMemHandle(self.at)) };
    }
}
