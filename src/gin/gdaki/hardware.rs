//! A real card under GDAKI contexts: what one rank makes on it, what it tells its peers, and what they said.
//!
//! Queues towards this rank itself, and companions, are connected to themselves: one queue pair less for each than a responder of its own.
#![forbid(unsafe_code)]

use super::card::Card as Settings;
use super::ground::{self, Ground, Stretch};
use super::keys::Tables;
use super::queues::Handler;
use super::rings::{self, Bell, Failed, Rings};
use crate::device::{Device, Kind, Mapped, Physical};
use crate::error::{Code, Error, Result};
use crate::gin::context::{Shape, Words};
use crate::transport::Words as Said;
use crate::verbs::{Card, Keys, Memory, Order, Page, Registered, Wishes};
use crate::{bail, info};
use std::any::Any;
use std::sync::Arc;

/// Whose words these are among those of the transports.
pub const NAME: &str = "card";
/// Bytes of a queue pair's address.
const ADDRESS: usize = 32;
/// What is written in answers of adds, which nobody reads.
const SINK: usize = 8;

/// See the head of this file.
pub struct Hardware {
    card: Arc<Card>,
    ranks: u32,
    /// Rows of queues, and then of companions.
    rows: Vec<Arc<Rings>>,
    /// On a GPU, by context: signals and counters.
    tables: Vec<[Stretch; 2]>,
    signals: Vec<Registered>,
    sink: Registered,
    /// By context and rank: what peers name this rank's signals by.
    remote: Vec<Vec<u32>>,
    /// The card's register, where kernels ring.
    _register: Option<Box<dyn Any + Send + Sync>>,
}

/// How kernels ring: as NCCL_GIN_GDAKI_NIC_HANDLER says, or on a GPU by the card's register if the driver maps it.
fn bell(device: &dyn Device, page: &Arc<Page>, settings: &Settings) -> Result<(Bell, Option<Box<dyn Any + Send + Sync>>)> {
    let asked = match (settings.handler, device.kind()) {
        (Some(Handler::Cpu), _) | (None, Kind::Cpu) => return Ok((Bell::Mailbox, None)),
        (asked, _) => asked,
    };
    match (device.map_register(page.register(), page.clone()), asked) {
        (Ok(Mapped { at, keep }), _) => Ok((Bell::Register(at), Some(keep))),
        (Err(error), None) => {
            info!(INIT, "the host rings a card's doorbell: its register cannot be mapped for kernels | {}", error.text);
            Ok((Bell::Mailbox, None))
        }
        (Err(error), Some(_)) => Err(refuse(format!(
            "its register cannot be mapped for kernels | {} | fix: NCCL_GIN_GDAKI_NIC_HANDLER=1 has the host ring; NVreg_RegistryDwords=\
             \"PeerMappingOverride=1;\" of the kernel module nvidia lets kernels",
            error.text
        ))),
    }
}

fn refuse(why: String) -> Error {
    Error::new(Code::SystemError, 114, format!("a card cannot be used for GDAKI | {why}"))
}

/// The card that GINRS_NIC names, opened.
pub fn open(name: &str) -> Result<Arc<Card>> {
    let name = Some(name).filter(|name| !name.eq_ignore_ascii_case("card"));
    let card = Wishes::read().and_then(|wishes| Card::open(name, &wishes)).map_err(refuse)?;
    info!(INIT, "GDAKI by a card, which nobody has tried: {}, {}", card.name(), card.describe());
    Ok(card)
}

impl Hardware {
    /// Makes all queues, unconnected, and registers this rank's signals: those in `signals`, or on a GPU words in its own memory.
    pub fn new(
        device: &Arc<dyn Device>,
        card: &Arc<Card>,
        settings: &Settings,
        (contexts, shape): (u32, Shape),
        signals: &Arc<dyn Physical>,
    ) -> Result<Self> {
        let page = card.page().map_err(refuse)?;
        let (bell, register) = bell(&**device, &page, settings)?;
        let sizes = rings::sizes((shape.n_ranks, shape.depth));
        // Nobody can be told of no bytes.
        let pools = [shape.signals, shape.counters].map(|words| words.max(1) as usize * 8);
        // Of contexts and of companions; the device's memory holds words, rings, lines where kernels ring, and the sink.
        let rows = 2 * contexts as usize;
        let apart = device.kind() == Kind::Cuda;
        let words = if apart { contexts as usize * pools.map(ground::whole).iter().sum::<usize>() } else { 0 };
        let lines_too = matches!(bell, Bell::Register(_));
        let lines = rows * ground::whole(sizes[1]);
        let bytes = words + rows * ground::whole(sizes[0]) + if lines_too { lines } else { 0 } + ground::whole(SINK);
        let mut own = Ground::of_device(&**device, card, bytes)?.map_err(refuse)?;
        let mut on_host = if lines_too { None } else { Some(Ground::of_host(&**device, card, lines)?.map_err(refuse)?) };
        let tables: Vec<[Stretch; 2]> =
            (0..if apart { contexts } else { 0 }).map(|_| pools.map(|bytes| own.take(bytes))).collect();
        let mut made = Vec::with_capacity(rows);
        for row in 0..rows {
            let stretches = [own.take(sizes[0]), on_host.as_mut().unwrap_or(&mut own).take(sizes[1])];
            let waits = row >= contexts as usize;
            let of = ((card, &page), (shape.n_ranks, shape.depth), (&bell, waits));
            made.push(Arc::new(Rings::new(device, of.0, of.1, of.2, stretches)?.map_err(refuse)?));
        }
        let tell = |(memory, start, bytes): (&Memory, usize, usize)| {
            card.register(memory, start, bytes, (0, Order::Strict)).map_err(refuse)
        };
        let all = Memory::Exposed(Arc::new(device.expose(signals)?));
        let of = |c: usize| match tables.get(c) {
            Some([signals, _]) => tell(signals.place()),
            None => tell((&all, c * pools[0], pools[0])),
        };
        let signals = (0..contexts as usize).map(of).collect::<Result<_>>()?;
        let sink = tell(own.take(SINK).place())?;
        let (card, ranks) = (card.clone(), shape.n_ranks);
        Ok(Self { card, ranks, rows: made, tables, signals, sink, remote: Vec::new(), _register: register })
    }

