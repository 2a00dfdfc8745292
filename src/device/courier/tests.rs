//! The host's half beside a kernel that may come late, end at any moment, or never come.

use super::fakes::{Late, OnThread, Random, courier, word};
use super::ring::{BEGUN, DONE, ENDED, SLOTS, Work};
use super::{Carried, Courier, LARGEST, Start, State};
use crate::bail;
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::Result;
use crate::hang_limit::hang_deadline;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A queue's calls, and what has become of them.
struct Peer {
    queue: Option<Carried>,
    /// By ticket: where its words went, and what they are to be.
    expected: VecDeque<(u64, Vec<(u64, u64)>)>,
    marked: u64,
}

impl Peer {
    /// What has landed by the newest ticket that is reached.
    fn look(&mut self, finished: u64) {
        while let Some((_, words)) = self.expected.pop_front_if(|(ticket, _)| *ticket <= finished) {
            assert!(words.iter().all(|&(at, value)| word(at).load(Ordering::Relaxed) == value), "a ticket before its bytes");
        }
    }
}

/// Three peers' calls at random beside a kernel that comes and goes at random: nothing is lost, nothing is done twice, and no ticket is reached before its
/// bytes and all before it are there; where a queue ends, all of its have landed.
#[test]
fn nothing_is_lost_and_nothing_comes_twice() {
    let (mut by_engine, mut all, mut launches) = (0, 0, 0);
    for seed in 1..=200 {
        let carried = Arc::new(AtomicU64::new(0));
        let courier = courier(Box::new(OnThread::new(seed, true)), Late::new(seed * 2, &carried));
        let mut random = Random((seed * 0x9e37_79b9) | 1);
        let from: Vec<u64> = (1..=1 << 13).collect();
        let to = vec![0u64; 1 << 13];
        let (source, target) = (from.as_ptr() as u64, to.as_ptr() as u64);
        let make = |i: u64| {
            let queue = Carried::new(Late::new(seed + i, &carried), courier.clone());
            Peer { queue: Some(queue), expected: VecDeque::new(), marked: 0 }
        };
        let mut peers: Vec<Peer> = (0..3).map(make).collect();
        let mut next = 0;
        while next < 7_900 {
            let peer = &mut peers[random.below(3) as usize];
            let queue = peer.queue.as_mut().unwrap();
            let mut words = Vec::new();
            let mut take = |length: u64| {
                words.extend((next..next + length).map(|i| (target + 8 * i, i + 1)));
                next += length;
                MemCopy { from: source + 8 * (next - length), to: target + 8 * (next - length), bytes: 8 * length }
            };
            let ticket = match random.below(4) {
                0 => {
                    let values: Vec<Word> = (0..=random.below(15))
                        .map(|_| take(1))
                        .map(|copy| Word { at: copy.to, value: word(copy.from).load(Ordering::Relaxed), bytes: 8 })
                        .collect();
                    queue.store(&values).unwrap().unwrap_or_else(|| {
                        let copies: Vec<MemCopy> = values
                            .iter()
                            .map(|value| MemCopy { from: value.at - target + source, to: value.at, bytes: 8 })
                            .collect();
                        queue.copy(&copies).unwrap();
                        queue.mark().unwrap()
                    })
                }
                calls => {
                    for _ in 0..calls {
                        let copies: Vec<MemCopy> = (0..=random.below(12)).map(|_| take(1 + random.below(6))).collect();
                        queue.copy(&copies).unwrap();
                    }
                    queue.mark().unwrap()
                }
            };
            peer.marked += 1;
            assert_eq!(ticket, peer.marked, "tickets are 1, 2, 3, ..");
            peer.expected.push_back((ticket, words));
            for peer in &mut peers {
                let finished = peer.queue.as_mut().unwrap().finished().unwrap();
                assert!(finished <= peer.marked);
                peer.look(finished);
            }
            // As a pipeline does, which has a few batches under way.
            let end = hang_deadline();
            while let Some(peer) = peers.iter_mut().find(|peer| peer.expected.len() > 4) {
                let finished = peer.queue.as_mut().unwrap().finished().unwrap();
                peer.look(finished);
                assert!(Instant::now() < end, "seed {seed}: it stands still in {:?}", courier.lock().state);
                std::thread::yield_now();
            }
            if random.below(20) == 0 {
                std::thread::sleep(Duration::from_micros(random.below(300)));
            }
        }
        for peer in &mut peers {
            drop(peer.queue.take());
            peer.look(u64::MAX);
        }
        assert!(from[..next as usize] == to[..next as usize] && to[next as usize..].iter().all(|&word| word == 0));
        let mut courier = courier.lock();
        by_engine += carried.load(Ordering::Relaxed);
        all += courier.posted;
        launches += courier.launches;
        assert_eq!(courier.look().unwrap(), courier.posted);
    }
    assert!(by_engine > 0 && all > 0 && launches > 200, "{by_engine} by engines, {all} by the courier in {launches} launches");
}

