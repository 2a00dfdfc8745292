//! Sets of contexts: each device communicator has its own, proxied or of a model of a card, so that the proxy knows whose kernels wrote a
//! descriptor or an element, and refuses ids that are another's. A queue says who posted; an id does not.
//!
//! All sets share the words: context `c` of every set adds to the same signals and counters, each to its own range of ids. The
//! direct contexts are one set for all: the proxy moves no words there. So are those of a real card, which takes elements itself.
//!
//! A set costs a rank at most 4 MiB of queues (`context::depth`; of a card's as many as NCCL_GIN_GDAKI_QP_DEPTH says) and the proxy one more place
//! to look per context. It is kept when its device communicator goes, for the next one: kernels may still read it after an abort, and nothing is
//! freed under them.
#![forbid(unsafe_code)]

use super::Gin;
use super::backend::Backend;
use super::context::{Context, Shape, Words};
use super::plan::Limits;
use super::{gdaki, image};
use crate::abort::Abort;
use crate::bail;
use crate::device::{DevPtr, Device, Transfers};
use crate::error::Result;
use crate::seq::Seq;
use std::ops::Range;
use std::sync::Arc;

/// Contexts that one rank's proxy serves for a communicator: what 12 bits of a tag name.
const MOST: usize = 4096;

/// What kernels see of a set.
pub(super) enum Images {
    /// Contexts of ours.
    Own(image::Images),
    /// A card's.
    Nic(gdaki::Images),
}

impl Images {
    /// Where context `c` stands.
    pub fn context(&self, c: usize) -> DevPtr {
        match self {
            Self::Own(images) => images.context(c),
            Self::Nic(images) => images.context(c),
        }
    }

    /// Up to where kernels have claimed, by the engine's contexts and peers.
    pub fn claimed(&self, device: &dyn Transfers) -> Result<Vec<Vec<Seq>>> {
        match self {
            Self::Own(images) => images.claimed(device),
            Self::Nic(images) => images.claimed(device),
        }
    }
}

/// The contexts of one set, and what kernels see of them. `served`: contexts that the engine has.
pub(super) fn build(
    device: &Arc<dyn Device>,
    shape: Shape,
    words: &[Arc<Words>],
    card: Option<&gdaki::Card>,
    (rank, served): (u32, u32),
    abort: &Abort,
) -> Result<(Vec<Context>, Images)> {
    match card {
        None => Context::build(&**device, shape, words.to_vec(), abort).map(|(contexts, images)| (contexts, Images::Own(images))),
        Some(card) => gdaki::build(device, shape, words, card, (rank, served), abort)
            .map(|(contexts, images)| (contexts, Images::Nic(images))),
    }
}

/// Contexts 0 to n of one device communicator, or of all that are direct, or a card's.
pub(super) struct Set {
    pub images: Arc<Images>,
    /// The engine's numbers; of a card's, those of companions are the second half.
    contexts: Range<usize>,
    backend: Backend,
    taken: bool,
    /// Nothing where several device communicators share it; of one that has given it back, until the next one takes it.
    asked: Asked,
}

/// Ids that the program itself counts with: what it asked for, and not what barriers have besides.
#[derive(Clone, Default)]
pub struct Asked {
    /// Of signals.
    pub signals: Range<u32>,
    /// Of counters.
    pub counters: Range<u32>,
}

/// In the engine's order, without a gap.
pub(super) struct Sets(Vec<Set>);

impl Sets {
    /// The first one, which is free.
    pub fn new(backend: Backend, contexts: &[Context], images: Images) -> Self {
        let contexts = 0..contexts.len();
        Self(vec![Set { images: Arc::new(images), contexts, backend, taken: false, asked: Asked::default() }])
    }

    /// Words of device memory that kernels wait by for a card, of the set whose first context is at that address.
    pub fn known(&self, address: DevPtr) -> Vec<(DevPtr, u32)> {
        let set = self.0.iter().find(|set| set.images.context(0) == address);
        match set.map(|set| &*set.images) {
            Some(Images::Nic(images)) => images.known(),
            _ => Vec::new(),
        }
    }

    /// Of each device communicator; where none is left, of those that were.
    pub fn asked(&self) -> Vec<Asked> {
        let any = self.0.iter().any(|set| set.taken);
        self.0.iter().filter(|set| set.taken || !any).map(|set| set.asked.clone()).collect()
    }

    pub fn images(&self) -> Vec<Arc<Images>> {
        self.0.iter().map(|set| set.images.clone()).collect()
    }
}

