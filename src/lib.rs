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

pub mod config;
pub mod error;
pub mod fault;
pub mod log;
pub mod panic;
mod peer_process;
pub mod process;
pub mod seq;
pub mod sync;