/// Its launches wait for ever, or end at once in an error; steered by the test.
#[derive(Clone, Default)]
struct Steered {
    launches: Arc<Mutex<Vec<Work>>>,
    fails: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
}

impl Start for Steered {
    fn start(&mut self, work: &Work) -> Result<()> {
        self.launches.lock().push(*work);
        match self.fails.load(Ordering::Relaxed) {
            true => bail!(UnhandledCudaError, 73, "planted"),
            false => Ok(()),
        }
    }

    fn is_over(&mut self) -> Result<bool> {
        match self.broken.load(Ordering::Relaxed) || std::thread::panicking() {
            true => bail!(UnhandledCudaError, 73, "planted"),
            false => Ok(false),
        }
    }
}

impl Steered {
    fn say(&self, at: usize, value: u64) {
        let work = *self.launches.lock().last().unwrap();
        word(work.words + 8 * at as u64).store(value, Ordering::Release);
    }
}

/// One queue over a steered kernel, and a memory of words to copy.
struct One {
    steered: Steered,
    courier: Arc<Mutex<Courier>>,
    queue: Carried,
    memory: Vec<u64>,
    carried: Arc<AtomicU64>,
}

impl One {
    fn new() -> Self {
        let (steered, carried) = (Steered::default(), Arc::default());
        let courier = courier(Box::new(steered.clone()), Late::new(2, &carried));
        let queue = Carried::new(Late::new(4, &carried), courier.clone());
        Self { steered, courier, queue, memory: vec![0; 1 << 16], carried }
    }

    fn copies(&self, n: u64, bytes: u64) -> Vec<MemCopy> {
        let from = self.memory.as_ptr() as u64;
        (0..n).map(|i| MemCopy { from, to: from + (1 << 18) + i * bytes, bytes }).collect()
    }

    /// `n` small copies and a ticket.
    fn give(&mut self, n: u64) -> u64 {
        self.queue.copy(&self.copies(n, 8)).unwrap();
        self.queue.mark().unwrap()
    }

    /// It is called and has come.
    fn called() -> Self {
        let mut one = Self::new();
        while one.steered.launches.lock().is_empty() {
            one.give(1);
        }
        one.steered.say(BEGUN, 1);
        one
    }

    fn state(&self) -> State {
        self.courier.lock().state
    }

    fn posted(&self) -> u64 {
        self.courier.lock().posted
    }
}

#[test]
fn a_kernel_that_gets_no_room_holds_nothing_up_and_is_called_once() {
    let mut one = One::new();
    let mut after = 0;
    while after < 200 {
        let ticket = one.give(1);
        after += one.steered.launches.lock().len();
        let end = hang_deadline();
        while one.queue.finished().unwrap() < ticket {
            assert!(Instant::now() < end);
        }
    }
    assert_eq!((one.steered.launches.lock().len(), one.state()), (1, State::Called));
    assert_eq!((one.carried.load(Ordering::Relaxed), one.posted()), (one.queue.finished().unwrap(), 0));
}

