//! Keys of work requests: 24 bits of what, 8 that differ between ranks and between lives of a window. Each names the memory of one rank, so
//! that a key of another rank, or of a window that has gone, is found out.

use crate::layout::NCCL_GIN_MAX_CONTEXTS;

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

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The window in a slot of `Handles`, if it is in this life.
    Window {
        /// Slot.
        slot: u32,
        /// [`variant`] of its generation and the rank.
        variant: u8,
    },
    /// A table of a context, if that is [`whose`] it is.
    Table(Table, u32, u32),
    /// Nothing.
    Nothing,
}

/// First of the tables: behind all slots of `Handles`. Then come 16 bits of the communicator's life, 2 of the context and 2 of which table.
const TABLES: u32 = 1 << 20;
const _: () = assert!(NCCL_GIN_MAX_CONTEXTS <= 4);

/// Of one life towards one rank.
pub fn variant(life: u64, rank: u32) -> u8 {
    (life as u32).wrapping_add(rank) as u8
}

/// That rank of the communicator with that life, as keys of tables have it.
pub fn whose(life: u64, rank: u32) -> u32 {
    life as u32 & 0xff_ff00 | u32::from(variant(life, rank))
}

/// Key of the window with that handle (`Handles`: generation << 20 | slot), at `rank`.
pub fn of_window(handle: u64, rank: u32) -> u32 {
    (handle as u32 & (TABLES - 1)) << 8 | u32::from(variant(handle >> 20, rank))
}

/// Key of a context's table at `rank`, in a communicator's life.
pub fn of_table(table: Table, context: u32, (life, rank): (u64, u32)) -> u32 {
    let whose = whose(life, rank);
    (TABLES | whose >> 8 << 4 | context << 2 | table as u32) << 8 | whose & 0xff
}

/// What `key` stands for.
pub fn named(key: u32) -> Named {
    let (what, variant) = (key >> 8, key as u8);
    let table = match what & 3 {
        _ if what < TABLES => return Named::Window { slot: what, variant },
        _ if what >= 2 * TABLES => return Named::Nothing,
        0 => Table::Signals,
        1 => Table::Counters,
        2 => Table::Sink,
        _ => return Named::Nothing,
    };
    Named::Table(table, what >> 2 & 3, (what - TABLES) >> 4 << 8 | u32::from(variant))
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
pub fn tables(context: u32, (life, rank): (u64, u32), ranks: u32) -> Tables {
    let both = [Table::Signals, Table::Counters];
    Tables {
        local: both.map(|table| of_table(table, context, (life, rank))),
        remote: both.map(|table| (0..ranks).map(|rank| of_table(table, context, (life, rank))).collect()),
        sink: of_table(Table::Sink, context, (life, rank)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_life_at_one_rank() {
        let handle = 0x7_1234_5678 << 20 | 0xf_ffff;
        assert_eq!(named(of_window(handle, 3)), Named::Window { slot: 0xf_ffff, variant: 0x7b });
        assert_ne!(of_window(handle, 3), of_window(handle, 4));
        assert_ne!(of_window(handle, 3), of_window(handle + (1 << 20), 3));
        for table in [Table::Signals, Table::Counters, Table::Sink] {
            for life in [0, 7, u64::MAX] {
                assert_eq!(named(of_table(table, 3, (life, 258))), Named::Table(table, 3, whose(life, 2)));
            }
            for other in [(7, 2), (8, 1), (0x1_0007, 1), (0x80_0007, 1)] {
                assert_ne!(of_table(table, 3, (7, 1)), of_table(table, 3, other), "{other:x?}");
            }
        }
        assert_eq!(named(u32::MAX), Named::Nothing);
    }
}
