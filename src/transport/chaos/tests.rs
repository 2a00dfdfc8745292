//! Every seed keeps the law, the seeds together use all of it, and an adversary that breaks a rule is found.

use super::policy::{COPY, Draws, Policy};
use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{Memory, Physical};
use crate::hang_limit::hang_deadline;
use crate::sync::Mutex;
use crate::transport::contract::{self, BYTES, region, word};
use crate::transport::{SIGNALS, Stores};
use std::sync::atomic::Ordering::Relaxed;

/// What the adversary does against the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A signal does not wait for its own payload.
    BeforeItsOwn,
    /// Nor for those of earlier operations.
    BeforeEarlier,
    /// A completion is told before the source is read.
    TellsUnread,
}

impl Planted {
    /// [`Lane`]'s rule, broken.
    pub fn covers(self, signal: u64, payload: u64) -> bool {
        match self {
            Self::BeforeItsOwn => payload < signal,
            Self::BeforeEarlier => payload == signal,
            Self::TellsUnread => payload <= signal,
        }
    }
}

const CONTEXTS: u64 = 2;
const PEERS: u64 = 3;
const OPERATIONS: u64 = 120;
/// Of an operation's source and target: its words are `number << 8 | place`.
const ROOM: u64 = 64;
const DATA: u32 = 1;

/// A payload's word or a signal, as it went.
#[derive(Clone, Copy, Debug)]
struct Went {
    operation: u64,
    /// None: the signal.
    word: Option<u64>,
    value: u64,
    late: bool,
}

/// Writes down what goes; takes it or not, at once or later, as it pleases.
struct Clerk {
    data: Arc<dyn Physical>,
    log: Arc<Mutex<Vec<Went>>>,
    draws: Draws,
    pending: Vec<u64>,
}

impl Transport for Clerk {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("clerk", 1 << 20)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        if self.draws.below(16) == 0 {
            return Ok(Submitted::Full);
        }
        let mut log = self.log.lock();
        let operation = if work.bytes > 0 { work.target.1 / ROOM } else { work.signal.unwrap().0 / 8 };
        for word_at in 0..work.bytes.div_ceil(8) {
            let (value, late) = match work.source {
                Source::Inline(value) => (value, false),
                Source::Region { offset, .. } => (word(&self.data, (offset / 8 + word_at) as usize).load(Relaxed), true),
            };
            log.push(Went { operation, word: Some(work.target.1 % ROOM / 8 + word_at), value, late });
        }
        if work.signal.is_some() {
            log.push(Went { operation, word: None, value: 0, late: false });
        }
        if self.draws.below(4) == 0 {
            self.pending.push(work.tag);
            return Ok(Submitted::Pending);
        }
        Ok(Submitted::Done)
    }
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let count = self.draws.below(self.pending.len() as u64 + 1) as usize;
        done.extend(self.pending.drain(..count).map(|tag| (tag, Ok(()))));
        Ok(count > 0)
    }
    fn abort(&mut self) {}
}

#[derive(Clone, Copy)]
struct Put {
    lane: (u32, u32),
    words: u64,
    signal: bool,
    /// The value stands in the work.
    inline: bool,
}

/// How often the law was used.
#[derive(Debug, Default)]
struct Used {
    swapped: u64,
    overtook_signal: u64,
    read_late: u64,
    told_first: u64,
}

/// Some hundred operations under `seed`; what of the law was broken.
fn drive(seed: u64, planted: Option<Planted>, used: &mut Used) -> std::result::Result<(), String> {
    let device = CpuDevice::new(0);
    let data = device.create(BYTES).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut draws = Draws::new(seed, &[77]);
    let clerk = Clerk { data: data.clone(), log: log.clone(), draws: Draws::new(seed, &[78]), pending: Vec::new() };
    let mut chaos = Chaos::with(Box::new(clerk), Policy::new(seed, 0, Duration::from_nanos(200)));
    chaos.planted = planted;
    for id in [SIGNALS, DATA] {
        chaos.register(&region(id, 0, &vec![data.clone(); PEERS as usize], true)).unwrap();
    }
    let puts: Vec<Put> = (0..OPERATIONS)
        .map(|_| {
            let words = draws.below(4);
            let inline = words == 1 && draws.below(2) == 0;
            let lane = (draws.below(CONTEXTS) as u32, draws.below(PEERS) as u32);
            Put { lane, words, signal: words == 0 || draws.below(3) == 0, inline }
        })
        .collect();
    let expected = |operation: u64, at: u64| (operation + 1) << 8 | at;
    let poison =
        |operation: u64| (0..ROOM / 8).for_each(|at| word(&data, (operation * ROOM / 8 + at) as usize).store(u64::MAX, Relaxed));
    let (mut done, mut told) = (Vec::new(), vec![false; puts.len()]);
    let tell = |done: &mut Vec<Completion>, told: &mut Vec<bool>, used: &mut Used| {
        for (tag, result) in done.drain(..) {
            result.unwrap();
            assert!(!std::mem::replace(&mut told[tag as usize], true), "operation {tag} is told twice");
            used.told_first += u64::from(!log.lock().iter().any(|went| went.operation == tag));
            poison(tag);
        }
    };
    for (operation, put) in (0..).zip(&puts) {
        (0..put.words).for_each(|at| word(&data, ((operation * ROOM) / 8 + at) as usize).store(expected(operation, at), Relaxed));
        let source = match put.inline {
            true => Source::Inline(expected(operation, 0)),
            false => Source::Region { region: DATA, offset: operation * ROOM },
        };
        let work = Work {
            tag: operation,
            context: put.lane.0,
            peer: put.lane.1,
            source,
            bytes: put.words * 8,
            target: (DATA, operation * ROOM),
            signal: put.signal.then_some((operation * 8, 1)),
        };
        loop {
            match chaos.submit(&work).unwrap() {
                Submitted::Done => done.push((operation, Ok(()))),
                Submitted::Pending => {}
                Submitted::Full => {
                    chaos.progress(&mut done).unwrap();
                    tell(&mut done, &mut told, used);
                    continue;
                }
            }
            break;
        }
        tell(&mut done, &mut told, used);
    }
    let end = hang_deadline();
    while told.contains(&false) || chaos.landing().left() > 0 {
        assert!(Instant::now() < end, "seed {seed}: not all ends");
        chaos.progress(&mut done).unwrap();
        tell(&mut done, &mut told, used);
    }
    let log = log.lock();
    judge(&puts, &log, expected, used)
}

