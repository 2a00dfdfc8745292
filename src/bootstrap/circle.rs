//! The ranks of a communicator in a circle: those of a process stand together, processes by their first rank. Exchanges between
//! processes go around it.
#![forbid(unsafe_code)]

use super::address::Address;
use super::wire::Endpoint;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// See the module.
#[derive(Default)]
pub struct Circle {
    ranks: Vec<u32>,
    /// Where each process begins among them, and their number.
    starts: Vec<u32>,
    own: u32,
}

impl Circle {
    /// As the process at `own` sees it.
    pub fn new(table: &[Endpoint], own: Address) -> Self {
        let (mut first, mut processes) = (HashMap::new(), BTreeMap::<u32, Vec<u32>>::new());
        for (rank, entry) in (0..).zip(table) {
            processes.entry(*first.entry(entry.address).or_insert(rank)).or_default().push(rank);
        }
        let mut circle = Self { own: first.get(&own).map_or(0, |own| processes.range(..own).count() as u32), ..Self::default() };
        for ranks in processes.into_values() {
            circle.starts.push(circle.ranks.len() as u32);
            circle.ranks.extend(ranks);
        }
        circle.starts.push(circle.ranks.len() as u32);
        circle
    }

    /// Number of processes.
    pub fn len(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The process that stands `places` behind this one.
    pub fn behind(&self, places: u32) -> u32 {
        (self.own + places) % self.len()
    }

    /// The ranks of a process, in order.
    pub fn at(&self, process: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|i| self.starts[process as usize + i] as usize);
        &self.ranks[start..end]
    }

    /// The ranks of this process.
    pub fn here(&self) -> &[u32] {
        self.at(self.own)
    }

    /// Number of ranks in the `count` processes from `first` on.
    pub fn ranks_of(&self, first: u32, count: u32) -> usize {
        (first..first + count).map(|process| self.at(process % self.len()).len()).sum()
    }

    /// All ranks, from the first of this process on.
    pub fn around(&self) -> impl Iterator<Item = u32> {
        let start = self.starts[self.own as usize] as usize;
        self.ranks[start..].iter().chain(&self.ranks[..start]).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::route::Doors;
    use super::*;

    #[test]
    fn those_of_a_process_stand_together() {
        let address = |process: u8| Address::Abstract([process; 16]);
        let entry = |process: u8| Endpoint { address: address(process), pid: 1, machine: 1, doors: Doors::default() };
        let table = [7, 3, 7, 9, 3, 3].map(entry);
        let circle = Circle::new(&table, address(3));
        assert_eq!((circle.len(), circle.here(), circle.at(2)), (3, &[1, 4, 5][..], &[3][..]));
        assert_eq!(circle.around().collect::<Vec<_>>(), [1, 4, 5, 3, 0, 2]);
        assert_eq!((circle.behind(0), circle.behind(2)), (1, 0));
        assert_eq!((circle.ranks_of(1, 2), circle.ranks_of(2, 2), circle.ranks_of(0, 3)), (4, 3, 6));
    }
}
