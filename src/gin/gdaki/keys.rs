//! Keys of work requests: 24 bits of what, 8 that differ between ranks and between lives of a window. Each names the memory of one rank, so
//! that a key of another rank, or of a window that has gone, is found out.

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
    /// A table of a context, if the variant is that of the rank.
    Table(Table, u32, u8),
    /// Nothing.
    Nothing,
}

/// First of the tables: behind all slots of `Handles`.
const TABLES: u32 = 1 << 20;

/// Of one life towards one rank.
pub fn variant(life: u64, rank: u32) -> u8 {
    (life as u32).wrapping_add(rank) as u8
}

/// Key of the window with that handle (`Handles`: generation << 20 | slot), at `rank`.
pub fn of_window(handle: u64, rank: u32) -> u32 {
    (handle as u32 & (TABLES - 1)) << 8 | u32::from(variant(handle >> 20, rank))
}

/// Key of a context's table at `rank`.
pub fn of_table(table: Table, context: u32, rank: u32) -> u32 {
    (TABLES | context << 2 | table as u32) << 8 | u32::from(variant(0, rank))
}

/// What `key` stands for.
pub fn named(key: u32) -> Named {
    let (what, variant) = (key >> 8, key as u8);
    let table = match what & 3 {
        _ if what < TABLES => return Named::Window { slot: what, variant },
        0 => Table::Signals,
        1 => Table::Counters,
        2 => Table::Sink,
        _ => return Named::Nothing,
    };
    Named::Table(table, (what - TABLES) >> 2, variant)
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
pub fn tables(context: u32, rank: u32, ranks: u32) -> Tables {
    let both = [Table::Signals, Table::Counters];
    Tables {
        local: both.map(|table| of_table(table, context, rank)),
        remote: both.map(|table| (0..ranks).map(|rank| of_table(table, context, rank)).collect()),
        sink: of_table(Table::Sink, context, rank),
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
            assert_eq!(named(of_table(table, 3, 258)), Named::Table(table, 3, 2));
        }
        assert_eq!(named(u32::MAX), Named::Nothing);
    }
}
