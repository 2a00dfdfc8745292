//! A hub that goes to and fro: nothing is lost, doubled or out of order, and it comes back whenever it is wanted.

use super::helper::{Helped, Hub};
use super::{Capabilities, Completion, STREAMS, Submitted, Transport, Work};
use crate::error::{Code, Error, Result};
use crate::hang_limit::hang_deadline;
use crate::transport::{Region, Source};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a hub has done, and what it is to do.
#[derive(Default)]
struct Book {
    /// By peer, in order.
    began: Mutex<Vec<(u32, u64)>>,
    /// This peer takes nothing.
    stopped: AtomicU32,
    /// Rounds until one fails or panics; 0: none.
    fails: AtomicU64,
    panics: AtomicU64,
}

/// Takes four pieces at once, completes and lands one in each round.
struct Fake {
    book: Arc<Book>,
    taken: VecDeque<(u64, u64)>,
    large: u64,
}

impl Transport for Fake {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("fake", 8)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, _: &Work) -> Result<Submitted> {
        unreachable!("it is offered")
    }
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        assert!(!counts_down(&self.book.panics), "planted");
        if counts_down(&self.book.fails) {
            return Err(Error::new(Code::RemoteError, 122, "planted"));
        }
        let ended = self.taken.pop_front();
        done.extend(ended.map(|(_, tag)| (tag, Ok(()))));
        self.large += u64::from(ended.is_some());
        Ok(ended.is_some())
    }
    fn abort(&mut self) {
        self.taken.clear();
    }
}

fn counts_down(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
}

impl Hub for Fake {
    fn offer(&mut self, work: &Work, piece: u64) -> Result<Submitted> {
        if self.taken.len() == 4 || work.peer == self.book.stopped.load(Ordering::Relaxed) {
            return Ok(Submitted::Full);
        }
        self.book.began.lock().unwrap().push((work.peer, work.tag));
        if work.tag.is_multiple_of(3) {
            return Ok(Submitted::Done);
        }
        self.taken.push_back((piece, work.tag));
        Ok(Submitted::Pending)
    }
    fn oldest(&self) -> Option<u64> {
        self.taken.front().map(|(piece, _)| *piece)
    }
    fn ask(&self) {}
    fn large(&self) -> u64 {
        self.large
    }
    fn waits_for(&self, _: u32, _: u32) -> bool {
        true
    }
}

fn hub(quiet: Duration) -> (Helped<Fake>, Arc<Book>) {
    let book = Arc::new(Book { stopped: AtomicU32::new(u32::MAX), ..Book::default() });
    (Helped::new(Fake { book: book.clone(), taken: VecDeque::new(), large: 0 }, quiet), book)
}

fn work(peer: u32, tag: u64) -> Work {
    Work { tag, context: peer % STREAMS, peer, source: Source::Inline(0), bytes: 8, target: (1, 0), signal: None }
}

/// Submits it, waiting out Full.
fn submit(hub: &mut Helped<Fake>, work: &Work, piece: u64, done: &mut Vec<Completion>) -> Submitted {
    let end = hang_deadline();
    loop {
        match hub.submit(work, piece).unwrap() {
            Submitted::Full => _ = hub.progress(done).unwrap(),
            submitted => return submitted,
        }
        assert!(Instant::now() < end, "full for ever");
    }
}

const EVER: Duration = Duration::from_secs(3600);

#[test]
fn to_and_fro_nothing_is_lost_doubled_or_out_of_order() {
    for quiet in [Duration::ZERO, Duration::from_micros(100), EVER] {
        let (mut hub, book) = hub(quiet);
        let (mut done, mut pending) = (Vec::new(), HashSet::new());
        for piece in 0..3000u64 {
            let work = work(piece as u32 % 3, piece);
            if submit(&mut hub, &work, piece, &mut done) == Submitted::Pending {
                pending.insert(piece);
            }
            match piece % 17 {
                2 | 11 => hub.lend().unwrap(),
                7 => _ = hub.recall().unwrap(),
                _ => _ = hub.progress(&mut done).unwrap(),
            }
        }
        let end = hang_deadline();
        while pending.len() > done.len() || hub.oldest().is_some() {
            hub.ask();
            hub.progress(&mut done).unwrap();
            assert!(Instant::now() < end, "{} of {} completed, {:?}", done.len(), pending.len(), hub.oldest());
        }
        for (tag, result) in done {
            assert!(result.is_ok() && pending.remove(&tag), "piece {tag} completes once, and only what was pending");
        }
        let began = book.began.lock().unwrap();
        assert_eq!(began.len(), 3000);
        for peer in 0..3 {
            let tags: Vec<u64> = began.iter().filter(|(to, _)| *to == peer).map(|(_, tag)| *tag).collect();
            assert!(tags.is_sorted(), "peer {peer}, quiet for {quiet:?}");
        }
    }
}

/// One peer takes nothing: what is for it waits, up to a bound, and the others go on; what has landed is never said too early.
#[test]
fn a_peer_that_stands_still_keeps_nobody_else_waiting() {
    let (mut hub, book) = hub(EVER);
    let mut done = Vec::new();
    book.stopped.store(7, Ordering::Relaxed);
    hub.lend().unwrap();
    let mut piece = 0;
    while hub.submit(&work(7, 1), piece).unwrap() == Submitted::Pending {
        piece += 1;
        assert!(piece < 10_000, "a bound");
    }
    for other in 0..500 {
        submit(&mut hub, &work(8, 3 * other + 1), piece + other, &mut done);
    }
    let end = hang_deadline();
    while done.len() < 500 {
        hub.ask();
        assert_eq!(hub.oldest(), Some(0));
        hub.progress(&mut done).unwrap();
        assert!(Instant::now() < end, "{}", done.len());
    }
    book.stopped.store(u32::MAX, Ordering::Relaxed);
    // What has ended is said by the next call.
    while hub.oldest().is_some() || (done.len() as u64) < 500 + piece {
        hub.ask();
        hub.progress(&mut done).unwrap();
        assert!(Instant::now() < end, "{}", done.len());
    }
    assert_eq!(done.len() as u64, 500 + piece);
}

/// What fails there is told here, once, and the hub is back.
#[test]
fn an_error_comes_back_with_the_hub() {
    for recalled in [false, true] {
        let (mut hub, book) = hub(EVER);
        book.fails.store(10, Ordering::Relaxed);
        hub.lend().unwrap();
        let end = hang_deadline();
        while book.fails.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
        if recalled {
            hub.recall().unwrap();
        }
        let error = loop {
            match hub.progress(&mut Vec::new()) {
                Err(error) => break error,
                Ok(_) => assert!(Instant::now() < end, "nobody tells"),
            }
        };
        assert!(error.text == "planted" && hub.here().is_some());
        assert!(hub.progress(&mut Vec::new()).is_ok());
    }
}

/// A panic of the thread ends what waits for it.
#[test]
fn a_thread_that_panics_is_told() {
    let (mut hub, book) = hub(EVER);
    book.panics.store(3, Ordering::Relaxed);
    hub.lend().unwrap();
    assert!(hub.recall().err().is_none_or(|error| error.id == 2));
    let end = hang_deadline();
    hub.lend().unwrap();
    while hub.progress(&mut Vec::new()).is_ok() {
        assert!(Instant::now() < end, "nobody tells");
    }
    assert_eq!(hub.submit(&work(0, 1), 0).unwrap_err().id, 2);
    assert!(hub.recall().is_err() && hub.progress(&mut Vec::new()).is_err());
}
