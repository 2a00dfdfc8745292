//! What is made with a communicator for its collectives, and how large: channels and memory by device, ranks and teams.

use super::room::Room;
use crate::device;

/// What is made with a communicator, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Between each ordered pair of ranks.
    pub pairs: Slots,
    /// Likewise for sums, of reductions by messages; no rings with several teams.
    pub sums: Slots,
    /// A message between two ranks of so many bytes gets one more channel.
    pub bytes_per_channel: u32,
    /// Of the staged ways: 2 if blocks either send or receive, 1 if each does both (cuda/collectives/group.cuh).
    pub rows: u32,
    /// Along the rails; no rings with one team.
    pub rails: Slots,
    /// LSA barriers: the most blocks that Direct and Buffered use.
    pub barriers: u32,
    /// Blocks that LL uses at most.
    pub ll_blocks: u32,
    /// Slots for each of them: lines of 16 bytes, of which 8 are data.
    pub ll_slots: u32,
    /// What a rank reduces at a time, of Buffered, at most; a ring sends a part of it for each team. Bytes, a multiple of 128.
    pub piece: u32,
    /// Of a message along a rail that is cut from a longer one, at the least. Bytes, a multiple of 128.
    pub cut: u32,
    /// Of a launch.
    pub room: Room,
}

/// Rings of slots, in each rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Peers, or distances along a rail.
    pub rings: u32,
    /// Of each ring.
    pub channels: u32,
    /// Slots of a channel, a power of two.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 128.
    pub bytes: u32,
}

/// Bytes of the payloads of a rank's slots for all pairs, and again for rails, at most: channels and slots shrink where there are many rings.
const INBOX: u64 = 64 << 20;
/// The same in pinned host memory, where there are outgoing ones, too.
const HOSTED: u64 = 16 << 20;
/// Bytes of a rank's scratch where there are several teams, at most.
const SCRATCH: u32 = 64 << 20;
/// At the head of every slot, for the kernels. Bytes.
const SLOT_HEADER: u32 = 128;
/// What an LL thread takes at a time, in two slots. Bytes.
pub const LL_PACK: u64 = 16;
/// Threads of an LL block before there is another block: small calls gain from more multiprocessors.
pub const LL_SPREAD: u64 = 256;
/// More ranks than that take no LL.
pub const LL_RANKS: u32 = 16;

impl Slots {
    /// As large as can be, with payloads of `most` bytes in all: at most `channels`, each of `slots` of so many bytes of payload, which shrink to `least` before there are fewer
    /// channels.
    fn of(most: u64, rings: u32, channels: u32, slots: u32, payload: u32, least: u32) -> Self {
        let mut own = Self { rings, channels, slots, bytes: SLOT_HEADER + payload };
        let too_large = |own: &Self| own.lines() * u64::from(own.slots) * u64::from(own.payload()) > most;
        while too_large(&own) && own.payload() > least {
            own.bytes = SLOT_HEADER + own.payload() / 2;
        }
        while too_large(&own) && own.channels > 1 {
            own.channels /= 2;
        }
        while too_large(&own) && own.payload() > 4096 {
            own.bytes = SLOT_HEADER + own.payload() / 2;
        }
        own
    }

    /// Bytes of a slot's payload.
    pub fn payload(&self) -> u32 {
        self.bytes - SLOT_HEADER
    }

    /// Lines of counts; GIN signals for data, and again for credit.
    pub fn lines(&self) -> u64 {
        u64::from(self.rings) * u64::from(self.channels)
    }

    /// Bytes of all slots.
    pub fn total(&self) -> u64 {
        self.lines() * u64::from(self.slots) * u64::from(self.bytes)
    }
}

impl Sizes {
    /// Rows of a launch of Staged or Mapped, for a reduction or not: its roles (cuda/collectives/group.cuh).
    pub fn rows_of(&self, reduces: bool) -> u32 {
        if self.rows > 1 && reduces { 3 } else { self.rows }
    }

    /// Blocks that may meet those of other ranks, at most: of Mapped as many as there are channels, in each row.
    pub fn meetings(&self) -> u32 {
        self.barriers.max(self.rows_of(true) * self.pairs.channels)
    }

