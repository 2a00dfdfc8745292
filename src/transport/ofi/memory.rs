//! Windows as the network knows them: this rank's, which peers may write by a key that nobody can guess, and where those of the
//! peers are. On a GPU nobody writes them but this rank (`staging`): they have names and no keys.

use super::door::of_stream;
use super::endpoint::Range;
use super::net::Net;
use super::registered::Memory;
use super::sys::{FI_REMOTE_WRITE, FI_WRITE};
use super::{NAME, STREAMS, random_key};
use crate::bail;
use crate::device::Physical;
use crate::error::Result;
use crate::transport::remote::Remote;
use crate::transport::{Part, Region, SIGNALS, Source, Work};
use std::collections::HashSet;
use std::sync::Arc;

/// What messages and writes call a peer's part of a window, and what its offsets count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// For messages.
    pub name: u64,
    /// For the provider.
    pub key: u64,
    pub base: u64,
}

impl Place {
    const BYTES: usize = 24;

    fn encode(&self) -> Vec<u8> {
        [self.name, self.key, self.base].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// What a rank says for `stream`: it has one for all streams, or one for each.
    fn decode(bytes: &[u8], stream: u32) -> Option<Self> {
        let (places, rest) = bytes.as_chunks::<{ Self::BYTES }>();
        let words = of_stream(places, stream).filter(|_| rest.is_empty())?;
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| words[8 * i + byte]));
        Some(Self { name: word(0), key: word(1), base: word(2) })
    }
}

/// The peers' parts of a window.
#[derive(Clone, Default)]
struct Places {
    /// By rank, so many for each.
    all: Vec<Place>,
    each: u32,
}

struct Own {
    /// What peers may write; None on a GPU, where nothing is open to them.
    memory: Option<Memory>,
    place: Place,
    bytes: u64,
    keep: Arc<dyn Physical>,
}

/// By [`Region::id`].
pub(super) struct Memories {
    /// Payloads go in messages alone: windows may lie in GPU memory.
    staged: bool,
    /// Names of those that do, of this rank's.
    on_device: HashSet<u64>,
    own: Vec<Option<Own>>,
    places: Vec<Places>,
    /// The one stream that goes over these links; None: all.
    stream: Option<u32>,
    /// Their bounds.
    pub bounds: Remote,
}

impl Memories {
    pub fn new(staged: bool, stream: Option<u32>) -> Self {
        Self { staged, on_device: HashSet::new(), own: Vec::new(), places: Vec::new(), stream, bounds: Remote::new(NAME) }
    }

    /// True if the CPU cannot touch this rank's part of the window `name`.
    pub fn is_on_device(&self, name: u64) -> bool {
        self.on_device.contains(&name)
    }

    /// The same by [`Region::id`].
    pub fn holds_on_device(&self, region: u32) -> bool {
        self.own.get(region as usize).and_then(Option::as_ref).is_some_and(|own| self.is_on_device(own.place.name))
    }

    /// Opens `part` to writes of peers: exactly that. What they are to be told.
    pub fn prepare(&mut self, net: &Arc<Net>, part: &Part<'_>) -> Result<Vec<u8>> {
        if part.id == SIGNALS {
            // Words of the target's proxy alone: no write goes there.
            return Ok(Vec::new());
        }
        let inside = part.start.checked_add(part.bytes).is_some_and(|end| end <= part.memory.bytes() as u64) && part.bytes > 0;
        let host = part.memory.host().filter(|_| inside);
        let (memory, place) = match host {
            _ if self.staged && inside => (None, Place { name: random_key()?, key: 0, base: 0 }),
            Some(host) => {
                // SAFETY: checked to lie in the allocation, which is mapped as long as it lives, and is kept beside the registration.
                let memory = unsafe {
                    let at = host.as_ptr().add(part.start as usize);
                    net.register(at, part.bytes as usize, FI_WRITE | FI_REMOTE_WRITE, random_key()?)?
                };
                let base = if net.traits.addresses { memory.base().expose_provenance() as u64 } else { 0 };
                let place = Place { name: random_key()?, key: memory.key(), base };
                (Some(memory), place)
            }
            None => bail!(
                InternalError,
                37,
                "memory has no host address | {NAME}, {:#x} bytes at {:#x} | fix: report this",
                part.bytes,
                part.start
            ),
        };
        if host.is_none() {
            self.on_device.insert(place.name);
        }
        let id = part.id as usize;
        if self.own.len() <= id {
            self.own.resize_with(id + 1, || None);
        }
        self.own[id] = Some(Own { memory, place, bytes: part.bytes, keep: part.memory.clone() });
        Ok(place.encode())
    }

