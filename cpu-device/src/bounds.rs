//! Which bytes of libginrs' memory are the program's, for AddressSanitizer: it comes in granules, ncclMemAlloc asked for less, and a window
//! may be a part of it. The rest is marked, in every mapping of it that kernels have addresses of.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use parking_lot::Mutex;

use crate::asan;
use crate::memory;

/// What the program knows it as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Allocation,
    Window,
    Freed,
}

struct Bounds {
    bytes: usize,
    begin: usize,
    end: usize,
    what: What,
}

/// By the address of the mapping.
static BOUNDS: Mutex<BTreeMap<usize, Bounds>> = Mutex::new(BTreeMap::new());

/// Of the mapping of `bytes` at `at` (an allocation's stands alone) the program has [`begin`, `end`): what ncclMemAlloc gave (`what` 0), or as a window (1), of which several
/// may lie there. 2: it has freed it. library.h
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_bounded(at: usize, bytes: usize, begin: usize, end: usize, what: i32) {
    if !asan::present() || crate::device::is_forked() {
        return;
    }
    let mut all = BOUNDS.lock();
    let what = match what {
        0 => What::Allocation,
        1 => What::Window,
        _ => {
            asan::poison(at, bytes);
            all.entry(at).or_insert(Bounds { bytes, begin, end, what: What::Freed }).what = What::Freed;
            return;
        }
    };
    match all.get_mut(&at).filter(|known| known.what != What::Freed) {
        Some(known) => {
            let (before, after) = (known.begin, known.end);
            (known.begin, known.end) = (begin.min(before), end.max(after));
            asan::unpoison(at + known.begin, before - known.begin);
            asan::unpoison(at + after, known.end - after);
        }
        None => {
            asan::poison_before(at + begin, begin);
            asan::poison(at + end, bytes - end);
            if what == What::Allocation {
                asan::poison_before(at, memory::NEAR);
                asan::poison(at + bytes, memory::NEAR);
            }
            all.insert(at, Bounds { bytes, begin, end, what });
        }
    }
}

/// What is mapped there next is another memory. library.h
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_unmapped(at: usize, bytes: usize) {
    if !asan::present() || crate::device::is_forked() {
        return;
    }
    let mut all = BOUNDS.lock();
    let gone: Vec<usize> = all.range(at..at + bytes).map(|(base, _)| *base).collect();
    for base in gone {
        if let Some(known) = all.remove(&base) {
            let around = if known.what == What::Window { 0 } else { memory::NEAR };
            asan::unpoison(base - around, known.bytes + 2 * around);
        }
    }
}

/// Where an address is that the program should not touch.
pub struct Beside {
    distance: Distance,
    bytes: usize,
    name: &'static str,
    gone: bool,
}

/// From the bytes of the program.
enum Distance {
    Before(usize),
    Inside(usize),
    Behind(usize),
}

impl Beside {
    fn of(address: usize, begin: usize, end: usize, name: &'static str, gone: bool) -> Beside {
        let distance = match address {
            _ if address < begin => Distance::Before(begin - address),
            _ if address < end => Distance::Inside(address - begin),
            _ => Distance::Behind(address - end),
        };
        Beside { distance, bytes: end - begin, name, gone }
    }

    /// The memory that `address` is in or next to. Waits for nobody.
    pub fn find(address: usize) -> Option<Beside> {
        if let Some(all) = BOUNDS.try_lock() {
            let near = |base: usize, known: &Bounds| {
                (base.saturating_sub(memory::NEAR)..base + known.bytes + memory::NEAR).contains(&address)
            };
            let below = all.range(..=address).next_back();
            if let Some((base, known)) =
                below.into_iter().chain(all.range(address..).next()).find(|(base, known)| near(**base, known))
            {
                let name = if known.what == What::Window { "a window" } else { "ncclMemAlloc" };
                return Some(Beside::of(address, base + known.begin, base + known.end, name, known.what == What::Freed));
            }
        }
        let found = memory::near(address)?;
        Some(Beside::of(address, found.base, found.base + found.bytes, found.function(), false))
    }
}

impl Display for Beside {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self.distance {
            Distance::Before(bytes) => write!(out, "{bytes} bytes before")?,
            Distance::Inside(byte) => write!(out, "byte {byte} of")?,
            Distance::Behind(bytes) => write!(out, "{bytes} bytes behind")?,
        }
        write!(out, " the {} bytes of {}{}", self.bytes, self.name, if self.gone { ", which were freed" } else { "" })
    }
}
