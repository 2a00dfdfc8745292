//! What kernels see of a rank's GIN contexts: ncclGinProxyGpuCtx_t (spec host 4.3), our extension behind it, and the indices.
//!
//! | offset | what | written by |
//! |---|---|---|
//! | 256 x context | 48 bytes of ABI; at +64 `ginrsGinExt` | host, once |
//! | then, a row per context | `pis`: each peer's queue is claimed up to here | kernels |
//! | then, a row per context | `cachedCis`: a lower bound of each peer's consumer index | kernels |
//!
//! All contexts of one kind share one allocation, so that one transfer reads or writes them.
#![forbid(unsafe_code)]

use super::shared::Shared;
use crate::device::{DevPtr, DeviceMemory, Memory, Transfers};
use crate::error::Result;
use crate::layout::{
    ExtendedContext, FLAG_DIRECT, FLAG_SAME_GPU, FLAG_STORES, GIN_EXT_MAGIC, GIN_EXT_VERSION, ginrsGinExt, ncclGinProxyGpuCtx_t,
};
use crate::seq::Seq;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use zerocopy::IntoBytes;

/// Bytes from one context to the next.
const BLOCK: usize = 256;
/// Rows of indices start on cache lines.
const LINE: usize = 128;

/// The contexts' memory.
pub struct Images {
    memory: Arc<DeviceMemory>,
    contexts: usize,
    ranks: usize,
}

/// What the host writes of one context.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Image {
    pub depth: u32,
    pub queues: DevPtr,
    pub cis: DevPtr,
    pub counters: DevPtr,
    pub signals: DevPtr,
    /// Head, ring and mask; zeros for none.
    pub hints: (DevPtr, DevPtr, u32),
    /// The word that kernels poll, and the same in host memory.
    pub abort: (DevPtr, DevPtr),
    pub same_gpu: bool,
    /// Not direct: kernels store payloads of up to so many bytes to LSA peers themselves; 0: none.
    pub stores: u64,
    pub direct: Option<Direct>,
    /// Where kernels leave what they refused.
    pub refusal: DevPtr,
    /// Where kernels say what they wait for; 0: nowhere.
    pub awaited: DevPtr,
    /// Queues and consumer indices of the context that stands behind the direct ones, see [`Images::block`].
    pub foreign: Option<(DevPtr, DevPtr)>,
}

/// What a direct context needs besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    /// LSA rank 0's signal words of this context, and bytes to the next rank's: a multiple of 4 GiB.
    pub signals: DevPtr,
    pub stride: u64,
    /// Larger puts go through the queue. Bytes.
    pub largest: u64,
    /// Ids are below these.
    pub ids: (u32, u32),
}

impl Images {
    /// Zeroed memory for `contexts` contexts of `ranks` queues.
    pub(super) fn new(device: &dyn Memory, contexts: u32, ranks: u32) -> Result<Self> {
        let (contexts, ranks) = (contexts as usize, ranks as usize);
        let memory = device.objects(contexts * (BLOCK + 2 * row(ranks)))?;
        Ok(Self { memory: Arc::new(memory), contexts, ranks })
    }

    /// Where context `c` stands.
    pub(super) fn context(&self, c: usize) -> DevPtr {
        self.memory.device() + (c * BLOCK) as u64
    }

    fn pis(&self, c: usize) -> DevPtr {
        self.memory.device() + (self.contexts * BLOCK + c * row(self.ranks)) as u64
    }

    /// The same for the host, where it sees them.
    pub(super) fn claims(&self, c: usize) -> Option<Shared<AtomicU32>> {
        Shared::of_device(&self.memory, (self.pis(c) - self.memory.device()) as usize, self.ranks)
    }

    fn cached(&self, c: usize) -> DevPtr {
        self.pis(self.contexts + c)
    }

    /// Writes all contexts and the first value of all indices. Before any kernel knows the contexts.
    pub(super) fn fill(&self, device: &dyn Transfers, images: &[Image], first: impl Fn(u32) -> Seq) -> Result<()> {
        let mut bytes = Vec::with_capacity(self.memory.bytes());
        for (c, image) in images.iter().enumerate() {
            bytes.extend(self.block(c, image).as_bytes());
            bytes.resize((c + 1) * BLOCK, 0);
        }
        for _ in 0..2 * self.contexts {
            let end = bytes.len() + row(self.ranks);
            bytes.extend((0..self.ranks as u32).flat_map(|peer| first(peer).0.to_le_bytes()));
            bytes.resize(end, 0);
        }
        device.write(self.memory.device(), &bytes)
    }

