//! Collective steps: every rank's bytes to every rank in ceil(log2 n) rounds.
//!
//! Bruck's scheme: after round k a rank holds the blocks of the 2^k ranks from itself on. In round k it sends what it holds
//! to rank - 2^k and gets as much from rank + 2^k. Each block carries the name of the step that its rank believes it is in;
//! so when ranks are in different steps, all of them finish the rounds and all of them can name the one that differs.
#![forbid(unsafe_code)]

use super::Bootstrap;
use super::address::or_system;
use super::missing;
use super::port::{Fate, gone};
use super::wire::{Block, Blocks, Frame, MAX_FRAME, MAX_WHAT};
use crate::error::{Code, Error, Result};
use crate::{bail, config, fault, warn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One step under way.
struct Step<'a> {
    bootstrap: &'a Bootstrap,
    what: &'a str,
    seq: u32,
    start: Instant,
    patience: Duration,
    warn_every: Duration,
    next_warn: Instant,
}

impl Bootstrap {
    /// Gives every rank's bytes to every rank, by rank. All ranks must be in the step `what`; when one is in another, all get an error
    /// (E016) that names it. Ends with an error after GINRS_TIMEOUT seconds (E017 names who is missing), when a rank has left or died,
    /// when the communicator has failed, and when the attached abort is raised.
    pub fn allgather(&self, what: &str, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.own_process()?;
        let mut turn = self.turn.lock();
        let what = &what[..what.floor_char_boundary(MAX_WHAT)];
        let block = Block { what: what.into(), data: mine.into() };
        if self.n_ranks == 1 {
            return Ok(vec![mine.to_vec()]);
        }
        self.alive()?;
        *turn = turn.wrapping_add(1);
        self.tally.lock().exchanges += 1;
        let now = Instant::now();
        let warn_every = config::seconds("GINRS_WAIT_WARN");
        let patience = config::seconds("GINRS_TIMEOUT");
        let mut step = Step { bootstrap: self, what, seq: *turn, start: now, patience, warn_every, next_warn: now + warn_every };
        self.mailbox.enter(step.seq, what);
        let planted = or_system("a round of an exchange fails", fault::step(what));
        let gathered = planted.and_then(|()| step.rounds(block));
        self.mailbox.leave();
        let held = gathered.inspect_err(|error| self.port.fail(self.rank, error))?;
        same_step(self, &held)?;
        let n = held.len();
        // held[i] is of rank + i.
        Ok((0..n).map(|rank| held[(rank + n - self.rank as usize) % n].data.to_vec()).collect())
    }

    /// Returns when every rank has come to it. Errors as [`Bootstrap::allgather`].
    pub fn barrier(&self, what: &str) -> Result<()> {
        self.allgather(what, &[]).map(drop)
    }
}

