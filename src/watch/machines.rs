//! Which ranks of a communicator share a machine, and which a process. A process counts as on the machine of its first rank, also where
//! GINRS_FAKE_MACHINES spreads its ranks.
#![forbid(unsafe_code)]

use crate::bootstrap::Address;
use std::collections::{HashMap, HashSet};

/// What every rank says of its machine: its identity and the name of its host, in a fixed form.
pub(super) fn say(machine: u64) -> Vec<u8> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = &host[..host.floor_char_boundary(HOST)];
    [&machine.to_le_bytes()[..], host.as_bytes()].concat()
}

/// Longest name of a host that is told, in bytes.
const HOST: usize = 32;

/// See the module.
pub(super) struct Machines {
    /// By rank: the machine, as an index, and the first rank of its process.
    of: Vec<(u32, u32)>,
    all: Vec<Machine>,
    own: u32,
}

/// One of them.
pub(super) struct Machine {
    /// Name of its host; two machines may have one name.
    pub host: String,
    /// In order.
    pub ranks: Vec<u32>,
}

impl Machines {
    /// `ranks`: by rank, its process and what it said; `own` is this process.
    pub fn new<'a>(ranks: impl Iterator<Item = (Address, &'a [u8])>, own: Address) -> Self {
        let mut machines = Self { of: Vec::new(), all: Vec::new(), own: 0 };
        let (mut processes, mut found) = (HashMap::new(), HashMap::new());
        for (rank, (address, said)) in (0..).zip(ranks) {
            let (identity, host) = said.split_at(8.min(said.len()));
            let (at, first) = *processes.entry(address).or_insert_with(|| {
                let at = *found.entry(identity).or_insert_with(|| {
                    let host = crate::text::printable(&String::from_utf8_lossy(host), HOST);
                    machines.all.push(Machine { host, ranks: Vec::new() });
                    machines.all.len() as u32 - 1
                });
                (at, rank)
            });
            if address == own {
                machines.own = at;
            }
            machines.of.push((at, first));
            machines.all[at as usize].ranks.push(rank);
        }
        machines
    }

    /// True where there is more than one.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// True for a rank on another machine.
    pub fn is_far(&self, rank: u32) -> bool {
        self.index_of(rank) != Some(self.own)
    }

    /// This process's machine.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// All that have a rank of which `gone` does not hold, in order.
    pub fn present(&self, gone: &HashSet<u32>) -> Vec<u32> {
        let is_there = |machine: &Machine| machine.ranks.iter().any(|rank| !gone.contains(rank));
        (0..).zip(&self.all).filter(|(_, machine)| is_there(machine)).map(|(at, _)| at).collect()
    }

    /// Which one, by number.
    pub fn index_of(&self, rank: u32) -> Option<u32> {
        self.of.get(rank as usize).map(|(at, _)| *at)
    }

    /// The first rank of the process of `rank`.
    pub fn first_beside(&self, rank: u32) -> u32 {
        self.of.get(rank as usize).map_or(rank, |(_, first)| *first)
    }

    /// By number.
    pub fn at(&self, index: u32) -> &Machine {
        &self.all[index as usize]
    }

    /// That of a rank.
    pub fn of(&self, rank: u32) -> Option<&Machine> {
        self.index_of(rank).map(|at| self.at(at))
    }
}

impl Machine {
    /// `host b (ranks 4-7)`.
    pub fn name(&self) -> String {
        let mut runs: Vec<String> = self
            .ranks
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| if run.len() == 1 { run[0].to_string() } else { format!("{}-{}", run[0], run[run.len() - 1]) })
            .collect();
        if runs.len() > 8 {
            runs.truncate(8);
            runs.push("..".into());
        }
        format!("host {} ({} {})", self.host, if self.ranks.len() == 1 { "rank" } else { "ranks" }, runs.join(","))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One process for each rank; `machines` by rank.
    pub(crate) fn sample(machines: &[u64], own: u8) -> Machines {
        let said: Vec<Vec<u8>> =
            machines.iter().map(|machine| [&machine.to_le_bytes()[..], format!("h{machine}").as_bytes()].concat()).collect();
        Machines::new(
            (0u8..).zip(&said).map(|(rank, said)| (Address::Abstract([rank; 16]), said.as_slice())),
            Address::Abstract([own; 16]),
        )
    }

    #[test]
    fn a_process_is_on_the_machine_of_its_first_rank() {
        let machines = sample(&[7, 7, 9, 9, 7], 2);
        assert!(
            machines.are_several() && machines.own() == 1 && machines.is_far(4) && !machines.is_far(3) && machines.is_far(77)
        );
        assert_eq!(
            (machines.at(0).name().as_str(), machines.at(1).name().as_str()),
            ("host h7 (ranks 0-1,4)", "host h9 (ranks 2-3)")
        );
        assert_eq!(machines.present(&HashSet::from([2, 3])), [0]);
        let one = Address::Abstract([1; 16]);
        let both = Machines::new([(one, &say(1)[..]), (one, &say(2)[..])].into_iter(), one);
        assert!(!both.are_several() && both.first_beside(1) == 0);
    }
}
