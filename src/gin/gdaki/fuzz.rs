//! Elements that a kernel wrote at will, through slot, decoder and checks: for `crate::fuzz`.

use super::card::Card;
use super::keys::{Table, of_table, of_window};
use super::mirror::Line;
use super::queues::{Handler, Queues};
use super::requests::{Origin, request};
use crate::device::Memory;
use crate::device::cpu::CpuDevice;
use crate::gin::handles::Handles;
use crate::gin::plan::{Ids, Limits, Operation, Posts};
use crate::gin::queue::Index;
use crate::gin::shared::Shared;
use crate::nic::element::{self, INLINE, RDMA_WRITE};
use crate::nic::slot::WORDS;
use crate::seq::Seq;
use crate::sync::{Mutex, PerProcess};
use crate::transport::{Source, Work};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

const DEPTH: u32 = 4;
const BYTES: u64 = 1001;
const SIGNALS: u32 = 10;
const COUNTERS: u32 = 6;
const POOL: u32 = 16;
/// Of the context in its device communicator.
const NUMBER: u32 = 2;

/// A queue of rank 0 to rank 1, which goes on from input to input, and what its elements may name.
struct Bench {
    queues: Queues,
    ring: Shared<Line>,
    next: Seq,
    handles: Handles,
    window: u64,
    gone: u64,
}

fn bench() -> Bench {
    const MEMORY: &str = "the CPU device has memory";
    let (device, lines) = (CpuDevice::new(0), 2 * DEPTH as usize);
    let ring = Shared::<Line>::new(device.control(64 * lines).expect(MEMORY), lines);
    let card = Card::model(Handler::Cpu, false);
    let queues = Queues::new(&*device, (2, DEPTH), (card, 9), 1, (&ring, None), None).expect(MEMORY);
    let mut handles = Handles::new(7);
    let mut insert = |start| handles.insert(start, BYTES).expect("there is room for a window").1;
    let (window, gone) = (insert(4096), insert(0));
    handles.remove(gone).expect("it is there");
    Bench { queues, ring, next: Seq(0), handles, window, gone }
}

/// `bytes`: for each element one byte of what is set right in it, one of which words come first, and 64 of its own.
pub fn fuzz(bytes: &[u8]) {
    static BENCH: PerProcess<Mutex<Bench>> = PerProcess::new();
    let mut bench = BENCH.get(|| Mutex::new(bench())).lock();
    bytes.chunks(66).for_each(|chunk| bench.one(chunk));
}

impl Bench {
    fn one(&mut self, chunk: &[u8]) {
        let (right, first) = (chunk[0], chunk.get(1).copied().unwrap_or(0));
        let words = self.element(right, chunk.get(2..).unwrap_or_default());
        let (at, number) = (self.next, self.queues.number(1));
        let slot = &self.ring[(DEPTH + (at.0 & (DEPTH - 1))) as usize];
        self.queues.ring(1, at.next());
        let meant = element::decode(&words, number, at.0);
        // Some of its words, then all: what is taken is what was written. Inline data may be as poison is, and come with the first.
        let data = if let Ok(element::Element::WriteInline { .. }) = meant { 0xe0 } else { 0 };
        let come = |which: u8| {
            (0..WORDS).filter(|word| which >> word & 1 == 1).for_each(|word| slot[word].store(words[word], Ordering::Relaxed))
        };
        come(first | data);
        let taken = self.queues.take(1, at, false).or_else(|| {
            come(u8::MAX);
            self.queues.take(1, at, false)
        });
        assert_eq!(taken, Some(meant), "{words:x?}, first {first:b}");
        if let Ok(element) = meant {
            self.within_its_keys(element);
        }
        self.queues.completions(1).publish(at.next().0);
        self.next = at.next();
    }

    fn element(&self, right: u8, bytes: &[u8]) -> [u64; WORDS] {
        let mut all = [0u8; 64];
        all[..bytes.len().min(64)].copy_from_slice(&bytes[..bytes.len().min(64)]);
        if right & 1 != 0 {
            all[0] = 0;
            all[1..3].copy_from_slice(&(self.next.0 as u16).to_be_bytes());
            all[4..7].copy_from_slice(&self.queues.number(1).to_be_bytes()[1..]);
            if all[3] == RDMA_WRITE && all[32] & 0x80 != 0 {
                let bytes = INLINE | u32::from(all[35] % 30);
                all[32..36].copy_from_slice(&bytes.to_be_bytes());
            }
            all[7] = if all[3] == 0x12 || all[32] == 0x80 && all[35] > 12 { 4 } else { 3 };
        }
        let key = match right >> 1 & 7 {
            0 => None,
            1 => Some(of_window(self.window, 1)),
            2 => Some(of_window(self.window, 0)),
            3 => Some(of_window(self.gone, 1)),
            4 => Some(of_table(Table::Signals, NUMBER, (0, 1))),
            5 => Some(of_table(Table::Counters, NUMBER, (0, 0))),
            6 => Some(of_table(Table::Signals, NUMBER + 1, (0, 1))),
            _ => Some(of_table(Table::Sink, NUMBER, (0, 0))),
        };
        if let Some(key) = key {
            all[24..28].copy_from_slice(&key.to_be_bytes());
        }
        if right & 16 != 0 {
            all[36..40].copy_from_slice(&of_window(self.window, 0).to_be_bytes());
            all[52..56].copy_from_slice(&of_table(Table::Sink, NUMBER, (0, 0)).to_be_bytes());
        }
        if right & 32 != 0 {
            // Near the window and its end; few bytes.
            all[16..22].fill(0);
            all[40..46].fill(0);
            all[32..34].fill(0);
            all[48..51].fill(0);
        }
        let mut words = std::array::from_fn(|at| u64::from_le_bytes(all[8 * at..8 * at + 8].try_into().expect("eight")));
        // What an element does not say is not compared.
        let segments = (all[7] as usize & 0x3f).clamp(1, 4);
        words[2 * segments..].fill(0);
        words
    }

    /// Whatever is carried out stays in the windows and words that its keys name.
    fn within_its_keys(&self, element: element::Element) {
        let from = Origin { rank: 0, peer: 1, context: 3, tag: 5 };
        let ids = |count| Ids { base: 0, count };
        let limits = Limits { signals: ids(SIGNALS), counters: ids(COUNTERS), number: NUMBER, pool: POOL, posts: Posts::All };
        let counters: [AtomicU64; COUNTERS as usize] = Default::default();
        let mut all = VecDeque::new();
        let first = request(element, from, (&self.queues, &self.handles, &limits), &counters, &mut all);
        all.extend(first);
        let total: u64 = all.iter().map(Operation::bytes).sum();
        if let (false, element::Element::WriteInline { bytes, .. }) = (all.is_empty(), element) {
            assert_eq!(total, bytes.into(), "{element:?}");
        }
        all.iter().filter_map(|operation| operation.piece(u64::MAX)).for_each(|work| within(element, &work));
    }
}

/// See [`Bench::within_its_keys`].
fn within(element: element::Element, work: &Work) {
    let inside = |region: u32, offset: u64| region == 1 && offset <= BYTES && work.bytes <= BYTES - offset;
    assert!(work.peer == 1 && (work.bytes == 0 || inside(work.target.0, work.target.1)), "{element:?}: {work:?}");
    if let Source::Region { region, offset } = work.source {
        assert!(inside(region, offset), "{element:?}: {work:?}");
    }
    if let Some((offset, _)) = work.signal {
        let word = offset / 8 - u64::from(NUMBER * POOL);
        assert!(offset.is_multiple_of(8) && word < SIGNALS.into(), "{element:?}: {work:?}");
    }
}
