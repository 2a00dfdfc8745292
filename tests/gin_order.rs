//! Nothing moves behind what did not: once an operation is refused or fails, no later one reaches a transport, in the same
//! step or later, whichever way the proxy comes to its queue. A signal ahead of its payload is silent corruption.

mod support;

use ginrs::error::{Code, Error, Result};
use ginrs::gin::descriptor::{Descriptor, SignalOp};
use ginrs::gin::proxy::Routes;
use ginrs::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex};
use support::{Plan, Rank, fabric_over, signal};

/// Bytes per piece of the transport here.
const PIECE: u64 = 1000;

/// What a submission comes to.
#[derive(Clone, Copy)]
enum Answer {
    Done,
    Pending,
    Full,
    Error,
}

/// What a transport here has taken, and whether it was asked for more after it had failed.
#[derive(Default)]
struct Log {
    taken: Vec<Work>,
    failed: bool,
    asked_after: bool,
}

/// Answers as it is told to, the last answer again and again; without any, that all is done.
struct Scripted {
    answers: Vec<Answer>,
    /// How pieces end that were Pending, all in one call: true for good. Then the call itself fails, if `breaks`.
    ends: Vec<bool>,
    breaks: bool,
    pending: Vec<u64>,
    log: Arc<Mutex<Log>>,
}

impl Scripted {
    fn fail<T>(&self) -> Result<T> {
        self.log.lock().unwrap().failed = true;
        Err(Error::new(Code::RemoteError, 36, "planted"))
    }
}

impl Transport for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("scripted", PIECE)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        let answer =
            if self.answers.len() > 1 { self.answers.remove(0) } else { self.answers.first().copied().unwrap_or(Answer::Done) };
        let mut log = self.log.lock().unwrap();
        log.asked_after |= log.failed;
        if matches!(answer, Answer::Done | Answer::Pending) {
            log.taken.push(*work);
        }
        drop(log);
        match answer {
            Answer::Done => Ok(Submitted::Done),
            Answer::Pending => {
                self.pending.push(work.tag);
                Ok(Submitted::Pending)
            }
            Answer::Full => Ok(Submitted::Full),
            Answer::Error => self.fail(),
        }
    }
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        for tag in std::mem::take(&mut self.pending) {
            let good = self.ends.is_empty() || self.ends.remove(0);
            done.push((tag, if good { Ok(()) } else { self.fail() }));
        }
        if self.breaks { self.fail() } else { Ok(true) }
    }
    fn abort(&mut self) {
        self.pending.clear();
    }
}

/// What goes wrong: with the operations in front, or in the transport.
struct Case {
    name: &'static str,
    first: fn(&Rank) -> Vec<Descriptor>,
    answers: &'static [Answer],
    ends: &'static [bool],
    breaks: bool,
}

const CASES: [Case; 9] = {
    use Answer::{Done, Error, Full, Pending};
    let put = |rank: &Rank| vec![rank.put(0, 0, 8)];
    let case = Case { name: "", first: put, answers: &[], ends: &[], breaks: false };
    let long = |rank: &Rank| vec![rank.put(0, 0, 3 * PIECE)];
    [
        Case { name: "a refused put", first: |rank| vec![rank.put(0, u64::MAX >> 1, 8)], ..case },
        Case { name: "a refused id", first: |_| vec![signal(64, SignalOp::Inc)], ..case },
        Case {
            name: "a refused put behind one under way",
            first: |rank| vec![rank.put(0, 0, 8), rank.put(1 << 40, 0, 8)],
            answers: &[Pending],
            ..case
        },
        Case { name: "a submission", answers: &[Error], ..case },
        Case { name: "a second piece", first: long, answers: &[Done, Error], ..case },
        Case { name: "a piece that was offered before", first: long, answers: &[Pending, Full, Error], ..case },
        Case { name: "a completion", answers: &[Pending, Full], ends: &[false], ..case },
        Case {
            name: "the first of two completions",
            first: |rank| vec![rank.put(0, 0, 8), Descriptor { counter: Some(2), ..rank.put(0, 0, 8) }],
            answers: &[Pending, Pending, Full],
            ends: &[false, true],
            ..case
        },
        Case { name: "the transport as a whole", answers: &[Pending, Full], breaks: true, ..case },
    ]
};

