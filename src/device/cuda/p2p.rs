//! Which devices reach which.

use super::CudaDevice;
use super::driver::cu;
use crate::error::Result;
use crate::warn;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if kernels of `from` can load from and store to memory of `to`.
fn reaches(from: CUdevice, to: CUdevice) -> Result<bool> {
    let mut can = 0;
    // SAFETY: a valid place to write to.
    unsafe { cu!(cuDeviceCanAccessPeer(&mut can, from, to)) }?;
    Ok(can != 0)
}

/// [`reaches`] where the driver's error is a no: puts take the way through host memory then, which is told once.
fn surely_reaches(from: CUdevice, to: CUdevice) -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    reaches(from, to).unwrap_or_else(|error| {
        if !TOLD.swap(true, Ordering::Relaxed) {
            warn!(
                "GINRS-E003 the driver does not say whether a GPU reaches another's memory | devices {from} and {to} | {} | puts between \
                 them go through host memory (told once) | fix: look at dmesg for Xid lines, and at nvidia-smi topo -p2p r",
                error.text
            );
        }
        false
    })
}

/// Visible devices, other than `device`, that reach its memory.
pub fn who_reach(device: &CudaDevice) -> &[CUdevice] {
    let own = device.context.device;
    device.reached_by.get_or_init(|| {
        let others = (0..super::count().unwrap_or(0)).filter(|&other| other != own);
        others.filter(|&other| surely_reaches(other, own)).collect()
    })
}

/// True if `device` reaches the device at `bus_id`. One that this process does not see is taken to be reachable: the mapping
/// of its memory tells.
pub fn reaches_bus(device: &CudaDevice, bus_id: u64) -> bool {
    if bus_id == device.facts.bus_id {
        return true;
    }
    let visible = (0..super::count().unwrap_or(0)).find(|&other| bus_of(other).is_ok_and(|bus| bus == bus_id));
    visible.is_none_or(|other| surely_reaches(device.context.device, other))
}

/// Domain, bus and device as one number.
pub fn bus_of(device: CUdevice) -> Result<u64> {
    let ask = |which| super::facts::attribute(device, which).map(|value| value as u64);
    Ok(ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)? << 16
        | ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)? << 8
        | ask(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)? << 3)
}