    /// On a GPU, where the signals and counters of context `c` are.
    pub(in crate::gin) fn words_of(&self, c: u32) -> Option<Words> {
        let tables = self.tables.get(c as usize)?;
        let [signals, counters] = tables.each_ref().map(Stretch::device);
        Some(Words::Card { signals, counters })
    }

    fn contexts(&self) -> usize {
        self.rows.len() / 2
    }

    /// For the peers: of each context the key of its signals, and the address of the queue towards each rank.
    pub fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for (row, signals) in self.rows[..self.contexts()].iter().zip(&self.signals) {
            words.extend(signals.keys().remote.to_le_bytes());
            (0..self.ranks).for_each(|peer| words.extend(self.card.address(row.numbers(peer).0)));
        }
        words
    }

    /// Connects every queue with what all ranks said.
    pub fn connect(&mut self, rank: u32, said: &[Said]) -> Result<()> {
        let per_context = 4 + self.ranks as usize * ADDRESS;
        let mut remote = vec![Vec::new(); self.contexts()];
        for (peer, words) in (0..).zip(said) {
            let words = words.of(NAME);
            if words.len() != per_context * self.contexts() {
                bail!(
                    RemoteError,
                    53,
                    "rank {peer} said {} bytes of its card | fix: load the same libginrs on every rank",
                    words.len()
                );
            }
            for (c, words) in words.chunks(per_context).enumerate() {
                let (key, addresses) = words.split_first_chunk().expect("longer, as checked");
                remote[c].push(u32::from_le_bytes(*key));
                let to_me = addresses[rank as usize * ADDRESS..][..ADDRESS].try_into().expect("32 bytes");
                let companion = &self.rows[self.contexts() + c];
                let own = self.card.address(companion.numbers(peer).0);
                self.rows[c]
                    .connect(peer, &to_me)
                    .and_then(|()| companion.connect(peer, &own))
                    .map_err(|why| refuse(format!("rank {rank} to rank {peer} | {why}")))?;
            }
        }
        self.remote = remote;
        Ok(())
    }

    /// Are its completions in a GPU's memory, of which the host sees copies?
    pub fn is_apart(&self) -> bool {
        !self.tables.is_empty()
    }

    /// What it stands on.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Row and peer of the queue that the card calls so.
    pub fn find(&self, whose: u64) -> Option<(u32, u32)> {
        (0..).zip(&self.rows).find_map(|(row, rings)| Some((row, rings.find(whose)?)))
    }

    /// Looks at all completion queues for one that failed: row, peer, and what; see [`rings::telling`].
    #[cold]
    pub fn survey(&self) -> Result<Option<(u32, u32, Failed)>> {
        let look = |(index, row): (u32, &Arc<Rings>)| Ok(row.survey()?.map(|(peer, failed)| ((index, peer), failed)));
        let found = rings::telling((0..).zip(&self.rows).map(look))?;
        Ok(found.map(|((row, peer), failed)| (row, peer, failed)))
    }

    /// From here on nothing of any queue is done.
    #[cold]
    pub fn end_all(&self) {
        self.rows.iter().for_each(|row| row.end_all());
    }

    /// Row of queues, or behind those of all contexts of companions.
    pub fn row(&self, row: usize) -> &Arc<Rings> {
        &self.rows[row]
    }

    /// Keys of context `c` of `rank`, whose words these are, and what keeps its counters registered.
    pub(in crate::gin) fn tables(&self, c: usize, rank: u32, words: &Words) -> Result<(Tables, Registered)> {
        let counters = match (self.tables.get(c), words.counters()) {
            (Some([_, counters]), _) => {
                let (memory, start, bytes) = counters.place();
                self.card.register(memory, start, bytes, (0, Order::Strict))
            }
            (None, Some((memory, bytes))) => self.card.register(&Memory::Control(memory), 0, bytes, (0, Order::Strict)),
            (None, None) => Err(format!("context {c} has no counters | fix: report this")),
        };
        let counters = counters.map_err(refuse)?;
        let Keys { local, remote } = counters.keys();
        // Counters are raised by their own rank's companions alone.
        let of_counters = (0..self.ranks).map(|peer| if peer == rank { remote } else { 0 }).collect();
        let tables = Tables {
            local: [self.signals[c].keys().local, local],
            remote: [self.remote[c].clone(), of_counters],
            sink: self.sink.keys().local,
        };
        Ok((tables, counters))
    }

    /// Registers a window's memory of this rank: `bytes` from `start` on, which kernels count from.
    pub fn window(&self, device: &dyn Device, memory: &Arc<dyn Physical>, start: u64, bytes: u64) -> Result<Registered> {
        let memory = Memory::Exposed(Arc::new(device.expose(memory)?));
        self.card.register(&memory, start as usize, bytes as usize, (start, Order::AsWished)).map_err(refuse)
    }
}