fn nothing_follows(case: &Case, hints: bool) {
    let name = format!("{}, hints {hints}", case.name);
    let log = Arc::<Mutex<Log>>::default();
    let ranks = fabric_over(Plan { ranks: 3, contexts: 2, threads: false, ..Plan::default() }, |plan, _| {
        let (answers, ends, log) = (case.answers.to_vec(), case.ends.to_vec(), log.clone());
        let scripted = Scripted { answers, ends, breaks: case.breaks, pending: Vec::new(), log };
        Routes { transports: vec![Box::new(scripted)], by_peer: vec![0; plan.ranks as usize] }
    });
    let mut kernels = [0, 1].map(|context| ranks[0].kernel(context));
    kernels.iter_mut().for_each(|kernel| kernel.hints = hints);
    let first = (case.first)(&ranks[0]);
    first.iter().for_each(|first| assert!(kernels[0].post(1, first, || unreachable!())));
    let behind = Descriptor { signal: Some((3, SignalOp::Add(77))), counter: Some(2), ..ranks[0].put(0, 64, 8) };
    for _ in 0..3 {
        kernels[0].post(1, &behind, || unreachable!());
    }
    let mut steps = 0;
    while !ranks[0].abort.is_raised() {
        ranks[0].gin.step();
        steps += 1;
        assert!(steps < 1000, "{name}: no abort");
    }
    // What comes late, and to the engine's other queues.
    kernels[0].post(1, &behind, || unreachable!());
    kernels[1].post(2, &behind, || unreachable!());
    (0..1000).for_each(|_| _ = ranks[0].gin.step());
    for (context, peer) in [(0, 1), (1, 2)] {
        assert!(kernels[context].flushed(peer, kernels[context].claimed(peer)), "{name}: kernels that know no abort word wait");
    }
    let log = log.lock().unwrap();
    let cause = ranks[0].abort.cause().unwrap();
    assert_eq!(cause.text.contains("planted"), log.failed, "{name}: {cause}");
    assert!(log.taken.iter().all(|work| work.signal.is_none()), "{name}: {:?}", log.taken);
    assert!(!log.asked_after, "{name}: more was submitted");
    assert_eq!(kernels[0].counter(2).load(Acquire), 0, "{name}: a counter rose");
}

#[test]
fn nothing_moves_behind_what_was_refused_or_failed() {
    for case in &CASES {
        for hints in [true, false] {
            nothing_follows(case, hints);
        }
    }
}

/// All of a queue in one step: the ways in which the proxy comes to a queue a second time.
#[test]
fn a_batch_ends_at_what_fails_in_it() {
    // More than one batch of descriptors, and more queues than one.
    let case = &CASES[0];
    for posted in [1, 63, 64, 65, 200] {
        let ranks = fabric_over(Plan { ranks: 3, depth: 256, threads: false, ..Plan::default() }, |plan, _| {
            let scripted =
                Scripted { answers: Vec::new(), ends: Vec::new(), breaks: false, pending: Vec::new(), log: Arc::default() };
            Routes { transports: vec![Box::new(scripted)], by_peer: vec![0; plan.ranks as usize] }
        });
        let kernel = ranks[0].kernel(0);
        let good = Descriptor { counter: Some(2), ..ranks[0].put(0, 0, 8) };
        (0..posted).for_each(|_| _ = kernel.post(1, &good, || unreachable!()));
        kernel.post(1, &(case.first)(&ranks[0])[0], || unreachable!());
        (0..50).for_each(|_| _ = kernel.post(1, &good, || unreachable!()));
        (0..100).for_each(|_| _ = ranks[0].gin.step());
        assert!(ranks[0].abort.is_raised());
        assert_eq!(kernel.counter(2).load(Acquire), posted, "all before it, none behind it");
    }
}
