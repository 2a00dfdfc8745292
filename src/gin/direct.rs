//! Direct contexts: kernels store to the peers' memory and add to the peers' signal words themselves
//! (include/ginrs_device/gin/direct.cuh). The host gives them words in device memory, and queues for puts too large for a kernel.
//!
//! Signals are symmetric memory in the flat space: every rank's words stand at one offset of its slice. Counters are this rank's
//! own. Only kernels add to either, so the proxy refuses descriptors that have one. Behind them all stands one more context, for
//! what kernels of other headers post where they should store: nothing that comes there is done (`image.rs`).
#![forbid(unsafe_code)]

use super::Gin;
use super::backend::Backend;
use super::context::{Context, Words};
use super::image::{self, Images};
use crate::device::{DevPtr, Device, DeviceMemory};
use crate::error::Result;
use crate::log::{self, timeline::DIRECT};
use crate::symmetric::{self, SymMemory, Symmetric};
use crate::{config, info};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Where all ranks' signal words are, context after context.
pub struct Signals {
    /// This rank's.
    pub own: DevPtr,
    /// LSA rank 0's.
    pub first: DevPtr,
    /// Bytes from one LSA rank's to the next one's: a multiple of 4 GiB.
    pub stride: u64,
    /// Keeps them mapped.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Contexts, and what kernels see of them.
type Built = (Vec<Context>, Images);

/// What the direct contexts of one communicator and rank stand on.
pub(super) struct DirectSet {
    signals: Signals,
    counters: DeviceMemory,
}

impl DirectSet {
    /// Zeroes the words of the ids in each context. No kernel of any rank adds to them now.
    pub fn zero(&self, gin: &Gin, signals: Range<u32>, counters: Range<u32>) -> Result<()> {
        let words = |base: DevPtr, pool: u32, context: u32, ids: &Range<u32>| {
            let first = u64::from(context) * u64::from(pool) + u64::from(ids.start);
            match ids.len() {
                0 => Ok(()),
                n => gin.device.zero(base + first * 8, n * 8),
            }
        };
        for context in 0..gin.n_contexts() {
            words(self.signals.own, gin.shape.signals, context, &signals)?;
            words(self.counters.device(), gin.shape.counters, context, &counters)?;
        }
        Ok(())
    }

    /// Where the words of the ids begin: one range per context.
    pub fn spans(&self, gin: &Gin, signals: &Range<u32>, counters: &Range<u32>) -> Vec<(DevPtr, u32)> {
        let at = |base: DevPtr, pool: u32, context: u32, ids: &Range<u32>| {
            (base + (u64::from(context) * u64::from(pool) + u64::from(ids.start)) * 8, ids.end - ids.start)
        };
        let of = |context| {
            [
                at(self.signals.own, gin.shape.signals, context, signals),
                at(self.counters.device(), gin.shape.counters, context, counters),
            ]
        };
        (0..gin.n_contexts()).flat_map(of).filter(|(_, n)| *n > 0).collect()
    }
}

impl Gin {
    /// Collective: makes the direct contexts, if they are not there. Fails on all ranks or on none.
    pub(crate) fn make_direct(&self, symmetric: &Symmetric) -> Result<()> {
        if self.direct.get().is_some() {
            return Ok(());
        }
        let bytes = (self.n_contexts() as usize * self.shape.signals as usize * 8).max(8);
        let memory = symmetric.allocate("gin direct signals", bytes)?;
        let largest = config::int("GINRS_DIRECT_LARGEST").max(0) as u64;
        let made = symmetric::stride(&symmetric.team).and_then(|stride| self.build_direct(signals_of(&memory, stride), largest));
        if let Err(error) = symmetric.team.done("gin direct contexts", &made) {
            drop(made);
            symmetric.release(&memory);
            return Err(error);
        }
        let (contexts, set) = made?;
        self.adopt_direct(contexts, set)?;
        info!(INIT, "GIN {}: {} direct contexts, puts up to {largest} bytes by kernels", symmetric.team.tag(), self.n_contexts());
        Ok(())
    }

    /// The same for this rank alone, over words that the caller mapped on all.
    pub fn add_direct(&self, signals: Signals, largest: u64) -> Result<()> {
        let (contexts, set) = self.build_direct(signals, largest)?;
        self.adopt_direct(contexts, set)
    }

    fn build_direct(&self, signals: Signals, largest: u64) -> Result<(Built, DirectSet)> {
        let device: &dyn Device = &*self.device;
        let shape = self.shape;
        let counters = device.objects((self.n_contexts() as usize * shape.counters as usize * 8).max(8))?;
        let words = |context: u32| {
            let signal_offset = u64::from(context) * u64::from(shape.signals) * 8;
            log::timeline::words(self.abort.host_address(), context | DIRECT, signals.own + signal_offset, shape.signals);
            Arc::new(Words::Direct {
                own: signals.own + signal_offset,
                counters: counters.device() + u64::from(context) * u64::from(shape.counters) * 8,
                image: image::Direct {
                    signals: signals.first + signal_offset,
                    stride: signals.stride,
                    largest,
                    ids: (shape.signals, shape.counters),
                },
            })
        };
        let words = (0..self.n_contexts()).map(words).chain([Arc::new(Words::Foreign)]).collect();
        let (contexts, images) = Context::build(device, shape, words, &self.abort)?;
        Ok(((contexts, images), DirectSet { signals, counters }))
    }

    fn adopt_direct(&self, (contexts, images): Built, set: DirectSet) -> Result<()> {
        match self.direct.set(set) {
            Ok(()) => self.adopt(Backend::Direct, contexts, images),
            Err(_) => Ok(()),
        }
    }
}

fn signals_of(memory: &Arc<SymMemory>, stride: u64) -> Signals {
    let own = memory.address();
    Signals { own, first: memory.flat_address(0).unwrap_or(own), stride, keep: Box::new(memory.clone()) }
}
