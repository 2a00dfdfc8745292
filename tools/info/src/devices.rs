//! GPUs, and the CPU device.

use crate::Report;
use crate::check::Check;
use ginrs::device::{self, Device, Execution, Kind, Memory, cpu, cuda};
use std::sync::Arc;

/// What a program on this machine would get, where GINRS_DEVICE says so or nothing speaks against it: GPUs first, else the CPU
/// device, which every program has that ginrs-cc has made.
pub fn chosen() -> Arc<dyn Device> {
    device::current().unwrap_or_else(|_| cpu::CpuDevice::new(cpu::current()))
}

/// That of the rank with this number on its machine: as programs do, each takes another.
pub fn of_rank(local: i32) -> Arc<dyn Device> {
    // What refuses is told by `chosen`'s own use of it.
    let _ = match chosen().kind() {
        Kind::Cuda => cuda::count().and_then(|count| cuda::set_current(local % count.max(1))),
        Kind::Cpu => cpu::set_current(local % cpu::count()),
    };
    chosen()
}

pub fn checks() -> Vec<Check> {
    let wanted = ginrs::config::text("GINRS_DEVICE");
    let choice = match (&wanted, chosen().kind()) {
        (Some(wanted), _) => format!("GINRS_DEVICE={wanted}"),
        (None, Kind::Cuda) => "a program gets the GPUs, or the CPU device if ginrs-cc has made it".into(),
        (None, Kind::Cpu) => "a program gets the CPU device if ginrs-cc has made it; no other finds a device".into(),
    };
    vec![Check::note("choice", choice), gpus(), host()]
}

fn gpus() -> Check {
    let all = match cuda::count() {
        Err(error) => return Check::no("cuda", error.to_string()),
        Ok(0) => {
            return Check::no("cuda", "the driver is there and shows no GPU | fix: see CUDA_VISIBLE_DEVICES and nvidia-smi -L");
        }
        Ok(count) => (0..count).map(gpu).collect::<Vec<_>>(),
    };
    Check::yes("cuda", format!("{} GPUs", all.len())).with(all)
}

fn gpu(ordinal: i32) -> Check {
    let name = format!("GPU {ordinal}");
    match cuda::CudaDevice::get(ordinal) {
        Err(error) => Check::no(name, error.to_string()),
        Ok(gpu) => {
            let (id, memory) = (gpu.bus_id(), gpu.total_memory() >> 20);
            let at = format!("{:04x}:{:02x}:{:02x}.0", id >> 16, id >> 8 & 0xff, id >> 3 & 0x1f);
            let kernels = match gpu.kernels() {
                Ok(kernels) => Check::yes("collectives", format!("{} blocks at a time", kernels.blocks())),
                Err(error) => Check::no("collectives", error.to_string()),
            };
            Check::yes(name, format!("at {at}, {memory} MiB")).with(vec![kernels])
        }
    }
}

fn host() -> Check {
    let found =
        format!("{} devices for a process (GINRS_CPU_DEVICES); kernels of programs that ginrs-cc has compiled", cpu::count());
    Check::yes("cpu", found)
}

pub fn report() -> Report {
    let checks = checks();
    Report {
        text: checks.iter().map(|check| check.text(0)).collect(),
        json: serde_json::json!({"devices": checks.iter().map(Check::json).collect::<Vec<_>>()}),
        status: 0,
    }
}
