//! Signals and counters of direct contexts: device memory, which only kernels add to while the communicator lives.

use crate::device::{DevPtr, Transfers};
use crate::error::Result;
use crate::gin::signal;
use zerocopy::IntoBytes;

/// Words in a row.
pub(super) struct Words {
    at: DevPtr,
    count: u32,
}

impl Words {
    pub fn new(at: DevPtr, count: u32) -> Self {
        Self { at, count }
    }

    /// Moves those that nobody has moved, or that a kernel has reset since. An add of a kernel between look and store is lost: it
    /// would have ended no wait that the moved word does not end.
    pub fn sweep(&mut self, device: &dyn Transfers) -> Result<()> {
        let mut words = vec![0u64; self.count as usize];
        device.read(self.at, words.as_mut_bytes())?;
        let mut first = 0;
        for run in words.chunk_by(|a, b| signal::released(*a).is_some() == signal::released(*b).is_some()) {
            let moved: Vec<u64> = run.iter().filter_map(|word| signal::released(*word)).collect();
            if !moved.is_empty() {
                device.write(self.at + 8 * first, moved.as_bytes())?;
            }
            first += run.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};
    use crate::gin::signal::RELEASE;

    #[test]
    fn words_move_once_and_again_after_a_reset_and_neighbours_stay() {
        let device = CpuDevice::new(0);
        let memory = device.objects(64).unwrap();
        let look = || {
            let mut words = [0u64; 6];
            device.read(memory.device(), words.as_mut_bytes()).unwrap();
            words
        };
        device.write(memory.device() + 16, &7u64.to_le_bytes()).unwrap();
        let mut words = Words::new(memory.device() + 8, 4);
        words.sweep(&*device).unwrap();
        words.sweep(&*device).unwrap();
        assert_eq!(look(), [0, RELEASE, RELEASE + 7, RELEASE, RELEASE, 0]);
        device.write(memory.device() + 24, &[0; 8]).unwrap();
        words.sweep(&*device).unwrap();
        assert_eq!(look(), [0, RELEASE, RELEASE + 7, RELEASE, RELEASE, 0]);
    }
}
