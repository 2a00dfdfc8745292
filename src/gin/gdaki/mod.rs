//! GDAKI contexts: kernels write an mlx5 card's work queue elements and ring its doorbell (include/ginrs_device/gin/gdaki_queue.cuh). A
//! model of a card (`crate::nic`) reads the queues, and the engine carries out what it finds, by whatever transport there is; or, where
//! GINRS_NIC names one, a real card (`crate::verbs`), which nobody has tried: `hardware` and `rings`, instead of `queues` and `requests`.
//!
//! | memory | writer -> reader |
//! |---|---|
//! | contexts, key tables | host, once |
//! | queue pairs: indices and lock | kernels |
//! | rings (`Context::queues`) | kernels -> model, which poisons them; where they are a GPU's memory (`mirror`) by copies (`carrier`), completion queues too |
//! | doorbells, doorbell records | kernels -> model |
//! | completion queues | model -> kernels |
//!
//! A context is two of the engine's: the queues of puts and signals, and behind them their companions, which count what is done. Signals and
//! counters are those that proxied contexts have.
#![forbid(unsafe_code)]

mod card;
mod carrier;
mod fuzz;
mod ground;
mod hardware;
mod keys;
mod memory;
mod mirror;
mod queues;
mod requests;
mod rings;
mod serve;
mod survey;
mod watch;

pub use card::{Card, Real};
pub(crate) use fuzz::fuzz;
pub use hardware::{Hardware, NAME};
pub(super) use memory::{Images, Registration, build};
use queues::Queues;
pub use queues::depth;
pub use watch::Watch;

use crate::seq::Seq;
use rings::Rings;
use std::sync::Arc;

/// What stands behind a context's queues.
#[derive(Clone)]
pub(super) enum Nic {
    /// The model.
    Model(Arc<Queues>),
    /// A real card.
    Card(Arc<Rings>),
}

impl Nic {
    /// How messages call the context with that number.
    pub fn name(&self, context: u32) -> String {
        match self {
            Self::Model(queues) => queues.name(context),
            Self::Card(rings) => format!("GDAKI context {context} on a card (queue pairs from {:#x})", rings.numbers(0).0),
        }
    }

    /// Up to where `peer`'s elements are complete, of those below `until`.
    pub fn done(&self, peer: u32, until: Seq) -> Seq {
        match self {
            Self::Model(queues) => queues.done(peer),
            Self::Card(rings) => rings.reached(peer, until),
        }
    }

    /// Is there something to do for `peer`'s queue, of which elements below `taken` were taken?
    #[inline]
    pub fn is_begun(&self, peer: u32, taken: Seq) -> bool {
        match self {
            Self::Model(queues) => queues.is_begun(peer, taken),
            Self::Card(rings) => rings.is_begun(peer),
        }
    }
}
