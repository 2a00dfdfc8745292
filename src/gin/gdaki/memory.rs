//! What kernels see: contexts, queue pairs and keys, in device memory.

use super::Nic;
use super::card::Card;
use super::carrier::Carrier;
use super::keys::{self, Table, Tables};
use super::queues::Queues;
use crate::abort::Abort;
use crate::bail;
use crate::device::Physical;
use crate::device::{DevPtr, Device, DeviceMemory, Transfers};
use crate::error::Result;
use crate::gin::context::{Context, Shape, Words};
use crate::layout::{
    CARD_EXT_OFFSET, GIN_EXT_MAGIC, GIN_EXT_VERSION, doca_gpu_dev_verbs_cq, doca_gpu_dev_verbs_qp, ginrsGinExt,
    ncclGinGdakiGPUContext, ncclGinGdakiGlobalGPUBufferTable, ncclGinGdakiMemHandle,
};
use crate::process;
use crate::seq::Seq;
use crate::transport::Words as Said;
use crate::verbs::Registered;
use std::mem::{offset_of, size_of};
use std::sync::Arc;
use zerocopy::IntoBytes;

const QP: usize = size_of::<doca_gpu_dev_verbs_qp>();
/// Bytes from one context's struct to the next one's.
const BLOCK: usize = 256;
/// doca's mem_type: the GPU's.
const OF_GPU: u32 = 2;

/// Contexts, key tables and queue pairs of one communicator, in this order.
pub struct Images {
    memory: DeviceMemory,
    contexts: usize,
    ranks: usize,
    /// On a real card: counters, registered.
    _counters: Vec<Registered>,
}

impl Images {
    /// Where context `c` stands.
    pub fn context(&self, c: usize) -> DevPtr {
        self.memory.device() + (c * BLOCK) as u64
    }

    /// Keys of signals and of counters, by rank, for each context.
    fn keys_start(&self) -> usize {
        self.contexts * BLOCK
    }

    fn pairs_start(&self) -> usize {
        (self.keys_start() + self.contexts * 2 * self.ranks * 4).next_multiple_of(BLOCK)
    }

    /// Rows of queue pairs: those of every context, then their companions.
    fn row(&self, row: usize) -> DevPtr {
        self.memory.device() + (self.pairs_start() + row * self.ranks * QP) as u64
    }

    /// Every queue's claimed index: rows of queues, then of companions. One look, while kernels go on.
    pub fn claimed(&self, device: &dyn Transfers) -> Result<Vec<Vec<Seq>>> {
        let mut bytes = vec![0u8; 2 * self.contexts * self.ranks * QP];
        device.read(self.row(0), &mut bytes)?;
        let index = |pair: &[u8]| Seq(u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]));
        Ok(bytes.chunks(self.ranks * QP).map(|row| row.chunks(QP).map(index).collect()).collect())
    }

    /// The words below which kernels take completions for known: moved, they end every wait for one.
    pub fn known(&self) -> Vec<(DevPtr, u32)> {
        let at = offset_of!(doca_gpu_dev_verbs_qp, cq_sq) + offset_of!(doca_gpu_dev_verbs_cq, cqe_ci);
        (0..2 * self.contexts * self.ranks).map(|pair| (self.row(0) + (pair * QP + at) as u64, 1)).collect()
    }
}

