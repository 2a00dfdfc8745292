//! Symmetric windows: memory that every rank of a team reaches at one offset.

mod flat;
mod offsets;
mod structs;
mod table;

pub use flat::{FlatSpace, TeamKey, View};
pub use offsets::{Offsets, Span};
