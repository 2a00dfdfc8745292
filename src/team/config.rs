//! What a communicator's maker asked for, after defaults and environment.
#![forbid(unsafe_code)]

use crate::layout::NCCL_CONFIG_UNDEF_INT;
use crate::{config, info};

/// The settings of one communicator that have an effect here; docs/environment.md says of the others that they have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// False: calls that wait for peers return ncclInProgress and go on by themselves.
    pub blocking: bool,
    /// Blocks of a collective, at least.
    pub min_ctas: i32,
    /// And at most. None: the library leaves room for other communicators (`coll/room.rs`).
    pub max_ctas: Option<i32>,
    /// The struct was made by the headers of 2.28.3, whose device API has other structs.
    pub from_2_28_3: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { blocking: true, min_ctas: 1, max_ctas: None, from_2_28_3: false }
    }
}

/// More blocks than this a collective does not use, whatever is asked for.
pub const MOST_CTAS: i32 = 64;

impl Config {
    /// The environment overrides; what it says that cannot be meant is passed over (log::report tells it).
    pub fn with_environment(mut self) -> Self {
        let number = |name: &str| i32::try_from(config::int(name)).ok().filter(|&value| value != NCCL_CONFIG_UNDEF_INT);
        self.blocking = number("NCCL_COMM_BLOCKING").map_or(self.blocking, |value| value == 1);
        self.min_ctas = number("NCCL_MIN_CTAS").unwrap_or(self.min_ctas);
        self.max_ctas = number("NCCL_MAX_CTAS").or(self.max_ctas);
        self.repaired()
    }

    /// Values that are in range each and cannot be meant together, or are larger than what there is.
    fn repaired(mut self) -> Self {
        self.max_ctas = self.max_ctas.map(|max| max.min(MOST_CTAS));
        self.min_ctas = self.min_ctas.min(MOST_CTAS);
        if let Some(max) = self.max_ctas.filter(|&max| self.min_ctas > max) {
            info!(ENV, "minCTAs {} is more than maxCTAs {max}: both are {max}", self.min_ctas);
            self.min_ctas = max;
        }
        self
    }
}
