//! Which device serves a thread: GINRS_DEVICE, else the CPU device where its runtime is in the process, else CUDA.
#![forbid(unsafe_code)]

use super::{Device, Kind, cpu, cuda};
use crate::bail;
use crate::config;
use crate::error::{Code, Error, Result};
use std::sync::Arc;

/// The kind that `wanted` (GINRS_DEVICE) names; unset: CPU iff its runtime is there, which its programs cannot run without.
fn choose(wanted: Option<&str>, stand_in: bool) -> Result<Kind> {
    match wanted.map(str::trim) {
        Some(kind) if kind.eq_ignore_ascii_case("cpu") => Ok(Kind::Cpu),
        Some(kind) if kind.eq_ignore_ascii_case("cuda") => Ok(Kind::Cuda),
        None | Some("") if stand_in => Ok(Kind::Cpu),
        None | Some("") => Ok(Kind::Cuda),
        Some(other) => {
            bail!(InvalidUsage, 68, "no such kind of device | GINRS_DEVICE=\"{other}\" | fix: set it to cpu or cuda, or unset it")
        }
    }
}

fn kind() -> Result<Kind> {
    choose(config::text("GINRS_DEVICE").as_deref(), cpu::stand_in_present())
}

/// Where there is no driver, the CPU device is the other way out.
fn or_cpu(error: Error) -> Error {
    match error.id {
        70 => Error::new(
            Code::UnhandledCudaError,
            68,
            format!(
                "no device | {} | or: build the program with ginrs-cc to run its kernels on the CPU, or set GINRS_DEVICE=cpu for a \
                 program without kernels",
                error.text
            ),
        ),
        _ => error,
    }
}

/// Number of devices that this process sees.
pub fn count() -> Result<i32> {
    match kind()? {
        Kind::Cpu => Ok(cpu::count()),
        Kind::Cuda => cuda::count().map_err(or_cpu),
    }
}

/// Device number `ordinal`.
pub fn get(ordinal: i32) -> Result<Arc<dyn Device>> {
    let (kind, count) = (kind()?, count()?);
    if !(0..count).contains(&ordinal) {
        let fix = match kind {
            Kind::Cpu => "raise GINRS_CPU_DEVICES (ginrs-run --devices)",
            Kind::Cuda => "see CUDA_VISIBLE_DEVICES and nvidia-smi -L",
        };
        bail!(InvalidArgument, 68, "no device {ordinal} | this process sees {count} (0 to {}) | fix: {fix}", count - 1);
    }
    match kind {
        Kind::Cpu => Ok(cpu::CpuDevice::new(ordinal)),
        Kind::Cuda => Ok(cuda::CudaDevice::get(ordinal)?),
    }
}

/// The calling thread's device.
pub fn current() -> Result<Arc<dyn Device>> {
    get(match kind()? {
        Kind::Cpu => cpu::current(),
        Kind::Cuda => cuda::current().map_err(or_cpu)?,
    })
}

/// Makes device `ordinal` the calling thread's.
pub fn set_current(ordinal: i32) -> Result<()> {
    get(ordinal)?;
    match kind()? {
        Kind::Cpu => cpu::set_current(ordinal),
        Kind::Cuda => cuda::set_current(ordinal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_what_is_there() {
        for stand_in in [false, true] {
            assert_eq!(choose(Some("CPU"), stand_in).unwrap(), Kind::Cpu);
            assert_eq!(choose(Some(" cuda "), stand_in).unwrap(), Kind::Cuda);
            assert!(choose(Some("gpu"), stand_in).unwrap_err().text.contains("cpu or cuda"));
        }
        assert_eq!((choose(None, true).unwrap(), choose(None, false).unwrap()), (Kind::Cpu, Kind::Cuda));
    }

    #[test]
    fn without_a_driver_both_ways_out_are_named() {
        let error = or_cpu(Error::new(Code::UnhandledCudaError, 70, "no CUDA driver | fix: install the NVIDIA driver"));
        assert_eq!(error.id, 68);
        assert!(error.text.contains("driver") && error.text.contains("GINRS_DEVICE=cpu"), "{error}");
    }
}
