//! Symmetric memory: one allocation of every rank, at one offset of every rank's slice of the flat space.
//!
//! `obtain` gets it: every rank proposes, all agree, each maps its LSA team's; `flat` is the space and `offsets` what is free in it,
//! `memory` one allocation, `held` those that there are; `host` is memory of one rank alone, for networks. `multicast` gives the same offsets at addresses that reach all ranks of a team
//! (`members`). Windows stand on this, and so do the signals of direct GIN contexts.
//!
//! Traps: numbers of memories advance alike on all ranks, also where a step fails; after an abort nothing is unmapped under kernels
//! that are on their way out.
#![forbid(unsafe_code)]

mod flat;
mod held;
mod host;
mod members;
mod memory;
pub mod multicast;
mod obtain;
mod offsets;

pub use held::Symmetric;
pub use members::Members;
pub use memory::{Place, SymMemory};
pub use obtain::stride;

pub(crate) use obtain::{AGREED, Proposal};
