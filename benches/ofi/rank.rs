//! One rank that drives the transport itself, without a kernel and a proxy.

use crate::{DRAIN, LARGE, LARGE_PUTS, SMALL_PUTS, STREAMS, TRIPS, cpu, line, median};
use ginrs::device::cpu::CpuDevice;
use ginrs::device::{Device, Physical};
use ginrs::transport::factory::{Factory as _, Setup, Share};
use ginrs::transport::{Part, Region, SIGNALS, Source, Submitted, Transport, Words, Work, ofi};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BYTES: usize = 16 << 20;
const DATA: u32 = 1;
const CHECKS: u32 = 1_000_000;

struct Nothing;

impl Share for Nothing {
    fn offer(&self, _: &Arc<dyn Physical>) -> ginrs::error::Result<[u64; 2]> {
        unreachable!("no memory is passed")
    }
    fn take(&self, _: u32, _: [u64; 2]) -> ginrs::error::Result<Arc<dyn Physical>> {
        unreachable!("no memory is passed")
    }
}

/// Says `own` and hears what the other says.
pub fn exchange(rank: u32, own: &[u8]) -> Vec<Words> {
    println!("{}", own.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let heard = line(&mut std::io::stdin().lock());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let mut all = vec![own.to_vec(), heard.as_bytes().chunks(2).map(byte).collect()];
    if rank == 1 {
        all.reverse();
    }
    let named = |bytes| {
        let mut words = Words::default();
        words.say("ofi", bytes);
        words
    };
    all.into_iter().map(named).collect()
}

/// Rank `rank`'s transport, connected to the other's.
pub fn transport(device: &Arc<dyn Device>, rank: u32, address: IpAddr) -> Box<dyn Transport> {
    let both = |_| vec![0, 1];
    let setup = Setup {
        rank,
        device,
        serves: vec![true; 2],
        senders: &both,
        share: &Nothing,
        secret: [7; 32],
        address,
        others: Vec::new(),
        has_left: Arc::new(|_| false),
    };
    let (mut transport, said) = ofi::Factory.prepare(&setup).unwrap();
    transport.connect(&**device, &Nothing, &Arc::new(exchange(rank, &said))).unwrap();
    transport
}

pub struct End {
    pub transport: Box<dyn Transport>,
    peer: u32,
    signals: Arc<dyn Physical>,
    /// Of signals and data.
    regions: Vec<Region>,
    tag: u64,
}

impl End {
    pub fn new(rank: u32, address: IpAddr) -> Self {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let mut transport = transport(&device, rank, address);
        let [signals, data] = [(); 2].map(|()| device.create(BYTES).unwrap());
        let said = transport.prepare(&Part { id: DATA, memory: &data, start: 0, bytes: BYTES as u64 }).unwrap();
        let words = exchange(rank, &said);
        let region = |(id, memory): (u32, &Arc<dyn Physical>)| {
            let mut addresses = vec![None; 2];
            addresses[rank as usize] = Some(memory.host().unwrap().as_ptr() as u64);
            // SAFETY: the region keeps the memory.
            let region = unsafe { Region::new(id.into(), BYTES as u64, rank, addresses, Box::new(memory.clone())) };
            let mut region = region.unwrap().with_words(words.clone());
            region.id = id;
            transport.register(&region).unwrap();
            region
        };
        let regions = [(SIGNALS, &signals), (DATA, &data)].into_iter().map(region).collect();
        Self { transport, peer: 1 - rank, signals, regions, tag: 0 }
    }

    pub fn seen(&self, id: usize) -> u64 {
        word(&self.signals, id).load(Ordering::Acquire)
    }

    fn work(&self, context: u32, bytes: u64, signal: Option<u64>) -> Work {
        let at = u64::from(context) * LARGE;
        let source = Source::Region { region: DATA, offset: at };
        let signal = signal.map(|id| (id * 8, 1));
        Work { tag: self.tag, context, peer: self.peer, source, bytes, target: (DATA, at + 8 * LARGE), signal }
    }

    pub fn put(&mut self, context: u32, bytes: u64, signal: Option<u64>) {
        self.tag += 1;
        let work = self.work(context, bytes, signal);
        while self.transport.submit(&work).unwrap() == Submitted::Full {
            self.step();
        }
    }

    pub fn step(&mut self) {
        self.transport.progress(&mut Vec::new()).unwrap();
    }

    fn wait(&mut self, id: usize, value: u64) {
        while self.seen(id) < value {
            self.step();
        }
    }

    pub fn land(&mut self) {
        self.transport.flush().unwrap();
        while self.transport.landing().left() > 0 {
            self.step();
        }
    }

    /// Million 64-byte puts per second, so many in a drain.
    fn rate(&mut self, drain: u64) -> f64 {
        let begin = Instant::now();
        for i in 1..=SMALL_PUTS {
            self.put(0, 64, None);
            if i % drain == 0 {
                self.transport.flush().unwrap();
                self.step();
            }
        }
        self.land();
        SMALL_PUTS as f64 / begin.elapsed().as_secs_f64() / 1e6
    }

    /// MB/s of large puts by turns on all contexts, and processor time, us per MiB.
    fn large(&mut self) -> (f64, f64) {
        (0..STREAMS as u32).for_each(|context| self.put(context, LARGE, None));
        self.land();
        let (begin, used) = (Instant::now(), cpu());
        for i in 0..LARGE_PUTS {
            self.put((i % STREAMS) as u32, LARGE, Some(2));
        }
        self.land();
        ((LARGE * LARGE_PUTS) as f64 / begin.elapsed().as_secs_f64() / 1e6, per_mib(used))
    }

    /// us of a round trip of 8 bytes and a signal.
    fn trip(&mut self, rank: u32) -> f64 {
        let mut trips = Vec::new();
        for i in 1..=TRIPS {
            let begin = Instant::now();
            if rank == 1 {
                self.wait(0, i);
            }
            self.put(0, 8, Some(0));
            self.transport.flush().unwrap();
            if rank == 0 {
                self.wait(0, i);
            }
            trips.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        median(trips)
    }
}

pub fn word(memory: &Arc<dyn Physical>, id: usize) -> &AtomicU64 {
    // SAFETY: a word of the memory, aligned and inside, which lives as long as the borrow.
    unsafe { AtomicU64::from_ptr(memory.host().unwrap().cast::<u64>().add(id).as_ptr()) }
}

fn per_mib(used: Duration) -> f64 {
    (cpu() - used).as_secs_f64() * 1e6 / LARGE_PUTS as f64
}

/// Rank 0 prints its figures, the fields of [`crate::Figures`] in their order, rank 1 its processor time for the large puts.
pub fn rank(rank: u32, address: IpAddr) {
    let mut end = End::new(rank, address);
    let trip = end.trip(rank);
    if rank == 1 {
        end.wait(2, 1);
        let used = cpu();
        end.wait(2, LARGE_PUTS);
        println!("{}", per_mib(used));
        end.wait(1, 1);
        return end.transport.close(Duration::from_secs(1)).unwrap();
    }
    let (packed, single) = (end.rate(DRAIN), end.rate(1));
    let (large, used) = end.large();
    let work = end.work(0, 64, None);
    let [source, target] =
        ofi::time_checks(&end.regions, &work, CHECKS).unwrap().map(|all| all.as_secs_f64() * 1e9 / f64::from(CHECKS));
    println!("{trip} {packed} {single} {large} {used} {source} {target}");
    end.put(0, 0, Some(1));
    end.land();
    end.transport.close(Duration::from_secs(1)).unwrap();
}
