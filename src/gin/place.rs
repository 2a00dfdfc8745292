//! Which core a proxy thread takes: near its GPU, inside what this process may use, and not the one of another GPU's thread.
#![forbid(unsafe_code)]

use crate::device::cpus::siblings;
use crate::device::{Device, Kind};
use crate::{config, info};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread, the proxy of `device`. A thread that cannot be placed stays where it is: slower, not wrong.
pub fn pin(device: &dyn Device) {
    if device.kind() != Kind::Cuda {
        return;
    }
    let Ok(own) = sched_getaffinity(None) else { return };
    let own: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| own.is_set(cpu)).collect();
    let near = device.near_cpus();
    let candidates = candidates(&near, &own, config::int("NCCL_IGNORE_CPU_AFFINITY") != 0);
    let cores = one_per_core(&candidates, siblings);
    let gpus = gpus();
    let index = gpus.binary_search(&device.bus_id()).unwrap_or(device.ordinal().max(0) as usize);
    let Some(cpu) = choose(&cores, index, gpus.len()) else {
        info!(INIT, "GIN proxy thread of device {}: not pinned, {} CPUs to choose from", device.ordinal(), cores.len());
        return;
    };
    let mut set = CpuSet::new();
    set.set(cpu);
    let whether = if sched_setaffinity(None, &set).is_ok() { "runs on" } else { "could not be pinned to" };
    info!(
        INIT,
        "GIN proxy thread of device {} {whether} CPU {cpu}: {} cores to choose from, {} CPUs near the GPU, {} allowed",
        device.ordinal(),
        cores.len(),
        near.len(),
        own.len()
    );
}

/// The CPUs near the GPU that this process may use; all that it may use where there are none or nobody knows them.
/// `ignore` (NCCL_IGNORE_CPU_AFFINITY) sets what it may use aside.
fn candidates(near: &[usize], own: &[usize], ignore: bool) -> Vec<usize> {
    let cut: Vec<usize> = near.iter().copied().filter(|cpu| ignore || own.contains(cpu)).collect();
    if cut.is_empty() { own.to_vec() } else { cut }
}

/// The first of each group of CPUs that share a core: two spinning threads on one core take it from each other.
fn one_per_core(cpus: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let mut cores: Vec<usize> = Vec::new();
    for &cpu in cpus {
        if !siblings(cpu).iter().any(|sibling| cores.contains(sibling)) {
            cores.push(cpu);
        }
    }
    cores
}

/// GPU `index` of `gpus` takes the last core of its share: the first CPUs of a machine are busy with interrupts. None where
/// there is nothing to choose.
fn choose(cores: &[usize], index: usize, gpus: usize) -> Option<usize> {
    if cores.len() < 2 {
        return None;
    }
    let gpus = gpus.max(index + 1);
    let at = if cores.len() < gpus { index % cores.len() } else { (index + 1) * cores.len() / gpus - 1 };
    cores.get(at).copied()
}

/// [`Device::bus_id`] of all GPUs of the machine, in order, also of those that this process does not see: so that processes
/// with a GPU each choose different cores.
fn gpus() -> Vec<u64> {
    let Ok(devices) = std::fs::read_dir("/sys/bus/pci/devices") else { return Vec::new() };
    let is = |folder: &std::path::Path, file: &str, start: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.starts_with(start))
    };
    let gpus = devices.filter_map(|entry| {
        let entry = entry.ok()?;
        let path = entry.path();
        let gpu = is(&path, "vendor", "0x10de") && is(&path, "class", "0x03");
        gpu.then(|| bus_id(entry.file_name().to_str()?)).flatten()
    });
    let mut gpus: Vec<u64> = gpus.collect();
    gpus.sort_unstable();
    gpus
}

/// `0000:c3:00.0` as [`Device::bus_id`] has it.
fn bus_id(address: &str) -> Option<u64> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut parts = address.split([':', '.']);
    let [domain, bus, slot, function] = std::array::from_fn(|_| parts.next());
    Some(hex(domain?)? << 16 | hex(bus?)? << 8 | hex(slot?)? << 3 | hex(function?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_allowed_or_allowed() {
        assert_eq!(candidates(&[0, 1, 2, 3], &[2, 3, 8], false), [2, 3]);
        assert_eq!(candidates(&[0, 1], &[8, 9], false), [8, 9], "the mask wins over nearness");
        assert_eq!(candidates(&[0, 1], &[8, 9], true), [0, 1], "unless it is ignored");
        assert_eq!(candidates(&[], &[8, 9], true), [8, 9]);
    }

    #[test]
    fn gpus_take_different_cores() {
        let cores: Vec<usize> = (0..64).collect();
        assert_eq!((0..8).map(|gpu| choose(&cores, gpu, 8).unwrap()).collect::<Vec<_>>(), [7, 15, 23, 31, 39, 47, 55, 63]);
        for (cores, gpus) in [(9, 4), (4, 4), (64, 5)] {
            let cores: Vec<usize> = (100..100 + cores).collect();
            let mut taken: Vec<usize> = (0..gpus).map(|gpu| choose(&cores, gpu, gpus).unwrap()).collect();
            taken.dedup();
            assert_eq!(taken.len(), gpus);
        }
        assert_eq!((choose(&[5], 0, 1), choose(&[], 0, 0), choose(&[5, 6], 3, 4)), (None, None, Some(6)));
        assert_eq!(choose(&[5, 6], 0, 0), Some(6), "no list of GPUs");
    }

    #[test]
    fn one_thread_of_each_core() {
        let pairs = |cpu: usize| vec![cpu % 4, cpu % 4 + 4];
        assert_eq!(one_per_core(&[1, 2, 5, 6, 7], pairs), [1, 2, 7]);
        assert_eq!(one_per_core(&[1, 2], |_| Vec::new()), [1, 2], "nobody knows");
    }

    #[test]
    fn addresses_are_bus_ids() {
        assert_eq!(bus_id("0000:c3:00.0"), Some(0xc300));
        assert_eq!(bus_id("0001:c3:1f.1"), Some(0x1_c3f9));
        assert_eq!(bus_id("c3:00.0"), None);
    }
}
