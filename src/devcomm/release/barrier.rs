//! The inboxes of LSA barriers (spec device 8): a wait at epoch e ends while its word lies 1 to 2^31 ahead of e.

use crate::device::{DevPtr, Transfers};
use crate::error::Result;
use zerocopy::IntoBytes;

/// Half of what the rolling compare reaches: waits of the next 2^30 epochs end with the word there.
const AHEAD: u32 = 1 << 30;

/// This rank's inbox words of one group of barriers.
pub(super) struct Inboxes {
    at: DevPtr,
    words: usize,
    /// What the words are to be; made at the first sweep, from what peers had written by then.
    moved: Vec<u32>,
}

impl Inboxes {
    /// Of the barriers whose buffer begins at `at`: two words of epochs per barrier, which only kernels touch, then a word
    /// that multicast adds to and one word per member.
    pub fn new(at: DevPtr, barriers: u32, members: u32) -> Self {
        Self { at: at + 8 * u64::from(barriers), words: barriers as usize * (1 + members as usize), moved: Vec::new() }
    }

    /// Moves the words, or moves back those that a late store of a peer has taken.
    pub fn sweep(&mut self, device: &dyn Transfers) -> Result<()> {
        // Whole 8-byte words: the odd one is padding of the buffer, up to the next multiple of 128.
        let mut seen = vec![0u32; self.words.next_multiple_of(2)];
        device.read(self.at, seen.as_mut_bytes())?;
        if self.moved.is_empty() {
            self.moved = seen[..self.words].iter().map(|word| word.wrapping_add(AHEAD)).collect();
        }
        if seen[..self.words] == self.moved {
            return Ok(());
        }
        seen[..self.words].copy_from_slice(&self.moved);
        device.write(self.at, seen.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};

    /// The wait of a barrier at `epoch`, in the words of the specification.
    fn ends(word: u32, epoch: u32) -> bool {
        word.wrapping_sub(epoch.wrapping_add(1)) <= 0x7fff_ffff
    }

    #[test]
    fn every_wait_ends_now_and_later_and_epochs_stay() {
        let device = CpuDevice::new(0);
        for epoch in [0u32, 7, 0x7fff_fff0, 0x8000_0000, u32::MAX - 1] {
            let (barriers, members) = (3u32, 2u32);
            let memory = device.objects(4096).unwrap();
            let words = barriers * (3 + members);
            let start = vec![epoch; words.next_multiple_of(2) as usize];
            device.write(memory.device(), start.as_bytes()).unwrap();
            let look = || {
                let mut seen = vec![0u32; words as usize];
                device.read(memory.device(), seen.as_mut_bytes()).unwrap();
                seen
            };
            let mut inboxes = Inboxes::new(memory.device(), barriers, members);
            inboxes.sweep(&*device).unwrap();
            let released = |words: &[u32]| {
                let inboxes = &words[2 * barriers as usize..];
                inboxes.iter().all(|&word| [0, 1, 1_000_000, AHEAD - 1].iter().all(|&k| ends(word, epoch.wrapping_add(k))))
            };
            assert!(look()[..2 * barriers as usize].iter().all(|&word| word == epoch));
            assert!(released(&look()), "{epoch:#x}");
            // A peer that is late takes a word back; the next sweep moves it again.
            let taken = memory.device() + 8 * u64::from(barriers) + 8;
            device.write(taken, &u64::from(epoch).to_le_bytes()).unwrap();
            assert!(!released(&look()));
            inboxes.sweep(&*device).unwrap();
            assert!(released(&look()));
        }
    }
}
