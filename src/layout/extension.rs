//! What stands behind C's structs for kernels of our headers: the twins of include/ginrs_device/marker.h.
use super::{layout, ncclGinProxyGpuCtx_t, ncclWindow_vidmem};
use zerocopy::{Immutable, IntoBytes};

/// The two halves of the marker by which code compiled with our headers knows our library: padding of the devcomm, and of the window
/// that it inlines.
pub const MARKER: [u8; 3] = [0x47, 0x52, 1];
/// See [`MARKER`].
pub const MARKER_WORD: u32 = 0x3152_5347;
/// In a window's padding where its memory is this rank's own GPU's: its copy engine sees what a kernel has released to the GPU.
pub const MARKER_GPU: u32 = 0x3252_5347;
/// The same of a window on the CPU device: an [`ExtendedWindow`] with all its fields.
pub const MARKER_CPU: u32 = 0x3352_5347;

/// Where [`ginrsCommExt`] stands behind the first page of the window table. Bytes.
pub const COMM_EXT_OFFSET: u64 = 776;
pub const COMM_EXT_MAGIC: u64 = 0x4d4d_4f43_5352_4e47;
/// Grows when fields are appended, as [`GIN_EXT_VERSION`].
pub const COMM_EXT_VERSION: u32 = 4;

/// Of one communicator.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub struct ginrsCommExt {
    pub magic: u64,
    pub version: u32,
    pub bytes: u32,
    pub abortWord: u64,
    pub abortHost: u64,
    pub lsaSize: u32,
    pub device: u32,
}
layout!(ginrsCommExt, 40, 8, version @ 8, bytes @ 12, abortWord @ 16, abortHost @ 24, lsaSize @ 32, device @ 36);

/// Where [`ginrsGinExt`] stands behind the context. Bytes.
pub const GIN_EXT_OFFSET: usize = 64;
/// The same behind a GDAKI context.
pub const CARD_EXT_OFFSET: usize = 128;
pub const GIN_EXT_MAGIC: u64 = 0x4e49_4753_5352_4e47;
pub const GIN_EXT_VERSION: u32 = 5;
/// Of `flags`: kernels carry out puts themselves.
pub const FLAG_DIRECT: u32 = 1;
/// Of `flags`: payloads in the GPU's memory are read by that GPU.
pub const FLAG_SAME_GPU: u32 = 2;
/// Of `flags`: kernels store payloads of small puts to LSA peers themselves, and leave the host the actions.
pub const FLAG_STORES: u32 = 8;

/// Of one GIN context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct ginrsGinExt {
    pub magic: u64,
    pub version: u32,
    pub hintMask: u32,
    pub abortWord: u64,
    pub hintHead: u64,
    pub hintRing: u64,
    pub abortHost: u64,
    pub cachedCis: u64,
    pub flags: u32,
    pub directStride4G: u32,
    pub directSignals: u64,
    pub storeLargest: u64,
    pub signals: u32,
    pub counters: u32,
    pub refusal: u64,
    pub directQueues: u64,
    pub directPis: u64,
    pub directCis: u64,
    pub awaited: u64,
}
layout!(ginrsGinExt, 128, 8, version @ 8, hintMask @ 12, abortWord @ 16, hintHead @ 24, hintRing @ 32, abortHost @ 40, cachedCis @ 48,
    flags @ 56, directStride4G @ 60, directSignals @ 64, storeLargest @ 72, signals @ 80, counters @ 84, refusal @ 88,
    directQueues @ 96, directPis @ 104, directCis @ 112, awaited @ 120);

/// A context with what stands behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct ExtendedContext {
    pub context: ncclGinProxyGpuCtx_t,
    pub gap: [u64; 2],
    pub extension: ginrsGinExt,
}
layout!(ExtendedContext, 192, 8, extension @ GIN_EXT_OFFSET);

/// A window with what stands behind it (`ginrsWindowExt`): the bytes that were registered; of a resource window how many signals its
/// device communicator's GIN barriers have; the window table that it stands in; which of the program's windows it is; of a resource
/// window what its parts are for; of the program's windows which byte of those at `gone`, by rank, says that the rank has taken it away.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ExtendedWindow {
    pub window: ncclWindow_vidmem,
    pub bytes: u64,
    pub barrierSignals: u64,
    pub table: u64,
    pub number: u64,
    pub resources: u64,
    pub nResources: u32,
    pub place: u32,
    pub gone: u64,
}
layout!(ExtendedWindow, 128, 8, bytes @ 72, barrierSignals @ 80, table @ 88, number @ 96, resources @ 104, nResources @ 112, place @ 116,
    gone @ 120);

/// A part of a resource window, as it was asked for (`ginrsResource`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ginrsResource {
    pub bytes: u64,
    pub bufHandle: u32,
    pub signal0: u32,
    pub signals: u32,
    pub pad: u32,
}
layout!(ginrsResource, 24, 8, bufHandle @ 8, signal0 @ 12, signals @ 16);
