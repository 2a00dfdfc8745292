//! Where an address is, by what the program has made there.

use std::ops::Range;

use parking_lot::RwLock;

use super::{names, own};
use crate::memory;

/// Copies of variables, which stay, and their names.
static VARIABLES: RwLock<Vec<(Range<usize>, String)>> = RwLock::new(Vec::new());

/// A device has its copy of a variable there.
pub fn add_variable(bytes: Range<usize>, name: &str) {
    VARIABLES.write().push((bytes, name.to_owned()));
}

/// Whether a variable's copy has a byte of the page at `page`.
pub fn is_variable(page: usize) -> bool {
    VARIABLES.read().iter().any(|(bytes, _)| own::meet(&[(bytes.start, bytes.end)], page))
}

/// A window, an allocation or a variable, in words, and its bytes.
pub fn of(at: usize) -> Option<(String, Range<usize>)> {
    names::window_at(at, None).or_else(|| allocation(at)).or_else(|| variable(at))
}

/// Where what the program has made ends in this page, or has ended before it with nothing else behind. None: nothing is known of the page.
pub fn end_in(page: usize) -> Option<usize> {
    memory::end_in(page).or_else(|| names::end_in(page))
}

/// Of an address behind such an end: where it would be, in words.
pub fn behind(at: usize) -> String {
    let last = end_in(at & !(super::PAGE - 1)).map_or(at, |end| end - 1);
    let allocation = || memory::find(last).map(|found| inside(at, found.base..found.base + found.bytes, found.function()).0);
    let window = || {
        let (name, bytes) = names::window_at(last, None)?;
        Some(format!("{}, offset {:#x}", name.rsplit_once(", ")?.0, at - bytes.start))
    };
    format!("{at:#x} is {}", allocation().or_else(window).unwrap_or_else(|| "behind the end of its memory".into()))
}

fn allocation(at: usize) -> Option<(String, Range<usize>)> {
    let found = memory::find(at)?;
    Some(inside(at, found.base..found.base + found.bytes, found.function()))
}

fn variable(at: usize) -> Option<(String, Range<usize>)> {
    VARIABLES.read().iter().find(|(bytes, _)| bytes.contains(&at)).map(|(bytes, name)| inside(at, bytes.clone(), name))
}

fn inside(at: usize, bytes: Range<usize>, of: &str) -> (String, Range<usize>) {
    (format!("byte {:#x} of the {} bytes of {of}", at - bytes.start, bytes.len()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_named_where_a_device_has_its_copy() {
        add_variable(0x5000..0x5020, "table");
        assert_eq!(of(0x501f), Some(("byte 0x1f of the 32 bytes of table".into(), 0x5000..0x5020)));
        assert_eq!(of(0x5020), None);
    }
}
