//! Collective steps: every rank's bytes to every rank in ceil(log2 p) rounds, for p processes.
//!
//! The ranks of a process bring their blocks to its mailbox; the last one exchanges them with the other processes, and all read what it
//! has brought: so a process sends and stores everything once, however many ranks it has.
//!
//! Between processes, Bruck's scheme: after round k a process holds the blocks of the 2^k processes from itself on. In round k it sends
//! what it holds to the one 2^k before it and gets as much from the one 2^k behind it. Each block carries the name of the step that its
//! rank believes it is in; so when ranks are in different steps, all of them finish the rounds and all can name the one that differs.
#![forbid(unsafe_code)]

use super::Bootstrap;
use super::address::or_system;
use super::gathered::Gathered;
use super::gone::{Fate, gone};
use super::mailbox::Outcome;
use super::missing;
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
    pub fn allgather(&self, what: &str, mine: &[u8]) -> Result<Gathered> {
        self.allgather_within(config::seconds("GINRS_TIMEOUT"), what, mine)
    }

    /// The same, with an end of its own in place of GINRS_TIMEOUT.
    pub(super) fn allgather_within(&self, patience: Duration, what: &str, mine: &[u8]) -> Result<Gathered> {
        self.own_process()?;
        let mut turn = self.turn.lock();
        let what = &what[..what.floor_char_boundary(MAX_WHAT)];
        if self.n_ranks == 1 {
            return Ok(Gathered::new(vec![mine.into()]));
        }
        self.alive()?;
        *turn = turn.wrapping_add(1);
        let now = Instant::now();
        let warn_every = config::seconds("GINRS_WAIT_WARN");
        let mut step = Step { bootstrap: self, what, seq: *turn, start: now, patience, warn_every, next_warn: now + warn_every };
        self.place.enter(step.seq, what);
        let planted = or_system("a round of an exchange fails", fault::step(what));
        let outcome = planted.and_then(|()| step.gather(Block { what: what.into(), data: mine.into() }));
        self.place.leave();
        outcome.inspect_err(|error| self.port.fail(self.rank, error))?
    }

    /// Returns when every rank has come to it. Errors as [`Bootstrap::allgather`].
    pub fn barrier(&self, what: &str) -> Result<()> {
        self.allgather(what, &[]).map(drop)
    }
}

