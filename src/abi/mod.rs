//! FENCE: C. Exports live here and only convert, call and convert back.
pub mod types;