/// One context for each of `words`, and behind all of them their companions; and what kernels see. `served`: contexts that the engine has, from
/// which queues are numbered.
pub fn build(
    device: &Arc<dyn Device>,
    shape: Shape,
    words: &[Arc<Words>],
    card: &Card,
    (rank, served): (u32, u32),
    abort: &Abort,
) -> Result<(Vec<Context>, Images)> {
    let (n, ranks, depth) = (words.len() as u32, shape.n_ranks, shape.depth);
    // Kernels cannot know it: what they write is no poison but by a chance of 2^-64.
    let secret = u64::from_ne_bytes(process::random()?);
    let carrier = match card.apart && card.hardware().is_none() {
        true => Some(Arc::new(Carrier::start(device)?)),
        false => None,
    };
    let device = &**device;
    let mut contexts: Vec<Context> = Vec::new();
    for companion in [false, true] {
        for (c, words) in (0..n).zip(words) {
            let mut context = Context::bare(device, shape, words.clone(), c)?;
            let row = n * u32::from(companion) + c;
            let nic = match card.hardware() {
                Some(hardware) => Nic::Card(hardware.row(row as usize).clone()),
                None => {
                    let main = match contexts.get(c as usize).and_then(|main| main.nic.clone()) {
                        Some(Nic::Model(main)) if companion => Some(main),
                        _ => None,
                    };
                    // Queue 0 is nobody's.
                    let first = 1 + ranks * (served + row);
                    let slots = (&context.queues, carrier.as_ref());
                    let queues = Queues::new(device, (ranks, depth), (card.clone(), first), secret, slots, main)?;
                    Nic::Model(Arc::new(queues))
                }
            };
            context.nic = Some(nic);
            contexts.push(context);
        }
    }
    let (n, ranks) = (n as usize, ranks as usize);
    let bytes = (n * BLOCK + n * 2 * ranks * 4).next_multiple_of(BLOCK) + 2 * n * ranks * QP;
    let mut images = Images { memory: device.objects(bytes)?, contexts: n, ranks, _counters: Vec::new() };
    let mut tables = Vec::new();
    for (c, words) in words.iter().enumerate() {
        tables.push(match card.hardware() {
            None => keys::tables(c as u32, (card.salt, rank), ranks as u32),
            Some(hardware) => {
                let (tables, counters) = hardware.tables(c, rank, words)?;
                images._counters.push(counters);
                tables
            }
        });
    }
    let mut bytes = Vec::with_capacity(bytes);
    for (c, context) in contexts[..n].iter().enumerate() {
        bytes.extend(images.context_of(c, &tables[c], context).as_bytes());
        bytes.resize(c * BLOCK + CARD_EXT_OFFSET, 0);
        bytes.extend(extension(context, abort).as_bytes());
        bytes.resize((c + 1) * BLOCK, 0);
    }
    for key in tables.iter().flat_map(|tables| tables.remote.iter().flatten()) {
        bytes.extend(key.to_be_bytes());
    }
    bytes.resize(images.pairs_start(), 0);
    for context in &contexts {
        (0..ranks as u32).for_each(|peer| bytes.extend(pair(context, peer).as_bytes()));
    }
    device.write(images.memory.device(), &bytes)?;
    Ok((contexts, images))
}

impl Images {
    fn context_of(&self, c: usize, tables: &Tables, context: &Context) -> ncclGinGdakiGPUContext {
        let table = |table: Table, buffer: DevPtr| ncclGinGdakiGlobalGPUBufferTable {
            buffer,
            rkeys: self.memory.device() + (self.keys_start() + (2 * c + table as usize) * self.ranks * 4) as u64,
            lkey: tables.local[table as usize].to_be(),
            pad: 0,
        };
        let (signals, counters) = context.words.addresses();
        ncclGinGdakiGPUContext {
            gdqp: self.row(c),
            companion_gdqp: self.row(self.contexts + c),
            counters_table: table(Table::Counters, counters),
            signals_table: table(Table::Signals, signals),
            sink_buffer_lkey: tables.sink.to_be(),
            pad: 0,
        }
    }
}

/// What kernels of our headers find behind a context: how to learn of an abort, and where to say which id they were not given.
fn extension(context: &Context, abort: &Abort) -> ginrsGinExt {
    ginrsGinExt {
        magic: GIN_EXT_MAGIC,
        version: GIN_EXT_VERSION,
        abortWord: abort.device_address(),
        abortHost: abort.host_address(),
        refusal: context.refusal.device(),
        ..Default::default()
    }
}

