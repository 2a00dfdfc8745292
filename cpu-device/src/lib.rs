//! The CPU device: a stand-in for the CUDA runtime (libginrs_cpu.so) whose kernels run on fibers.
//!
//! A launch goes through these files, in this order:
//!
//! 1. [`kernel`] checks it and puts it on a [`stream`], as a [`task`] that waits for the work before it ([`event`], [`capture`]);
//! 2. [`grid`] counts its blocks; [`pool`] gives them to the OS threads of their [`device`], one block each;
//! 3. [`block`] runs the threads of a block as fibers on pooled [`stack`]s and switches between them, at the [`pace`] that the
//!    rest of the machine allows; [`thread`] has what each reads about itself; blocks of a small grid `start` together;
//! 4. threads wait for each other in `rendezvous` ([`barrier`], [`warp`], grid sync) and at [`mbarrier`]s; `deadlock` reports those
//!    that never meet;
//! 5. the last block ends the task, and what waited for it begins.
//!
//! Two C contracts face the outside: `ginrs_cpu/runtime.h` ([`exports`], what compiled kernels call) and
//! `ginrs_cpu/library.h` ([`library`], what libginrs calls), besides the CUDA runtime API itself ([`api`]).
//!
//! What a failed kernel leaves: its fibers are dropped without unwinding, so destructors of C++ objects in its frames do not
//! run; its device returns the error from every call until `cudaDeviceReset`; other devices go on.
//! A process may fork before its first CUDA call; in a child forked later, calls return `cudaErrorInitializationError`.

pub mod api;
pub mod barrier;
pub mod block;
pub mod capture;
pub mod code;
pub mod config;
mod deadlock;
pub mod device;
#[cfg(target_arch = "x86_64")]
mod division;
pub mod error;
pub mod event;
mod executor;
pub mod exports;
mod fault;
pub mod grid;
pub mod kernel;
pub mod library;
pub mod mbarrier;
pub mod memory;
pub mod multicast;
mod once;
mod overflow;
pub mod pace;
pub mod pool;
mod rendezvous;
mod signals;
mod space;
pub mod stack;
mod start;
pub mod stream;
pub mod symbol;
pub mod task;
pub mod thread;
pub mod warp;
