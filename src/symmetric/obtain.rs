//! Obtaining symmetric memory (spec host 2.4): proposed by every rank, agreed on, then mapped over the LSA team.

use super::flat::{FlatSpace, TeamKey};
use super::held::Symmetric;
use super::memory::{Held, SymMemory};
use super::multicast;
use super::offsets::{Offsets, Span};
use crate::device::{Kind, Physical};
use crate::error::Result;
use crate::sync::Mutex;
use crate::team::{Offer, Said, Team, compare, offers_of};
use crate::topo::Topology;
use crate::{bail, config, info};
use std::sync::Arc;

/// Bytes of a rank's slice of the flat space on the CPU device, unless NCCL_WIN_STRIDE says otherwise. 64 thread-ranks of it
/// map also under ThreadSanitizer, larger ones do not.
const CPU_STRIDE: u64 = 8 << 30;
const UNIT: u64 = 4 << 30;

/// Bytes per rank in the flat space: NCCL_WIN_STRIDE, or automatic; a multiple of 4 GiB.
pub fn stride(team: &Team) -> Result<u64> {
    let bytes = match config::int("NCCL_WIN_STRIDE") {
        -1 | 0 => match team.device.kind() {
            Kind::Cpu => CPU_STRIDE,
            Kind::Cuda => team.peers.iter().map(|peer| peer.total_memory).max().unwrap_or(0).max(1),
        },
        bytes => bytes as u64,
    };
    // 47 bits of addresses serve all ranks; a negative value lands far above.
    match bytes.checked_next_multiple_of(UNIT).filter(|&bytes| bytes < 1 << 47) {
        Some(bytes) => Ok(bytes),
        None => bail!(InvalidArgument, 56, "NCCL_WIN_STRIDE is {} | bytes per rank, below 2^47 | fix: unset it", bytes as i64),
    }
}

impl Symmetric {
    /// The flat space, made at first use.
    pub fn space(&self) -> Result<Arc<FlatSpace>> {
        Ok(self.space_and_offsets()?.0)
    }

    /// The flat space and its offsets, made at first use.
    fn space_and_offsets(&self) -> Result<(Arc<FlatSpace>, Offsets)> {
        let mut state = self.state.lock();
        if let Some((space, offsets)) = &state.space {
            return Ok((space.clone(), offsets.clone()));
        }
        let team = &*self.team;
        let stride = stride(team)?;
        let Topology { lsa_first, lsa_size, .. } = team.topo;
        let space = FlatSpace::join(&*team.device, TeamKey::of(team.hash, lsa_first, &*team.device), lsa_size, stride)?;
        info!(
            INIT,
            "{} LSA team: ranks {lsa_first} to {}, {} GiB each from {:#x}",
            team.tag(),
            lsa_first + lsa_size - 1,
            stride >> 30,
            space.base()
        );
        let offsets = Offsets::new(stride, team.device.granularity() as u64);
        state.space = Some((space.clone(), offsets.clone()));
        Ok((space, offsets))
    }

    fn take(&self, bytes: usize) -> Result<(Arc<FlatSpace>, Span)> {
        let (space, offsets) = self.space_and_offsets()?;
        match offsets.take(bytes as u64) {
            Some(span) => Ok((space, span)),
            None => bail!(
                InternalError,
                56,
                "the flat space is full | {} | {bytes} bytes wanted, {} of {} bytes per rank in use | fix: raise NCCL_WIN_STRIDE on \
                 every rank",
                self.team.tag(),
                offsets.in_use(),
                space.stride()
            ),
        }
    }
    /// Collective: `bytes` of zeroed memory on every rank, until the communicator goes or [`Self::release`] is called for it on all.
    pub(crate) fn allocate(&self, what: &str, bytes: usize) -> Result<Arc<SymMemory>> {
        let proposal = Proposal::fresh(self, bytes);
        let said = proposal.as_ref().map(|own| Said { agreed: own.agreed().to_vec(), own: own.own().to_vec() });
        let all = self.team.round(what, said.map_err(Clone::clone))?;
        compare(what, &all, |i| AGREED[i].into(), |_, value| value.to_string())?;
        let (held, _offer) = proposal?.obtain(&all);
        let memory = held.map(|held| self.adopt(held));
        if let (Err(error), Ok(memory)) = (self.team.done(&format!("{what}, end"), &memory), &memory) {
            self.release(memory);
            return Err(error);
        }
        memory
    }
}

