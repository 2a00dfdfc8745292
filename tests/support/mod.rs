//! Several ranks in one process, built from parts: the Gins of a communicator without a communicator.
#![allow(dead_code)]

#[path = "../../src/hang_limit.rs"]
pub mod hang_limit;
#[path = "../kernel/mod.rs"]
pub mod kernel;

use ginrs::abort::Abort;
use ginrs::device::cpu::CpuDevice;
use ginrs::device::{ControlMemory, Device, Memory, Physical};
use ginrs::gin::context::Shape;
use ginrs::gin::descriptor::{Descriptor, SignalOp, Source};
use ginrs::gin::proxy::Routes;
use ginrs::gin::{Backend, Gin, Parts};
use ginrs::seq::Seq;
use ginrs::transport::{Region, Stores, Transport};
use kernel::Kernel;
use std::sync::Arc;

/// How to build the ranks.
#[derive(Clone, Copy)]
pub struct Plan {
    pub ranks: u32,
    pub contexts: u32,
    pub depth: u32,
    pub start: u32,
    /// Bytes of the one window of each rank.
    pub window: usize,
    pub signals: u32,
    pub counters: u32,
    /// Ranks of the other parity count as other processes.
    pub shm: bool,
    /// False: only the test's own steps move anything.
    pub threads: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { ranks: 2, contexts: 1, depth: 16, start: 0, window: 1 << 20, signals: 64, counters: 64, shm: false, threads: true }
    }
}

/// One rank: its Gin, its window and the window's handle.
pub struct Rank {
    pub gin: Arc<Gin>,
    pub abort: Arc<Abort>,
    pub memory: Arc<dyn Physical>,
    pub handle: u64,
    pub contexts: u32,
}

impl Rank {
    pub fn kernel(&self, context: u32) -> Kernel {
        // SAFETY: tests keep the rank for as long as its kernels.
        unsafe { Kernel::attach(self.gin.context(Backend::Proxy, context)) }
    }

    /// The window's bytes. Tests read what has been signalled and write what is not under way.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.memory.bytes());
        // SAFETY: within the mapping, as just checked; see above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.host().unwrap().as_ptr().add(offset), len) }
    }

    pub fn put(&self, from: u64, to: u64, bytes: u64) -> Descriptor {
        Descriptor {
            bytes,
            source: Source::Memory { handle: self.handle, offset: from },
            dst_handle: self.handle,
            dst_offset: to,
            signal: None,
            counter: None,
        }
    }

    pub fn value(&self, to: u64, bytes: u64, value: u64) -> Descriptor {
        Descriptor { source: Source::Inline(value), ..self.put(0, to, bytes) }
    }
}

/// A signal of `id` alone.
pub fn signal(id: u16, op: SignalOp) -> Descriptor {
    let source = Source::Memory { handle: 0, offset: 0 };
    Descriptor { bytes: 0, source, dst_handle: 0, dst_offset: 0, signal: Some((id, op)), counter: None }
}

/// All ranks of a plan over loopback and shm.
pub fn fabric(plan: Plan) -> Vec<Rank> {
    fabric_over(plan, |plan, rank| {
        let near: Vec<bool> = (0..plan.ranks).map(|peer| !plan.shm || (peer ^ rank) & 1 == 0).collect();
        let far = near.iter().map(|near| !near).collect();
        let by_peer = near.iter().map(|near| u8::from(!near)).collect();
        let transports: Vec<Box<dyn Transport>> =
            vec![Box::new(Stores::new("loopback", near)), Box::new(Stores::new("shm", far))];
        Routes { transports, by_peer }
    })
}

/// All ranks of a plan over transports of the test's choice.
pub fn fabric_over(plan: Plan, routes: impl Fn(&Plan, u32) -> Routes) -> Vec<Rank> {
    build(plan, plan.ranks, routes)
}

/// Rank 0 of a plan whose peers exist in name only: their memory is rank 0's.
pub fn one_rank_over(plan: Plan, routes: impl Fn(&Plan, u32) -> Routes) -> Rank {
    build(plan, 1, routes).remove(0)
}

fn build(plan: Plan, real: u32, routes: impl Fn(&Plan, u32) -> Routes) -> Vec<Rank> {
    let devices: Vec<Arc<CpuDevice>> = (0..real).map(|rank| CpuDevice::new(rank as i32)).collect();
    let create = |bytes: usize| -> Vec<Option<Arc<dyn Physical>>> {
        let real: Vec<_> = devices.iter().map(|device| Some(device.create(bytes).unwrap())).collect();
        real.into_iter().cycle().take(plan.ranks as usize).collect()
    };
    let signals = create(plan.contexts as usize * plan.signals as usize * 8);
    let windows = create(plan.window);
    let host = |memory: &Option<Arc<dyn Physical>>| memory.as_ref()?.host().map(|at| at.as_ptr() as u64);
    let addresses: Vec<Option<u64>> = windows.iter().map(host).collect();
    let rank = |rank: u32| {
        let device: Arc<dyn Device> = devices[rank as usize % devices.len()].clone();
        let abort = Arc::new(Abort::new(ControlMemory::anonymous(4).unwrap()));
        let gin = Gin::from_parts(Parts {
            device: device.clone(),
            rank,
            n_contexts: plan.contexts,
            shape: Shape {
                n_ranks: plan.ranks,
                depth: plan.depth,
                signals: plan.signals,
                counters: plan.counters,
                start: Seq(plan.start),
            },
            signals: signals.clone(),
            routes: routes(&plan, rank),
            abort: abort.clone(),
            card: None,
            salt: 0x1234_5678,
        })
        .unwrap();
        let keep = Box::new(windows.clone());
        // SAFETY: the windows stay mapped while the region keeps them.
        let region = unsafe { Region::new(1, plan.window as u64, rank, addresses.clone(), keep) }.unwrap();
        let handle = gin.register_region(region, 0).unwrap();
        if plan.threads {
            gin.start(&device).unwrap();
        }
        Rank { gin, abort, memory: windows[rank as usize].clone().unwrap(), handle, contexts: plan.contexts }
    };
    (0..real).map(rank).collect()
}

/// A small generator (xorshift64*): the seed is printed by the tests that use it.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Waits for `done`.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = hang_limit::hang_deadline();
    while !done() {
        assert!(std::time::Instant::now() < end, "a hang: {what}");
        std::thread::yield_now();
    }
}
