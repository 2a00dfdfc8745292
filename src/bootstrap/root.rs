//! The meeting point of one communicator: counts its ranks in, gives each process the table of all, and ends. When the ranks do not
//! fit together it tells every one of them why, with the rank named that differs. Runs on the service thread.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::{self, Hello, Key, Secret};
use super::deaths;
use super::id::UniqueId;
use super::link::Link;
use super::route::{Doors, Route};
use super::wire::{Endpoint, Frame};
use crate::config;
use crate::error::{Code, Error};
use crate::info;
use crate::text::listed;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the secret of the first ranks follows from.
pub const FIRST_RANKS: &str = "first ranks";
/// Most ranks of a communicator.
pub const MAX_RANKS: u32 = 1 << 20;
/// After the first contradiction: time for others to arrive, so that the one who differs from most can be named.
const HEARING: Duration = Duration::from_millis(150);
/// How often waiting ranks hear who is missing.
const REPORT: Duration = Duration::from_secs(1);
/// Who cannot join may call again, with arguments that can be; until then.
const SECOND_THOUGHTS: Duration = Duration::from_secs(1);
/// How many missing ranks are listed.
const LISTED: usize = 16;

struct Member {
    rank: u32,
    n_ranks: u32,
    route: Route,
    link: Arc<Link>,
}

enum Phase {
    Gathering,
    /// The ranks contradict each other; the verdict falls then.
    Hearing(Instant),
    /// Who comes now hears the same. Until then.
    Failed(Box<Error>, Instant),
    Complete,
}

/// See the module.
pub struct Root {
    /// The process that it is in.
    own: Address,
    doors: Doors,
    /// Under NCCL_COMM_ID, which another job may have, too.
    fixed: bool,
    key: Key,
    secret: Secret,
    tag: String,
    members: Vec<Member>,
    seen: BTreeSet<u32>,
    /// Ranks that will not come any more: they have been here, or said that they cannot, or have ended.
    done: BTreeSet<u32>,
    /// As many ranks as anybody has said that there are; 0: nobody yet.
    expected: u32,
    phase: Phase,
    patience: Duration,
    first: Option<Instant>,
    told: Option<Instant>,
    unauthenticated: u32,
    declined: Option<Declined>,
    /// Process and rank of one that called again. A root hears its own process's word twice, the second time over a socket and perhaps
    /// behind that call.
    overruled: Option<(Address, u32)>,
}

/// A rank that said that it cannot join.
struct Declined {
    at: Instant,
    from: Address,
    rank: u32,
    error: Error,
}

impl Root {
    /// Waits for the first rank for as long as the process lives.
    pub fn new(id: &UniqueId, own: Address) -> Self {
        Self {
            own,
            doors: id.root().doors,
            fixed: id.is_fixed(),
            key: id.key(),
            secret: id.secret(),
            tag: format!("comm 0x{:016x}", id.comm_hash()),
            members: Vec::new(),
            seen: BTreeSet::new(),
            done: BTreeSet::new(),
            expected: 0,
            phase: Phase::Gathering,
            patience: config::seconds("GINRS_INIT_TIMEOUT"),
            // Ranks that make an id for themselves are on their way. One of ncclGetUniqueId may be used at any time.
            first: id.root_may_be_late().then(Instant::now),
            told: None,
            unauthenticated: 0,
            declined: None,
            overruled: None,
        }
    }

    /// Under another name, where it has one here.
    pub fn named(self, name: Option<String>) -> Self {
        Self { tag: name.unwrap_or(self.tag), ..self }
    }

    /// The meeting point of the first ranks of the blocks that this root serves the first one of.
    pub fn of_first_ranks(&self) -> Self {
        let route = Route { address: self.own, machine: 0, doors: Doors::default() };
        Self::new(&UniqueId::derived(route, &auth::derive(&self.secret, FIRST_RANKS)), self.own)
    }

    /// Which communicator's.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Where it is met, under NCCL_COMM_ID.
    pub fn doors(&self) -> &Doors {
        &self.doors
    }

    /// What its ranks prove.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Some ranks are here, and wait for others.
    pub fn is_joining(&self) -> bool {
        self.first.is_some() && matches!(self.phase, Phase::Gathering | Phase::Hearing(_))
    }

    /// Somebody came and could not prove the secret.
    pub fn turned_away(&mut self) {
        self.unauthenticated += 1;
    }

