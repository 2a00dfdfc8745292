//! FENCE: C. Exports live here and only convert, call and convert back: one file per section of nccl.h.
#![allow(non_snake_case)]

mod entry;
mod library;
mod requirement;
mod stub;
mod team;
pub mod types;
