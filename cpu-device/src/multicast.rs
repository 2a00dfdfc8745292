//! Multicast addresses: `multimem.*` instructions at them reach the same place in the memory of several ranks.
//!
//! Nothing is mapped there: libginrs reserves the range, says here where its bytes are, and the instructions ask
//! (`ginrs_cpu/multimem.h`). A plain access is a fault, which [`crate::fault`] explains.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

/// `ginrsCpuTargets`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Targets {
    /// The place in the first rank's memory.
    first: usize,
    /// To the next rank's. Bytes; modulo 2^64.
    step: usize,
    count: u32,
}

#[derive(Clone, Copy)]
struct Range {
    base: usize,
    bytes: usize,
    targets: Targets,
}

static RANGES: RwLock<Vec<Range>> = RwLock::new(Vec::new());

/// How many there are: kernels look at it before a plain store is taken for one to multicast memory. See runtime.h.
#[unsafe(no_mangle)]
pub static ginrs_cpu_multicast_ranges: AtomicU32 = AtomicU32::new(0);

/// `addMulticast` of library.h.
pub(crate) extern "C" fn add(base: usize, bytes: usize, first: usize, step: usize, count: u32) {
    let mut ranges = RANGES.write();
    ranges.push(Range { base, bytes, targets: Targets { first, step, count } });
    ginrs_cpu_multicast_ranges.store(ranges.len() as u32, Ordering::Release);
}

/// `removeMulticast` of library.h.
pub(crate) extern "C" fn remove(base: usize) {
    let mut ranges = RANGES.write();
    ranges.retain(|range| range.base != base);
    ginrs_cpu_multicast_ranges.store(ranges.len() as u32, Ordering::Release);
}

fn find(address: usize, bytes: usize) -> Option<Targets> {
    let ranges = RANGES.read();
    let range = ranges.iter().find(|range| address.wrapping_sub(range.base) < range.bytes)?;
    let offset = address - range.base;
    (range.bytes - offset >= bytes).then(|| Targets { first: range.targets.first.wrapping_add(offset), ..range.targets })
}

/// Whether a fault at `address` is a plain access to multicast memory. For a signal handler: waits for nobody.
pub(crate) fn holds(address: usize) -> bool {
    RANGES.try_read().is_some_and(|ranges| ranges.iter().any(|range| address.wrapping_sub(range.base) < range.bytes))
}

/// See runtime.h.
///
/// # Safety
/// `targets` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_multicast_targets(address: usize, bytes: usize, targets: *mut Targets) -> i32 {
    let Some(found) = find(address, bytes) else { return 0 };
    // SAFETY: the caller's.
    unsafe { *targets = found };
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_with_all_of_its_bytes_in_one_range() {
        let (base, first, step) = (0x7000_0000_0000_0000, 0x1000, 1 << 33);
        add(base, 4096, first, step, 3);
        let found = find(base + 40, 16).unwrap();
        assert_eq!((found.first, found.step, found.count), (first + 40, step, 3));
        assert!(find(base + 4080, 16).is_some() && find(base + 4081, 16).is_none());
        assert!(find(base - 1, 1).is_none() && find(base + 4096, 1).is_none());
        assert!(holds(base + 4095) && !holds(base + 4096));
        remove(base);
        assert!(find(base, 1).is_none() && !holds(base));
    }
}