    /// A rank has proved itself, and knows that it has.
    pub fn admit(&mut self, hello: &Hello, link: Arc<Link>) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        let refused = match &self.phase {
            Phase::Failed(error, _) => Some((**error).clone()),
            Phase::Complete => Some(full(&self.tag, hello.rank)),
            Phase::Gathering | Phase::Hearing(_) => None,
        };
        self.expected = self.expected.max(hello.n_ranks);
        self.done.insert(hello.rank);
        if let Some(reason) = refused {
            link.send(&Frame::Refused(reason));
            return link.finish();
        }
        let called_again = |declined: &Declined| {
            declined.from == hello.route.address && (declined.rank == hello.rank || declined.rank >= hello.n_ranks)
        };
        if self.declined.as_ref().is_some_and(called_again) {
            self.overruled = self.declined.take().map(|declined| (declined.from, declined.rank));
        }
        // The least patient rank decides: when it gives up, the communicator cannot be made.
        self.patience = self.patience.min(Duration::from_secs(hello.patience.into()));
        let twice = !self.seen.insert(hello.rank);
        self.members.push(Member { rank: hello.rank, n_ranks: hello.n_ranks, route: hello.route, link });
        let first = self.members[0].n_ranks;
        let fits = hello.n_ranks == first && (1..=MAX_RANKS).contains(&first) && hello.rank < first && !twice;
        match self.phase {
            Phase::Gathering if !fits => self.phase = Phase::Hearing(now + HEARING),
            Phase::Gathering if self.members.len() == first as usize => self.complete(),
            _ => {}
        }
    }

    /// A rank's connection has closed. What it claimed counts, where it contradicts others: they hear of that.
    pub fn member_closed(&mut self, link: &Arc<Link>) {
        let Some(at) = self.members.iter().position(|member| Arc::ptr_eq(&member.link, link)) else { return };
        if matches!(self.phase, Phase::Gathering) {
            let gone = self.members.swap_remove(at);
            let peer = gone.link.peer();
            let text = format!(
                "rank {} ({peer}) is gone | {} | its process closed its connection while {} others were joining{} | fix: look at the output of rank {}",
                gone.rank,
                self.tag,
                self.members.len(),
                if peer.from.is_none() { crate::peer_process::how_ended(peer.pid) } else { String::new() },
                gone.rank
            );
            self.fail(Error::new(Code::RemoteError, 40, text).by(gone.rank));
        }
    }

    /// What a rank of process `from` says on `link` before it closes that: one that has joined, what ends this for all, by its name; any other,
    /// that it cannot join.
    pub fn told(&mut self, link: &Arc<Link>, from: Address, rank: u32, why: Error) {
        match self.members.iter().any(|member| Arc::ptr_eq(&member.link, link)) {
            true => self.give_up(0, &why),
            false => self.decline(from, &link.peer().to_string(), rank, why),
        }
    }

    /// A rank of process `from`, which `whom` describes, cannot join. The others are told, unless it calls again soon.
    pub fn decline(&mut self, from: Address, whom: &str, rank: u32, error: Error) {
        let named = format!("rank {} ({whom}) cannot join", rank as i32);
        let text = if error.text.starts_with(&named) { error.text } else { format!("{named}: {}", error.text) };
        let error = Error { code: Code::RemoteError, text, culprit: Some(rank), ..error };
        // This process may be about to end, and the root with it.
        let at = if from == self.own { Instant::now() - SECOND_THOUGHTS } else { Instant::now() };
        if self.overruled == Some((from, rank)) {
            return;
        }
        self.done.insert(rank);
        self.declined.get_or_insert(Declined { at, from, rank, error });
    }

    /// When the others hear of it, if somebody waits.
    fn decline_due(&self) -> Option<Instant> {
        self.declined.as_ref().filter(|_| !self.members.is_empty()).map(|declined| declined.at + SECOND_THOUGHTS)
    }

    /// Those who were to meet here have heard elsewhere that they will not; one may be on its way all the same.
    pub fn withdraw(&mut self, error: &Error) {
        self.patience = self.patience.min(SECOND_THOUGHTS);
        self.give_up(0, error);
    }

    /// The communicator cannot be made: a rank cannot come, or nobody can. `n_ranks` where it is known, else 0.
    pub fn give_up(&mut self, n_ranks: u32, error: &Error) {
        if matches!(self.phase, Phase::Gathering) {
            self.expected = self.expected.max(n_ranks);
            self.fail(error.clone());
        }
    }

    fn complete(&mut self) {
        self.members.sort_by_key(|member| member.rank);
        let endpoint = |member: &Member| Endpoint::new(member.route, member.link.peer().pid);
        let table: Arc<[u8]> = Frame::Table(self.members.iter().map(endpoint).collect()).encode().into();
        let mut readers = HashMap::new();
        for member in self.members.drain(..) {
            match *readers.entry(member.route.address).or_insert(member.rank) {
                reader if reader == member.rank => member.link.send_bytes(table.clone(), None),
                reader => member.link.send(&Frame::Met { reader }),
            };
            member.link.finish();
        }
        self.phase = Phase::Complete;
    }

    fn fail(&mut self, error: Error) {
        info!(BOOTSTRAP, "{error}");
        self.done.extend(error.culprit);
        let frame: Arc<[u8]> = Frame::Refused(error.clone()).encode().into();
        // Those of this process last: it may end as soon as they know, and whoever has not been told by then hears that the root has ended.
        self.members.sort_by_key(|member| member.route.address == self.own);
        for member in self.members.drain(..) {
            member.link.send_bytes(frame.clone(), None);
            member.link.finish();
        }
        self.phase = Phase::Failed(Box::new(error), Instant::now() + self.patience);
    }

    /// No rank is still to come: a root that has failed has told every one of them.
    fn all_know(&self) -> bool {
        self.expected > 0 && (0..self.expected).all(|rank| self.done.contains(&rank))
    }

    /// When `on_time` has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Gathering => {
                let first = self.first?;
                let next = (self.told.unwrap_or(first) + REPORT).min(first + self.patience);
                Some(self.decline_due().map_or(next, |due| next.min(due)))
            }
            Phase::Hearing(until) => Some(*until),
            Phase::Failed(..) if self.all_know() => Some(Instant::now()),
            Phase::Failed(_, until) => Some(*until),
            Phase::Complete => None,
        }
    }

    /// Does what is due. True when the root is over.
    pub fn on_time(&mut self, now: Instant) -> bool {
        match &self.phase {
            Phase::Complete => return true,
            Phase::Failed(_, until) => return now >= *until || self.all_know(),
            Phase::Hearing(until) if now >= *until => {
                let verdict = self.verdict();
                self.fail(verdict);
            }
            Phase::Gathering if self.decline_due().is_some_and(|due| now >= due) => {
                if let Some(declined) = self.declined.take() {
                    self.fail(declined.error);
                }
            }
            Phase::Gathering if self.first.is_some_and(|first| now >= first + self.patience) => {
                let error = late(&self.tag, self.patience, &self.headcount(), &self.whence());
                self.fail(error);
            }
            Phase::Gathering if self.first.is_some_and(|first| now >= self.told.unwrap_or(first) + REPORT) => {
                self.told = Some(now);
                let frame: Arc<[u8]> = self.headcount().frame().encode().into();
                for member in &self.members {
                    member.link.send_bytes(frame.clone(), None);
                }
            }
            _ => {}
        }
        false
    }

    fn headcount(&self) -> Headcount {
        let n_ranks = self.members.first().map_or(0, |member| member.n_ranks);
        let missing = (0..n_ranks).filter(|rank| !self.seen.contains(rank)).take(LISTED).collect();
        Headcount { joined: self.members.len() as u32, n_ranks, missing, unauthenticated: self.unauthenticated }
    }

    /// `; those that came: 4 on node1, 3 at 10.0.0.2`: the others are missed elsewhere.
    fn whence(&self) -> String {
        let mut places: BTreeMap<String, u32> = BTreeMap::new();
        for member in &self.members {
            let own = || format!("on {}", rustix::system::uname().nodename().to_string_lossy());
            *places.entry(member.link.peer().from.map_or_else(own, |ip| format!("at {ip}"))).or_default() += 1;
        }
        format!("; those that came: {}", listed(places.iter().map(|(place, count)| format!("{count} {place}")), LISTED))
    }

    /// Who differs from most: in the number of ranks, by a rank that is none, or by a rank that two claim.
    fn verdict(&mut self) -> Error {
        self.members.sort_by_key(|member| member.rank);
        let mut claims: BTreeMap<u32, Vec<&Member>> = BTreeMap::new();
        self.members.iter().for_each(|member| claims.entry(member.n_ranks).or_default().push(member));
        let lowest = |members: &[&Member]| members.iter().map(|member| member.rank).min();
        // Most members win; where it is a tie, those with the lowest rank.
        let most =
            claims.iter().max_by_key(|(_, members)| (members.len(), std::cmp::Reverse(lowest(members)))).map_or(0, |(n, _)| *n);
        let name = |member: &Member| format!("rank {} ({})", member.rank, member.link.peer());
        let (mut found, mut culprit) = (Vec::new(), None);
        let others = claims.get(&most).map_or(0, Vec::len);
        for member in self.members.iter().filter(|member| member.n_ranks != most) {
            found.push(format!("{} says nRanks is {}, {others} other(s) say {most}", name(member), member.n_ranks));
            culprit = culprit.or(Some(member.rank));
        }
        for member in self.members.iter().filter(|member| member.n_ranks == most && (member.rank >= most || most > MAX_RANKS)) {
            found.push(format!("{} is out of range, nRanks is {most} (at most {MAX_RANKS})", name(member)));
            culprit = culprit.or(Some(member.rank));
        }
        let mut first: BTreeMap<u32, &Member> = BTreeMap::new();
        for member in &self.members {
            if let Some(other) = first.insert(member.rank, member) {
                let (one, two) = (other.link.peer(), member.link.peer());
                found.push(format!("rank {} came twice, from {one} and from {two}", member.rank));
                culprit = culprit.or(Some(member.rank));
            }
        }
        found.truncate(LISTED);
        let text = format!(
            "ranks do not fit together | {} | {} | fix: give every rank the same nRanks and a rank of its own from 0 to nRanks - 1{}",
            self.tag,
            found.join("; "),
            if self.fixed { ", and each job an NCCL_COMM_ID of its own" } else { "" }
        );
        let error = Error::new(Code::InvalidArgument, 12, text);
        Error { culprit, ..error }
    }
}