impl Gin {
    /// How many contexts a device communicator has: min(4, NCCL_GIN_NCONTEXTS), equal on all ranks.
    pub fn n_contexts(&self) -> u32 {
        self.n_contexts
    }

    /// Device address of context `c`'s 48-byte ncclGinProxyGpuCtx (our extension stands at +64), of the first set of that kind;
    /// 0 for a direct one if there are none yet.
    pub fn context(&self, backend: Backend, c: u32) -> DevPtr {
        self.sets.lock().0.iter().find(|set| set.backend == backend).map_or(0, |set| set.images.context(c as usize))
    }

    /// The contexts of a new device communicator with these ids, of which the program `asked` for some itself;
    /// [`Self::give_back_contexts`] takes the first address.
    pub fn take_contexts(
        &self,
        backend: Backend,
        signals: Range<u32>,
        counters: Range<u32>,
        asked: Asked,
    ) -> Result<Vec<DevPtr>> {
        let mut sets = self.sets.lock();
        let own = self.has_own(backend);
        let free = |set: &Set| set.backend == backend && !(own && set.taken);
        let at = match sets.0.iter().position(free) {
            Some(at) => at,
            None => {
                let served = self.pump.engine()?.contexts.len() as u32;
                let (shape, words, card) = (self.shape, &self.words, self.card.as_ref());
                let (contexts, images) = build(&self.device, shape, words, card, (self.rank, served), &self.abort)?;
                self.add_set(&mut sets, backend, contexts, images)?;
                sets.0.len() - 1
            }
        };
        let set = &mut sets.0[at];
        set.taken = true;
        if backend == Backend::Proxy {
            set.asked = asked;
        }
        if own {
            self.pump.engine()?.limit(set.contexts.clone(), signals, counters);
        }
        Ok((0..self.n_contexts as usize).map(|c| set.images.context(c)).collect())
    }

    /// The set whose first context is at `address` serves another device communicator. What its kernels may still post has no
    /// id that is right.
    pub fn give_back_contexts(&self, address: DevPtr) {
        let mut sets = self.sets.lock();
        let of = |set: &&mut Set| self.has_own(set.backend) && set.images.context(0) == address;
        if let Some(set) = sets.0.iter_mut().find(of) {
            self.give_back(|engine| {
                engine.limit(set.contexts.clone(), 0..0, 0..0);
                set.taken = false;
                Ok(())
            });
        }
    }

    /// Has each device communicator a set of its own?
    fn has_own(&self, backend: Backend) -> bool {
        match backend {
            Backend::Proxy => true,
            Backend::Direct => false,
            Backend::Gdaki => self.card.as_ref().and_then(gdaki::Card::hardware).is_none(),
        }
    }

    /// Which kind the context at `address` is of.
    pub fn backend_of(&self, address: DevPtr) -> Backend {
        let sets = self.sets.lock();
        let of = |set: &&Set| (0..self.n_contexts as usize).any(|c| set.images.context(c) == address);
        sets.0.iter().find(of).map_or(Backend::Proxy, |set| set.backend)
    }

    /// From here on the proxy looks at their queues; contexts are never taken away.
    pub(super) fn adopt(&self, backend: Backend, contexts: Vec<Context>, images: image::Images) -> Result<()> {
        self.add_set(&mut self.sets.lock(), backend, contexts, Images::Own(images))
    }

    fn add_set(&self, sets: &mut Sets, backend: Backend, contexts: Vec<Context>, images: Images) -> Result<()> {
        let n = contexts.len();
        let first = self.pump.engine()?.add(contexts, MOST);
        let Some(first) = first else {
            bail!(
                InternalError,
                31,
                "too many device communicators with GIN | rank {}: {} sets of {} contexts | fix: destroy device communicators that are not \
                 used",
                self.rank,
                sets.0.len(),
                self.n_contexts
            );
        };
        let contexts = first..first + n;
        sets.0.push(Set { images: Arc::new(images), contexts, backend, taken: false, asked: Asked::default() });
        Ok(())
    }
}

impl super::proxy::Engine {
    /// From now on those contexts have these ids.
    fn limit(&mut self, contexts: Range<usize>, signals: Range<u32>, counters: Range<u32>) {
        for context in &mut self.contexts[contexts] {
            context.limits = Limits { signals: signals.clone().into(), counters: counters.clone().into(), ..context.limits };
            if !signals.is_empty() {
                context.counted = signals.clone().into();
                context.lanes.count_from(context.limits.first_signal());
            }
        }
    }
}
