//! What a race is about.

/// What was touched.
#[derive(Clone, Copy)]
pub enum Place {
    /// An address that all threads share.
    At(usize),
    /// Of a window on a rank of another process, which has no address here.
    There {
        /// Where the window of a rank of this process has it.
        here: usize,
        /// Whose it is.
        rank: i32,
    },
    /// Shared memory of a block.
    Shared,
    /// A signal (0) or counter (1).
    Raised {
        /// Which of both.
        what: u32,
        /// Of whom.
        rank: u32,
        /// Of which context.
        context: u32,
    },
    /// A signal that is raised in two ways: a write is a SignalAdd here.
    Signal {
        /// The user's.
        number: u32,
        /// Of whom.
        rank: u32,
        /// Of which context.
        context: u32,
    },
}

impl Place {
    /// So many bytes further.
    pub fn behind(self, bytes: usize) -> Place {
        match self {
            Place::At(at) => Place::At(at + bytes),
            Place::There { here, rank } => Place::There { here: here + bytes, rank },
            other => other,
        }
    }
}
