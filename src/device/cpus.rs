//! Which CPUs of the machine belong together, from sysfs.
#![forbid(unsafe_code)]

use std::fs::read_to_string;

/// CPUs that are local to the PCI device `pci` (`0000:c3:00.0`); empty where the machine has no NUMA nodes or does not say.
pub fn near(pci: &str) -> Vec<usize> {
    let read = |file: &str| read_to_string(format!("/sys/bus/pci/devices/{pci}/{file}")).ok();
    let has_node = read("numa_node").and_then(|node| node.trim().parse::<i32>().ok()).is_some_and(|node| node >= 0);
    read("local_cpulist").filter(|_| has_node).and_then(|list| parse(&list)).unwrap_or_default()
}

/// CPUs on the same core as `cpu`, itself among them; empty where nobody says.
pub fn siblings(cpu: usize) -> Vec<usize> {
    let list = read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    list.ok().and_then(|list| parse(&list)).unwrap_or_default()
}

/// A kernel CPU list, `0-3,8,10-11`. None if it is none.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
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
        assert_eq!(parse("\n").unwrap(), [0usize; 0]);
        for wrong in ["3-1", "a", "1-", "0-99999999"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
        assert!(near("no:such.device").is_empty());
        assert!(siblings(0).is_empty() || siblings(0).contains(&0));
    }
}
