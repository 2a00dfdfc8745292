//! A real card under GDAKI contexts: what one rank makes on it, what it tells its peers, and what they said.
//!
//! Queues towards this rank itself, and companions, are connected to themselves: one queue pair less for each than a responder of its own.
#![forbid(unsafe_code)]

use super::card::Card as Settings;
use super::keys::Tables;
use super::rings::Rings;
use crate::device::{Device, Kind, Physical};
use crate::error::{Code, Error, Result};
use crate::gin::context::{Shape, Words as Memory};
use crate::transport::Words;
use crate::verbs::{self, Card, Keys, Patience, Registered};
use crate::{bail, info};
use std::sync::Arc;

/// Whose words these are among those of the transports.
pub const NAME: &str = "card";
/// Bytes of a queue pair's address.
const ADDRESS: usize = 32;
/// About 4 s for an answer, seven times: NCCL's own.
const PATIENCE: Patience = Patience { timeout: 20, retries: 7 };
/// What is written in answers of adds, which nobody reads.
const SINK: usize = 8;

/// See the head of this file.
pub struct Hardware {
    card: Arc<Card>,
    ranks: u32,
    /// Rows of queues, and then of companions.
    rows: Vec<Arc<Rings>>,
    signals: Vec<Registered>,
    sink: Registered,
    /// By context and rank: what peers name this rank's signals by.
    remote: Vec<Vec<u32>>,
}

fn refuse(why: String) -> Error {
    Error::new(Code::SystemError, 114, format!("a card cannot be used for GDAKI | {why}"))
}

/// The card that GINRS_NIC names, opened.
pub fn open(name: &str) -> Result<Arc<Card>> {
    let name = Some(name).filter(|name| !name.eq_ignore_ascii_case("card"));
    let card = Card::open(name).map_err(refuse)?;
    info!(INIT, "GDAKI by a card, which nobody has tried: {}, {}", card.name(), card.describe());
    Ok(card)
}

impl Hardware {
    /// Makes all queues, unconnected, and registers this rank's signals.
    pub fn new(
        device: &dyn Device,
        card: &Arc<Card>,
        settings: &Settings,
        (contexts, shape): (u32, Shape),
        signals: &Arc<dyn Physical>,
    ) -> Result<Self> {
        if device.kind() != Kind::Cpu {
            bail!(
                InvalidUsage,
                114,
                "a card cannot be used for GDAKI | kernels of a GPU need its rings in GPU memory, which is not written | fix: unset GINRS_NIC, or \
                 run on the CPU device"
            );
        }
        let page = card.page().map_err(refuse)?;
        let row = |waits| {
            Rings::new(device, (card, &page), (shape.n_ranks, shape.depth), (settings.handler, waits))?
                .map(Arc::new)
                .map_err(refuse)
        };
        let rows =
            [false, true].into_iter().flat_map(|waits| (0..contexts).map(move |_| waits)).map(row).collect::<Result<_>>()?;
        let bytes = shape.signals as usize * 8;
        let memory = verbs::Memory::Physical(signals.clone());
        let of = |c| card.register(&memory, c as usize * bytes, bytes).map_err(refuse);
        let signals = (0..contexts).map(of).collect::<Result<_>>()?;
        let sink = verbs::Memory::Control(Arc::new(device.control(SINK)?));
        let sink = card.register(&sink, 0, SINK).map_err(refuse)?;
        Ok(Self { card: card.clone(), ranks: shape.n_ranks, rows, signals, sink, remote: Vec::new() })
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
    pub fn connect(&mut self, rank: u32, said: &[Words]) -> Result<()> {
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
                    .connect(peer, &to_me, PATIENCE)
                    .and_then(|()| companion.connect(peer, &own, PATIENCE))
                    .map_err(|why| refuse(format!("rank {rank} to rank {peer} | {why}")))?;
            }
        }
        self.remote = remote;
        Ok(())
    }

    /// Row of queues, or behind those of all contexts of companions.
    pub fn row(&self, row: usize) -> &Arc<Rings> {
        &self.rows[row]
    }

    /// Keys of context `c` of `rank`, whose words these are, and what keeps its counters registered.
    pub(in crate::gin) fn tables(&self, c: usize, rank: u32, words: &Memory) -> Result<(Tables, Registered)> {
        let Some((memory, bytes)) = words.counters() else {
            bail!(InternalError, 114, "a card cannot be used for GDAKI | context {c} has no counters | fix: report this")
        };
        let counters = self.card.register(&verbs::Memory::Control(memory), 0, bytes).map_err(refuse)?;
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

    /// Registers a window's memory of this rank: `bytes` from `start` on.
    pub fn window(&self, memory: &Arc<dyn Physical>, start: u64, bytes: u64) -> Result<Registered> {
        let memory = verbs::Memory::Physical(memory.clone());
        self.card.register(&memory, start as usize, bytes as usize).map_err(refuse)
    }
}
