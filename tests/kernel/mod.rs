//! The device half in Rust, for tests and benchmarks: `include/ginrs_device/gin/queue.cuh` and `flush.cuh`, step by step.
#![allow(dead_code)] // each test uses some of it

use ginrs::device::DevPtr;
use ginrs::gin::descriptor::Descriptor;
use ginrs::layout::{GIN_EXT_MAGIC, GIN_EXT_VERSION};
use ginrs::seq::{Seq, rolling_le};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A kernel's view of one context.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// Ranks, hence queues.
    pub n_ranks: u32,
    /// Slots per queue.
    pub depth: u32,
    queues: &'static [[AtomicU64; 8]],
    pis: &'static [AtomicU32],
    cis: &'static [AtomicU32],
    counters: DevPtr,
    signals: DevPtr,
    abort: &'static AtomicU32,
    refusal: &'static AtomicU64,
    hint_head: &'static AtomicU32,
    hint_ring: &'static [AtomicU64],
    /// False: as a kernel compiled with NVIDIA's headers.
    pub hints: bool,
}

impl Kernel {
    /// Reads the context as a kernel does.
    ///
    /// # Safety
    /// `context` came from `Gin::context`, and the Gin outlives every use of the result.
    pub unsafe fn attach(context: DevPtr) -> Self {
        // SAFETY: the caller's: all addresses that a context holds are live and sized by its nranks, depth and hintMask.
        unsafe {
            let word = |at: u64| *((context + at) as *const u64);
            let half = |at: u64| *((context + at) as *const u32);
            let (n_ranks, depth) = (half(0), half(4));
            assert_eq!((word(64), half(72)), (GIN_EXT_MAGIC, GIN_EXT_VERSION), "the extension's magic and version");
            let ranks = n_ranks as usize;
            // Of a direct context (flag 1) the extension names the queues.
            let queues = if half(120) & 1 != 0 { [160, 168, 176] } else { [8, 16, 24] };
            Self {
                n_ranks,
                depth,
                queues: std::slice::from_raw_parts(word(queues[0]) as *const _, ranks * depth as usize),
                pis: std::slice::from_raw_parts(word(queues[1]) as *const _, ranks),
                cis: std::slice::from_raw_parts(word(queues[2]) as *const _, ranks),
                counters: word(32),
                signals: word(40),
                abort: &*(word(80) as *const AtomicU32),
                refusal: &*(word(152) as *const AtomicU64),
                hint_head: &*(word(88) as *const AtomicU32),
                hint_ring: std::slice::from_raw_parts(word(96) as *const _, half(76) as usize + 1),
                hints: true,
            }
        }
    }

    /// The same as a kernel compiled with NVIDIA's headers, which knows no extension.
    ///
    /// # Safety
    /// As [`Self::attach`].
    pub unsafe fn attach_foreign(context: DevPtr) -> Self {
        // SAFETY: the caller's, as above.
        unsafe {
            let word = |at: u64| *((context + at) as *const u64);
            let own = Self::attach(context);
            let (ranks, slots) = (own.pis.len(), own.queues.len());
            let queues = std::slice::from_raw_parts(word(8) as *const _, slots);
            let [pis, cis] = [16, 24].map(|at| std::slice::from_raw_parts(word(at) as *const _, ranks));
            Self { queues, pis, cis, hints: false, ..own }
        }
    }

    /// Leaves what it was asked and did not do: GINRS_REFUSAL of include/ginrs_device/marker.h.
    pub fn refuse(&self, kind: u64, id: u64, count: u64) {
        self.refusal.store(kind << 56 | id << 28 | count, Ordering::Relaxed);
    }

    /// queue.cuh:33 and :76-78: what precedes the wait for credit.
    pub fn claim(&self, peer: u32) -> Seq {
        fence(Ordering::Release);
        let index = self.pis[peer as usize].fetch_add(1, Ordering::Relaxed);
        if self.hints {
            let at = self.hint_head.fetch_add(1, Ordering::Relaxed) as usize & (self.hint_ring.len() - 1);
            let hint = u64::from(peer) << 32 | u64::from(index.wrapping_add(1));
            self.hint_ring[at].store(hint, Ordering::Relaxed);
        }
        Seq(index)
    }

    /// queue.cuh:80: true when `index` may be written.
    pub fn has_credit(&self, peer: u32, index: Seq) -> bool {
        index.distance(Seq(self.cis[peer as usize].load(Ordering::Relaxed))) < self.depth
    }

    /// The slot of `index`.
    pub fn slot(&self, peer: u32, index: Seq) -> &'static [AtomicU64; 8] {
        &self.queues[(peer * self.depth + (index.0 & (self.depth - 1))) as usize]
    }

    /// queue.cuh:63, in an order that differs from slot to slot.
    pub fn write(&self, peer: u32, index: Seq, words: &[u64; 8]) {
        let slot = self.slot(peer, index);
        for i in 0..8 {
            let word = (i + index.0 as usize) % 8;
            slot[word].store(words[word], Ordering::Relaxed);
        }
    }

    /// queue.cuh:70: `wait` runs between looks at the credit. False if aborted.
    pub fn post(&self, peer: u32, descriptor: &Descriptor, mut wait: impl FnMut()) -> bool {
        let words = descriptor.encode().expect("tests post what fits");
        let index = self.claim(peer);
        while !self.has_credit(peer, index) {
            if self.aborted() {
                return false;
            }
            wait();
        }
        self.write(peer, index, &words);
        true
    }

    /// `pis[peer]`: where the next claim will be.
    pub fn claimed(&self, peer: u32) -> u32 {
        self.pis[peer as usize].load(Ordering::Relaxed)
    }

    /// flush.cuh: true when all that was claimed for `peer` up to `claimed` is complete.
    pub fn flushed(&self, peer: u32, claimed: u32) -> bool {
        rolling_le(claimed.into(), self.cis[peer as usize].load(Ordering::Acquire).into(), 32)
    }

    /// flush.cuh: waits for all queues; false if aborted.
    pub fn flush(&self, mut wait: impl FnMut()) -> bool {
        for peer in 0..self.n_ranks {
            let claimed = self.claimed(peer);
            while !self.flushed(peer, claimed) {
                if self.aborted() {
                    return false;
                }
                wait();
            }
        }
        true
    }

    /// Signal word `id`.
    pub fn signal(&self, id: u32) -> &'static AtomicU64 {
        // SAFETY: attach's contract; tests name ids within the pool.
        unsafe { &*((self.signals + u64::from(id) * 8) as *const AtomicU64) }
    }

    /// Counter word `id`.
    pub fn counter(&self, id: u32) -> &'static AtomicU64 {
        // SAFETY: attach's contract; tests name ids within the pool.
        unsafe { &*((self.counters + u64::from(id) * 8) as *const AtomicU64) }
    }

    /// The abort word.
    pub fn aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire) != 0
    }
}
