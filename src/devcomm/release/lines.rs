//! The lines of LL all-to-all sessions (spec device 15). A receive at epoch e ends when its line carries e, and nothing else:
//! e stands in a register of the kernel. So the epochs that it may be at are written one after the other.

use crate::device::{DevPtr, Device};
use crate::error::Result;

/// Bytes of a line.
const LINE: usize = 16;
/// Lines moved in one sweep; longer buffers are swept in parts.
const BUDGET: usize = (4 << 20) / LINE;
/// Epochs in a pass, from the oldest that a kernel may be at: 16, 32, .. 1024, and again from 16.
const PASS: u32 = 16;
const LONGER: u32 = 7;

/// This rank's lines of one all-to-all buffer.
pub(super) struct Lines {
    blocks: Vec<Block>,
    slots: usize,
    next: usize,
}

struct Block {
    at: DevPtr,
    sweep: Option<Sweep>,
}

/// Where the sweep of a block stands: `written` and the epoch after it are in the two banks.
struct Sweep {
    base: u32,
    step: u32,
    pass: u32,
}

impl Sweep {
    fn written(&self) -> u32 {
        later(self.base, self.step)
    }

    /// The next epoch, or the next pass.
    fn advance(&mut self, header: u32) {
        self.step += 1;
        if self.step == PASS << (self.pass % LONGER) {
            self.pass += 1;
            self.step = 0;
            // A session has ended meanwhile: the next one starts there.
            if is_newer(header, self.base) {
                self.base = header;
            }
        }
    }
}

/// The epoch `n` after `epoch`: 0 and 1 are never used.
fn later(epoch: u32, n: u32) -> u32 {
    match epoch.overflowing_add(n) {
        (sum, false) => sum,
        (sum, true) => sum.wrapping_add(2),
    }
}