#[test]
fn a_launch_that_fails_is_the_last_and_copies_go_on() {
    let mut one = One::new();
    one.steered.fails.store(true, Ordering::Relaxed);
    let mut after = 0;
    while after < 200 {
        let ticket = one.give(1);
        after += one.steered.launches.lock().len();
        while one.queue.finished().unwrap() < ticket {}
    }
    assert_eq!((one.steered.launches.lock().len(), one.state()), (1, State::Off));
}

#[test]
fn a_full_ring_and_large_calls_are_the_copy_engines() {
    let mut one = One::called();
    assert!(one.queue.copy(&one.copies(2, LARGEST / 2)).is_ok());
    assert_eq!((one.posted(), one.state()), (2, State::Here), "all of a call that is just small enough");
    let apart = |by: u64| MemCopy { from: 1 << 20, to: (1 << 21) + by, bytes: LARGEST / 16 + 1 };
    assert!(super::queue::are_small(&[apart(0)]) && super::queue::are_small(&[apart(4)]));
    assert!(!super::queue::are_small(&[apart(1)]), "byte by byte");
    one.queue.mark().unwrap();
    one.queue.copy(&one.copies(2, LARGEST / 2 + 8)).unwrap();
    one.queue.copy(&[MemCopy { from: 8, to: 1 << 48, bytes: 0 }]).unwrap();
    assert_eq!(one.posted(), 2, "neither a larger call nor an address that no command holds");
    for _ in 0..40 {
        one.give(64);
    }
    let posted = one.posted();
    assert!(posted > SLOTS - 64 && posted < SLOTS, "{posted}: a place is left for the order to stop");
    for given in posted..SLOTS - 1 {
        one.give(1);
        assert_eq!(one.posted(), given + 1);
    }
    one.give(1);
    assert_eq!(one.posted(), SLOTS - 1);
    one.steered.say(DONE, 1);
    one.give(1);
    assert_eq!(one.posted(), SLOTS);
    // Nobody carries these: the kernel says that it has failed, and so does the queue, in the end.
    one.steered.broken.store(true, Ordering::Relaxed);
    let failed = (0..2 * super::LOOKS).find_map(|_| one.queue.finished().err());
    assert_eq!(failed.map(|error| error.id), Some(73));
}

#[test]
fn what_is_left_at_its_end_goes_by_the_copy_engine() {
    let mut one = One::called();
    let at = (1 << 18) / 8;
    let ticket = one.give(0);
    while one.queue.finished().unwrap() < ticket {}
    one.carried.store(0, Ordering::Relaxed);
    one.memory[0] = 77;
    let ticket = one.give(5);
    assert_eq!(one.posted(), 5);
    one.steered.say(DONE, 2);
    assert!(one.queue.finished().unwrap() < ticket);
    one.steered.say(ENDED, 3);
    let end = hang_deadline();
    while one.queue.finished().unwrap() < ticket {
        assert!(Instant::now() < end);
    }
    assert_eq!(one.carried.load(Ordering::Relaxed), 3);
    assert_eq!(one.memory[at..at + 6], [0, 0, 77, 77, 77, 0]);
    let rescued = one.courier.lock().rescued;
    assert_eq!((one.state(), rescued), (State::Away, 3));
    // The next begins behind those.
    while one.steered.launches.lock().len() < 2 {
        one.memory[at] = 0;
        let ticket = one.give(1);
        while one.queue.finished().unwrap() < ticket {}
    }
    let next = one.steered.launches.lock()[1];
    assert_eq!((next.first, next.launch), (5, 2));
}

#[test]
fn its_end_is_asked_for_behind_all_that_was_given() {
    let one = One::called();
    let work = one.steered.launches.lock()[0];
    // Kept from the memory's end, which a kernel that never says that it has ended prevents.
    let One { courier, queue, .. } = one;
    drop(queue);
    drop(courier);
    let slot = word(work.slots + 16).load(Ordering::Acquire);
    assert_eq!(slot >> 16 & 3, 2, "an order to stop");
}
