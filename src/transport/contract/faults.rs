//! The test of the tests: for each rule a transport that breaks it, and nothing else, must be found by that rule's test.

use super::reader::be_read;
use super::{BYTES, DATA, Make, RULES, World};
use crate::device::cpu::CpuDevice;
use crate::error::{Code, Error, Result};
use crate::transport::Stores;
use crate::transport::delayed::Delayed;
use crate::transport::messages;
use crate::transport::nvlink::Nvlink;
use crate::transport::{Capabilities, Completion, Landing, Part, Region, Source, Submitted, Transport, Work};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a transport does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ShortPayload,
    LongPayload,
    AnotherRank,
    SwappedValue,
    TornWord,
    NoBounds,
    LostSignal,
    /// The payload comes behind its own signal, or behind that of later work.
    SignalFirst,
    SignalAhead,
    LostInDepth,
    FullForEver,
    CompletesTwice,
    NeverCompletes,
    /// It says that the source is reusable before it has read it; the same of small payloads, in its capabilities.
    DoneTooEarly,
    InlineLie,
    LandedLie,
    AbortIgnored,
    /// The receiver's.
    ReceiverGoesOn,
    CloseForgets,
    CloseForEver,
    CloseBlamesNobody,
    Deaf,
    Restless,
    ErrorNamesNobody,
}
use Fault::*;

/// Which honest transport it stands before.
#[derive(Clone, Copy)]
enum Honest {
    /// Done at once.
    Stores,
    /// Done late.
    Copies,
    /// Landed by the target.
    Messages,
}

const PLANTED: &[(Fault, Honest, &str)] = &[
    (ShortPayload, Honest::Stores, "payloads of every size land as they are"),
    (LongPayload, Honest::Stores, "payloads of every size land as they are"),
    (AnotherRank, Honest::Stores, "a rank puts to itself"),
    (SwappedValue, Honest::Stores, "values land as they are"),
    (TornWord, Honest::Stores, "an aligned word lands whole"),
    (NoBounds, Honest::Stores, "nothing leaves its region"),
    (LostSignal, Honest::Stores, "signals add up"),
    (SignalFirst, Honest::Stores, "a signal follows its payload and all before it"),
    (SignalAhead, Honest::Stores, "a signal follows its payload and all before it"),
    (LostInDepth, Honest::Stores, "a deep pipeline loses and changes nothing"),
    (FullForEver, Honest::Stores, "a deep pipeline loses and changes nothing"),
    (CompletesTwice, Honest::Copies, "each piece completes once"),
    (NeverCompletes, Honest::Copies, "each piece completes once"),
    (DoneTooEarly, Honest::Copies, "a source is reusable when its piece is done"),
    (InlineLie, Honest::Copies, "a source is reusable when its piece is done"),
    (LandedLie, Honest::Messages, "what has landed is told truly"),
    (AbortIgnored, Honest::Copies, "aborted means still"),
    (ReceiverGoesOn, Honest::Messages, "a receiver that has aborted lands nothing"),
    (CloseForgets, Honest::Messages, "a rank that leaves waits for what it has sent"),
    (CloseForEver, Honest::Messages, "close is bounded and names who stands still"),
    (CloseBlamesNobody, Honest::Messages, "close is bounded and names who stands still"),
    (Deaf, Honest::Messages, "whoever sleeps is woken"),
    (Restless, Honest::Messages, "whoever sleeps is woken"),
];

/// A transport before an honest one.
struct Faulty {
    fault: Fault,
    honest: Box<dyn Transport>,
    taken: u64,
    /// Held back, with whether the next signal has gone before it.
    held: VecDeque<Work>,
    signal: OwnedFd,
}

impl Faulty {
    fn new(fault: Fault, honest: Box<dyn Transport>) -> Self {
        let signal = eventfd(u32::from(fault == Restless), EventfdFlags::CLOEXEC).unwrap();
        Self { fault, honest, taken: 0, held: VecDeque::new(), signal }
    }

    fn unname(&self, error: Error) -> Error {
        match self.fault {
            ErrorNamesNobody => Error::new(Code::RemoteError, 88, "the connection is lost | fix: none"),
            _ => error,
        }
    }
}

impl Transport for Faulty {
    fn capabilities(&self) -> Capabilities {
        let honest = self.honest.capabilities();
        if self.fault == InlineLie { Capabilities { inline: honest.piece, ..honest } } else { honest }
    }

    fn prepare(&mut self, part: &Part<'_>) -> Result<Vec<u8>> {
        self.honest.prepare(part)
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.honest.register(region)
    }

