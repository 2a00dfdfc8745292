//! Symmetric windows: memory that every rank of a team reaches at one offset.

mod flat;
mod memory;
mod offsets;
mod registry;
mod structs;
mod table;

pub use flat::{FlatSpace, TeamKey, View};
pub use memory::SymMemory;
pub use offsets::{Offsets, Span};
pub use registry::Registry;