fn is_newer(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

impl Lines {
    /// Of the buffer that begins at `at`.
    pub fn new(at: DevPtr, blocks: u32, slots: u32) -> Self {
        let stride = LINE as u64 * (1 + 2 * u64::from(slots));
        let blocks = if slots == 0 { 0 } else { blocks };
        let block = |b| Block { at: at + u64::from(b) * stride, sweep: None };
        Self { blocks: (0..blocks).map(block).collect(), slots: slots as usize, next: 0 }
    }

    /// One step of every block, or of as many as the budget allows.
    pub fn sweep(&mut self, device: &dyn Device) -> Result<()> {
        let turns = (BUDGET / (1 + 2 * self.slots)).clamp(1, self.blocks.len().max(1)).min(self.blocks.len());
        for _ in 0..turns {
            self.blocks[self.next].sweep(device, self.slots)?;
            self.next = (self.next + 1) % self.blocks.len();
        }
        Ok(())
    }
}

impl Block {
    fn sweep(&mut self, device: &dyn Device, slots: usize) -> Result<()> {
        let mut bytes = vec![0; LINE * (1 + 2 * slots)];
        device.read(self.at, &mut bytes)?;
        let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        // The epoch at which the next session starts, or the live one did.
        let header = later(words[0], 2);
        let banks = |e: u32| if e.is_multiple_of(2) { [e, later(e, 1)] } else { [later(e, 1), e] };
        // Flags that are not ours: peers, and the kernel itself, write them at the epochs they are at.
        let ours = self.sweep.as_ref().map(|sweep| banks(sweep.written()));
        let lines = words[4..].as_chunks::<4>().0.iter().enumerate();
        let told = lines.filter(|(i, line)| line[1] == line[3] && ours.is_none_or(|ours| line[1] != ours[i / slots]));
        let oldest = self.sweep.as_ref().map_or(header, |sweep| sweep.base);
        let newest = told
            .map(|(_, line)| line[1])
            .filter(|&flag| flag > 1 && is_newer(flag, oldest))
            .reduce(|a, b| if is_newer(b, a) { b } else { a });
        match (&mut self.sweep, newest) {
            // Who sent `flag` is at most one epoch ahead of the kernel here.
            (sweep, Some(flag)) => *sweep = Some(Sweep { base: flag.wrapping_sub(1), step: 0, pass: 0 }),
            (Some(sweep), None) => sweep.advance(header),
            (sweep, None) => *sweep = Some(Sweep { base: header, step: 0, pass: 0 }),
        }
        let banks = banks(self.sweep.as_ref().map_or(header, Sweep::written));
        let line = |flag: u32| [0, flag, 0, flag].map(u32::to_le_bytes);
        let moved: Vec<u8> = banks.iter().flat_map(|&flag| std::iter::repeat_n(line(flag), slots)).flatten().flatten().collect();
        device.write(self.at + LINE as u64, &moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    const SLOTS: u32 = 3;

    struct Buffer {
        device: std::sync::Arc<CpuDevice>,
        memory: crate::device::DeviceMemory,
    }

    impl Buffer {
        fn new() -> Self {
            let device = CpuDevice::new(0);
            let memory = device.objects(4096).unwrap();
            Self { device, memory }
        }

        fn line(&self, line: u64) -> [u32; 4] {
            let mut bytes = [0; LINE];
            self.device.read(self.memory.device() + line * LINE as u64, &mut bytes).unwrap();
            std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..][..4].try_into().unwrap()))
        }

        fn set(&self, line: u64, words: [u32; 4]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.device.write(self.memory.device() + line * LINE as u64, &bytes).unwrap();
        }

        /// A receive of all slots of block 0 at `epoch`.
        fn received(&self, epoch: u32) -> bool {
            let bank = 1 + u64::from(epoch % 2) * u64::from(SLOTS);
            (bank..bank + u64::from(SLOTS)).all(|line| self.line(line)[1] == epoch && self.line(line)[3] == epoch)
        }
    }

    #[test]
    fn a_receive_at_any_likely_epoch_ends_and_so_do_those_after_it() {
        for saved in [0, 5, 0x7fff_fffe, 0xffff_fff8] {
            // Behind the saved epoch, at it, and some epochs into the session, with and without a peer ahead.
            for (epochs, ahead) in [(0, None), (0, Some(0)), (0, Some(1)), (6, Some(0)), (9, Some(1)), (300, Some(0))] {
                let buffer = Buffer::new();
                let start = later(saved, 2);
                let mut epoch = later(start, epochs);
                buffer.set(0, [saved, 0, 0, 0]);
                if let Some(ahead) = ahead {
                    let flag = later(epoch, ahead);
                    buffer.set(1 + u64::from(flag % 2) * u64::from(SLOTS), [1, flag, 2, flag]);
                }
                let mut lines = Lines::new(buffer.memory.device(), 2, SLOTS);
                let mut sweeps = 0;
                for _ in 0..100 {
                    while !buffer.received(epoch) {
                        lines.sweep(&*buffer.device).unwrap();
                        sweeps += 1;
                        assert!(sweeps < 400, "saved {saved:#x}, epoch {epoch:#x} is never written");
                    }
                    epoch = later(epoch, 1);
                }
                assert_eq!(buffer.line(0), [saved, 0, 0, 0], "the header is the kernel's");
            }
        }
    }

    #[test]
    fn a_session_that_goes_on_writing_is_followed() {
        let buffer = Buffer::new();
        let mut lines = Lines::new(buffer.memory.device(), 1, SLOTS);
        lines.sweep(&*buffer.device).unwrap();
        // Far ahead of the first pass; the kernel sends to itself too.
        let epoch = 100_001;
        buffer.set(1 + u64::from(SLOTS), [0, epoch, 0, epoch]);
        lines.sweep(&*buffer.device).unwrap();
        assert!(buffer.received(epoch));
        // What an old epoch left behind leads nowhere.
        buffer.set(2, [0, 4, 0, 4]);
        lines.sweep(&*buffer.device).unwrap();
        assert!(buffer.received(epoch));
    }

    #[test]
    fn a_buffer_without_slots_is_left_alone() {
        let buffer = Buffer::new();
        Lines::new(buffer.memory.device(), 4, 0).sweep(&*buffer.device).unwrap();
        assert_eq!(buffer.line(1), [0; 4]);
    }
}
