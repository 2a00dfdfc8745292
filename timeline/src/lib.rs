//! What the libraries write down of a run (`GINRS_TIMELINE`), and how ginrs-run reads it.
//!
//! Each process writes a file of its own: a page with a [`Head`], then [`Record`]s of one size. The file is mapped, so what was written
//! stays when the process is killed. Threads take records by the [`CHUNK`] and fill them without locks; a record counts once its kind is
//! there. When the file is full what follows is counted and not kept: the head says how many.
//!
//! libginrs and libginrs_cpu each have a copy of this crate, and a file: they know nothing of each other here.

mod read;
mod write;

pub use read::{Event, Trace, read};
pub use write::{Writer, is_on, now, open, put, text, told};

/// First bytes of a file; the last one is the version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ginrstl\x01");
/// Where records begin.
pub const HEAD_BYTES: usize = 4096;
/// Records that a thread takes at once.
pub const CHUNK: u64 = 32;

/// The first page. What changes is atomic in the writer's mapping.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`]
    pub magic: u64,
    /// Records that the file may have.
    pub capacity: u64,
    /// Records that threads have taken; may be beyond the capacity.
    pub taken: u64,
    /// Records that did not fit.
    pub dropped: u64,
    /// The process.
    pub pid: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC when the file was made, ns: what machines are aligned by.
    pub wall: i64,
    /// A hash of the machine's boot id: equal where CLOCK_MONOTONIC is one clock.
    pub machine: u64,
    /// RANK of the environment, -1 where there is none.
    pub rank: i64,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Record {
    /// CLOCK_MONOTONIC, ns.
    pub time: u64,
    /// A [`Kind`]; 0: not written (yet).
    pub kind: u32,
    /// The OS thread.
    pub thread: u32,
    /// As the kind says.
    pub words: [u64; 10],
}

/// What a record tells, and its words. `where` is five words: grid, number of the CUDA thread, number of the block, the file of the
/// user's call (a text), and its line with the call's kind (GINRS_CPU_CALL_) above: `kind << 32 | line`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Bytes of a text: its hash, its length, where these begin, then up to 56.
    Text = 1,
    /// A rank of a communicator: the address that stands for it in this process, the communicator, rank, ranks, device.
    Rank = 2,
    /// Signal words of one of its contexts: the rank's address, the context, first word, how many.
    Words = 3,
    /// A call of the host begins: its name.
    Call = 4,
    /// It is over: its name, its result.
    Returned = 5,
    /// A kernel is launched: name, file, line, blocks, threads of a block, device, number of the launch.
    Launch = 6,
    /// It begins: grid, name, file, line, blocks, threads of a block, device, number of its launch.
    Kernel = 7,
    /// It is over: grid.
    KernelEnd = 8,
    /// A block begins: grid, number.
    Block = 9,
    /// It is over: grid, number.
    BlockEnd = 10,
    /// A CUDA thread posts: where, slot, index, when it was done, context and peer (`context << 32 | peer`).
    Post = 11,
    /// A CUDA thread stores to a peer itself: where, bytes, signal plus one, what is added, when it was done, context and peer.
    Direct = 12,
    /// A CUDA thread waits: where, the rank's address, word, wanted value, note, context and id (`context << 32 | id`).
    Wait = 13,
    /// It goes on: grid, thread, block.
    WaitEnd = 14,
    /// The proxy has taken an operation: the rank's address, tag, slot, index, peer and context (`context << 32 | peer`), bytes, signal plus one,
    /// what is added, counter plus one.
    Take = 15,
    /// Its payload has landed, its signal is next: the rank's address, tag.
    Moved = 16,
    /// It is done: the rank's address, tag.
    Done = 17,
    /// The library launches a collective, next of this thread: what it is, in words.
    Collective = 18,
    /// A warning or an error was printed: its text.
    Told = 19,
}

impl Kind {
    /// The kind of a record's number.
    pub fn of(number: u32) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 19] = [
            Text, Rank, Words, Call, Returned, Launch, Kernel, KernelEnd, Block, BlockEnd, Post, Direct, Wait, WaitEnd, Take,
            Moved, Done, Collective, Told,
        ];
        ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// What stands for a text in records.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
