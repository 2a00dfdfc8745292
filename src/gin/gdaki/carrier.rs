//! Carries slots and entries between a GPU's memory and their mirrors in host memory, by the copy engine.
//!
//! On a GPU by a thread of its own: the driver may hold up who starts a copy (a cudaFree on another thread is enough), and the proxy's thread
//! serves others, too. On the CPU device nothing is held up, and whoever gives an order carries it out by the same calls.
#![forbid(unsafe_code)]

use super::mirror::Order;
use crate::device::{CopyQueue, Device, Kind, MemCopy};
use crate::error::{Error, Result};
use crate::process::{self, Joinable};
use crate::sync::{Condvar, Mutex, pid};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So long the thread looks for orders before it sleeps: to be woken takes longer than a copy.
const AWAKE: Duration = Duration::from_millis(1);
/// The end of a rank waits so long for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which way an order goes: each has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Elements to the host.
    Here = 0,
    /// Completions, and free slots, to the GPU.
    There = 1,
}

/// Copies of one way.
struct Line {
    queue: Box<dyn CopyQueue>,
    underway: VecDeque<(u64, Order)>,
    copies: Vec<MemCopy>,
}

impl Line {
    /// Starts `orders`: the first copies of all of them, and behind those the others. True if there were some.
    fn start(&mut self, orders: Vec<Order>) -> Result<bool> {
        for copies in [Order::first, Order::then] {
            self.copies.clear();
            self.copies.extend(orders.iter().flat_map(copies).filter(|copy| copy.bytes > 0));
            if !self.copies.is_empty() {
                self.queue.copy(&self.copies)?;
            }
        }
        let moved = !orders.is_empty();
        if moved {
            let ticket = self.queue.mark()?;
            self.underway.extend(orders.into_iter().map(|order| (ticket, order)));
        }
        Ok(moved)
    }

    /// Tells of those that have ended. True if there were some.
    fn end(&mut self) -> Result<bool> {
        let mut moved = false;
        if !self.underway.is_empty() {
            let finished = self.queue.finished()?;
            while let Some((_, order)) = self.underway.pop_front_if(|(ticket, _)| *ticket <= finished) {
                order.is_done();
                moved = true;
            }
        }
        Ok(moved)
    }
}

#[derive(Default)]
struct Inbox {
    orders: [Vec<Order>; 2],
    asleep: bool,
    over: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
    lines: Mutex<[Line; 2]>,
    broken: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Shared {
    /// Starts what was ordered, and tells of what has ended. True if there was something, or something is under way.
    fn work(&self) -> bool {
        let mut lines = self.lines.lock();
        let orders = std::mem::take(&mut self.inbox.lock().orders);
        if self.broken.load(Ordering::Relaxed) {
            return false;
        }
        let mut busy = false;
        for (line, orders) in lines.iter_mut().zip(orders) {
            let moved = line.start(orders).and_then(|started| Ok(line.end()? || started));
            match moved {
                Ok(moved) => busy |= moved || !line.underway.is_empty(),
                Err(error) => self.fail(error),
            }
        }
        busy
    }

    /// What a queue says after an error is no news of what came before: nothing is carried any more.
    #[cold]
    fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
        self.broken.store(true, Ordering::Release);
    }

    fn run(&self) {
        let mut worked = Instant::now();
        while !self.inbox.lock().over {
            let Some(at_work) = process::at_work() else { return };
            let busy = self.work();
            drop(at_work);
            if busy {
                worked = Instant::now();
            } else if worked.elapsed() < AWAKE {
                std::thread::yield_now();
            } else {
                self.sleep();
            }
        }
    }

    /// Until there is an order, or will be none.
    fn sleep(&self) {
        let mut inbox = self.inbox.lock();
        while !inbox.over && inbox.orders.iter().all(Vec::is_empty) {
            inbox.asleep = true;
            self.changed.wait(&mut inbox);
        }
        inbox.asleep = false;
    }
}

/// See the head of this file; of one set of queues of a rank. Ends at drop, and then nothing is under way.
pub struct Carrier {
    shared: Arc<Shared>,
    thread: Option<Joinable>,
    owner: u32,
}

impl Carrier {
    /// For queues in that device's memory.
    pub fn start(device: &Arc<dyn Device>) -> Result<Self> {
        let mut carrier = Self::over([device.copy_queue()?, device.copy_queue()?]);
        if device.kind() == Kind::Cuda {
            let (body, lost, device) = (carrier.shared.clone(), carrier.shared.clone(), device.clone());
            let run = move || match device.bind_thread() {
                Ok(()) => body.run(),
                Err(error) => body.fail(error),
            };
            carrier.thread = Some(Joinable::start("ginrs rings", run, move |error| lost.fail(error))?);
        }
        Ok(carrier)
    }