    /// For a communicator of `n_ranks` in LSA teams of `lsa_size` on such devices; `hosted`: what goes between teams lies in host memory.
    pub fn of(device: device::Kind, n_ranks: u32, lsa_size: u32, room: Room, hosted: bool) -> Self {
        let teams = n_ranks / lsa_size;
        let inbox = if hosted && device == device::Kind::Cuda { HOSTED } else { INBOX };
        // More channels are faster within one LSA team, and not between nodes. There each slot costs two fences, some 7 us, so that 64 MB
        // took 1.15 times as long with half as long ones (docs/results/collectives.md).
        let (pairs, bytes_per_channel) = match device {
            device::Kind::Cuda if teams == 1 => {
                (Slots::of(inbox, n_ranks, 32.min(room.most), if n_ranks > 4 { 2 } else { 4 }, 128 << 10, 64 << 10), 16 << 10)
            }
            device::Kind::Cuda => (Slots::of(inbox, n_ranks, 16, 4, 64 << 10, 64 << 10), 64 << 10),
            // A slot costs a wake-up: two processes on two cores broadcast 64 MiB in 120 ms, with 16 KiB in 500, with 128 in 56.
            device::Kind::Cpu => (Slots::of(inbox, n_ranks, 4, 4, 64 << 10, 16 << 10), 64 << 10),
        };
        let (rows, rail_channels, rail_slots, rail_slot, barriers, ll_blocks, bank, room) = match device {
            // A block has one slot at a time on its way along a rail, so large ones carry more: 64 MB between two nodes took 3.0 times
            // as long with 64 KiB (docs/results/collectives.md).
            // A network takes messages of 128 KiB from host memory, in which a slot costs no copy.
            device::Kind::Cuda => (1, 16, 4, if hosted { 128 << 10 } else { 512 << 10 }, 64, 64, 256 << 10, room),
            device::Kind::Cpu => {
                let room = Room { most: room.most.min(16), least: room.least.min(16) };
                // Where ranks outnumber the cores a meeting costs more than what is moved: few blocks. A slot of a rail holds what goes in a
                // step, mostly in messages of a quarter of it. For a rank that is alone short ones cost twice as much of the processors
                // (docs/results/ofi.md); those of a team are short, so that one block's rail is busy while the other is in its team. Half of
                // them are freed at once: a message for each took an all-reduce of 1 MiB a fifth more of the processors
                // (docs/results/collectives.md).
                (2, 2, 8, (256 << 10) / lsa_size.next_power_of_two().min(4), 2, 2, 16 << 10, room)
            }
        };
        // As many as the largest message needs that LL takes.
        let ll_needs = ll_limit(device) / u64::from(n_ranks.max(2) - 1) / (LL_SPREAD * LL_PACK);
        // By distance: each power of two, forwards and backwards.
        let rails = Slots::of(
            inbox,
            2 * teams.next_power_of_two().ilog2(),
            rail_channels.min(room.most),
            rail_slots,
            rail_slot,
            rail_slot.min(64 << 10),
        );
        // As many channels and as long slots as inputs have, if there is memory. Two suffice: whoever adds up is slower than who takes the sums.
        let sums = Slots { slots: 2, ..Slots::of(inbox / 2, n_ranks, pairs.channels, 2, pairs.payload(), 4096) };
        let sums = if teams == 1 { sums } else { Slots { rings: 0, ..sums } };
        let lines = |bytes: u32| (bytes / 128 * 128).max(128);
        Self {
            pairs,
            sums,
            bytes_per_channel,
            rows,
            rails,
            barriers: if teams == 1 { barriers.min(room.most) } else { rails.channels },
            ll_blocks: ll_blocks.min(room.most).min(ll_needs.max(2) as u32),
            ll_slots: 2 * threads(device) * n_ranks.min(LL_RANKS),
            piece: if teams == 1 {
                lines(bank / lsa_size)
            } else {
                let share = SCRATCH / rails.channels / (2 * lsa_size + 1);
                lines(teams.saturating_mul(rails.payload()).min(share))
            },
            // On GPUs a message is never cut: a third of a slot each took all-gather, reduce-scatter and broadcast of 64 MB 1.2 to 1.7
            // times as long (docs/results/collectives.md).
            cut: match device {
                device::Kind::Cuda => rail_slot,
                device::Kind::Cpu => (rail_slot / 4).max(32 << 10),
            },
            room,
        }
    }

    /// What goes along a rail at a time, at most; in one team what is reduced. Bytes.
    pub fn message(&self) -> u32 {
        if self.rails.rings == 0 { self.piece } else { self.piece.min(self.rails.payload()) }
    }

    /// Bytes of a block's scratch in each rank of a team of `lsa_size`: a line, two banks, a piece (cuda/collectives/scratch.cuh).
    pub fn scratch(&self, lsa_size: u32) -> u64 {
        128 + u64::from(self.piece) * (2 * u64::from(lsa_size) + 1)
    }
}

/// Of a block that moves bytes, at most. Those of the CPU device take turns on one core: one has all of its speed, and meets nobody.
pub fn movers(device: device::Kind) -> u32 {
    match device {
        device::Kind::Cuda => 512,
        device::Kind::Cpu => 1,
    }
}

/// Of a block of LL, at most.
pub fn threads(device: device::Kind) -> u32 {
    match device {
        device::Kind::Cuda => 512,
        device::Kind::Cpu => 32,
    }
}

/// Bytes that a call through LL stores into its peers' memory, at most: beyond that the flags, which are half of them, cost more than the
/// barriers of Direct and Mapped (docs/results/collectives.md).
pub fn ll_limit(device: device::Kind) -> u64 {
    match device {
        // 4 ranks, 256 KiB of each: all-gather 9.4 us, direct 10.4, mapped 11.8; reduce-scatter 9.5, direct 14.6; reduce 8.7, mapped 13.1.
        device::Kind::Cuda => 768 << 10,
        // 32 fibers for what one does elsewhere: 1 KiB took 4 ranks on 2 cores three to five times as long as through scratch.
        device::Kind::Cpu => 0,
    }
}
