//! Which ranks are in which process, and the one clock that all of them are put on.

use std::collections::{BTreeMap, HashMap};
use timeline::{Event, Kind, Trace};

/// A rank of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    pub comm: u64,
    pub rank: u32,
}

/// Signal words of one rank: `DIRECT` contexts have words of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    pub rank: Rank,
    pub is_direct: bool,
    /// Context after context.
    pub number: u64,
}

/// Context numbers of direct contexts have this bit.
const DIRECT: u64 = 1 << 31;

struct Words {
    owner: u64,
    context: u64,
    first: u64,
    count: u64,
}

/// One process: what all its files say.
pub struct Process {
    pub pid: u64,
    pub events: Vec<Event>,
    pub texts: HashMap<u64, String>,
    /// By the address that stands for it: who, and on which device.
    pub ranks: HashMap<u64, (Rank, u64)>,
    /// By communicator: its ranks.
    pub sizes: BTreeMap<u64, u32>,
    words: Vec<Words>,
    pub last: u64,
}

/// All processes.
pub struct Job {
    pub processes: Vec<Process>,
    pub first: u64,
    dropped: u64,
    full: usize,
    machines: usize,
}

impl Job {
    /// Puts the clocks of other machines on that of the first: by the walls' clocks when each file was made.
    pub fn of(traces: &[Trace]) -> Job {
        let reference = traces.first().map(|trace| trace.head);
        let mut processes = BTreeMap::<(u64, u64), Process>::new();
        for trace in traces {
            let head = &trace.head;
            let shift = match reference {
                Some(first) if first.machine != head.machine => head.wall - first.wall,
                _ => 0,
            };
            let process = processes.entry((head.machine, head.pid)).or_insert_with(|| Process::new(head.pid));
            process.texts.extend(trace.texts.iter().map(|(name, text)| (*name, text.clone())));
            // Times of posts' ends stand in words, too; only one machine's are compared with each other.
            process.events.extend(trace.events.iter().map(|event| shifted(*event, shift)));
        }
        let mut machines: Vec<_> = processes.keys().map(|(machine, _)| *machine).collect();
        machines.dedup();
        let mut processes: Vec<_> = processes.into_values().collect();
        processes.iter_mut().for_each(Process::know);
        let first = processes.iter().filter_map(|process| process.events.first()).map(|event| event.time).min().unwrap_or(0);
        let dropped = traces.iter().map(|trace| trace.head.dropped).sum();
        let full = traces.iter().filter(|trace| trace.head.dropped > 0).count();
        Job { processes, first, dropped, full, machines: machines.len() }
    }

    /// Events that no file had room for.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How far the times of different processes can be compared.
    pub fn clock(&self) -> &'static str {
        match self.machines {
            0 | 1 => "CLOCK_MONOTONIC of one machine",
            _ => "several machines, aligned by their wall clocks when each process began: as exact as NTP keeps those",
        }
    }

    /// What a group of lines is called: a device of a process, or its host threads.
    pub fn name(&self, process: usize, device: Option<u64>) -> String {
        let process = &self.processes[process];
        match device {
            Some(device) => format!("{}: device {device} of process {}", process.ranks_on(device), process.pid),
            None => format!("host of process {}", process.pid),
        }
    }

    pub fn complaints(&self) -> Vec<String> {
        let mut told = Vec::new();
        if self.dropped > 0 {
            told.push(format!(
                "the timeline lacks its last {} events: {} file(s) were full (GINRS_TIMELINE_EVENTS, or the disk)",
                self.dropped, self.full
            ));
        }
        if self.machines > 1 {
            told.push(format!("the timeline is of {}", self.clock()));
        }
        told
    }
}

fn shifted(mut event: Event, shift: i64) -> Event {
    event.time = event.time.wrapping_add_signed(shift);
    match event.kind {
        Kind::Post => event.words[7] = event.words[7].wrapping_add_signed(shift),
        Kind::Direct => event.words[8] = event.words[8].wrapping_add_signed(shift),
        _ => {}
    }
    event
}

impl Process {
    fn new(pid: u64) -> Process {
        let (events, texts, ranks) = (Vec::new(), HashMap::new(), HashMap::new());
        Process { pid, events, texts, ranks, sizes: BTreeMap::new(), words: Vec::new(), last: 0 }
    }

    fn know(&mut self) {
        self.events.sort_by_key(|event| event.time);
        self.last = self.events.last().map_or(0, |event| event.time);
        for event in &self.events {
            match event.kind {
                Kind::Rank => {
                    let [owner, comm, rank, ranks, device, ..] = event.words;
                    self.sizes.insert(comm, ranks as u32);
                    self.ranks.insert(owner, (Rank { comm, rank: rank as u32 }, device));
                }
                Kind::Words => {
                    let [owner, context, first, count, ..] = event.words;
                    self.words.push(Words { owner, context, first, count });
                }
                _ => {}
            }
        }
    }

    pub fn text(&self, name: u64) -> &str {
        self.texts.get(&name).map_or("", String::as_str)
    }

    /// The signal word at an address that a kernel of that rank waits on.
    pub fn word(&self, owner: u64, address: u64) -> Option<Word> {
        let inside = |words: &&Words| words.owner == owner && address.wrapping_sub(words.first) < words.count * 8;
        let words = self.words.iter().rev().find(inside)?;
        let number = (words.context & !DIRECT) * words.count + (address - words.first) / 8;
        Some(Word { rank: self.ranks.get(&owner)?.0, is_direct: words.context & DIRECT != 0, number })
    }

    /// The word of a direct context's signal, for a rank on that device; None where several communicators have such words.
    pub fn direct(&self, device: u64, context: u64, peer: u32, signal: u64) -> Option<Word> {
        let is_one = |words: &&Words| {
            words.context == context | DIRECT && self.ranks.get(&words.owner).is_some_and(|(_, its)| *its == device)
        };
        let mut all = self.words.iter().filter(is_one);
        let words = all.next()?;
        let comm = self.ranks.get(&words.owner)?.0.comm;
        let number = context * words.count + signal;
        all.next().is_none().then_some(Word { rank: Rank { comm, rank: peer }, is_direct: true, number })
    }

    /// The rank on that device, where there is one communicator.
    pub fn rank_on(&self, device: u64) -> Option<Rank> {
        let mut all = self.ranks.values().filter(|(_, its)| *its == device);
        let (rank, _) = all.next()?;
        all.next().is_none().then_some(*rank)
    }

    /// "rank 3" of all communicators on that device.
    pub fn ranks_on(&self, device: u64) -> String {
        let mut ranks: Vec<u32> = self.ranks.values().filter(|(_, its)| *its == device).map(|(rank, _)| rank.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        match ranks.is_empty() {
            true => "no rank".into(),
            false => format!("rank {}", ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}
