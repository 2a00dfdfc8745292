//! What is registered and made, by the card's numbers. One for the process: ranks are its threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// A range of this process's memory.
#[derive(Clone, Copy)]
pub struct Range {
    pub at: usize,
    pub bytes: usize,
}

impl Range {
    /// Address of `bytes` at `offset`, if they lie in it.
    pub fn part(self, offset: u64, bytes: u64) -> Option<usize> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes as u64).then(|| self.at + offset as usize)
    }
}

/// A key's.
#[derive(Clone, Copy)]
pub struct Registered {
    pub range: Range,
    /// Address that its first byte has for elements.
    pub first: u64,
    pub domain: u32,
    pub access: u32,
}

pub struct Completions {
    pub entries: usize,
    pub log_entries: u32,
    /// Elements that are complete.
    pub done: u32,
    pub users: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    Error = 6,
}

pub struct Pair {
    pub domain: u32,
    pub completions: u32,
    pub ring: usize,
    pub log_depth: u32,
    /// The doorbell record's second word.
    pub record: usize,
    pub waits: bool,
    pub state: State,
    /// RST2INIT_QP says that the peer may write and add.
    pub open_to_peers: bool,
    pub mtu: u64,
    pub remote: u32,
    /// Elements below this were taken.
    pub taken: u32,
}

#[derive(Default)]
pub struct World {
    pub keys: BTreeMap<u32, Registered>,
    pub umems: BTreeMap<u32, Range>,
    /// What of them this library has mapped itself, by their number or local key.
    pub mapped: BTreeMap<u32, Range>,
    pub completions: BTreeMap<u32, Completions>,
    pub pairs: BTreeMap<u32, Pair>,
    /// Those that ibv_create_qp and ibv_create_cq make.
    pub posted: BTreeMap<u32, crate::posted::Posted>,
    pub polled: BTreeMap<u32, std::collections::VecDeque<crate::layout::ibv_wc>>,
    pub domains: Vec<u32>,
    pub pages: Vec<u32>,
    next: u32,
    /// Contexts that are open: while there are some, the card's thread runs.
    pub open: u32,
    pub running: bool,
    /// Who hears of a queue, by its number.
    pub listeners: BTreeMap<u32, crate::events::Listener>,
    /// Of each context that is open: its address, and where its events are written.
    pub contexts: Vec<(usize, i32)>,
    /// Elements that were done, where an event waits for one.
    pub elements: u64,
    /// Elements that SOFTVERBS_FAULT has matched.
    pub matched: u64,
}

impl World {
    /// A number that nothing else has, none of them small: what is taken for an index is found out.
    pub fn number(&mut self) -> u32 {
        self.next += 1;
        0x100 + self.next
    }
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// All of it, while the guard lives.
pub fn with<T>(work: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<Option<World>> = WORLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    work(world.get_or_insert_with(World::default))
}