    /// Kernels of other headers post to whatever the context itself names. In a direct one those are the queues of the last
    /// context, from which the host takes nothing; its own stand in the extension.
    fn block(&self, c: usize, image: &Image) -> ExtendedContext {
        let own = (image.queues, self.pis(c), image.cis);
        let (queues, pis, cis) = match (image.direct, image.foreign) {
            (Some(_), Some((queues, cis))) => (queues, self.pis(self.contexts - 1), cis),
            _ => own,
        };
        let context = ncclGinProxyGpuCtx_t {
            nranks: self.ranks as i32,
            queueSize: image.depth,
            queues,
            pis,
            cis,
            counters: image.counters,
            signals: image.signals,
        };
        let mut extension = ginrsGinExt {
            magic: GIN_EXT_MAGIC,
            version: GIN_EXT_VERSION,
            hintHead: image.hints.0,
            hintRing: image.hints.1,
            hintMask: image.hints.2,
            abortWord: image.abort.0,
            abortHost: image.abort.1,
            cachedCis: self.cached(c),
            flags: if image.same_gpu { FLAG_SAME_GPU } else { 0 } | if image.stores > 0 { FLAG_STORES } else { 0 },
            storeLargest: image.stores,
            refusal: image.refusal,
            awaited: image.awaited,
            ..Default::default()
        };
        if let Some(direct) = &image.direct {
            extension.flags = extension.flags & !FLAG_STORES | FLAG_DIRECT;
            extension.directStride4G = (direct.stride >> 32) as u32;
            extension.directSignals = direct.signals;
            extension.storeLargest = direct.largest;
            (extension.signals, extension.counters) = direct.ids;
            (extension.directQueues, extension.directPis, extension.directCis) = own;
        }
        ExtendedContext { context, extension, ..Default::default() }
    }

    /// `pis` of every context, by peer: one look, while kernels and the proxy go on.
    pub(super) fn claimed(&self, device: &dyn Transfers) -> Result<Vec<Vec<Seq>>> {
        let row = row(self.ranks) / 4;
        let mut words = vec![0u32; self.contexts * row];
        device.read(self.pis(0), words.as_mut_bytes())?;
        Ok(words.chunks(row).map(|row| row[..self.ranks].iter().copied().map(Seq).collect()).collect())
    }
}

fn row(ranks: usize) -> usize {
    (4 * ranks).next_multiple_of(LINE)
}

const _: () = assert!(size_of::<ExtendedContext>() <= BLOCK && BLOCK.is_multiple_of(LINE));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    #[test]
    fn every_field_stands_where_the_headers_look_and_indices_start_alike() {
        let device = CpuDevice::new(0);
        let images = Images::new(&*device, 3, 33).unwrap();
        let proxied = Image {
            depth: 16,
            queues: 0x100,
            cis: 0x200,
            counters: 0x300,
            signals: 0x400,
            hints: (0x500, 0x600, 7),
            abort: (0x700, 0x800),
            same_gpu: true,
            stores: 1 << 10,
            direct: None,
            refusal: 0xa00,
            foreign: None,
            awaited: 0xd00,
        };
        let on_gpu = Direct { signals: 0x900, stride: 3 << 32, largest: 1 << 20, ids: (11, 12) };
        let direct = Image { direct: Some(on_gpu), same_gpu: false, foreign: Some((0xb00, 0xc00)), ..proxied };
        images.fill(&*device, &[proxied, direct, proxied], |peer| Seq(peer + 5)).unwrap();
        let word = |c: usize, at: u64| {
            let mut bytes = [0; 8];
            device.read(images.context(c) + at, &mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        };
        assert_eq!([word(0, 0), word(0, 8), word(0, 24), word(0, 32), word(0, 40)], [16 << 32 | 33, 0x100, 0x200, 0x300, 0x400]);
        assert_eq!([64, 72, 80, 88, 96, 104].map(|at| word(0, at)), [GIN_EXT_MAGIC, 7 << 32 | 5, 0x700, 0x500, 0x600, 0x800]);
        assert_eq!([120, 128, 136, 144].map(|at| word(0, at)), [10, 0, 1 << 10, 0]);
        assert_eq!([120, 128, 136, 144].map(|at| word(1, at)), [3 << 32 | 1, 0x900, 1 << 20, 12 << 32 | 11]);
        assert_eq!([152, 160, 168, 176].map(|at| word(0, at)), [0xa00, 0, 0, 0]);
        assert_eq!(word(0, 184), 0xd00);
        assert_eq!([152, 160, 176].map(|at| word(1, at)), [0xa00, 0x100, 0x200]);
        // What other headers see of a direct context are the last one's queues.
        assert_eq!([8, 16, 24].map(|at| word(1, at)), [0xb00, word(2, 16), 0xc00]);
        for (c, pis) in [(0, word(0, 16)), (1, word(1, 168)), (2, word(2, 16))] {
            for row in [pis, word(c, 112)] {
                assert!(row.is_multiple_of(128));
                let mut bytes = [0; 33 * 4];
                device.read(row, &mut bytes).unwrap();
                assert!(bytes.as_chunks::<4>().0.iter().zip(5..).all(|(word, n)| u32::from_le_bytes(*word) == n));
            }
        }
        let claimed = images.claimed(&*device).unwrap();
        assert_eq!((claimed.len(), claimed[1].len(), claimed[1][32]), (3, 33, Seq(37)));
    }
}