/// Memory that this rank would add. Dropped: nothing happened.
pub(crate) struct Proposal<'a> {
    symmetric: &'a Symmetric,
    space: Arc<FlatSpace>,
    span: Span,
    physical: Arc<dyn Physical>,
    offer: Offer<'a>,
}

/// Names of [`Proposal::agreed`]'s words.
pub(crate) const AGREED: [&str; 3] =
    ["size of the allocation", "offset in the flat space", "bytes per rank in the flat space (NCCL_WIN_STRIDE)"];

impl<'a> Proposal<'a> {
    /// Takes an offset and offers memory that exists.
    pub fn new(symmetric: &'a Symmetric, physical: Arc<dyn Physical>) -> Result<Self> {
        let (space, span) = symmetric.take(physical.bytes())?;
        let offer = Offer::new(&symmetric.team, &physical)?;
        Ok(Self { symmetric, space, span, physical, offer })
    }

    /// The same with new memory of `bytes`, made only if there is room for it.
    pub fn fresh(symmetric: &'a Symmetric, bytes: usize) -> Result<Self> {
        let device = &symmetric.team.device;
        let (space, span) = symmetric.take(bytes.checked_next_multiple_of(device.granularity()).unwrap_or(usize::MAX))?;
        let physical = device.create(bytes)?;
        let offer = Offer::new(&symmetric.team, &physical)?;
        Ok(Self { symmetric, space, span, physical, offer })
    }

    /// Must be equal on all ranks.
    pub fn agreed(&self) -> [u64; 3] {
        [self.physical.bytes() as u64, self.span.start(), self.space.stride()]
    }

    /// For the ranks that map it.
    pub fn own(&self) -> [u64; 2] {
        self.offer.words(&self.physical)
    }

    /// This rank's memory.
    pub fn physical(&self) -> &Arc<dyn Physical> {
        &self.physical
    }

    /// Maps the memory of the whole LSA team. `all` is the round in which everybody proposed, with [`Proposal::own`] first in its own words.
    ///
    /// The offer stands until the returned one drops, also on error: keep it through the closing round, or the others would
    /// blame this rank's memory instead of hearing its reason.
    pub fn obtain(self, all: &[Said]) -> (Result<Held>, Offer<'a>) {
        let Proposal { symmetric, space, span, physical, offer } = self;
        (map(symmetric, &space, span, physical, &offer, all), offer)
    }
}

fn map(
    symmetric: &Symmetric,
    space: &Arc<FlatSpace>,
    span: Span,
    physical: Arc<dyn Physical>,
    offer: &Offer<'_>,
    all: &[Said],
) -> Result<Held> {
    // First of all: every rank that comes here counts, also one that fails below.
    let id = {
        let mut state = symmetric.state.lock();
        state.last_memory += 1;
        state.last_memory
    };
    let peers = offer.take_all(&physical, &offers_of(all, 0)?, |device, fd, bytes| device.import(fd, bytes))?;
    let mut members = Vec::with_capacity(symmetric.team.topo.lsa_size as usize);
    for (slot, rank) in symmetric.team.topo.lsa_members().enumerate() {
        let Some(theirs) = &peers[rank as usize] else {
            bail!(
                InvalidUsage,
                56,
                "rank {rank} is in this LSA team but on another machine | {} | it shares a host identity, not memory | fix: \
                 unset NCCL_HOSTID and GINRS_FAKE_NODES or make them differ",
                symmetric.team.tag()
            );
        };
        members.push((slot as u32, theirs));
    }
    let views = space.views(span.start(), &members)?;
    let bindings = multicast::bind_new(symmetric, span.start(), &physical)?;
    let memory = Arc::new(SymMemory {
        id,
        bytes: physical.bytes(),
        big_offset: span.start(),
        on_gpu: symmetric.team.device.holds(&*physical),
        physical,
        peers,
        stride: space.stride(),
        lsa_first: symmetric.team.topo.lsa_first,
        lsa_rank: symmetric.team.topo.lsa_rank,
        own_mappings: Mutex::default(),
        addresses: views.iter().map(|view| view.address()).collect(),
    });
    Ok(Held { memory, uses: 0, bindings, _views: views, _span: Some(span) })
}
