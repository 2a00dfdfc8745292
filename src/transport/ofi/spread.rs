//! A rank's links over sockets where GINRS_OFI_THREADS says that it has cores to spare: a hub for each stream, with objects of libfabric's of its own. While large puts
//! take most of the proxy's time, each hub that carries some is driven by a thread of its own (`helper`); all else is the proxy's, as
//! where there is one hub for all.
//!
//! Hubs share nothing, so FI_THREAD_DOMAIN holds: nobody but a hub's owner calls its objects. That is four registrations of a window in
//! place of one; over sockets they pin nothing. What is ordered, work of one context to one peer, goes through one hub.
#![forbid(unsafe_code)]

use super::factory::{Setup, Share};
use super::helper::{Helped, Hub};
use super::hub::{Link, Ofi, forget_wakeups, poll};
use super::provider::Info;
use super::wire::SMALL;
use super::{STREAMS, abort, leave};
use crate::config;
use crate::device::{Device, Kind};
use crate::error::Result;
use crate::log;
use crate::transport::{Capabilities, Completion, Landing, Part, Region, Submitted, Transport, Words, Work};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that takes longer has moved something large.
const LONG: Duration = Duration::from_micros(8);
/// After so many looks in vain a hub is looked at with every eighth only.
const COLD: u32 = 1024;
const COLD_EVERY: u32 = 8;

/// Whether a rank like that has threads of its own for large puts.
pub(super) fn is_wanted(info: &Info, setup: &Setup<'_>) -> bool {
    let traits = info.traits();
    // A card moves the bytes itself; for windows on a GPU its copy engine does, and one queue of copies is in order.
    if !traits.sockets || traits.rdm || !traits.writes || setup.device.kind() != Kind::Cpu {
        return false;
    }
    config::int("GINRS_OFI_THREADS") == 1
}

/// When hubs that have carried large puts are lent.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    /// If that much of the proxy's time, in per cent, has gone into them for so long.
    pub busy: u32,
    pub period: Duration,
    /// They come back when they have carried none for so long.
    pub quiet: Duration,
}

impl When {
    /// Far above what a thread takes to wake, far below what anybody waits for.
    pub const USUAL: Self = Self { busy: 50, period: Duration::from_millis(2), quiet: Duration::from_millis(4) };
}

/// Which part of the proxy's time goes into large puts.
struct Meter {
    /// Since when; None: nothing large moves, and nobody looks at a clock.
    since: Option<Instant>,
    busy: Duration,
    /// By stream, large puts up to then.
    large: [u64; STREAMS as usize],
}

impl Meter {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let Some(since) = self.since else { return call() };
        let begun = since.elapsed();
        let result = call();
        let took = since.elapsed() - begun;
        self.busy += if took > LONG { took } else { Duration::ZERO };
        result
    }
}

/// See the head of this file.
pub(super) struct Spread {
    /// By stream.
    hubs: Vec<Helped<Ofi>>,
    poll: Arc<OwnedFd>,
    wakes: bool,
    capabilities: Capabilities,
    when: When,
    meter: Meter,
    looks: u32,
    /// Pieces so far.
    taken: u64,
}

impl Spread {
    /// The rank's end, and words for its peers.
    pub fn new(setup: &Setup<'_>, info: impl Fn() -> Result<Info>, when: When) -> Result<(Self, Vec<u8>)> {
        let poll = Arc::new(poll()?);
        let made = (0..STREAMS).map(|stream| Ofi::open(info()?, setup, None, (Some(stream), &poll)));
        let (hubs, said): (Vec<Ofi>, Vec<Vec<u8>>) = made.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let wakes = hubs.iter().all(|hub| hub.descriptor().is_some());
        // What lies on the desk is read later.
        let capabilities = Capabilities { inline: 0, ..hubs[0].capabilities() };
        let hubs = hubs.into_iter().map(|hub| Helped::new(hub, when.quiet)).collect();
        let meter = Meter { since: None, busy: Duration::ZERO, large: [0; _] };
        Ok((Self { hubs, poll, wakes, capabilities, when, meter, looks: 0, taken: 0 }, said.concat()))
    }

    /// Calls all hubs, which come back for that.
    fn each(&mut self, call: impl FnMut(&mut Ofi) -> Result<()>) -> Result<()> {
        self.hubs.iter_mut().map(Helped::recall).collect::<Result<Vec<_>>>()?.into_iter().try_for_each(call)
    }

