//! The lines of LL all-to-all sessions (spec device 15). A receive at epoch e ends when its line carries e, and nothing else:
//! e stands in a register of the kernel. So the epochs that it may be at are written one after the other.
//!
//! Which: a session is at the epoch that its block's header gives, or it has received at e - 1 from the rank that it now waits
//! for, and that rank's line carries e - 1 still. So at the first look e is the header's epoch or one more than a flag in the
//! block, however far ahead other ranks are by then. From there a pass goes on for some epochs, as the kernel does.

use crate::device::{DevPtr, Transfers};
use crate::error::Result;
use zerocopy::IntoBytes;

/// Bytes of a line.
const LINE: usize = 16;
/// Lines moved in one sweep; longer buffers are swept in parts.
const BUDGET: usize = (4 << 20) / LINE;
/// Epochs of a pass behind each that a kernel may be at: 16, 32, .. 1024, and again from 16.
const PASS: u32 = 16;
const LONGER: u32 = 7;
/// Epochs to start from; where a block holds more flags the oldest are dropped.
const STARTS: usize = 64;

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

/// Where the sweep of a block stands.
struct Sweep {
    /// Epochs at which a kernel may be, oldest first.
    starts: Vec<u32>,
    /// What is left of this pass, last epoch first.
    plan: Vec<u32>,
    passes: u32,
    /// Somebody was here just now: the next but one to be written.
    seen: Option<u32>,
    /// This epoch and the one after it are in the two banks.
    written: u32,
}

impl Sweep {
    fn new(header: u32, flags: &[u32]) -> Self {
        let mut sweep = Self { starts: vec![header], plan: Vec::new(), passes: 0, seen: None, written: header };
        flags.iter().for_each(|&flag| sweep.note(header, flag));
        sweep.seen = None;
        sweep.next(header);
        sweep
    }

    /// A kernel may be at `epoch`.
    fn note(&mut self, header: u32, epoch: u32) {
        if epoch != header && !is_newer(epoch, header) {
            return; // left behind by an earlier session
        }
        if let Err(at) = self.starts.binary_search_by_key(&epoch.wrapping_sub(header), |start| start.wrapping_sub(header)) {
            self.starts.insert(at, epoch);
            self.seen = Some(epoch);
            if self.starts.len() > STARTS {
                self.starts.remove(0);
            }
        }
    }

    /// Chooses what is written next.
    fn next(&mut self, header: u32) {
        if self.plan.is_empty() {
            let length = PASS << (self.passes % LONGER);
            self.passes += 1;
            // Sessions that have ended need nothing; the next one starts at the header's epoch.
            self.starts.retain(|&start| is_newer(start, header));
            self.starts.insert(0, header);
            for &start in &self.starts {
                let newer = |epoch: &u32| self.plan.last().is_none_or(|&last| is_newer(*epoch, last));
                let epochs: Vec<u32> = (0..length).map(|n| later(start, n)).filter(newer).collect();
                self.plan.extend(epochs);
            }
            self.plan.reverse();
        }
        self.written = self.plan.pop().unwrap_or(header);
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
    pub fn sweep(&mut self, device: &dyn Transfers) -> Result<()> {
        let turns = (BUDGET / (1 + 2 * self.slots)).clamp(1, self.blocks.len().max(1)).min(self.blocks.len());
        for _ in 0..turns {
            self.blocks[self.next].sweep(device, self.slots)?;
            self.next = (self.next + 1) % self.blocks.len();
        }
        Ok(())
    }
}

impl Block {
    fn sweep(&mut self, device: &dyn Transfers, slots: usize) -> Result<()> {
        let mut lines = vec![[0u32; 4]; 1 + 2 * slots];
        device.read(self.at, lines.as_mut_bytes())?;
        // The epoch at which the next session starts, or the live one did.
        let header = later(lines[0][0], 2);
        let banks = |e: u32| if e.is_multiple_of(2) { [e, later(e, 1)] } else { [later(e, 1), e] };
        // Flags that are not ours: peers, and the kernel itself, write them at the epochs they are at.
        let ours = self.sweep.as_ref().map(|sweep| banks(sweep.written));
        let lines = lines[1..].iter().enumerate();
        let told =
            lines.filter(|(i, line)| line[1] == line[3] && line[1] > 1 && ours.is_none_or(|ours| line[1] != ours[i / slots]));
        let flags: Vec<u32> = told.map(|(_, line)| line[1]).collect();
        let sweep = match &mut self.sweep {
            Some(sweep) => {
                match sweep.seen.take() {
                    // Every other time, so that ranks that run ahead do not keep those behind from their turn.
                    Some(epoch) => sweep.written = epoch,
                    None => {
                        flags.iter().for_each(|&flag| sweep.note(header, flag));
                        sweep.next(header);
                    }
                }
                sweep
            }
            first => first.insert(Sweep::new(header, &flags)),
        };
        let banks = banks(sweep.written);
        let moved: Vec<[u32; 4]> = banks.iter().flat_map(|&flag| std::iter::repeat_n([0, flag, 0, flag], slots)).collect();
        device.write(self.at + LINE as u64, moved.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};

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
                        assert!(sweeps < 1500, "saved {saved:#x}, epoch {epoch:#x} is never written");
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
        lines.sweep(&*buffer.device).unwrap();
        assert!(buffer.received(epoch));
    }

    /// Ranks are released one after the other: those that are ahead send at epochs that the one behind is not at yet.
    #[test]
    fn ranks_that_run_ahead_do_not_leave_the_others_behind() {
        for started in [false, true] {
            let buffer = Buffer::new();
            let mut lines = Lines::new(buffer.memory.device(), 1, SLOTS);
            // The header says 2, slot 0 is the dead rank's: it last sent at 49 and 50. Slot 1 is one that is ahead.
            let slot = |slot: u64, flag: u32| buffer.set(1 + u64::from(flag % 2) * u64::from(SLOTS) + slot, [7, flag, 7, flag]);
            [(0, 49), (0, 50), (1, 50), (1, 51)].iter().for_each(|&(at, flag)| slot(at, flag));
            if started {
                lines.sweep(&*buffer.device).unwrap();
            }
            let (mut epoch, mut sweeps) = (51, 0);
            for ahead in 52.. {
                slot(1, ahead);
                lines.sweep(&*buffer.device).unwrap();
                sweeps += 1;
                while buffer.received(epoch) {
                    epoch += 1;
                }
                assert!(sweeps < 4000, "the rank behind stays at {epoch}");
                if epoch > 60 {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_buffer_without_slots_is_left_alone() {
        let buffer = Buffer::new();
        Lines::new(buffer.memory.device(), 4, 0).sweep(&*buffer.device).unwrap();
        assert_eq!(buffer.line(1), [0; 4]);
    }
}
