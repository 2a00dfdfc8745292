//! Structs that the library writes and kernels read (spec host, A.2; spec device 11).
use super::layout;
use super::{ncclGinBarrierHandle_t, ncclLsaBarrierHandle_t, ncclMultimemHandle_t};
use zerocopy::{Immutable, IntoBytes};

pub const NCCL_GIN_MAX_CONTEXTS: usize = 4;
/// Entries per page of the window table.
pub const WINDOW_TABLE_ENTRIES: usize = 32;

/// Of `ncclDevComm.ginTypes`.
pub const NCCL_NET_DEVICE_GIN_PROXY: i32 = 2;

/// The pointee of `ncclWindow_t`, in device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclWindow_vidmem {
    pub winHost: u64,
    /// The window's first byte on LSA rank 0, in this process's flat space.
    pub lsaFlatBase: u64,
    pub lsaRank: i32,
    pub worldRank: i32,
    /// Bytes of the flat space per rank, in units of 4 GiB.
    pub stride4G: u32,
    pub mcOffset4K: u32,
    /// Start of the window within its allocation, in units of 4 KiB.
    pub ginOffset4K: u32,
    /// C padding; in a device communicator's inlined copy it holds the second half of the marker.
    pub marker: u32,
    pub ginWins: [u64; NCCL_GIN_MAX_CONTEXTS],
}
layout!(ncclWindow_vidmem, 72, 8, winHost @ 0, lsaFlatBase @ 8, lsaRank @ 16, worldRank @ 20, stride4G @ 24, mcOffset4K @ 28,
    ginOffset4K @ 32, marker @ 36, ginWins @ 40);

/// One slot of the window table; empty when any field is 0. Sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclDevCommWindowTableEntry {
    pub base: u64,
    pub size: u64,
    pub window: u64,
}
layout!(ncclDevCommWindowTableEntry, 24, 8, size @ 8, window @ 16);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclDevCommWindowTable {
    pub entries: [ncclDevCommWindowTableEntry; WINDOW_TABLE_ENTRIES],
    pub next: u64,
}
layout!(ncclDevCommWindowTable, 776, 8, entries @ 0, next @ 768);

/// Passed to kernels by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclDevComm {
    pub rank: i32,
    pub nRanks: i32,
    pub nRanks_rcp32: u32,
    pub lsaRank: i32,
    pub lsaSize: i32,
    pub lsaSize_rcp32: u32,
    pub windowTable: u64,
    pub resourceWindow: u64,
    pub resourceWindow_inlined: ncclWindow_vidmem,
    pub lsaMultimem: ncclMultimemHandle_t,
    pub lsaBarrier: ncclLsaBarrierHandle_t,
    pub railGinBarrier: ncclGinBarrierHandle_t,
    pub ginContextCount: u8,
    pub ginTypes: [u8; NCCL_GIN_MAX_CONTEXTS],
    /// C padding; the first half of the marker.
    pub marker: [u8; 3],
    pub ginHandles: [u64; NCCL_GIN_MAX_CONTEXTS],
    pub ginSignalBase: u32,
    pub ginSignalCount: i32,
    pub ginCounterBase: u32,
    pub ginCounterCount: i32,
    pub ginSignalShadows: u64,
}
layout!(ncclDevComm, 200, 8, nRanks @ 4, nRanks_rcp32 @ 8, lsaRank @ 12, lsaSize @ 16, lsaSize_rcp32 @ 20, windowTable @ 24,
    resourceWindow @ 32, resourceWindow_inlined @ 40, lsaMultimem @ 112, lsaBarrier @ 120, railGinBarrier @ 128,
    ginContextCount @ 136, ginTypes @ 137, marker @ 141, ginHandles @ 144, ginSignalBase @ 176, ginSignalCount @ 180,
    ginCounterBase @ 184, ginCounterCount @ 188, ginSignalShadows @ 192);

/// What `ginHandles[c]` points to for the proxy backend.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclGinProxyGpuCtx_t {
    pub nranks: i32,
    /// Slots per peer, a power of two.
    pub queueSize: u32,
    pub queues: u64,
    pub pis: u64,
    pub cis: u64,
    pub counters: u64,
    pub signals: u64,
}
layout!(ncclGinProxyGpuCtx_t, 48, 8, queueSize @ 4, queues @ 8, pis @ 16, cis @ 24, counters @ 32, signals @ 40);
