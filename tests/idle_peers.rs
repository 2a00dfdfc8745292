//! What a peer that is never talked to costs a rank: bytes on the heap of Rust, beyond what all ranks of a process share and what the ABI
//! fixes (indices and queues, which are mapped apart and take memory when kernels use them).

mod common;

use common::{threads, with_settings};
use ginrs::devcomm::{Requirements, create, destroy};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// A rank may spend so much on each; 512 was the goal. `benches/meet.rs` measures resident memory, in which freed memory counts, too.
const MOST: i64 = 256;

/// Bytes that are in use.
static LIVE: AtomicI64 = AtomicI64::new(0);
/// Zeroed memory of at least so many bytes takes none before it is touched: pages of the system.
const PAGES: usize = 64 << 10;
/// Where such memory is.
static ZEROED: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn swap(from: usize, to: usize) -> bool {
    ZEROED.iter().any(|place| place.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok())
}

// SAFETY: all is the system's allocator's; this only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        let at = unsafe { System.alloc_zeroed(layout) };
        if layout.size() < PAGES || !swap(0, at.addr()) {
            LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        }
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() < PAGES || !swap(at.addr(), 0) {
            LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        }
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) };
    }
}

/// Bytes behind a communicator, and behind its first device communicator with GIN, of `n` ranks that are all strangers to each other.
fn live(n: u32) -> [i64; 2] {
    let (begin, seen) = (LIVE.load(Ordering::SeqCst), [const { AtomicI64::new(0) }; 2]);
    threads(n, |comm| {
        let look = |i: usize| {
            let boot = &comm.team.bootstrap;
            boot.barrier("all are there").unwrap();
            if comm.team.rank == 0 {
                // The other ranks still free memory: the least value, once fifty reads while all other
                // threads slept have found no less.
                let (mut least, mut looks) = (i64::MAX, 0);
                while looks < 50 {
                    let live = LIVE.load(Ordering::SeqCst);
                    looks = if live < least { 0 } else { looks + u32::from(common::all_others_sleep()) };
                    least = least.min(live);
                    std::thread::sleep(std::time::Duration::from_millis(4));
                }
                seen[i].store(least - begin, Ordering::SeqCst);
            }
            boot.barrier("looked").unwrap();
        };
        look(0);
        let reqs = Requirements { gin_signal_count: 1, ..Default::default() };
        let made = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
        look(1);
        destroy(&comm.devcomms, &comm.windows, &made).unwrap();
    });
    seen.map(AtomicI64::into_inner)
}

/// Of bytes that are a + b n + c n n for n ranks, c is what one of them spends on another.
#[test]
fn an_idle_peer_costs_at_most_256_bytes() {
    let settings = [
        ("GINRS_FAKE_MACHINES", "per-rank"),
        ("GINRS_SHARE_DEVICE", "1"),
        ("GINRS_HOST_DEADLINE", "30"),
        ("GINRS_CPU_DEVICES", "96"),
    ];
    with_settings("an_idle_peer_costs_at_most_256_bytes", &settings, || {
        // What there is once a process is made by the first.
        live(2);
        let step = 32;
        let [few, some, many] = [step, 2 * step, 3 * step].map(live);
        let names = ["a communicator", "a communicator with GIN"];
        for (i, name) in names.into_iter().enumerate() {
            let each = (many[i] - 2 * some[i] + few[i]) / (2 * i64::from(step * step));
            println!("{name}: {each} bytes for each peer of each rank; {} in all with {} ranks", many[i], 3 * step);
            assert!(each <= MOST, "{name}: {each} bytes for each peer");
        }
    });
}
