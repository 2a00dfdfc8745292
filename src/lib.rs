//! NCCL 2.28's device communicator API behind a C ABI.
//!
//! The modules stand from the top floor down: each uses those below it only (tests/floors.rs reads this list; docs/internals/architecture.md
//! draws it). An operation of a kernel runs through `gin` and a transport: `docs/internals/data-path.md` walks it.
#![allow(clippy::missing_safety_doc)]

// What ginrs-info asks, and what a fuzzer feeds.
#[doc(hidden)]
pub mod inspect;
#[doc(hidden)]
pub mod fuzz;

// C in, C out.
pub mod abi;

// A communicator, and what it is composed of.
pub mod comm;
pub mod coll;
pub mod devcomm;
pub mod window;
pub mod gin;
pub mod nic;
pub mod verbs;
pub mod symmetric;
pub mod transport;

// Its ranks: who they are, how they meet and exchange, who still lives.
pub mod team;
pub mod watch;
pub mod bootstrap;
pub mod abort;

// Memory that a device also sees; which ranks share a node.
pub mod device;
pub mod topo;

// The ground: this process and others, what is said of them, and plain tools.
mod peer_process;
pub mod process;
pub mod fault;
pub mod log;
pub mod config;
pub mod sync;
pub mod panic;
pub mod layout;
mod ranges;
mod error_wire;
pub mod text;
pub mod error;
pub mod codes;
pub mod seq;

#[cfg(test)]
mod hang_limit;
