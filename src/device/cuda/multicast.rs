//! Multicast objects (NVLS): one address whose stores and reductions reach the memory of several GPUs, through the NVLink switches.
//!
//! Never run on a GPU by us: no machine at hand may create one. The driver stand-in checks the order of the calls.

use super::CudaDevice;
use super::driver::cu;
use super::facts::attribute;
use super::memory::CudaPhysical;
use crate::bail;
use crate::device::{Multicast, Physical};
use crate::error::{Error, Result};
use cudarc::driver::sys::{CUdevice_attribute_enum as Attribute, CUmulticastObjectProp};
use std::sync::Arc;

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const POSIX_FD: u64 = 1;

/// True if the device says that it has them.
pub fn has(device: &CudaDevice) -> bool {
    attribute(device.context.device, Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED).is_ok_and(|value| value != 0)
}

fn handle_of(memory: &dyn Physical) -> Result<&CudaPhysical> {
    match memory.as_any().downcast_ref::<CudaPhysical>() {
        Some(memory) => Ok(memory),
        None => bail!(InternalError, 86, "memory of another kind in a multicast object | fix: report this"),
    }
}

fn failed(error: Error) -> Error {
    let text = format!(
        "multicast memory (NVLS) cannot be had | {} | is the fabric manager of the NVLink switches running? | fix: NCCL_NVLS_ENABLE=0 and no \
         multimem in the requirements go without",
        error.text
    );
    Error { id: 86, text, ..error }
}

impl Multicast for CudaDevice {
    fn create_object(&self, members: u32, bytes: usize) -> Result<Arc<dyn Physical>> {
        let _inside = self.context.enter()?;
        let prop = CUmulticastObjectProp { numDevices: members, size: bytes, handleTypes: POSIX_FD, flags: 0 };
        let mut handle = 0;
        // SAFETY: a valid place to write to and valid properties.
        unsafe { cu!(cuMulticastCreate(&mut handle, &prop)) }.map_err(failed)?;
        Ok(CudaPhysical::enlist(handle, bytes, false))
    }

    fn join(&self, object: &dyn Physical) -> Result<()> {
        let object = handle_of(object)?.handle();
        let _inside = self.context.enter()?;
        // SAFETY: the handle is retained by `object`.
        unsafe { cu!(cuMulticastAddDevice(object, self.context.device)) }.map_err(failed)
    }

    fn bind(&self, object: &dyn Physical, at: u64, memory: &dyn Physical) -> Result<()> {
        let (object, bytes) = (handle_of(object)?.handle(), memory.bytes());
        let memory = handle_of(memory)?.handle();
        let _inside = self.context.enter()?;
        // SAFETY: both handles are retained; the driver checks the range.
        unsafe { cu!(cuMulticastBindMem(object, at as usize, memory, 0, bytes, 0)) }.map_err(failed)
    }

    fn unbind(&self, object: &dyn Physical, at: u64, bytes: usize) -> Result<()> {
        let object = handle_of(object)?.handle();
        let _inside = self.context.enter()?;
        // SAFETY: as in `bind`; that no kernel uses the range is the caller's argument, as for unmapping.
        unsafe { cu!(cuMulticastUnbind(object, self.context.device, at as usize, bytes)) }.map_err(failed)
    }
}
