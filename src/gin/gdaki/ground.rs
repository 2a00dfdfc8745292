//! Memory that a card and kernels share, cut into stretches. On a GPU it is the GPU's own, as NVIDIA's library has it; what the host reads or
//! writes there goes by copies.
#![forbid(unsafe_code)]

use crate::device::{ControlMemory, DevPtr, Device, Physical};
use crate::error::Result;
use crate::gin::shared::{Shared, Words};
use crate::verbs::{Card, Memory, Spot, Umem};
use std::sync::Arc;

/// Stretches begin at pages of a card.
const PAGE: usize = 4096;

/// Whose memory it is.
#[derive(Clone)]
enum Whose {
    /// Host memory.
    Host(Arc<ControlMemory>),
    /// The device's.
    Device(Arc<dyn Physical>),
}

/// See the head of this file.
pub struct Ground {
    whose: Whose,
    memory: Memory,
    umem: Arc<Umem>,
    cut: usize,
}

/// A stretch of it.
#[derive(Clone)]
pub struct Stretch {
    whose: Whose,
    memory: Memory,
    umem: Arc<Umem>,
    start: usize,
    bytes: usize,
}

/// Bytes that a stretch takes.
pub fn whole(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(PAGE)
}

impl Ground {
    /// `bytes` of the device's memory, zeroed.
    pub fn of_device(device: &dyn Device, card: &Arc<Card>, bytes: usize) -> Result<std::result::Result<Self, String>> {
        let physical = device.create(bytes)?;
        let memory = Memory::Exposed(Arc::new(device.expose(&physical)?));
        Ok(Self::told(card, Whose::Device(physical), memory, bytes))
    }

    /// The same of host memory that kernels see.
    pub fn of_host(device: &dyn Device, card: &Arc<Card>, bytes: usize) -> Result<std::result::Result<Self, String>> {
        let memory = Arc::new(device.control(bytes)?);
        Ok(Self::told(card, Whose::Host(memory.clone()), Memory::Control(memory), bytes))
    }

    fn told(card: &Arc<Card>, whose: Whose, memory: Memory, bytes: usize) -> std::result::Result<Self, String> {
        let umem = card.umem(&memory, 0, bytes)?;
        Ok(Self { whose, memory, umem, cut: 0 })
    }

    /// The next `bytes`. Who made it has counted.
    pub fn take(&mut self, bytes: usize) -> Stretch {
        let start = self.cut;
        self.cut += whole(bytes);
        Stretch { whose: self.whose.clone(), memory: self.memory.clone(), umem: self.umem.clone(), start, bytes }
    }
}

impl Stretch {
    /// Address for kernels.
    pub fn device(&self) -> DevPtr {
        self.memory.device() + self.start as u64
    }

    /// Byte `offset` of it, for queues.
    pub fn spot(&self, offset: u64) -> Spot {
        Spot { umem: self.umem.clone(), offset: self.start as u64 + offset }
    }

    /// The memory, and which bytes of it.
    pub fn place(&self) -> (&Memory, usize, usize) {
        (&self.memory, self.start, self.bytes)
    }

    /// All of it as words, where the host reaches them.
    pub fn words<T: Words>(&self) -> Option<Shared<T>> {
        let n = self.bytes / size_of::<T>();
        match &self.whose {
            Whose::Host(memory) => Some(Shared::part(memory, self.start, n)),
            Whose::Device(physical) => Shared::of_physical(physical, self.start, n),
        }
    }
}
