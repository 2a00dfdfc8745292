//! Which device serves a thread.

use super::{Device, cpu};
use crate::bail;
use crate::config;
use crate::error::Result;
use std::sync::Arc;

fn require_cpu_device() -> Result<()> {
    if cpu::stand_in_present() || config::text("GINRS_DEVICE").is_some_and(|kind| kind.eq_ignore_ascii_case("cpu")) {
        return Ok(());
    }
    bail!(
        UnhandledCudaError,
        68,
        "no device | this version runs on the CPU device only, and its runtime (libginrs_cpu.so) is not in this process | \
         fix: build the program with ginrs-cc, or set GINRS_DEVICE=cpu for a program without kernels"
    )
}

/// Number of devices that this process sees.
pub fn count() -> Result<i32> {
    require_cpu_device()?;
    Ok(cpu::count())
}

/// Device number `ordinal`.
pub fn get(ordinal: i32) -> Result<Arc<dyn Device>> {
    let count = count()?;
    if !(0..count).contains(&ordinal) {
        bail!(
            InvalidArgument,
            68,
            "no device {ordinal} | this process sees {count} (0 to {}) | fix: raise GINRS_CPU_DEVICES",
            count - 1
        );
    }
    Ok(cpu::CpuDevice::new(ordinal))
}

/// The calling thread's device.
pub fn current() -> Result<Arc<dyn Device>> {
    require_cpu_device()?;
    get(cpu::current())
}

/// Makes device `ordinal` the calling thread's.
pub fn set_current(ordinal: i32) -> Result<()> {
    get(ordinal)?;
    cpu::set_current(ordinal)
}
