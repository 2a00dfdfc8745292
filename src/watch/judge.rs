//! What a communicator's watch sees of ranks that have left and of those that wait, for [`super::left`].
#![forbid(unsafe_code)]

use super::calls::{Called, Calls};
use super::group::Group;
use super::left::{Here, Lack, Leaver, Scene};
use super::page::Membership;
use crate::abort::{Abort, Waiting};
use crate::bootstrap::Address;
use crate::config;
use crate::device::cpu::waits::Wait;
use crate::hint;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

impl Group {
    /// Ends what waits for ranks that have left; `waits` are all of this process. Time counts only while no process that is still there
    /// stands still; `stopped`: for how long one has.
    pub(super) fn judge(&self, elapsed: Duration, waits: &[Wait], stopped: impl Fn(Address) -> Option<Duration>) {
        if self.is_over() {
            return;
        }
        let ended = self.ended.lock().clone();
        let mut scene = Scene { elapsed, left: BTreeMap::new(), moves: 0, here: Vec::new() };
        for (&rank, page) in &*self.pages.lock() {
            let Some(entry) = self.port.table().get(rank as usize) else { continue };
            if page.membership() == Membership::Leaving {
                scene.left.insert(rank, Leaver { name: self.port.name(rank), ended: ended.contains(&entry.address) });
                continue;
            }
            let (device, steps) = page.moves();
            scene.moves = scene.moves.wrapping_add(device).wrapping_add(u64::from(steps) << 32);
            if stopped(entry.address).is_some() {
                scene.elapsed = Duration::ZERO;
            }
        }
        self.judge_far(&mut scene, &ended, stopped);
        let called = scene.left.keys().map(|&rank| (rank, self.called(rank))).collect();
        let mut aborts = HashMap::new();
        for (&rank, member) in &*self.members.lock() {
            if let Some(abort) = member.abort.upgrade().filter(|abort| !abort.is_raised()) {
                let lack = lack(rank, &member.calls, &abort, member.wait, waits, &called);
                aborts.insert(rank, abort);
                scene.here.push(Here { rank, wait: member.wait, running: member.signs.running(), lack });
            }
        }
        let found = self.vigil.lock().look(&scene, config::seconds("GINRS_TIMEOUT"), &self.port.tag());
        if let Some((rank, error)) = found
            && let Some(abort) = aborts.get(&rank)
        {
            abort.raise(self.with_waits(rank, error));
        }
    }

    /// What other machines add to the scene, and they are told.
    fn judge_far(&self, scene: &mut Scene, ended: &HashSet<Address>, stopped: impl Fn(Address) -> Option<Duration>) {
        let Some(far) = self.far() else { return };
        if far.somebody_is_ill() {
            scene.elapsed = Duration::ZERO;
        }
        let mut beats = far.beats.lock();
        if std::mem::replace(&mut *self.moves.lock(), scene.moves) != scene.moves {
            beats.moved(Instant::now());
        }
        scene.moves = scene.moves.wrapping_add(beats.moves);
        let table = self.port.table();
        let of = |rank: &u32| (*rank, table[*rank as usize].address);
        let near = &far.machines.at(far.machines.own()).ranks;
        let first = near.iter().filter(|&&rank| far.machines.first_beside(rank) == rank).map(of);
        beats.stopped = first.filter_map(|(rank, address)| Some((rank, stopped(address)?))).collect();
        let left: Vec<u32> = beats.left().filter(|&rank| far.machines.is_far(rank)).collect();
        drop(beats);
        for (rank, address) in left.iter().map(of) {
            scene.left.insert(rank, Leaver { name: self.port.name(rank), ended: ended.contains(&address) });
        }
    }

    /// What the ranks that have left were sent by `rank`, which leaves, or it by them, and nobody received. Of two that leave at once each may
    /// be told; of ranks on other machines what has been heard.
    pub(super) fn tell_unreceived(&self, rank: u32) {
        let own = self.called(rank);
        for other in (0..self.port.table().len() as u32).filter(|&other| other != rank && self.says_leaving(other)) {
            let theirs = self.called(other);
            let both = own.unreceived(rank, other, &theirs).into_iter().chain(theirs.unreceived(other, rank, &own));
            both.for_each(|lost| {
                let tag = self.port.tag();
                hint!("GINRS-W025 {lost} | {tag} | fix: call ncclRecv for each ncclSend: with NCCL a send may wait for it without end");
            });
        }
    }

    /// What `rank`, which has left, had called by then.
    fn called(&self, rank: u32) -> Called {
        Called::decode(&match self.far().filter(|far| far.machines.is_far(rank)) {
            Some(far) => far.called.lock().get(&rank).cloned().unwrap_or_default(),
            None => self.page(rank).and_then(|page| page.called()).unwrap_or_default(),
        })
    }
}

/// Which call of a rank that has left a kernel of `rank` waits for in vain. A kernel of the CPU device says which launch it is of; of a
/// GPU's it is known that it is none behind the newest.
fn lack(
    rank: u32,
    calls: &Calls,
    abort: &Abort,
    note: Option<Waiting>,
    waits: &[Wait],
    left: &BTreeMap<u32, Called>,
) -> Option<Lack> {
    if left.is_empty() {
        return None;
    }
    let mut own = waits.iter().filter(|wait| wait.owner == abort.host_address() && wait.launch != 0).peekable();
    if own.peek().is_none() {
        let note = note.filter(|note| note.is_own())?;
        let (absent, text) = calls.lack(None, rank, note.rank(), left)?;
        return Some(Lack { absent, call: note.to_string(), text, since: None });
    }
    own.find_map(|wait| {
        let (absent, text) = calls.lack(Some(wait.launch), rank, Waiting::of(wait.note).rank(), left)?;
        Some(Lack { absent, call: wait.name.clone().unwrap_or_default(), text, since: Some(wait.lasts) })
    })
}
