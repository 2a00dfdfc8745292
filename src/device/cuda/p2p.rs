//! Which devices reach which.

use super::CudaDevice;
use super::driver::cu;
use crate::error::Result;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute};

/// True if kernels of `from` can load from and store to memory of `to`.
fn reaches(from: CUdevice, to: CUdevice) -> Result<bool> {
    let mut can = 0;
    // SAFETY: a valid place to write to.
    unsafe { cu!(cuDeviceCanAccessPeer(&mut can, from, to)) }?;
    Ok(can != 0)
}

/// Visible devices, other than `device`, that reach its memory.
pub fn who_reach(device: &CudaDevice) -> &[CUdevice] {
    let own = device.context.device;
    device.reached_by.get_or_init(|| {
        let others = (0..super::count().unwrap_or(0)).filter(|&other| other != own);
        others.filter(|&other| reaches(other, own).unwrap_or(false)).collect()
    })
}

/// True if `device` reaches the device at `bus_id`. One that this process does not see is taken to be reachable: the mapping
/// of its memory tells.
pub fn reaches_bus(device: &CudaDevice, bus_id: u64) -> bool {
    if bus_id == device.facts.bus_id {
        return true;
    }
    let visible = (0..super::count().unwrap_or(0)).find(|&other| bus_of(other).is_ok_and(|bus| bus == bus_id));
    visible.is_none_or(|other| reaches(device.context.device, other).unwrap_or(false))
}

/// Domain, bus and device as one number.
pub fn bus_of(device: CUdevice) -> Result<u64> {
    let ask = |which| super::facts::attribute(device, which).map(|value| value as u64);
    Ok(ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)? << 16
        | ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)? << 8
        | ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)? << 3)
}
