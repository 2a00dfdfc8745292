//! Symmetric windows: memory that every rank of a team reaches at one offset.
//!
//! `register` proposes, `agree` compares what all ranks propose, `obtain` and `exchange` get at the peers' memory, `flat` maps
//! it, `structs` and `table` hold what kernels read.

mod activate;
mod agree;
mod exchange;
mod flat;
mod memory;
pub mod multicast;
mod obtain;
mod offsets;
mod register;
mod registry;
mod resource;
mod structs;
mod table;

pub use activate::activate_gin;
pub use exchange::exchange;
pub use flat::{FlatSpace, TeamKey, View};
pub use memory::SymMemory;
pub use obtain::stride;
pub use offsets::{Offsets, Span};
pub use register::{deregister, register, supported};
pub use registry::{Place, Registry};
pub use table::ext;

pub(crate) use agree::{Said, compare, done, round};
pub(crate) use obtain::{AGREED, Proposal};
pub(crate) use register::release;
pub(crate) use registry::symmetric_at;
pub(crate) use resource::{Resource, remove_resource, symmetric, table_address};
