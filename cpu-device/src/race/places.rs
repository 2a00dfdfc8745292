//! Which bytes of which file stand at an address: the name that memory has in all processes that map it. libginrs says what it maps; it never
//! maps a part of a file.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// A byte of a file: the file, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Byte {
    /// Its number on this machine: of memfds, of which one that lives has it.
    pub file: u64,
    /// Where in it.
    pub offset: u64,
}

/// (Bytes, file), by first byte.
static MAPPED: RwLock<BTreeMap<usize, (usize, u64)>> = RwLock::new(BTreeMap::new());

/// What is mapped at an address; nothing: memory of this process alone.
pub fn byte_at(at: usize) -> Option<Byte> {
    let mapped = MAPPED.read();
    let (base, (bytes, file)) = mapped.range(..=at).next_back()?;
    (at - base < *bytes).then(|| Byte { file: *file, offset: (at - base) as u64 })
}

/// A file is mapped there from now on.
pub fn map(at: usize, bytes: usize, file: u64) {
    let mut mapped = MAPPED.write();
    mapped.retain(|base, (length, _)| *base + *length <= at || at + bytes <= *base);
    mapped.insert(at, (bytes, file));
}

/// Nothing is.
pub fn unmap(at: usize, bytes: usize) {
    MAPPED.write().retain(|base, (length, _)| *base + *length <= at || at + bytes <= *base);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_one_name_in_all_its_mappings() {
        map(0x10000, 0x1000, 7);
        map(0x30000, 0x1000, 7);
        assert_eq!((byte_at(0x10008), byte_at(0x10008)), (byte_at(0x30008), Some(Byte { file: 7, offset: 8 })));
        assert_eq!((byte_at(0xffff), byte_at(0x11000)), (None, None));
        map(0x30000, 0x1000, 9);
        assert_eq!(byte_at(0x30000).map(|byte| byte.file), Some(9));
        unmap(0, 0x20000);
        assert_eq!(byte_at(0x10008), None);
    }
}
