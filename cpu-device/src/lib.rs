//! The CPU device: a stand-in for the CUDA runtime (libginrs_cpu.so) whose kernels run on fibers.
//!
//! A launch goes through these files, in this order:
//!
//! 1. [`kernel`] checks it ([`launch`]) and puts it on a [`stream`], as a [`task`] that waits for the work before it ([`event`],
//!    [`capture`]);
//! 2. [`pool`] gives the blocks of the [`grid`] to the OS threads of their [`device`], one block each;
//! 3. [`block`] runs the threads of a block as fibers on pooled [`stack`]s and switches between them, at the [`pace`] that the
//!    rest of the machine allows, or as a seed has it ([`schedule`]); [`thread`] has what each reads about itself; blocks of a small grid `start` together;
//! 4. threads wait for each other in `rendezvous` ([`barrier`], [`warp`], grid sync) and at [`mbarrier`]s ([`mbarrier_calls`]);
//!    `deadlock` reports those that never meet;
//! 5. the last block ends the task, and what waited for it begins.
//!
//! Two C contracts face the outside: `ginrs_cpu/runtime.h` ([`exports`], what compiled kernels call) and
//! `ginrs_cpu/library.h` ([`library`], what libginrs calls), besides the CUDA runtime API itself ([`api`]).
//!
//! What a failed kernel leaves: its fibers are dropped without unwinding, so destructors of C++ objects in its frames do not
//! run; its device returns the error from every call until `cudaDeviceReset`; other devices go on.
//! A process may fork before its first CUDA call; in a child forked later, calls return `cudaErrorInitializationError`.

// From the top floor down: each uses those below it only (tests/floors.rs).
pub mod api;
pub mod exports;
pub mod library;

pub mod kernel;
pub mod event;
pub mod stream;
pub mod capture;
pub mod task;
pub mod symbol;
pub mod virtual_memory;
pub mod entry;

mod signals;
#[cfg(target_arch = "x86_64")]
mod division;
mod fault;
pub mod pool;
mod executor;
mod worker;

mod overflow;
mod deadlock;
pub mod mbarrier_calls;
mod rendezvous;
pub mod block;
pub mod grid;
mod start;
mod sessions;
pub mod mbarrier;
pub mod barrier;
pub mod warp;
pub mod stack;
pub mod timeline;
pub mod pace;
pub mod schedule;

pub mod race;
pub mod thread;
pub mod waits;
pub mod launch;
mod bounds;
mod beyond;
pub mod device;
mod memfd;
pub mod memory;
mod freed;
pub mod multicast;
mod space;
pub mod bell;
pub mod naps;
pub mod recorder;
pub mod config;
pub mod baton;
mod asan;
mod tsan;
pub mod error;
pub mod code;
mod once;
