//! What one context has under way to one peer, and what of it may go next: the only rules that an adversary must keep.
//!
//! - A payload may go at any time, before or behind any other payload and any signal that was taken later or earlier; only a signal
//!   that was taken with it or after it may not go before it.
//! - Signals go in the order in which they were taken.
#![forbid(unsafe_code)]

use crate::transport::{Source, Work};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A payload or a signal that has not wholly gone. Its tag is the number of its piece.
pub(super) struct Held {
    pub work: Work,
    /// The payload as it was when it was taken.
    pub copy: Option<Copied>,
    /// Bytes that have gone.
    pub sent: u64,
    /// From then on it may go.
    pub due: Instant,
}

/// A payload beside its source.
pub(super) struct Copied {
    pub bytes: Vec<u8>,
    /// It goes from its end on.
    pub backward: bool,
    /// Between its halves.
    pub gap: Duration,
}

impl Held {
    /// What goes next of it: all, or a word of a copy, as large as it can be and aligned at its target, so that it lands whole.
    pub fn next(&self) -> Work {
        let Some(copy) = &self.copy else { return self.work };
        let (region, offset) = self.work.target;
        let left = self.work.bytes - self.sent;
        let edge = if copy.backward { left } else { self.sent };
        let bytes = 1u64 << (offset + edge).trailing_zeros().min(left.ilog2()).min(3);
        let from = if copy.backward { left - bytes } else { self.sent };
        let mut value = [0; 8];
        value[..bytes as usize].copy_from_slice(&copy.bytes[from as usize..][..bytes as usize]);
        Work { source: Source::Inline(u64::from_le_bytes(value)), bytes, target: (region, offset + from), ..self.work }
    }

    /// Notes that `work` has gone; true when that was the last of it.
    pub fn went(&mut self, work: &Work, now: Instant) -> bool {
        let half = self.work.bytes / 2;
        if let Some(copy) = self.copy.as_ref().filter(|_| self.sent < half && self.sent + work.bytes >= half) {
            self.due = now + copy.gap;
        }
        self.sent += work.bytes;
        self.sent == self.work.bytes
    }
}

/// Of one context and peer.
#[derive(Default)]
pub(super) struct Lane {
    /// In the order in which they were taken.
    payloads: Vec<Held>,
    signals: VecDeque<Held>,
    #[cfg(test)]
    pub planted: Option<super::tests::Planted>,
}

impl Lane {
    /// Payloads and signals that have not gone.
    pub fn len(&self) -> usize {
        self.payloads.len() + self.signals.len()
    }

    /// Takes what is due at `due` of the payload or signal `work`.
    pub fn take(&mut self, work: Work, copy: Option<Copied>, due: Instant) {
        let held = Held { work, copy, sent: 0, due };
        match work.signal {
            Some(_) => self.signals.push_back(held),
            None => self.payloads.push(held),
        }
    }

    /// All that is here may go now.
    pub fn press(&mut self, now: Instant) {
        self.payloads.iter_mut().chain(&mut self.signals).for_each(|held| held.due = held.due.min(now));
    }

    /// What goes next, if anything is due, until it has [gone](Self::gone).
    pub fn next(&mut self, now: Instant) -> Option<&mut Held> {
        let payload = self.place(now);
        match payload {
            Some(at) => Some(&mut self.payloads[at]),
            None => self.signals.front_mut().filter(|signal| signal.due <= now),
        }
    }

    /// The payload that goes next: the one that is due for longest, or one that a due signal waits for.
    fn place(&self, now: Instant) -> Option<usize> {
        let signal = self.signals.front().filter(|signal| signal.due <= now);
        let covered = |held: &Held| signal.is_some_and(|signal| self.covers(signal, held));
        let candidates = self.payloads.iter().enumerate().filter(|(_, held)| held.due <= now || covered(held));
        candidates.min_by_key(|(_, held)| held.due).map(|(at, _)| at)
    }

    /// `held` is a payload of `signal`'s own operation or of one before.
    fn covers(&self, signal: &Held, held: &Held) -> bool {
        #[cfg(test)]
        if let Some(planted) = self.planted {
            return planted.covers(signal.work.tag, held.work.tag);
        }
        held.work.tag <= signal.work.tag
    }

    /// What [`Self::next`] gave has wholly gone: it was of piece `piece`, and a payload or not.
    pub fn gone(&mut self, piece: u64, payload: bool) {
        if payload {
            self.payloads.retain(|held| held.work.tag != piece);
        } else {
            self.signals.pop_front();
        }
    }
}