impl Step<'_> {
    fn gather(&mut self, own: Block) -> Result<Outcome> {
        let (port, rank) = (&self.bootstrap.port, self.bootstrap.rank);
        let parts = port.mailbox.lock().bring(self.seq, rank, own, port.circle().here().len());
        if let Some(parts) = parts {
            let held = self.rounds(parts)?;
            port.tally.lock().exchanges += 1;
            port.mailbox.publish(self.seq, in_order(self.bootstrap, held));
        }
        self.outcome()
    }

    /// What the last rank here has brought.
    fn outcome(&mut self) -> Result<Outcome> {
        let port = &self.bootstrap.port;
        loop {
            let mut inbox = port.mailbox.lock();
            if let Some(outcome) = inbox.outcome(self.seq) {
                return Ok(outcome);
            }
            self.bootstrap.alive()?;
            // While nobody has gone there is nobody to look for: each of the ranks here comes by, and would look at all others.
            let mut to_come = port.circle().here().iter().filter(|&&rank| !inbox.has_come(self.seq, rank));
            let has_gone = port.somebody_has_gone().then(|| to_come.find_map(|&rank| Some((rank, port.fate(rank)?))));
            if let Some((rank, fate)) = has_gone.flatten() {
                drop(inbox);
                return Err(gone(port, rank, fate, self.what));
            }
            port.mailbox.wait_for_outcome(&mut inbox, self.next_look());
            drop(inbox);
            self.on_time(None)?;
        }
    }

    /// All blocks, in the order of the circle.
    fn rounds(&mut self, own: Vec<Block>) -> Result<Vec<Block>> {
        let circle = self.bootstrap.port.circle();
        let (n, mut held) = (circle.len(), own);
        for round in 0..32 - (n - 1).leading_zeros() {
            let distance = 1 << round;
            let count = distance.min(n - distance);
            self.send(circle.at(circle.behind(n - distance))[0], round as u8, &held[..circle.ranks_of(circle.behind(0), count)])?;
            let process = circle.behind(distance);
            let (from, count) = (circle.at(process)[0], circle.ranks_of(process, count));
            let message = self.receive(process, round as u8)?;
            if message.from != from || message.blocks.len() != count {
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

    /// To the process of rank `to`.
    fn send(&self, to: u32, round: u8, blocks: &[Block]) -> Result<()> {
        let port = &self.bootstrap.port;
        {
            let mut tally = port.tally.lock();
            tally.messages += 1;
            tally.bytes += blocks.iter().map(|block| block.data.len() as u64).sum::<u64>();
        }
        let from = port.circle().here()[0];
        let bytes = Frame::Blocks(Blocks { from, seq: self.seq, round, blocks: blocks.to_vec() }).encode();
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

    fn receive(&mut self, process: u32, round: u8) -> Result<Blocks> {
        let port = &self.bootstrap.port;
        let ranks = port.circle().at(process);
        loop {
            let mut inbox = port.mailbox.lock();
            // What has arrived counts, even if its sender is gone by now: a sender that leaves has put its last message in before, and
            // one that fails has said so before it leaves. So it is looked at first, and its end under the same lock.
            if let Some(message) = inbox.take(self.seq, round) {
                return Ok(message);
            }
            let fate = ranks.iter().find_map(|&rank| Some((rank, port.fate(rank)?)));
            self.bootstrap.alive()?;
            if let Some((rank, fate)) = fate {
                drop(inbox);
                return Err(gone(port, rank, fate, self.what));
            }
            port.mailbox.wait_for_message(&mut inbox, self.next_look());
            drop(inbox);
            self.on_time(Some(ranks[0]))?;
        }
    }

    fn end(&self) -> Instant {
        self.start + self.patience
    }

    /// When it is time to say something, if nothing happens.
    fn next_look(&self) -> Instant {
        if self.warn_every.is_zero() { self.end() } else { self.end().min(self.next_warn) }
    }

    /// Says who is missing when it is time to; the error when it is too late. `from`: whose message is waited for.
    fn on_time(&mut self, from: Option<u32>) -> Result<()> {
        let (now, end) = (Instant::now(), self.end());
        let (late, slow) = (now >= end, !self.warn_every.is_zero() && now >= self.next_warn);
        if !late && !slow {
            return Ok(());
        }
        if !late && !self.bootstrap.port.may_warn(self.warn_every) {
            self.next_warn = now + self.warn_every;
            return Ok(());
        }
        let waited = self.start.elapsed().as_secs();
        let missing = missing::find(&self.bootstrap.port, self.seq, if late { missing::ERROR } else { missing::LINE });
        // Meanwhile another rank may have come to its own deadline, and left.
        self.bootstrap.alive()?;
        let here = self.bootstrap.n_ranks as usize - missing.len().min(self.bootstrap.n_ranks as usize);
        let list = match missing.as_slice() {
            [] => from.map_or("all have arrived".into(), |from| {
                format!("all have arrived, but nothing has come from {}", self.bootstrap.port.name(from))
            }),
            missing => format!("missing: {}", missing::list(missing)),
        };
        let text = format!(
            "{} | {}, rank {} | {here}/{} ranks arrived after {waited} s; {list}",
            self.what,
            self.bootstrap.port.tag(),
            self.bootstrap.rank,
            self.bootstrap.n_ranks
        );
        const FIX: &str = "fix: make the same calls in the same order on every rank; look at the output of the missing";
        if late {
            let culprit = missing.first().map(|missing| missing.rank).or(from);
            let text = format!("a collective step was not done in time: {text} | {FIX}, or raise GINRS_TIMEOUT");
            return Err(Error { culprit, ..Error::new(Code::RemoteError, 17, text) });
        }
        warn!("GINRS-W017 waiting in a collective step: {text} | {FIX}");
        self.next_warn = now + self.warn_every;
        Ok(())
    }
}

/// What the blocks, in the order of the circle, say by rank; E016 where they do not name one step. Every process has all of them, so all
/// come to the same verdict.
fn in_order(bootstrap: &Bootstrap, held: Vec<Block>) -> Outcome {
    let mut blocks = vec![None; held.len()];
    for (rank, block) in bootstrap.port.circle().around().zip(held) {
        blocks[rank as usize] = Some(block);
    }
    let blocks: Vec<Block> = blocks.into_iter().map(|block| block.expect("the circle has every rank")).collect();
    same_step(bootstrap, &blocks)?;
    Ok(Gathered::new(blocks.into_iter().map(|block| block.data).collect()))
}

fn same_step(bootstrap: &Bootstrap, blocks: &[Block]) -> Result<()> {
    if blocks.iter().all(|block| block.what == blocks[0].what) {
        return Ok(());
    }
    let mut steps: BTreeMap<&Arc<str>, Vec<u32>> = BTreeMap::new();
    for (rank, block) in (0..).zip(blocks) {
        steps.entry(&block.what).or_default().push(rank);
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
