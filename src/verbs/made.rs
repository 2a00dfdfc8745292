//! What is registered and made on a card. Everything keeps what it stands on, and goes from the card at drop.

use super::card::Card;
use super::commands::{self, Memory as Place, State};
use super::opened::done;
use super::prm::bytes;
use super::sys::*;
use crate::device::{ControlMemory, DevPtr, Exposed};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that a card may be told of.
#[derive(Clone)]
pub enum Memory {
    /// Host memory for queues and words.
    Control(Arc<ControlMemory>),
    /// Windows, signals, and on GPUs queues.
    Exposed(Arc<Exposed>),
}

/// Bytes of a [`Memory`].
pub(super) struct Part<'a> {
    /// Of this process, for the card's kernel driver to look up.
    pub at: *mut c_void,
    /// The same as a DMA-BUF, in which they are from the part's start on; or why there is none.
    pub descriptor: Result<BorrowedFd<'a>, &'a str>,
}

impl Memory {
    /// Its first byte for kernels.
    pub fn device(&self) -> DevPtr {
        match self {
            Self::Control(memory) => memory.device(),
            Self::Exposed(memory) => memory.at(),
        }
    }

    pub(super) fn part(&self, start: usize, bytes: usize) -> Result<Part<'_>, String> {
        let (at, size, descriptor) = match self {
            Self::Control(memory) => (memory.host().as_ptr().expose_provenance(), memory.bytes(), Err("it is host memory")),
            Self::Exposed(memory) => (memory.at() as usize, memory.bytes(), memory.descriptor()),
        };
        match start.checked_add(bytes) {
            Some(end) if end <= size => Ok(Part { at: std::ptr::with_exposed_provenance_mut(at + start), descriptor }),
            _ => Err(format!("{start:#x}+{bytes:#x} of a memory of {size:#x} bytes")),
        }
    }
}

/// Names of a registered memory in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// At this rank.
    pub local: u32,
    /// For peers.
    pub remote: u32,
}

/// Memory that elements may name; forgotten at drop.
pub struct Registered {
    pub(super) made: NonNull<ibv_mr>,
    pub(super) card: Arc<Card>,
    pub(super) _memory: Memory,
}

// SAFETY: see Card.
unsafe impl Send for Registered {}
// SAFETY: see Card.
unsafe impl Sync for Registered {}

impl Registered {
    /// Its names.
    pub fn keys(&self) -> Keys {
        // SAFETY: the library's struct, which lives until it is deregistered.
        let mr = unsafe { self.made.as_ref() };
        Keys { local: mr.lkey, remote: mr.rkey }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.card.is_ours() {
            return;
        }
        // SAFETY: registered once.
        unsafe { (self.card.functions().ibv_dereg_mr)(self.made.as_ptr()) };
    }
}

/// Memory under queues.
pub struct Umem {
    pub(super) made: NonNull<mlx5dv_devx_umem>,
    pub(super) card: Arc<Card>,
    pub(super) _memory: Memory,
}

// SAFETY: see Card.
unsafe impl Send for Umem {}
// SAFETY: see Card.
unsafe impl Sync for Umem {}

impl Umem {
    fn at(&self, offset: u64) -> Place {
        // SAFETY: the library's struct, which lives until it is deregistered.
        Place { umem: unsafe { self.made.as_ref() }.umem_id, offset }
    }
}

/// A place in memory under queues.
#[derive(Clone)]
pub struct Spot {
    /// The memory.
    pub umem: Arc<Umem>,
    /// Byte.
    pub offset: u64,
}

impl Spot {
    pub(super) fn place(&self) -> Place {
        self.umem.at(self.offset)
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        if !self.card.is_ours() {
            return;
        }
        // SAFETY: the queues over it keep it, so they have gone.
        unsafe { (self.card.functions().mlx5dv_devx_umem_dereg)(self.made.as_ptr()) };
    }
}

/// Where doorbells are rung.
pub struct Page {
    pub(super) made: NonNull<mlx5dv_devx_uar>,
    pub(super) card: Arc<Card>,
}

// SAFETY: see Card.
unsafe impl Send for Page {}
// SAFETY: see Card; stores to the register are whole.
unsafe impl Sync for Page {}

impl Page {
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the library's struct, which lives until it is freed.
        unsafe { self.made.as_ref() }.page_id
    }

    /// The register, for the host.
    pub fn register(&self) -> NonNull<u8> {
        // SAFETY: as above; the page is mapped.
        NonNull::new(unsafe { self.made.as_ref() }.reg_addr.cast()).expect("a page has a register")
    }

    /// Says that elements of queue pair `number` below `end` are posted; its record says so already.
    pub fn ring(&self, end: u32, number: u32) {
        let words = [(end << 8).to_be(), (number << 8).to_be()];
        let value = u64::from(words[0]) | u64::from(words[1]) << 32;
        // SAFETY: the page is mapped until it is freed, and the register is 8 bytes, aligned.
        unsafe { self.register().cast::<AtomicU64>().as_ref() }.store(value, Ordering::Release);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.card.is_ours() {
            return;
        }
        // SAFETY: the queues that use it keep it, so they have gone.
        unsafe { (self.card.functions().mlx5dv_devx_free_uar)(self.made.as_ptr()) };
    }
}

/// A completion queue or a queue pair; gone from the card at drop.
pub struct Queue {
    pub(super) made: NonNull<mlx5dv_devx_obj>,
    /// The card's number.
    pub number: u32,
    /// What it is called in [`super::Event::Queue`].
    pub whose: u64,
    pub(super) card: Arc<Card>,
    pub(super) _on: ([Arc<Umem>; 2], Arc<Page>, Option<Arc<Queue>>),
}

// SAFETY: see Card.
unsafe impl Send for Queue {}
// SAFETY: see Card.
unsafe impl Sync for Queue {}

impl Queue {
    fn modify(&self, what: &str, command: &[u8]) -> Result<(), String> {
        let mut answer = commands::answer(bytes::SHORT);
        // SAFETY: both buffers are as long as said; the object lives.
        let result = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.card.functions().mlx5dv_devx_obj_modify)(self.made.as_ptr(), input, command.len(), output, answer.len())
        };
        done(what, result, answer).map(|_| ())
    }

    /// From just made to ready to send to what a peer's [`Card::address`] says.
    pub fn connect(&self, peer: &[u8; 32]) -> Result<(), String> {
        let (path, wishes) = (self.card.path(peer)?, self.card.wishes());
        self.modify("RST2INIT_QP", &commands::to_init(self.number, path.port, wishes.partition))?;
        self.modify("INIT2RTR_QP", &commands::to_rtr(self.number, &path))?;
        self.modify("RTR2RTS_QP", &commands::to_rts(self.number, wishes.patience))
    }

    /// From here on it does nothing, and completes what it has with an error.
    pub fn end(&self) -> Result<(), String> {
        self.modify("2ERR_QP", &commands::to_err(self.number))
    }

    /// What the card says of it.
    pub fn state(&self) -> Result<State, String> {
        let (command, mut answer) = (commands::query_qp(self.number), commands::answer(bytes::QUERY_QP_OUT));
        // SAFETY: as in `modify`.
        let result = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.card.functions().mlx5dv_devx_obj_query)(self.made.as_ptr(), input, command.len(), output, answer.len())
        };
        Ok(State::of(&done("QUERY_QP", result, answer)?))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.card.is_ours() {
            return;
        }
        // SAFETY: made once; nothing stands on it any more.
        unsafe { (self.card.functions().mlx5dv_devx_obj_destroy)(self.made.as_ptr()) };
    }
}
