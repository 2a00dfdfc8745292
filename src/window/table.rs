//! The window table that ncclFindWindow walks: pages of 32 entries in device memory, and a shadow that says which are taken.

use crate::abort::Abort;
use crate::device::{DevPtr, Device, DeviceMemory, Kind};
use crate::error::Result;
use crate::layout::{
    COMM_EXT_MAGIC, COMM_EXT_OFFSET, COMM_EXT_VERSION, WINDOW_TABLE_ENTRIES, ginrsCommExt, ncclDevCommWindowTableEntry,
};
use zerocopy::IntoBytes;

const ENTRY: u64 = 24;
const NEXT: u64 = 768;
const PAGE_BYTES: usize = 776;
/// The first page is longer: behind it stands what only code compiled with our headers looks for.
const FIRST_PAGE_BYTES: usize = 1024;

struct Page {
    memory: DeviceMemory,
    taken: u32,
}

/// The table of one communicator and rank. Pages stay until it goes.
pub struct WindowTable {
    pages: Vec<Page>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    page: usize,
    slot: u32,
}

impl WindowTable {
    /// One empty page, and behind it where the communicator's abort word is, and how many ranks its LSA team has.
    pub fn new(device: &dyn Device, abort: &Abort, lsa_size: u32) -> Result<Self> {
        let memory = device.objects(FIRST_PAGE_BYTES)?;
        let block = ginrsCommExt {
            magic: COMM_EXT_MAGIC,
            version: COMM_EXT_VERSION,
            bytes: size_of::<ginrsCommExt>() as u32,
            abortWord: abort.device_address(),
            abortHost: abort.host_address(),
            lsaSize: lsa_size,
            device: if device.kind() == Kind::Cpu { device.ordinal() as u32 + 1 } else { 0 },
        };
        device.write(memory.device() + COMM_EXT_OFFSET, block.as_bytes())?;
        Ok(Self { pages: vec![Page { memory, taken: 0 }] })
    }

    /// Address of the first page: `ncclDevComm.windowTable`.
    pub fn device(&self) -> DevPtr {
        self.pages[0].memory.device()
    }

    /// Takes the first free entry. `base` is the user's address of the window, 0 for one that cannot be found by address.
    pub fn insert(&mut self, device: &dyn Device, base: DevPtr, bytes: u64, window: DevPtr) -> Result<Slot> {
        let page = match self.pages.iter().position(|page| page.taken != u32::MAX) {
            Some(page) => page,
            None => self.grow(device)?,
        };
        let slot = self.pages[page].taken.trailing_ones();
        let entry = Slot { page, slot };
        let at = self.address(entry);
        // One write, whose words may arrive in any order: half an entry holds no address but the new window's own.
        device.write(at, ncclDevCommWindowTableEntry { base, size: bytes, window }.as_bytes())?;
        self.pages[page].taken |= 1 << slot;
        Ok(entry)
    }

    /// Empties an entry.
    pub fn remove(&mut self, device: &dyn Device, entry: Slot) -> Result<()> {
        let at = self.address(entry);
        self.pages[entry.page].taken &= !(1 << entry.slot);
        device.write(at, ncclDevCommWindowTableEntry::default().as_bytes())
    }

    fn grow(&mut self, device: &dyn Device) -> Result<usize> {
        let memory = device.objects(PAGE_BYTES)?;
        let last = &self.pages[self.pages.len() - 1].memory;
        device.write(last.device() + NEXT, &memory.device().to_le_bytes())?;
        self.pages.push(Page { memory, taken: 0 });
        Ok(self.pages.len() - 1)
    }

    fn address(&self, entry: Slot) -> DevPtr {
        self.pages[entry.page].memory.device() + u64::from(entry.slot) * ENTRY
    }
}

const _: () = assert!(WINDOW_TABLE_ENTRIES == 32 && ENTRY * 32 == NEXT && PAGE_BYTES as u64 == NEXT + 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};
    use crate::layout::ncclDevCommWindowTable;

    fn read(at: DevPtr) -> ncclDevCommWindowTable {
        // SAFETY: a live page of the table under test, written by this thread.
        unsafe { *(at as *const ncclDevCommWindowTable) }
    }

    #[test]
    fn first_free_entry_pages_in_a_chain_and_the_block_behind_the_first() {
        let device = CpuDevice::new(0);
        let abort = Abort::new(device.control(4096).unwrap());
        let mut table = WindowTable::new(&*device, &abort, 2).unwrap();
        let entries: Vec<_> = (0..40u64).map(|i| table.insert(&*device, 0x1000 * (i + 1), 64, 0x10 + i).unwrap()).collect();
        let first = read(table.device());
        let second = read(first.next);
        assert_eq!((first.entries[31].base, first.entries[31].window), (0x20000, 0x2f));
        assert_eq!((second.entries[7].window, second.entries[8].window, second.next), (0x37, 0, 0));
        table.remove(&*device, entries[3]).unwrap();
        assert_eq!(read(table.device()).entries[3], Default::default());
        assert_eq!(table.insert(&*device, 1, 2, 3).unwrap(), entries[3]);
        assert_eq!(read(table.device()).entries[3].size, 2);
        let at = (table.device() + COMM_EXT_OFFSET) as *const u64;
        // SAFETY: 40 bytes behind the first page, inside its 1024.
        let block = unsafe { [*at, *at.add(1), *at.add(2), *at.add(3), *at.add(4)] };
        let (lsa_size, number) = (2, device.ordinal() as u64);
        let last = (number + 1) << 32 | lsa_size;
        assert_eq!(block, [COMM_EXT_MAGIC, 40 << 32 | 4, abort.device_address(), abort.host_address(), last]);
    }
}
