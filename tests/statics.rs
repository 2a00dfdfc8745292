//! What a forked child and an exiting thread inherit, read from the sources.
//!
//! A child of fork() has the locks of its parent as they stood, and none of the threads that would give them back. So every static
//! that holds a lock is a `PerProcess`. And thread-local data that has a destructor is gone when destructors of static objects call
//! the library: what calls need is `const` and has none.

use std::path::{Path, PathBuf};

/// Types of statics that hold no lock: atomics and constants, and those made for the purpose.
const HARMLESS: [&str; 6] = ["Atomic", "[AtomicI32;", "[[AtomicU8;", "PerProcess<", "OnceBox<", "&["];
/// Others, each with its reason.
const KNOWN: [(&str, &str); 2] = [("AT_LOAD", "a function's address for the loader"), ("SITE", "constants")];
/// Thread-local data: it has no destructor, unless calls can do without.
const THREAD_LOCAL: [(&str, &str); 8] = [
    ("CARRYING", "a number"),
    ("DEVICE", "a number"),
    ("INSIDE", "a number"),
    ("IS_PROGRAMS", "a flag"),
    ("TAKES", "a number"),
    ("CURRENT", "a number"),
    ("GROUP", "in ManuallyDrop"),
    ("ENDED", "a destructor, used by try_with alone"),
];
/// The same in cpu-device.
const OF_CPU_DEVICE: [(&str, &str); 15] = [
    ("BLOCK", "an address"),
    ("MODE", "a number"),
    ("FLAGS", "a number"),
    ("LAST", "a number"),
    ("IS_PROGRAMS", "a bool"),
    ("CURRENT", "a number"),
    ("WORKER", "an address"),
    ("NEXT", "an address"),
    ("CALLER", "a string of the program and a number"),
    ("PICKS_NEXT", "a number"),
    ("LOCKED", "a name of numbers"),
    ("PER_THREAD_STREAMS", "in ManuallyDrop"),
    ("WINDOWS", "of threads that run blocks: kernels alone ask for it"),
    ("ENDED", "a destructor, used by try_with alone"),
    ("HOST_STACK", "a destructor, used by try_with alone"),
];
/// The same in timeline.
const OF_TIMELINE: [(&str, &str); 2] = [("TAKEN", "two numbers"), ("THREAD", "a number")];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, into),
            false if path.extension().is_some_and(|extension| extension == "rs") => into.push(path),
            false => {}
        }
    }
}

/// A declaration of a static.
struct Static {
    place: String,
    name: String,
    kind: String,
    thread_local: bool,
    constant: bool,
}

/// Those of the library itself: tests at the end of a file may hold what they like.
fn statics(folder: &str) -> Vec<Static> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let mut thread_local = false;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            thread_local = (thread_local || line.starts_with("thread_local!")) && line != "}";
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let line = line.strip_prefix("pub(super) ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
            let Some((name, kind)) = line.strip_prefix("static ").and_then(|rest| rest.split_once(": ")) else { continue };
            let place = format!("{}:{number}", file.display());
            let constant = kind.contains("= const {");
            found.push(Static { place, name: name.into(), kind: kind.into(), thread_local, constant });
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn no_static_holds_a_lock_that_a_forked_child_would_wait_for() {
    for Static { place, name, kind, .. } in statics("src").iter().filter(|found| !found.thread_local) {
        let harmless = HARMLESS.iter().any(|start| kind.starts_with(start)) || KNOWN.iter().any(|(known, _)| known == name);
        assert!(
            harmless,
            "{place}: static {name}: {kind}\nfix: make it a PerProcess (src/sync/per_process.rs), or say here why it may stay"
        );
    }
}

/// What waits in one of these waits in a table of the process, whose locks fork() copies as they stand.
#[test]
fn no_lock_is_of_a_crate_that_keeps_a_table_of_waiting_threads() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("use parking_lot"), "{}\nfix: use crate::sync", file.display());
    }
}

/// `Comm::alive` and `Comm::failure` know of a failed exchange at once; the abort is raised a little later, by another thread. Who asked
/// it alone told a creation's success to a rank whose peer had died in its last round.
#[test]
fn whether_a_communicator_has_failed_is_asked_in_one_way() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for wrong in ["comm.abort.check()", "comm.abort.is_raised()"] {
            assert!(!text.contains(wrong), "{}: {wrong}\nfix: ask comm.alive() or comm.failure()", file.display());
        }
    }
}

#[test]
fn no_call_needs_thread_local_data_that_may_be_gone() {
    for (folder, known) in
        [("src", &THREAD_LOCAL[..]), ("cpu-device/src", &OF_CPU_DEVICE[..]), ("timeline/src", &OF_TIMELINE[..])]
    {
        for Static { place, name, constant, .. } in statics(folder).iter().filter(|found| found.thread_local) {
            let known = known.iter().any(|(other, _)| other == name);
            assert!(known && *constant, "{place}: thread-local {name}\nfix: `const`, without a destructor, and say so here");
        }
    }
}
