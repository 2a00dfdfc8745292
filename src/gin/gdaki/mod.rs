//! GDAKI contexts: kernels write an mlx5 card's work queue elements and ring its doorbell (include/ginrs_device/gin/gdaki_queue.cuh). No
//! card is driven: a model of one (`crate::nic`) reads the queues, and the engine carries out what it finds, by whatever transport there is.
//!
//! | memory | writer -> reader |
//! |---|---|
//! | contexts, key tables | host, once |
//! | queue pairs: indices and lock | kernels |
//! | rings (`Context::queues`) | kernels -> model, which poisons them |
//! | doorbells, doorbell records | kernels -> model |
//! | completion queues | model -> kernels |
//!
//! A context is two of the engine's: the queues of puts and signals, and behind them their companions, which count what is done. Signals and
//! counters are those that proxied contexts have.
#![forbid(unsafe_code)]

mod card;
mod fuzz;
mod keys;
mod memory;
mod queues;
mod requests;
mod serve;

pub use card::Card;
pub(crate) use fuzz::fuzz;
pub(super) use memory::{Images, Registration, build};
pub(super) use queues::Queues;
pub use queues::depth;