    fn deregister(&mut self, region: u32) {
        self.honest.deregister(region);
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        self.taken += 1;
        let (mut work, payload) = (*work, Work { signal: None, ..*work });
        match self.fault {
            ShortPayload if work.bytes > 1 => work.bytes -= 1,
            LongPayload if work.target.1 + work.bytes < BYTES as u64 => work.bytes += u64::from(work.bytes > 8),
            AnotherRank if work.peer == 0 => work.peer = 1,
            TornWord if work.bytes == 8 && work.target.1 == 64 => {
                let Source::Region { region, offset } = work.source else { return self.honest.submit(&work) };
                self.honest.submit(&Work { bytes: 4, ..work })?;
                be_read();
                let source = Source::Region { region, offset: offset + 4 };
                work = Work { bytes: 4, source, target: (DATA, 68), ..work };
            }
            NoBounds => return Ok(self.honest.submit(&work).unwrap_or(Submitted::Done)),
            LostSignal if self.taken.is_multiple_of(100) => work.signal = None,
            SignalFirst if work.signal.is_some() && work.bytes > 0 => {
                self.honest.submit(&Work { bytes: 0, ..work })?;
                self.held.push_back(payload);
                return Ok(Submitted::Pending);
            }
            SignalAhead if work.signal.is_none() => {
                self.held.push_back(work);
                return Ok(Submitted::Pending);
            }
            LostInDepth if self.taken == 2500 => work.bytes = 0,
            FullForEver if self.taken > 100 => return Ok(Submitted::Full),
            CloseForgets => {
                self.held.push_back(work);
                return Ok(Submitted::Done);
            }
            _ => {}
        }
        if let (SwappedValue, Source::Inline(value)) = (self.fault, work.source) {
            work.source = Source::Inline(value.swap_bytes());
        }
        let submitted = self.honest.submit(&work).map_err(|error| self.unname(error))?;
        Ok(if self.fault == DoneTooEarly && submitted == Submitted::Pending { Submitted::Done } else { submitted })
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let before = done.len();
        if let Some(work) = self.held.pop_front() {
            if self.fault != CloseForgets {
                be_read();
                done.push((work.tag, Ok(())));
            }
            self.honest.submit(&work)?;
        }
        let moved = self.honest.progress(done).map_err(|error| self.unname(error))?;
        match self.fault {
            CompletesTwice => done.extend(done[before..].first().cloned()),
            NeverCompletes if self.taken > 300 => done.truncate(before),
            DoneTooEarly => done.truncate(before),
            _ => {}
        }
        Ok(moved)
    }

    fn landing(&self) -> Landing {
        let landing = self.honest.landing();
        if self.fault == LandedLie { Landing { landed: landing.taken, ..landing } } else { landing }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        if matches!(self.fault, Deaf | Restless) { Some(self.signal.as_fd()) } else { self.honest.descriptor() }
    }

    fn arm(&mut self) -> Result<bool> {
        self.honest.arm()
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        match self.fault {
            CloseForgets => Ok(()),
            CloseForEver => self.honest.close(100 * patience),
            _ => self.honest.close(patience).map_err(|error| match self.fault {
                CloseBlamesNobody => Error { culprit: None, ..error },
                _ => error,
            }),
        }
    }

    fn abort(&mut self) {
        if !matches!(self.fault, AbortIgnored | ReceiverGoesOn) {
            self.honest.abort();
        }
    }
}

fn honest(kind: Honest, serves: Vec<bool>) -> Vec<Box<dyn Transport>> {
    match kind {
        Honest::Stores => vec![Box::new(Stores::new("loopback", serves))],
        Honest::Copies => {
            let late = || Ok(Box::new(Delayed::new(0x5eed_0007)) as _);
            vec![Box::new(Nvlink::new(&*CpuDevice::new(0), serves, late).unwrap())]
        }
        Honest::Messages => messages::tests::ranks(serves),
    }
}

/// Behind a faulty one, on the rank that it is about.
fn faulty(fault: Fault, kind: Honest, serves: Vec<bool>) -> Vec<Box<dyn Transport>> {
    let whose = usize::from(matches!(fault, ReceiverGoesOn | Deaf | Restless));
    let wrap = |(rank, honest): (usize, _)| match rank == whose {
        true => Box::new(Faulty::new(fault, honest)) as Box<dyn Transport>,
        false => honest,
    };
    honest(kind, serves).into_iter().enumerate().map(wrap).collect()
}

/// True if the test of a rule finds something.
fn finds(test: impl Fn(&mut World), make: Make<'_>) -> bool {
    let mut world = World { patience: Duration::from_secs(2), ..World::new(make) };
    catch_unwind(AssertUnwindSafe(|| test(&mut world))).is_err()
}

#[test]
fn each_rule_finds_what_breaks_it() {
    for &(fault, kind, rule) in PLANTED {
        let (_, test) = RULES.iter().find(|(name, _)| *name == rule).expect("a rule of that name");
        assert!(finds(test, &|serves| faulty(fault, kind, serves)), "{fault:?} is not found by \"{rule}\"");
    }
    for (rule, _) in RULES {
        assert!(PLANTED.iter().any(|(.., of)| of == rule), "nothing shows that \"{rule}\" finds anything");
    }
}

#[test]
fn an_error_that_names_nobody_is_found() {
    let make = |serves| faulty(ErrorNamesNobody, Honest::Messages, serves);
    assert!(finds(|world| super::completion::errors_name_the_peer(world, |ranks| drop(ranks.drain(1..))), &make));
}
