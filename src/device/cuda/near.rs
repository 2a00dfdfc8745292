//! CPUs that are local to a device, from sysfs.

/// CPUs of the PCI device `pci` (`0000:c3:00.0`); empty where the machine has no NUMA nodes or does not say.
pub fn near_cpus(pci: &str) -> Vec<usize> {
    let read = |file: &str| std::fs::read_to_string(format!("/sys/bus/pci/devices/{pci}/{file}")).ok();
    match (read("numa_node").and_then(|node| node.trim().parse::<i32>().ok()), read("local_cpulist")) {
        (Some(node), Some(list)) if node >= 0 => parse(list.trim()).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A kernel CPU list, `0-3,8,10-11`. None if it is none.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse("0-3,8,10-11").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("").unwrap(), [0usize; 0]);
        for wrong in ["3-1", "a", "1-", "0-99999999"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
        assert!(near_cpus("no:such.device").is_empty());
    }
}