    pub fn register(&mut self, region: &Region, ranks: usize) -> Result<()> {
        let id = region.id as usize;
        // A rank of which no pair goes this way says nothing, and is not asked for anything; nobody says anything of signals.
        let ranks = if region.id == SIGNALS { 0 } else { ranks };
        let places = self.places_in(region, ranks);
        let own = self.own.get(id).and_then(Option::as_ref).map(|own| own.place.name);
        let Some(name) = own.or((region.id == SIGNALS).then_some(0)) else {
            bail!(InternalError, 37, "memory was not prepared | memory {}, {NAME} | fix: report this", region.name);
        };
        self.bounds.register(region, name)?;
        if self.places.len() <= id {
            self.places.resize(id + 1, Places::default());
        }
        self.places[id] = places;
        Ok(())
    }

    fn places_in(&self, region: &Region, ranks: usize) -> Places {
        let streams = match self.stream {
            Some(stream) => stream..stream + 1,
            // A second place for each rank only where somebody says more than one.
            None if (0..ranks).any(|rank| region.words(rank, NAME).len() > Place::BYTES) => 0..STREAMS,
            None => 0..1,
        };
        let of = |rank| {
            let said = region.words(rank, NAME);
            streams.clone().map(|stream| Place::decode(said, stream).unwrap_or_default())
        };
        Places { all: (0..ranks).flat_map(of).collect(), each: streams.len() as u32 }
    }

    /// Withdraws its keys. Its memory: what has come in half may still land there.
    pub fn deregister(&mut self, region: u32) -> Option<Arc<dyn Physical>> {
        self.bounds.deregister(region);
        if let Some(places) = self.places.get_mut(region as usize) {
            places.all.clear();
        }
        let own = self.own.get_mut(region as usize)?.take()?;
        self.on_device.remove(&own.place.name);
        // Without a key nothing is half received.
        own.memory.map(|_| own.keep)
    }

    /// Withdraws all keys, when there are no links any more.
    pub fn clear(&mut self) {
        (0..self.own.len() as u32).for_each(|region| drop(self.deregister(region)));
    }

    /// Rank `peer`'s part, for what goes there on `stream`.
    pub fn place(&self, region: u32, peer: u32, stream: u32) -> Place {
        let Some(Places { all, each }) = self.places.get(region as usize) else { return Place::default() };
        let at = peer as usize * *each as usize + stream.checked_rem(*each).unwrap_or(0) as usize;
        all.get(at).copied().unwrap_or_default()
    }

    /// Where `work`'s payload lies, for a call: None if it is in no window, or in none that was prepared.
    pub fn source(&self, work: &Work) -> Option<Range> {
        let Source::Region { region, offset } = work.source else { return None };
        let own = self.own.get(region as usize)?.as_ref()?;
        let memory = own.memory.as_ref()?;
        let inside = offset.checked_add(work.bytes)? <= own.bytes;
        // SAFETY: inside the registered memory, as just checked.
        let at = inside.then(|| unsafe { memory.base().add(offset as usize) })?;
        Some(Range { at, bytes: work.bytes as usize, descriptor: memory.descriptor() })
    }
}
