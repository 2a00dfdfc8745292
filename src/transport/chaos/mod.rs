//! GINRS_CHAOS: a lawful adversary between the proxy and a transport. It does what GIN's memory model allows and networks do now and
//! then, and nothing else (docs/user/chaos-network.md has the rules): `policy` draws the fate of each operation from the seed, `lane` keeps the
//! order, and here is a transport that holds work back, reads sources at once or as late as may be, and tells completions late.
//!
//! Without the variable none of this is made. Traps: a copy's completion is told before it lands, so what has landed is counted here,
//! piece by piece; an error of work whose completion was told has nobody to go to but the step.
#![forbid(unsafe_code)]

mod lane;
mod policy;

pub use policy::depth;

use super::factory::Share;
use super::remote::Remote;
use super::{Capabilities, Completion, Landing, Part, Region, Source, Submitted, Transport, Words, Work};
use crate::config;
use crate::device::{Device, Kind};
use crate::error::{Code, Error, Result};
use lane::{Copied, Lane};
use policy::{COPY, Policy, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The variable.
pub const NAME: &str = "GINRS_CHAOS";
/// Error number of all that is wrong with it.
pub const WRONG: u16 = 115;
/// Longest delays are some thousand of these.
const UNIT: Duration = Duration::from_micros(1);
/// What one call of [`Transport::progress`] lets go, in bytes, of which each part counts some more: a step is to stay short.
const AT_ONCE: u64 = 2 << 20;
const PART: u64 = 100;

/// The seed that GINRS_CHAOS asks for.
pub fn asked() -> Result<Option<u64>> {
    let Some(text) = config::text(NAME) else { return Ok(None) };
    let wrong = |_| {
        let text = format!("{NAME} is no seed | it is \"{text}\" | fix: a whole number from 0 to 2^64-1, or unset it");
        Error::new(Code::InvalidUsage, WRONG, text)
    };
    text.trim().parse().map(Some).map_err(wrong)
}

/// The same for a device, if it can be had there.
pub fn asked_of(device: &dyn Device) -> Result<Option<u64>> {
    match asked()? {
        Some(seed) if device.kind() != Kind::Cpu => {
            let text = format!("{NAME} is for the CPU device | it is {seed}, and kernels run on a GPU | fix: unset it");
            Err(Error::new(Code::InvalidUsage, WRONG, text))
        }
        seed => Ok(seed),
    }
}

/// One piece of an operation, as the proxy gave it.
struct Piece {
    tag: u64,
    /// Its context and peer.
    key: (u32, u32),
    /// These have not gone.
    payload: bool,
    signal: bool,
    /// What the transport has taken of it and not ended.
    pending: u32,
    /// Its source may be read any time.
    unread: bool,
    /// When its completion may be told; None: it was, or none is due.
    tell: Option<Instant>,
    /// Pieces that the transport had taken when the last of this one went.
    mark: u64,
}

struct Line {
    lane: Lane,
    stream: Stream,
    /// Of the operation that is offered: what was drawn, and how often it is still refused.
    offered: Option<policy::Fate>,
}

/// A transport behind an adversary.
pub struct Chaos {
    honest: Box<dyn Transport>,
    policy: Policy,
    regions: Remote,
    /// By context and peer.
    lines: BTreeMap<(u32, u32), Line>,
    /// From number `first` on, in the order in which they were taken.
    pieces: VecDeque<Piece>,
    first: u64,
    paused: Option<Instant>,
    /// Ends of the transport's own pieces.
    ended: Vec<Completion>,
    #[cfg(test)]
    planted: Option<tests::Planted>,
}

impl Chaos {
    /// Before `honest`, a transport of rank `rank`.
    pub fn new(honest: Box<dyn Transport>, seed: u64, rank: u32) -> Self {
        Self::with(honest, Policy::new(seed, rank, UNIT))
    }

    fn with(honest: Box<dyn Transport>, policy: Policy) -> Self {
        let regions = Remote::new(honest.capabilities().name);
        Self {
            honest,
            policy,
            regions,
            lines: BTreeMap::new(),
            pieces: VecDeque::new(),
            first: 0,
            paused: None,
            ended: Vec::new(),
            #[cfg(test)]
            planted: None,
        }
    }

    fn line(&mut self, context: u32, peer: u32) -> &mut Line {
        let Self { policy, lines, .. } = self;
        lines.entry((context, peer)).or_insert_with(|| Line {
            lane: Lane::default(),
            stream: policy.stream(context, peer),
            offered: None,
        })
    }

    /// Lets go what is due, as far as the transport takes it; true if anything went.
    fn release(&mut self, now: Instant, done: &mut Vec<Completion>) -> Result<bool> {
        let (mut left, mut moved, mut failed) = (AT_ONCE, false, None);
        let mut keys: Vec<_> = self.lines.iter().filter(|(_, line)| line.lane.len() > 0).map(|(key, _)| *key).collect();
        // Contexts and peers have no order among them: each has its turn until its lane has nothing that is due.
        while left > 0 && !keys.is_empty() {
            keys.retain(|key| {
                let Some(line) = self.lines.get_mut(key).filter(|_| left > 0) else { return false };
                let Some(held) = line.lane.next(now) else { return false };
                let work = held.next();
                let piece = &mut self.pieces[(work.tag - self.first) as usize];
                let submitted = match self.honest.submit(&work) {
                    Ok(Submitted::Full) => return false,
                    Ok(submitted) => submitted,
                    Err(error) => {
                        left = 0;
                        failed = Some((work.tag, error));
                        return false;
                    }
                };
                left = left.saturating_sub(work.bytes + PART);
                moved = true;
                piece.pending += u32::from(submitted == Submitted::Pending);
                if held.went(&work, now) {
                    let payload = work.signal.is_none();
                    line.lane.gone(work.tag, payload);
                    *if payload { &mut piece.payload } else { &mut piece.signal } = false;
                    piece.mark = self.honest.landing().taken;
                }
                true
            });
        }
        failed.map_or(Ok(moved), |(number, error)| self.fail(number, error, done).map(|()| true))
    }

    /// Piece `number` has failed: nothing of its lane goes any more, for no signal may rise behind what is lost.
    fn fail(&mut self, number: u64, error: Error, done: &mut Vec<Completion>) -> Result<()> {
        let Piece { tag, key, tell, .. } = self.pieces[(number - self.first) as usize];
        self.lines.remove(&key);
        for piece in self.pieces.iter_mut().filter(|piece| piece.key == key) {
            (piece.payload, piece.signal, piece.tell) = (false, false, None);
        }
        // Who was told that it is done hears of no second end.
        tell.map_or(Err(error.clone()), |_| {
            done.push((tag, Err(error)));
            Ok(())
        })
    }

    /// Takes what the transport has ended.
    fn reap(&mut self, done: &mut Vec<Completion>) -> Result<()> {
        for (number, result) in std::mem::take(&mut self.ended) {
            let Some(at) = number.checked_sub(self.first).filter(|&at| at < self.pieces.len() as u64) else { continue };
            self.pieces[at as usize].pending -= 1;
            result.or_else(|error| self.fail(number, error, done))?;
        }
        Ok(())
    }

    /// Tells completions that are due; true if there were any.
    fn tell(&mut self, now: Instant, done: &mut Vec<Completion>) -> bool {
        let before = done.len();
        for piece in &mut self.pieces {
            piece.unread &= piece.payload || piece.pending > 0;
            if !piece.unread && piece.tell.is_some_and(|tell| tell <= now) {
                piece.tell = None;
                done.push((piece.tag, Ok(())));
            }
        }
        let landed = self.honest.landing().landed;
        while self.pieces.front().is_some_and(|first| first.is_over(landed)) {
            self.pieces.pop_front();
            self.first += 1;
        }
        done.len() > before
    }

    fn held(&self) -> usize {
        self.lines.values().map(|line| line.lane.len()).sum()
    }

    fn drop_all(&mut self) {
        self.lines.clear();
        self.first += self.pieces.len() as u64;
        self.pieces.clear();
        self.ended.clear();
    }
}

impl Piece {
    /// It has landed and was told, where the transport says that its first `landed` pieces have landed.
    fn is_over(&self, landed: u64) -> bool {
        !self.payload && !self.signal && self.pending == 0 && self.tell.is_none() && self.mark <= landed
    }
}

impl Transport for Chaos {
    fn capabilities(&self) -> Capabilities {
        // No source is promised to be read in `submit`; what is held back has to be looked at.
        Capabilities { inline: 0, polled: true, ..self.honest.capabilities() }
    }

    fn connect(&mut self, device: &dyn Device, share: &dyn Share, peers: &Arc<Vec<Words>>) -> Result<()> {
        self.honest.connect(device, share, peers)
    }

    fn prepare(&mut self, part: &Part<'_>) -> Result<Vec<u8>> {
        self.honest.prepare(part)
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.regions.register(region, region.id.into())?;
        self.honest.register(region).inspect_err(|_| self.regions.deregister(region.id))
    }

    fn deregister(&mut self, region: u32) {
        self.regions.deregister(region);
        self.honest.deregister(region);
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        // Both ends: a part of it must not go before the other was found to be wrong.
        self.regions.outgoing(work, u64::MAX)?;
        let now = Instant::now();
        let line = self.line(work.context, work.peer);
        let stream = &mut line.stream;
        let fate = line.offered.get_or_insert_with(|| stream.fate());
        if fate.refused > 0 {
            fate.refused -= 1;
            return Ok(Submitted::Full);
        }
        if line.lane.len() >= line.stream.window() {
            line.lane.press(now);
            return Ok(Submitted::Full);
        }
        let Some(fate) = line.offered.take() else { return Ok(Submitted::Full) };
        let elsewhere = work.bytes > 0 && matches!(work.source, Source::Region { .. });
        let copy = match elsewhere && fate.copied && work.bytes <= COPY {
            true => {
                let mut bytes = Vec::new();
                self.regions.gather(work, COPY, &mut bytes)?;
                Some(Copied { bytes, backward: fate.backward, gap: fate.gap })
            }
            false => None,
        };
        #[cfg(test)]
        let planted = self.planted;
        let number = self.first + self.pieces.len() as u64;
        let unread = elsewhere && copy.is_none();
        let line = self.line(work.context, work.peer);
        #[cfg(test)]
        {
            line.lane.planted = planted;
        }
        let (payload, signal) = (work.bytes > 0, work.signal.is_some());
        if payload {
            line.lane.take(Work { tag: number, signal: None, ..*work }, copy, now + fate.land);
        }
        if signal {
            line.lane.take(Work { tag: number, bytes: 0, ..*work }, None, now + fate.signal);
        }
        let pending = unread || fate.tell > Duration::ZERO;
        #[cfg(test)]
        let unread = unread && planted != Some(tests::Planted::TellsUnread);
        let tell = pending.then_some(now + fate.tell);
        self.pieces.push_back(Piece {
            tag: work.tag,
            key: (work.context, work.peer),
            payload,
            signal,
            pending: 0,
            unread,
            tell,
            mark: 0,
        });
        Ok(if pending { Submitted::Pending } else { Submitted::Done })
    }

    fn flush(&mut self) -> Result<()> {
        self.honest.flush()
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let now = Instant::now();
        if self.paused.is_some_and(|until| now < until) {
            return Ok(false);
        }
        self.paused = self.policy.pause().map(|pause| now + pause);
        let mut moved = self.release(now, done)?;
        moved |= self.honest.progress(&mut self.ended)?;
        self.reap(done)?;
        Ok(self.tell(now, done) | moved)
    }

    fn landing(&self) -> Landing {
        Landing { taken: self.first + self.pieces.len() as u64, landed: self.first }
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        let mut left = BTreeMap::new();
        self.pieces.iter().for_each(|piece| *left.entry(piece.key.1).or_default() += 1);
        left.into_iter().collect()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.honest.descriptor()
    }

    fn arm(&mut self) -> Result<bool> {
        Ok(self.pieces.is_empty() && self.paused.is_none() && self.honest.arm()?)
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        let (end, mut done) = (Instant::now() + patience, Vec::new());
        while self.held() > 0 && Instant::now() < end {
            let now = Instant::now();
            self.lines.values_mut().for_each(|line| line.lane.press(now));
            let moved = self.release(now, &mut done)?;
            self.honest.flush()?;
            if !(self.honest.progress(&mut self.ended)? | moved) {
                std::thread::sleep(Duration::from_micros(50));
            }
            self.reap(&mut done)?;
        }
        if let Some(error) = done.into_iter().find_map(|(_, result)| result.err()) {
            return Err(error);
        }
        let left: Vec<_> = self.lines.iter().filter(|(_, line)| line.lane.len() > 0).map(|((_, peer), _)| *peer).collect();
        self.honest.close(end.saturating_duration_since(Instant::now()))?;
        match left[..] {
            [] => Ok(()),
            [peer, ..] => {
                let text =
                    format!("work to rank {peer} was not taken | {}, under {NAME} | fix: see why that rank stands still", {
                        self.honest.capabilities().name
                    });
                Err(Error { culprit: Some(peer), ..Error::new(Code::RemoteError, WRONG, text) })
            }
        }
    }

    fn abort(&mut self) {
        self.drop_all();
        self.honest.abort();
    }
}

#[cfg(test)]
mod tests;
