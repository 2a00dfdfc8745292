//! Whom and what a report of another process speaks of: blocks, puts and lines of code stand in the job's arena from when they first touch
//! memory that processes share.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::arena::{self, Key, Slot, kind};
use super::clock::Group;
use super::job;
use super::names::{self, Block, Call, Of, Part, Put};
use super::places::Byte;
use crate::launch::Dim3;

/// Numbers, then texts, each with its length before it.
fn packed(numbers: &[u32], texts: &[&str]) -> Vec<u32> {
    let mut words = numbers.to_vec();
    for text in texts {
        words.push(text.len() as u32);
        words.extend(text.as_bytes().chunks(4).map(|bytes| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        }));
    }
    words
}

fn unpacked<const N: usize, const M: usize>(words: &[u32]) -> Option<([u32; N], [String; M])> {
    let (numbers, mut words) = words.split_first_chunk::<N>()?;
    let mut texts = [const { String::new() }; M];
    for text in &mut texts {
        let (length, rest) = words.split_first()?;
        let (own, rest) = rest.split_at_checked((*length as usize).div_ceil(4))?;
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).take(*length as usize).collect();
        *text = String::from_utf8_lossy(&bytes).into_owned();
        words = rest;
    }
    Some((*numbers, texts))
}

fn write(kind: u32, name: u64, words: impl FnOnce() -> Vec<u32>) {
    if let Some(slot) = arena::find_or_make(Key { kind, of: [name, 0] })
        && let Some(mut locked) = slot.lock().filter(|locked| locked.version == 0)
    {
        locked.put(&words());
    }
}

fn read<const N: usize, const M: usize>(kind: u32, name: u64) -> Option<([u32; N], [String; M])> {
    unpacked(arena::find(Key { kind, of: [name, 0] })?.lock()?.get())
}

/// Marks for groups of puts, as no grid is numbered.
const PUTS: u32 = u32::MAX - 2;

/// A group of this process begins.
pub fn begin_group(group: Group, of: &Of) {
    let owner = match of {
        Of::Block { run, .. } => job::global(*run),
        Of::Puts(part) => PUTS + *part as u32,
    };
    arena::owner(group >> 24, job::rest(group)).store(owner, Ordering::Relaxed);
}

/// The grid of a group of another process, and 0 where it is none's or not known.
pub fn run_of(group: Group) -> u32 {
    let owner = arena::owner(group >> 24, job::rest(group)).load(Ordering::Relaxed);
    if owner >= PUTS { 0 } else { job::local(owner) }
}

/// What a group of another process is.
pub fn group(group: Group) -> Of {
    match arena::owner(group >> 24, job::rest(group)).load(Ordering::Relaxed).checked_sub(PUTS) {
        Some(0) => Of::Puts(Part::Read),
        Some(1) => Of::Puts(Part::Land),
        Some(_) => Of::Puts(Part::Posted),
        None => Of::Block { run: run_of(group), index: Dim3 { x: 0, y: 0, z: 0 }, shape: Dim3 { x: 1, y: 1, z: 1 } },
    }
}

/// Others may read of this block of ours.
pub fn tell_block(group: Group) {
    write(kind::GROUP, job::global(group).into(), || {
        let Block { run, device, rank, kernel, index, shape } = names::block(group);
        let numbers = [job::global(run), device as u32, index.x, index.y, index.z, shape.x, shape.y, shape.z];
        packed(&numbers, &[&rank, &kernel])
    });
}

/// A block of another process.
pub fn block(group: Group) -> Option<Block> {
    let (numbers, [rank, kernel]) = read(kind::GROUP, group.into())?;
    let [run, device, x, y, z, a, b, c] = numbers;
    // No device of this process.
    let device = -1 - (device as i32 & 0xffff) - ((group >> 24) as i32) * 0x10000;
    Some(Block { run: job::local(run), device, rank, kernel, index: Dim3 { x, y, z }, shape: Dim3 { x: a, y: b, z: c } })
}

/// Others may read of this put of ours.
pub fn tell_put(place: u64) {
    write(kind::PUT, job::global_place(place), || {
        let put = names::put(place);
        let numbers = [
            put.call as u32,
            put.from as u32,
            put.to as u32,
            job::global(put.group),
            put.thread.into(),
            put.bytes as u32,
            (put.bytes >> 32) as u32,
        ];
        packed(&numbers, &[&put.line])
    });
}

/// A put of another process.
pub fn put(place: u64) -> Put {
    let ([call, from, to, group, thread, low, high], [line]) = read(kind::PUT, place).unwrap_or_default();
    let call = [Call::Put, Call::Signal, Call::Reset][call.min(2) as usize];
    let bytes = u64::from(low) | u64::from(high) << 32;
    Put { call, line, from: from as i32, to: to as i32, group: job::local(group), thread: thread as u16, bytes }
}

/// Others may read of this code of ours.
pub fn tell_site(place: u64, module_of: impl FnOnce(usize) -> Option<(std::ffi::OsString, usize)>) {
    static TOLD: Mutex<Option<HashSet<u64>>> = Mutex::new(None);
    if !TOLD.lock().get_or_insert_default().insert(place) {
        return;
    }
    if let Some((module, offset)) = module_of(place as usize) {
        let offset = offset as u64;
        write(kind::SITE, job::global_place(place), || {
            packed(&[offset as u32, (offset >> 32) as u32], &[&module.to_string_lossy()])
        });
    }
}

/// Code of another process: its file, and where in there.
pub fn site(place: u64) -> Option<(String, usize)> {
    let ([low, high], [module]) = read(kind::SITE, place)?;
    Some((module, low as usize | (high as usize) << 32))
}

fn window_key(comm: u64, rank: i32, number: u64) -> Key {
    Key { kind: kind::WINDOW, of: [comm, u64::from(rank as u32) << 32 | number] }
}

/// Others may put to this window of a rank of ours, which begins at `first`.
pub fn tell_window(comm: u64, rank: i32, number: u64, first: Byte) {
    if let Some(mut locked) = arena::find_or_make(window_key(comm, rank, number)).and_then(Slot::lock) {
        locked.put(&[first.file, first.offset].map(|word| [word as u32, (word >> 32) as u32]).concat());
    }
}

/// Where a window of a rank of another process begins.
pub fn window(comm: u64, rank: i32, number: u64) -> Option<Byte> {
    let ([a, b, c, d], []) = unpacked(arena::find(window_key(comm, rank, number))?.lock()?.get())?;
    let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Some(Byte { file: word(a, b), offset: word(c, d) })
}

/// Whether nobody in the job has told of these two lines.
pub fn is_first(one: &str, other: &str) -> bool {
    let hash = |text: &str| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let Some(slot) = arena::find_or_make(Key { kind: kind::TOLD, of: [hash(one), hash(other)] }) else { return true };
    let Some(mut locked) = slot.lock() else { return true };
    let is_first = locked.version == 0;
    locked.put(&[1]);
    is_first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back() {
        let words = packed(&[7, 8], &["", "a line of µ", "four"]);
        let (numbers, texts) = unpacked::<2, 3>(&words).unwrap();
        assert_eq!((numbers, texts), ([7, 8], ["".to_owned(), "a line of µ".into(), "four".into()]));
        assert!(unpacked::<2, 3>(&words[..4]).is_none());
    }
}
