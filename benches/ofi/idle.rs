//! A rank with the library's own proxy thread, which has nothing to do, and another that wakes it.

use crate::rank::{End, exchange, transport, word};
use crate::{SLEEP, WAKES, cpu, now};
use ginrs::abort::Abort;
use ginrs::device::cpu::CpuDevice;
use ginrs::device::{ControlMemory, Device, Physical};
use ginrs::error::Result;
use ginrs::gin::context::Shape;
use ginrs::gin::proxy::Routes;
use ginrs::gin::{Gin, Parts};
use ginrs::seq::Seq;
use ginrs::transport::{Capabilities, Completion, Landing, Region, Submitted, Transport, Work};
use rustix::fd::BorrowedFd;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Rank 0 sleeps; rank 1 raises its signal now and then. Rank 0 says which part of a core a second of nothing took, in per cent, and
/// when it saw each signal; rank 1 when it sent them.
pub fn rank(rank: u32, address: IpAddr) {
    if rank == 0 { sleeper(address) } else { alarm(address) }
}

fn alarm(address: IpAddr) {
    let mut end = End::new(1, address);
    end.put(0, 0, Some(0));
    // Who spins with real-time priority may keep the kernel's network threads, and the sleeper, from the cores.
    let nap = |end: &mut End, time: Duration| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            end.step();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    nap(&mut end, 3 * SECOND);
    let sent = (0..WAKES).map(|_| {
        nap(&mut end, SLEEP);
        let begin = now();
        end.put(0, 0, Some(0));
        end.transport.flush().unwrap();
        begin.to_string()
    });
    let sent = sent.collect::<Vec<_>>().join(" ");
    end.land();
    println!("{sent}");
    end.transport.close(SECOND).unwrap();
}

fn sleeper(address: IpAddr) {
    let device: Arc<dyn Device> = CpuDevice::new(0);
    let inner = transport(&device, 0, address);
    // What rank 1 says of its window is of no use here.
    let _ = exchange(0, &[0]);
    let signals = device.create(4096).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let transport: Box<dyn Transport> = Box::new(Watched { inner, signals: signals.clone(), seen: seen.clone() });
    let parts = Parts {
        device: device.clone(),
        rank: 0,
        n_contexts: 1,
        shape: Shape { n_ranks: 2, depth: 16, signals: 64, counters: 64, start: Seq(0) },
        signals: vec![Some(signals.clone()), None],
        routes: Routes { transports: vec![transport], by_peer: vec![0, 0] },
        abort: Arc::new(Abort::new(ControlMemory::anonymous(4).unwrap())),
        card: None,
        salt: 1,
    };
    let gin = Gin::from_parts(parts).unwrap();
    gin.start(&device).unwrap();
    let wait = |count: usize| {
        while seen.lock().unwrap().len() < count {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(1);
    std::thread::sleep(SECOND);
    let used = cpu();
    std::thread::sleep(SECOND);
    let idle = (cpu() - used).as_secs_f64() * 100.0;
    wait(1 + WAKES);
    let seen: Vec<String> = seen.lock().unwrap()[1..].iter().map(f64::to_string).collect();
    println!("{idle} {}", seen.join(" "));
}

/// Notes when the first signal rises. Another thread that looked out for that would keep a core from sleeping.
struct Watched {
    inner: Box<dyn Transport>,
    signals: Arc<dyn Physical>,
    seen: Arc<Mutex<Vec<f64>>>,
}

impl Transport for Watched {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn register(&mut self, region: &Region) -> Result<()> {
        self.inner.register(region)
    }
    fn deregister(&mut self, region: u32) {
        self.inner.deregister(region)
    }
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        self.inner.submit(work)
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let moved = self.inner.progress(done)?;
        let mut seen = self.seen.lock().unwrap();
        if word(&self.signals, 0).load(Ordering::Acquire) > seen.len() as u64 {
            seen.push(now());
        }
        Ok(moved)
    }
    fn landing(&self) -> Landing {
        self.inner.landing()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
    fn arm(&mut self) -> Result<bool> {
        self.inner.arm()
    }
    fn close(&mut self, patience: Duration) -> Result<()> {
        self.inner.close(patience)
    }
    fn abort(&mut self) {
        self.inner.abort()
    }
}
