//! 32-bit addresses of shared memory. A block's shared memory lies wherever its OS thread's storage does; PTX names it by 32
//! bits, which programs cut out of `__cvta_generic_to_shared`. Each block thread gives out addresses in windows around what was
//! asked for: neighbours in memory are neighbours in the address, alignments are the same, and 0 is nobody's.

use std::cell::RefCell;

/// Between the addresses of two windows.
const WINDOW: usize = 4 << 20;
/// A window answers for its second and third MiB; the rest is room for arithmetic beyond both ends.
const STEP: usize = 1 << 20;
/// What 32 bits have room for, less the first, which is nobody's.
const MOST: usize = (1 << 32) / WINDOW - 1;

thread_local! {
    /// Where each window begins in memory.
    static WINDOWS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The 32-bit address of `pointer` on this OS thread; the same each time. None once there are no more windows.
pub fn address_of(pointer: usize) -> Option<u32> {
    WINDOWS.with_borrow_mut(|windows| {
        let holds = |base: &usize| (base + STEP..base + 3 * STEP).contains(&pointer);
        let at = windows.iter().position(holds).or_else(|| {
            let base = (pointer & !(STEP - 1)).checked_sub(STEP)?;
            windows.push(base);
            (windows.len() <= MOST).then_some(windows.len() - 1)
        })?;
        Some(((at + 1) * WINDOW + (pointer - windows[at])) as u32)
    })
}

/// The pointer that `address` stands for on this OS thread. None for what `address_of` never gave out.
pub fn pointer_to(address: u32) -> Option<usize> {
    let address = address as usize;
    let window = (address / WINDOW).checked_sub(1)?;
    WINDOWS.with_borrow(|windows| windows.get(window).map(|base| base + address % WINDOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_keep_distances_and_alignment() {
        for pointer in [0x7f12_3456_7810, 0x7f12_3466_7810, 0x10_0000_0000, 0x7f12_3456_7810 - 300_000, 0x55_5555_5555_5550] {
            let address = address_of(pointer).unwrap();
            assert_eq!(address_of(pointer), Some(address));
            for distance in [0usize, 16, 232_448] {
                assert_eq!(pointer_to(address + distance as u32), Some(pointer + distance));
                assert_eq!(pointer_to(address - distance as u32), Some(pointer - distance));
            }
            assert_eq!(address as usize % 1024, pointer % 1024);
        }
        for nobodys in [0, 4096, 4 << 20 | 1 << 31] {
            assert_eq!(pointer_to(nobodys), None);
        }
    }
}
