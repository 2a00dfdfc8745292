//! NCCL 2.28's device communicator API behind a C ABI. The modules stand in data-path order; `docs/data-path.md` walks it.
#![allow(clippy::missing_safety_doc)]

pub mod devcomm;
pub mod gin;
pub mod symmetric;
pub mod transport;
pub mod window;

pub mod bootstrap;
pub mod coll;
pub mod comm;
pub mod team;
pub mod topo;
pub mod watch;

pub mod abort;
pub mod device;

pub mod abi;
pub mod layout;

mod peer_process;

// The ground, from the top down: each imports from those below it alone.
pub mod process;

pub mod fault;

pub mod log;

pub mod config;

pub mod panic;
mod ranges;
pub mod sync;

pub mod error;
pub mod seq;
pub mod text;
