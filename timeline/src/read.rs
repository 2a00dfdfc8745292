//! The reading end: files of processes that have ended, however they ended.

use crate::{HEAD_BYTES, Head, Kind, MAGIC, Record};
use std::collections::HashMap;
use std::path::Path;

/// A record that was written.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// CLOCK_MONOTONIC of its machine, ns.
    pub time: u64,
    /// What.
    pub kind: Kind,
    /// The OS thread.
    pub thread: u32,
    /// As the kind says.
    pub words: [u64; 10],
}

/// A file.
#[derive(Debug)]
pub struct Trace {
    /// Its first page.
    pub head: Head,
    /// In the order of time, without texts.
    pub events: Vec<Event>,
    /// By their hash.
    pub texts: HashMap<u64, String>,
}

/// Reads a file that nobody writes any more.
///
/// # Errors
/// It cannot be read, or is none of ours.
pub fn read(path: &Path) -> Result<Trace, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&bytes).ok_or_else(|| format!("{}: no timeline of this version of ginrs", path.display()))
}

fn parse(bytes: &[u8]) -> Option<Trace> {
    let word = |at: usize| bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let head = |field: usize| word(field * 8);
    if bytes.len() < HEAD_BYTES || head(0)? != MAGIC {
        return None;
    }
    let head = Head {
        magic: MAGIC,
        capacity: head(1)?,
        taken: head(2)?,
        dropped: head(3)?,
        pid: head(4)?,
        wall: head(5)? as i64,
        machine: head(6)?,
        rank: head(7)? as i64,
    };
    let (mut events, mut texts) = (Vec::new(), HashMap::<u64, Vec<u8>>::new());
    let records = bytes[HEAD_BYTES..].chunks_exact(size_of::<Record>()).take(head.taken.min(head.capacity) as usize);
    for record in records {
        let word = |at: usize| u64::from_le_bytes(record[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        let (time, number) = (word(0), word(1));
        let Some(kind) = Kind::of(number as u32) else { continue };
        let words = std::array::from_fn(|i| word(2 + i));
        if kind != Kind::Text {
            events.push(Event { time, kind, thread: (number >> 32) as u32, words });
            continue;
        }
        let [name, length, from, ..] = words.map(|word| word as usize);
        let text = texts.entry(words[0]).or_insert_with(|| vec![0; length.min(1 << 16)]);
        debug_assert_eq!(name as u64, words[0]);
        text.iter_mut().skip(from).zip(&record[40..96]).for_each(|(to, byte)| *to = *byte);
    }
    events.sort_by_key(|event| event.time);
    let texts = texts.into_iter().map(|(name, text)| (name, String::from_utf8_lossy(&text).into_owned())).collect();
    Some(Trace { head, events, texts })
}

impl Trace {
    /// The text that a word stands for.
    pub fn text(&self, name: u64) -> &str {
        self.texts.get(&name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{now, open, put, text};

    /// One test: a process has one file.
    #[test]
    fn what_is_written_is_read_and_what_does_not_fit_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!crate::is_on());
        put(now(), Kind::Done, [1, 2]); // to nobody
        open(folder.path().join("t").as_os_str(), 100).unwrap();
        let long = "a name that is longer than the words of a record have room for, by far: ".repeat(3);
        let name = text(long.as_bytes());
        assert_eq!(text(long.as_bytes()), name);
        put(7, Kind::Done, [name, 2]);
        let two = || (0..200).for_each(|i| put(100 + i, Kind::Take, [i; 9]));
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(two))));
        // SAFETY: the child makes calls only that a child of a threaded process may.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(crate::is_on());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        let mut status = 1;
        // SAFETY: writes the status.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0, "a child of fork() writes nothing");
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let trace = read(&file).unwrap();
        assert_eq!(trace.head.pid, std::process::id().into());
        let first = trace.events.first().unwrap();
        assert_eq!((first.time, first.kind, trace.text(first.words[0])), (7, Kind::Done, &*long));
        let kept = trace.events.len() as u64;
        assert!((60..=96).contains(&kept), "{kept}");
        assert_eq!(trace.head.dropped, 401 - kept);
        assert!(trace.events.is_sorted_by_key(|event| event.time));
        std::fs::write(&file, [0; 5000]).unwrap();
        assert!(read(&file).unwrap_err().contains("no timeline"));
    }
}