fn judge(puts: &[Put], log: &[Went], expected: impl Fn(u64, u64) -> u64, used: &mut Used) -> std::result::Result<(), String> {
    let parts: u64 = puts.iter().map(|put| put.words + u64::from(put.signal)).sum();
    if log.len() as u64 != parts {
        return Err(format!("{} of {parts} parts went", log.len()));
    }
    for (at, went) in log.iter().enumerate() {
        let (before, put) = (&log[..at], puts[went.operation as usize]);
        if before.iter().any(|other| other.operation == went.operation && other.word == went.word) {
            return Err(format!("{went:?} twice"));
        }
        let of_lane = |other: &&Went| puts[other.operation as usize].lane == put.lane;
        let later = before.iter().filter(of_lane).filter(|other| other.operation > went.operation);
        used.read_late += u64::from(went.late);
        match went.word {
            Some(word) if went.value != expected(went.operation, word) => {
                return Err(format!("{went:?}: its source was reusable before it was read"));
            }
            // It lands now: no signal of its own or of later operations has gone.
            Some(_) => {
                let covering = |other: &Went| other.word.is_none() && other.operation >= went.operation;
                if let Some(signal) = before.iter().filter(of_lane).find(|other| covering(other)) {
                    return Err(format!("{signal:?} ahead of {went:?}"));
                }
                used.swapped += u64::from(later.clone().count() > 0);
            }
            None => {
                if later.clone().any(|other| other.word.is_none()) {
                    return Err(format!("{went:?} behind a later signal"));
                }
                used.overtook_signal += u64::from(later.count() > 0);
            }
        }
    }
    Ok(())
}

#[test]
fn every_seed_keeps_the_law_and_the_seeds_together_use_it() {
    let mut used = Used::default();
    for seed in 0..100 {
        drive(seed, None, &mut used).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
    let Used { swapped, overtook_signal, read_late, told_first } = used;
    assert!([swapped, overtook_signal, read_late, told_first].iter().all(|&often| often > 100), "{used:?}");
}

#[test]
fn an_adversary_that_breaks_the_law_is_found() {
    for planted in [Planted::BeforeItsOwn, Planted::BeforeEarlier, Planted::TellsUnread] {
        let found = (0..40).filter_map(|seed| drive(seed, Some(planted), &mut Used::default()).err()).count();
        assert!(found >= 10, "{planted:?}: by {found} of 40 seeds");
    }
}

/// It is a transport like any other.
#[test]
fn contract() {
    for seed in 0..2 {
        contract::all(|serves| {
            let policy = Policy::new(seed, 0, Duration::from_nanos(10));
            vec![Box::new(Chaos::with(Box::new(Stores::new("shm", serves)), policy))]
        });
    }
}

/// The k-th operation of a lane draws the same from the same seed; another seed, rank, context or peer draws something else.
#[test]
fn a_seed_draws_the_same_again() {
    let fates = |seed, rank, context, peer| {
        let mut stream = Policy::new(seed, rank, UNIT).stream(context, peer);
        std::iter::repeat_with(move || stream.fate()).take(64).collect::<Vec<_>>()
    };
    assert_eq!(fates(7, 1, 2, 3), fates(7, 1, 2, 3));
    for other in [fates(8, 1, 2, 3), fates(7, 0, 2, 3), fates(7, 1, 0, 3), fates(7, 1, 2, 0)] {
        assert_ne!(fates(7, 1, 2, 3), other);
    }
    assert!(COPY > 0 && (0..100).all(|seed| depth(seed, 3, 8) <= 8));
    assert!((0..100).map(|seed| depth(seed, 3, 256)).any(|depth| depth == 1));
}