    /// By these queues, without a thread.
    fn over(queues: [Box<dyn CopyQueue>; 2]) -> Self {
        let line = |queue| Line { queue, underway: VecDeque::new(), copies: Vec::new() };
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            changed: Condvar::default(),
            lines: Mutex::new(queues.map(line)),
            broken: AtomicBool::new(false),
            error: Mutex::new(None),
        });
        Self { shared, thread: None, owner: pid() }
    }

    /// Has it carried out; [`Order::is_done`] says when.
    pub fn order(&self, order: Order) {
        let mut inbox = self.shared.inbox.lock();
        inbox.orders[order.way() as usize].push(order);
        let asleep = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if asleep {
            self.shared.changed.notify_all();
        }
        if self.thread.is_none() {
            self.shared.work();
        }
    }

    /// Why nothing is carried any more.
    #[inline]
    pub fn broken(&self) -> Option<Error> {
        self.shared.broken.load(Ordering::Acquire).then(|| self.shared.error.lock().clone()).flatten()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if self.owner != pid() {
            return; // a forked child has no such thread, and its copy of the locks may be held by it
        }
        self.shared.inbox.lock().over = true;
        self.shared.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| _ = thread.join(PATIENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;
    use crate::gin::gdaki::card::Card;
    use crate::gin::gdaki::mirror::Line as Words;
    use crate::gin::gdaki::queues::{Handler, Queues};
    use crate::gin::queue::Index;
    use crate::gin::shared::Shared as Array;
    use crate::nic::completion::{self, Syndrome};
    use crate::seq::Seq;
    use crate::transport::delayed::Delayed;

    const DEPTH: u32 = 4;

    fn queues(device: &dyn Device, carrier: &Arc<Carrier>) -> Queues {
        let slots = Array::<Words>::new(device.control(DEPTH as usize * 64).unwrap(), DEPTH as usize);
        Queues::new(device, (1, DEPTH), (Card::model(Handler::Cpu, true), 9), 1, (&slots, Some(carrier)), None).unwrap()
    }

    /// Over copies that come late, and of one call in any order: an element is taken as it was written, and a kernel that sees a completion sees
    /// its reason, and that its slot is free.
    #[test]
    fn what_is_late_is_in_order() {
        let device = CpuDevice::new(0);
        for seed in 1..40 {
            let carrier = Arc::new(Carrier::over([Box::new(Delayed::new(seed)), Box::new(Delayed::new(seed + 100))]));
            let queues = queues(&*device, &carrier);
            let [ring, entries] = queues.of_kernels();
            let (mut posted, mut taken, mut seen, mut steps) = (0u32, 0u32, 0u32, 0);
            let mut free: Vec<Vec<u64>> = Vec::new();
            while seen < 40 {
                steps += 1;
                assert!(steps < 100_000, "seed {seed}: {posted} posted, {taken} taken, {seen} seen");
                while posted < 40 && posted - seen < DEPTH {
                    let slot = &ring[(posted % DEPTH) as usize];
                    if posted >= DEPTH {
                        let now: Vec<u64> = slot.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                        assert!(!free.contains(&now), "the slot of {posted} is as the element before has left it");
                    }
                    // A NOP of one segment.
                    slot[0].store(u64::from_be(u64::from(posted as u16) << 40 | 9 << 8 | 1), Ordering::Relaxed);
                    slot[1].store(posted.into(), Ordering::Relaxed);
                    free.push(slot.iter().map(|word| word.load(Ordering::Relaxed)).collect());
                    posted += 1;
                    queues.ring(0, Seq(posted));
                }
                carrier.shared.work();
                if let Some(element) = queues.take(0, Seq(taken), false) {
                    assert!(element.is_ok(), "{taken}: {element:?}");
                    if taken == 20 {
                        queues.fail(0, Seq(20), Syndrome::RemoteAccess);
                    }
                    taken += 1;
                    queues.completions(0).publish(taken);
                }
                if let Some((at, ended)) = completion::read(&entries[(seen % DEPTH) as usize], DEPTH, seen) {
                    let reason = match seen {
                        ..20 => None,
                        20 => Some((0x13, 0)),
                        _ => Some((0x05, 0)),
                    };
                    assert_eq!((at, ended.syndrome), (seen, reason), "seed {seed}");
                    seen += 1;
                }
            }
        }
    }

    /// What a queue of copies says after an error is no news: nothing more is taken, and why is told.
    #[test]
    fn a_failed_copy_is_told() {
        let device = CpuDevice::new(0);
        let failing = Delayed::new(3);
        failing.started().lock().good = Some(0);
        let carrier = Arc::new(Carrier::over([Box::new(failing), Box::new(Delayed::new(4))]));
        let queues = queues(&*device, &carrier);
        assert!(queues.broken().is_none());
        queues.ring(0, Seq(1));
        for _ in 0..100 {
            assert!(queues.take(0, Seq(0), false).is_none());
            carrier.shared.work();
        }
        assert_eq!(queues.broken().map(|error| error.id), Some(76));
    }
}
