//! What a transport is told: memories, and pieces of work between them.

use super::Words;
use crate::device::{DevPtr, Physical};
use std::any::Any;
use std::sync::Arc;

/// [`Region::id`] of the signal memory.
pub const SIGNALS: u32 = 0;

/// This rank's part of a memory that is to be registered.
pub struct Part<'a> {
    /// The [`Region::id`] that it will have.
    pub id: u32,
    /// The allocation around it.
    pub memory: &'a Arc<dyn Physical>,
    /// Where it starts there.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
}

/// One registered memory, on all ranks.
pub struct Region {
    /// Small number, reused after deregistration; [`SIGNALS`] is the signal memory.
    pub id: u32,
    /// Equal on all ranks for the same memory.
    pub name: u64,
    /// No other rank's part is mapped here, and no put of it goes to a rank whose memory is.
    pub apart: bool,
    bytes: u64,
    local: DevPtr,
    /// From rank `first` on: a communicator may have thousands whose memory cannot be mapped.
    peers: Vec<Option<DevPtr>>,
    first: usize,
    words: Arc<Vec<Words>>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Region {
    /// `peers` are addresses of this process for every rank's memory, None where it cannot be mapped; `rank` is this one.
    /// `keep` is dropped with the region.
    ///
    /// # Safety
    /// Each address is the start of `bytes` bytes of mapped memory until the region is deregistered from its engine.
    pub unsafe fn new(
        name: u64,
        bytes: u64,
        rank: u32,
        peers: Vec<Option<DevPtr>>,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Option<Self> {
        let local = (*peers.get(rank as usize)?)?;
        let first = peers.iter().position(Option::is_some)?;
        let end = peers.iter().rposition(Option::is_some)?;
        let peers = peers[first..=end].to_vec();
        Some(Self { id: SIGNALS, name, apart: false, bytes, local, peers, first, words: Arc::default(), _keep: keep })
    }

    /// With what all ranks' transports said of their parts.
    pub fn with_words(self, words: impl Into<Arc<Vec<Words>>>) -> Self {
        Self { words: words.into(), ..self }
    }

    /// What the transport `name` of rank `peer` said of its part; empty if it said nothing.
    pub fn words(&self, peer: usize, name: &str) -> &[u8] {
        self.words.get(peer).map_or(&[], |words| words.of(name))
    }

    /// Without them: every transport has taken what it needs, and they are many times as large.
    pub fn forget_words(&mut self) {
        self.words = Arc::default();
    }

    /// Size in bytes; nothing behind it may be touched.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// This rank's memory.
    pub fn local(&self) -> DevPtr {
        self.local
    }

    /// Rank `peer`'s memory, where this process can touch it.
    pub fn peer(&self, peer: usize) -> Option<DevPtr> {
        self.peers.get(peer.wrapping_sub(self.first)).copied().flatten()
    }
}

/// Where the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In this rank's memory, at byte `offset` of region `region`.
    Region {
        /// Its [`Region::id`].
        region: u32,
        /// In bytes.
        offset: u64,
    },
    /// Here, little-endian; at most 8 bytes.
    Inline(u64),
}

/// One piece of work for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Comes back in the [`Completion`].
    pub tag: u64,
    /// GIN context: work is ordered within one context and peer, and nowhere else.
    pub context: u32,
    /// Target rank.
    pub peer: u32,
    /// What to move.
    pub source: Source,
    /// How much; 0 with a signal alone.
    pub bytes: u64,
    /// Region and byte offset in the target's memory.
    pub target: (u32, u64),
    /// Byte offset in the target's signal memory and what to add to the word there.
    pub signal: Option<(u64, u64)>,
}
