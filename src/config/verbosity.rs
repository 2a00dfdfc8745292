//! How much is said: the words of NCCL_DEBUG and NCCL_DEBUG_SUBSYS.

/// What NCCL_DEBUG chooses; each level prints those before it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Level {
    None,
    Version,
    Warn,
    Info,
    Abort,
    Trace,
}

/// All of them.
pub const LEVELS: [Level; 6] = [Level::None, Level::Version, Level::Warn, Level::Info, Level::Abort, Level::Trace];

/// Their names, as NCCL_DEBUG has them.
pub const LEVEL_NAMES: [&str; 6] = ["NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"];

macro_rules! subsystems {
    ($($name:ident)*) => {
        /// A part of the library, as NCCL_DEBUG_SUBSYS names it, in NCCL's order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, clippy::upper_case_acronyms)]
        pub enum Subsys {
            $($name),*
        }

        /// Their names.
        pub const SUBSYSTEMS: &[&str] = &[$(stringify!($name)),*];
        /// Their names in `tracing`.
        pub const TARGETS: &[&str] = &[$(concat!("ginrs::", stringify!($name))),*];
    };
}

subsystems!(INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC CALL PROXY NVLS BOOTSTRAP REG PROFILE RAS);