    /// Lends hubs that carry large puts, if it is time.
    fn lend(&mut self) -> Result<()> {
        let Self { hubs, meter, when, .. } = self;
        let passed = meter.since.map_or(Duration::ZERO, |since| since.elapsed());
        let counts = meter.since.is_some();
        if counts && passed < when.period {
            return Ok(());
        }
        let grown = |(hub, before): (&Helped<Ofi>, u64)| hub.large().is_some_and(|large| large > before);
        let any = hubs.iter().zip(meter.large).any(grown);
        if !any && !counts {
            return Ok(());
        }
        let is_busy = meter.busy >= passed * when.busy / 100 && (counts || when.busy == 0);
        for (hub, before) in hubs.iter_mut().zip(&mut meter.large) {
            let large = hub.large().unwrap_or(*before);
            if is_busy && large > *before {
                hub.lend()?;
            }
            *before = large;
        }
        (meter.since, meter.busy) = (any.then(Instant::now), Duration::ZERO);
        Ok(())
    }

    /// All that can be had.
    fn all(&mut self) -> Vec<&mut Ofi> {
        let recalled = self.hubs.iter_mut().map(Helped::recall);
        recalled.filter_map(|hub| hub.inspect_err(log::error).ok()).collect()
    }
}

impl Transport for Spread {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn connect(&mut self, device: &dyn Device, share: &dyn Share, peers: &Arc<Vec<Words>>) -> Result<()> {
        self.each(|hub| hub.connect(device, share, peers))
    }

    fn prepare(&mut self, part: &Part<'_>) -> Result<Vec<u8>> {
        let mut said = Vec::new();
        self.each(|hub| {
            said.extend(hub.prepare(part)?);
            Ok(())
        })?;
        Ok(said)
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.each(|hub| hub.register(region))
    }

    fn deregister(&mut self, region: u32) {
        self.all().into_iter().for_each(|hub| hub.deregister(region));
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        let hub = &mut self.hubs[(work.context % STREAMS) as usize];
        let submitted = match work.bytes > SMALL {
            true => self.meter.time(|| hub.submit(work, self.taken)),
            false => hub.submit(work, self.taken),
        }?;
        self.taken += u64::from(submitted != Submitted::Full);
        Ok(submitted)
    }

    fn flush(&mut self) -> Result<()> {
        self.hubs.iter_mut().filter_map(Helped::here).try_for_each(Transport::flush)
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        self.looks = self.looks.wrapping_add(1);
        let all = self.looks.is_multiple_of(COLD_EVERY);
        let mut moved = false;
        for hub in self.hubs.iter_mut().filter(|hub| all || !hub.is_quiet(COLD)) {
            moved |= self.meter.time(|| hub.progress(done))?;
        }
        self.lend()?;
        Ok(moved)
    }

    fn landing(&self) -> Landing {
        let landed = self.hubs.iter().filter_map(Helped::oldest).min().unwrap_or(self.taken);
        if landed < self.taken {
            self.hubs.iter().for_each(Helped::ask);
        }
        Landing { taken: self.taken, landed }
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        self.hubs.iter().flat_map(Helped::unlanded).collect()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wakes.then(|| self.poll.as_fd())
    }

    fn arm(&mut self) -> Result<bool> {
        forget_wakeups(&self.poll);
        for hub in &mut self.hubs {
            if !hub.is_still(Ofi::is_still)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        leave(self, patience, Self::all)
    }

    fn abort(&mut self) {
        abort(self.all());
        self.hubs.iter_mut().for_each(Helped::forget);
    }
}

impl Hub for Ofi {
    fn offer(&mut self, work: &Work, piece: u64) -> Result<Submitted> {
        self.taken = piece;
        self.submit(work)
    }

    fn oldest(&self) -> Option<u64> {
        self.oldest()
    }

    fn ask(&self) {
        self.asked.set(true);
    }

    fn large(&self) -> u64 {
        self.large
    }

    fn waits_for(&self, peer: u32, stream: u32) -> bool {
        let link = self.dialled[peer as usize][stream as usize].checked_sub(1);
        link.is_some_and(|link| matches!(&self.links[link as usize], Link::To(to) if to.waits_for_peer()))
    }
}
