//! Keys of the model's work requests: 32 bits that name the memory of one rank. The first bit says whether that is a window or a context's
//! table; a window's slot or which table comes next or last, and the rest tells owners apart.
//!
//! | | bits |
//! |---|---|
//! | window | 0, 16 of the slot, 15 of its generation and the rank |
//! | table | 1, 27 of the communicator and the rank, 2 of the context, 2 of which table |
//!
//! Ranks of one generation, or one communicator, have different keys. Another generation, and so another communicator's, has the same key by
//! chance: of a window 1 in 2^15, of a table 1 in 2^27.

use crate::bail;
use crate::error::Result;
use crate::gin::handles;
use crate::layout::NCCL_GIN_MAX_CONTEXTS;
use crate::nic::mix;

/// Words that every context has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Signals.
    Signals = 0,
    /// Counters.
    Counters = 1,
    /// Where the old values of adds would go: nobody reads them.
    Sink = 2,
}

const TABLE: u32 = 1 << 31;
/// Bits of a window's key that tell owners apart.
const OWNER: u32 = 15;
/// Slots that have keys.
const SLOTS: u32 = TABLE >> OWNER;
const _: () = assert!(NCCL_GIN_MAX_CONTEXTS <= 4);

/// `rank` of the communicator with that salt, or of a window's generation.
fn owner(of: u64, rank: u32) -> u32 {
    (mix(0, of) as u32).wrapping_add(rank)
}

/// Key of the window with that handle, whose slot has one, at `rank`.
pub fn of_window(handle: u64, rank: u32) -> u32 {
    let (slot, generation) = handles::parts(handle);
    slot << OWNER | (owner(generation, rank) & ((1 << OWNER) - 1))
}

/// Those at each of so many ranks.
pub fn of_windows(handle: u64, ranks: u32) -> Result<Vec<u32>> {
    let (slot, _) = handles::parts(handle);
    if slot >= SLOTS {
        bail!(
            InternalError,
            20,
            "too many windows registered for GIN | {} in one communicator by GDAKI's model of a card | fix: deregister windows that are not used",
            SLOTS - 1
        );
    }
    Ok((0..ranks).map(|rank| of_window(handle, rank)).collect())
}

/// The slot of the window that `key` may be of.
pub fn slot(key: u32) -> Option<u32> {
    (key < TABLE).then_some(key >> OWNER)
}

/// Key of a context's table at `rank`, in the communicator with that salt.
pub fn of_table(table: Table, context: u32, (salt, rank): (u64, u32)) -> u32 {
    TABLE | (owner(salt, rank) << 5 >> 1) | (context << 2) | table as u32
}

/// Keys of one context's tables, as its rank gives them to its kernels. Signals, then counters.
pub struct Tables {
    /// Of this rank's.
    pub local: [u32; 2],
    /// By rank.
    pub remote: [Vec<u32>; 2],
    /// Where old values go.
    pub sink: u32,
}

/// Those of the model.
pub fn tables(context: u32, (salt, rank): (u64, u32), ranks: u32) -> Tables {
    let both = [Table::Signals, Table::Counters];
    Tables {
        local: both.map(|table| of_table(table, context, (salt, rank))),
        remote: both.map(|table| (0..ranks).map(|rank| of_table(table, context, (salt, rank))).collect()),
        sink: of_table(Table::Sink, context, (salt, rank)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slot: u32, generation: u64) -> u64 {
        generation << 20 | u64::from(slot)
    }

    fn pairs(keys: &[u32]) -> usize {
        (0..keys.len()).map(|at| keys[..at].iter().filter(|key| **key == keys[at]).count()).sum()
    }

    #[test]
    fn a_key_says_which_slot_or_that_it_is_a_tables() {
        for last in [0, 1, SLOTS - 1] {
            let keys = of_windows(of(last, 77), 1000).unwrap();
            assert!(keys.iter().all(|key| slot(*key) == Some(last)) && pairs(&keys) == 0, "{last:#x}");
        }
        assert!(of_windows(of(SLOTS, 77), 2).unwrap_err().to_string().contains("65535 in one communicator"));
        let tables = |context| [Table::Signals, Table::Counters, Table::Sink].map(|table| of_table(table, context, (7, 1)));
        let all = (0..4).flat_map(tables).collect::<Vec<_>>();
        assert!(all.iter().all(|key| slot(*key).is_none()) && pairs(&all) == 0, "{all:x?}");
    }

    /// By chance a few are alike; never those that differ by one in each.
    #[test]
    fn other_ranks_generations_and_communicators_have_other_keys() {
        // The first windows of so many communicators.
        let firsts = (0..300).map(|n| handles::Handles::new(mix(1, n)).insert(0, 64).unwrap().1);
        let firsts: Vec<u32> = firsts.map(|handle| of_window(handle, 0)).collect();
        assert!(pairs(&firsts) < 10, "{} of 44850", pairs(&firsts));
        let lives = |rank| (1..1000).map(move |generation| of_window(of(5, generation), rank));
        assert!(pairs(&lives(0).collect::<Vec<_>>()) < 60, "of 498501");
        assert_eq!(lives(1).zip(lives(0).skip(1)).filter(|(stale, live)| stale == live).count(), 0);
        let tables = |rank| (0..1000).map(move |salt| of_table(Table::Signals, 3, (salt, rank)));
        assert_eq!(pairs(&tables(0).chain(tables(1)).collect::<Vec<_>>()), 0);
    }
}