/// A queue pair before its first request.
fn pair(context: &Context, peer: u32) -> doca_gpu_dev_verbs_qp {
    let depth = context.shape.depth;
    let (number, completions, handler, [bell, record, entries, ring]) = match &context.nic {
        None => return doca_gpu_dev_verbs_qp::default(),
        Some(Nic::Model(queues)) => (queues.number(peer), queues.number(peer), queues.handler(), queues.addresses(peer)),
        Some(Nic::Card(rings)) => {
            let (number, completions) = rings.numbers(peer);
            (number, completions, rings.handler(), rings.addresses(peer))
        }
    };
    doca_gpu_dev_verbs_qp {
        sq_num: number,
        sq_num_shift8: number << 8,
        sq_num_shift8_be: (number << 8).to_be(),
        sq_num_shift8_be_1ds: (number << 8 | 1).to_be(),
        sq_num_shift8_be_2ds: (number << 8 | 2).to_be(),
        sq_num_shift8_be_3ds: (number << 8 | 3).to_be(),
        sq_num_shift8_be_4ds: (number << 8 | 4).to_be(),
        sq_wqe_num: depth as u16,
        sq_wqe_mask: (depth - 1) as u16,
        sq_wqe_daddr: ring,
        sq_dbrec: record,
        sq_db: bell,
        cq_sq: doca_gpu_dev_verbs_cq {
            cqe_daddr: entries,
            cq_num: completions,
            cqe_num: depth,
            cqe_mask: depth - 1,
            cqe_size: 64,
            mem_type: OF_GPU,
            ..Default::default()
        },
        nic_handler: handler as u32,
        mem_type: OF_GPU,
        ..Default::default()
    }
}

/// What `ginWins` point to, of one window: its keys.
pub struct Registration {
    memory: DeviceMemory,
    /// On a real card, where the keys of the peers are still to come.
    real: Option<Registered>,
}

impl Registration {
    const KEYS: usize = size_of::<ncclGinGdakiMemHandle>();

    /// For the window with that handle, on `rank` of `ranks`: `bytes` from `start` on of `memory`.
    pub fn new(
        device: &dyn Device,
        (handle, rank, ranks): (u64, u32, u32),
        card: &Card,
        (memory, start, bytes): (&Arc<dyn Physical>, u64, u64),
    ) -> Result<Self> {
        let real = card.hardware().map(|hardware| hardware.window(device, memory, start, bytes)).transpose()?;
        let made = Self { memory: device.objects(Self::KEYS + ranks as usize * 4)?, real };
        let own = match &made.real {
            Some(real) => real.keys().local,
            None => {
                let keys = keys::of_windows(handle, ranks)?;
                made.fill(device, keys.iter().copied())?;
                keys[rank as usize]
            }
        };
        let own = ncclGinGdakiMemHandle { rkeys: made.memory.device() + Self::KEYS as u64, lkey: own.to_be(), pad: 0 };
        device.write(made.memory.device(), own.as_bytes())?;
        Ok(made)
    }

    fn fill(&self, device: &dyn Device, keys: impl Iterator<Item = u32>) -> Result<()> {
        let bytes: Vec<u8> = keys.flat_map(u32::to_be_bytes).collect();
        device.write(self.memory.device() + Self::KEYS as u64, &bytes)
    }

    /// For the peers; empty by the model, whose keys all ranks know.
    pub fn words(&self) -> Vec<u8> {
        self.real.as_ref().map_or(Vec::new(), |real| real.keys().remote.to_le_bytes().to_vec())
    }

    /// With what all ranks said.
    pub fn connect(&self, device: &dyn Device, said: &[Said]) -> Result<()> {
        if self.real.is_none() {
            return Ok(());
        }
        let key = |(rank, words): (usize, &Said)| match words.of(super::NAME).try_into() {
            Ok(key) => Ok(u32::from_le_bytes(key)),
            Err(_) => bail!(RemoteError, 53, "rank {rank} named no key of a window | fix: load the same libginrs on every rank"),
        };
        let keys: Vec<u32> = said.iter().enumerate().map(key).collect::<Result<_>>()?;
        self.fill(device, keys.into_iter())
    }

    /// Its address.
    pub fn device(&self) -> DevPtr {
        self.memory.device()
    }
}