impl Step<'_> {
    fn rounds(&mut self, own: Block) -> Result<Vec<Block>> {
        let (rank, n) = (self.bootstrap.rank, self.bootstrap.n_ranks);
        let mut held = vec![own];
        for round in 0..32 - (n - 1).leading_zeros() {
            let distance = 1 << round;
            let count = distance.min(n - distance);
            let to = (rank + n - distance) % n;
            let blocks = held[..count as usize].to_vec();
            self.send(Blocks { from: rank, to, seq: self.seq, round: round as u8, blocks })?;
            let from = (rank + distance) % n;
            let message = self.receive(from, round as u8)?;
            if message.from != from || message.blocks.len() != count as usize {
                bail!(
                    RemoteError,
                    18,
                    "a message of an exchange is wrong | {}, \"{}\" round {round} | from rank {} with {} blocks, not rank {from} with {count} | fix: load the same libginrs on every rank",
                    self.bootstrap.port.tag(),
                    self.what,
                    message.from,
                    message.blocks.len()
                );
            }
            held.extend(message.blocks);
        }
        Ok(held)
    }

    fn send(&self, message: Blocks) -> Result<()> {
        let port = &self.bootstrap.port;
        let to = message.to;
        {
            let mut tally = self.bootstrap.tally.lock();
            tally.messages += 1;
            tally.bytes += message.blocks.iter().map(|block| block.data.len() as u64).sum::<u64>();
        }
        if port.is_here(to) {
            if let Some(mailbox) = port.seat(to) {
                mailbox.put(message);
                return Ok(());
            }
            self.bootstrap.alive()?;
            return Err(gone(port, to, Fate::Left, self.what));
        }
        let bytes = Frame::Blocks(message).encode();
        if bytes.len() > MAX_FRAME {
            bail!(
                InvalidArgument,
                18,
                "an exchange is too large | {}, \"{}\" | a message of {} bytes, at most {MAX_FRAME} | fix: report this",
                port.tag(),
                self.what,
                bytes.len()
            );
        }
        let link = self.bootstrap.link_to(to, self.what, self.start + self.patience)?;
        if link.send_bytes(bytes.into(), None) {
            return Ok(());
        }
        let fate = port.fate(to);
        self.bootstrap.alive()?;
        Err(gone(port, to, fate.unwrap_or(Fate::Lost), self.what))
    }

    fn receive(&mut self, from: u32, round: u8) -> Result<Blocks> {
        let bootstrap = self.bootstrap;
        let (mailbox, end) = (&bootstrap.mailbox, self.start + self.patience);
        loop {
            let mut inbox = mailbox.lock();
            // What has arrived counts, even if its sender is gone by now: a sender that leaves has put its last message in before, and
            // one that fails has said so before it leaves. So its end is looked at first, and all of it under the lock.
            let fate = bootstrap.port.fate(from);
            if let Some(message) = inbox.take(self.seq, round) {
                return Ok(message);
            }
            bootstrap.alive()?;
            if let Some(fate) = fate {
                drop(inbox);
                return Err(gone(&bootstrap.port, from, fate, self.what));
            }
            mailbox.wait(&mut inbox, if self.warn_every.is_zero() { end } else { end.min(self.next_warn) });
            drop(inbox);
            self.on_time(from, end)?;
        }
    }

    /// Says who is missing when it is time to; the error when it is too late.
    fn on_time(&mut self, from: u32, end: Instant) -> Result<()> {
        let now = Instant::now();
        let (late, slow) = (now >= end, !self.warn_every.is_zero() && now >= self.next_warn);
        if !late && !slow {
            return Ok(());
        }
        if !late && !self.bootstrap.port.may_warn(self.warn_every) {
            self.next_warn = now + self.warn_every;
            return Ok(());
        }
        let missing = missing::find(&self.bootstrap.port, self.seq);
        // Meanwhile another rank may have come to its own deadline, and left.
        self.bootstrap.alive()?;
        let here = self.bootstrap.n_ranks as usize - missing.len().min(self.bootstrap.n_ranks as usize);
        let list = match missing.as_slice() {
            [] => format!("all have arrived, but nothing has come from {}", self.bootstrap.port.name(from)),
            missing => format!("missing: {}", missing::list(missing)),
        };
        let text = format!(
            "{} | {}, rank {} | {here}/{} ranks arrived after {} s; {list}",
            self.what,
            self.bootstrap.port.tag(),
            self.bootstrap.rank,
            self.bootstrap.n_ranks,
            self.start.elapsed().as_secs()
        );
        const FIX: &str = "fix: make the same calls in the same order on every rank; look at the output of the missing";
        if late {
            let culprit = missing.first().map_or(from, |missing| missing.rank);
            let text = format!("a collective step was not done in time: {text} | {FIX}, or raise GINRS_TIMEOUT");
            return Err(Error::new(Code::RemoteError, 17, text).by(culprit));
        }
        warn!("GINRS-W017 waiting in a collective step: {text} | {FIX}");
        self.next_warn = now + self.warn_every;
        Ok(())
    }
}

/// Ok when all blocks name one step. Every rank has all of them, so all come to the same verdict.
fn same_step(bootstrap: &Bootstrap, held: &[Block]) -> Result<()> {
    if held.iter().all(|block| block.what == held[0].what) {
        return Ok(());
    }
    let n = held.len();
    let mut steps: BTreeMap<&Arc<str>, Vec<u32>> = BTreeMap::new();
    for rank in 0..n {
        let block = &held[(rank + n - bootstrap.rank as usize) % n];
        steps.entry(&block.what).or_default().push(rank as u32);
    }
    // Most ranks are right; where it is a tie, those with the lowest rank.
    let usual = steps.iter().max_by_key(|(_, ranks)| (ranks.len(), std::cmp::Reverse(ranks[0]))).map(|(what, _)| (*what).clone());
    let usual = usual.expect("there are ranks");
    let odd: Vec<(u32, &str)> = steps
        .iter()
        .filter(|(what, _)| ***what != usual)
        .flat_map(|(what, ranks)| ranks.iter().map(|rank| (*rank, &***what)))
        .collect();
    let culprit = odd.iter().map(|(rank, _)| *rank).min().expect("steps differ");
    let named: Vec<String> =
        odd.iter().take(8).map(|(rank, what)| format!("{} is in \"{what}\"", bootstrap.port.name(*rank))).collect();
    let more = if odd.len() > 8 { format!(" and {} more", odd.len() - 8) } else { String::new() };
    let text = format!(
        "ranks are in different steps | {} | {}{more}; the others are in \"{usual}\" | fix: make the same collective calls in the same order on every rank",
        bootstrap.port.tag(),
        named.join(", ")
    );
    Err(Error::new(Code::InvalidUsage, 16, text).by(culprit))
}
