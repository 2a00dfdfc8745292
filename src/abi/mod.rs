//! FENCE: C. Exports live here and only convert, call and convert back: one file per section of nccl.h.
#![allow(non_snake_case)]

mod collective;
mod config;
mod create;
mod deferred;
mod devcomm;
mod entry;
mod extras;
mod finish;
mod group;
mod handles;
mod library;
mod memory;
mod point_to_point;
mod query;
mod reduction;
mod register;
mod requirement;
mod simulate;
mod split;
mod team;
mod window;