/// The error of a rank that came when all had come.
pub fn full(tag: &str, rank: u32) -> Error {
    let text = format!(
        "rank {rank} came too late | {tag} | the communicator has all its ranks | fix: use a fresh id for each communicator, and each rank once"
    );
    Error::new(Code::InvalidUsage, 19, text).by(rank)
}

/// How far a rendezvous has come.
#[derive(Clone, Debug, Default)]
pub struct Headcount {
    /// Ranks that are here.
    pub joined: u32,
    /// Ranks that there should be.
    pub n_ranks: u32,
    /// Some of those that are not.
    pub missing: Vec<u32>,
    /// Connections that proved nothing.
    pub unauthenticated: u32,
}

impl Headcount {
    fn frame(self) -> Frame {
        Frame::Headcount {
            joined: self.joined,
            n_ranks: self.n_ranks,
            missing: self.missing,
            unauthenticated: self.unauthenticated,
        }
    }
}

impl std::fmt::Display for Headcount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { joined, n_ranks, missing, unauthenticated } = self;
        if missing.is_empty() && joined < n_ranks {
            return write!(f, "nothing heard yet of the {n_ranks} ranks");
        }
        let list: Vec<String> = missing.iter().map(u32::to_string).collect();
        let more = (n_ranks - joined.min(n_ranks)) as usize > missing.len();
        write!(f, "{joined}/{n_ranks} ranks joined, missing rank {}{}", list.join(", "), if more { ", ..." } else { "" })?;
        if *unauthenticated > 0 {
            write!(f, "; {unauthenticated} connection(s) knew another secret, or none (GINRS_SECRET, GINRS_SECRET_FILE)")?;
        }
        Ok(())
    }
}

/// The error of a rendezvous that took too long; `whence` those came that did.
pub fn late(tag: &str, waited: Duration, headcount: &Headcount, whence: &str) -> Error {
    let text = format!(
        "not all ranks joined in time | {tag} | {headcount} after {} s{whence}{} | fix: start every rank with this id, look at the output of the missing, or raise GINRS_INIT_TIMEOUT",
        waited.as_secs(),
        deaths::lately()
    );
    let error = Error::new(Code::RemoteError, 11, text);
    Error { culprit: headcount.missing.first().copied(), ..error }
}

#[cfg(test)]
mod tests;
