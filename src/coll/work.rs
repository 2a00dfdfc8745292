//! The Rust twins of cuda/collectives/work.h: what a kernel gets, by value. Every layout is asserted on both sides.
#![allow(missing_docs)]

use crate::device::DevPtr;
use crate::layout::{layout, ncclDevComm, ncclLLA2AHandle_t};
use zerocopy::{Immutable, IntoBytes};

pub const OP_SUM: u32 = 0;
pub const OP_PROD: u32 = 1;
pub const OP_MAX_S: u32 = 2;
pub const OP_MAX_U: u32 = 3;
pub const OP_MIN_S: u32 = 4;
pub const OP_MIN_U: u32 = 5;
pub const OP_PRE_MUL: u32 = 6;
pub const OP_DIV_S: u32 = 7;
pub const OP_DIV_U: u32 = 8;
pub const OP_AVG: u32 = 9;

/// Where a rank's kernels see a buffer, and where it lies in a symmetric window, if it does.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct Buffer {
    pub at: DevPtr,
    /// 0: in none that was registered with NCCL_WIN_COLL_SYMMETRIC.
    pub window: DevPtr,
    /// Of `at` in that window. Bytes.
    pub offset: u64,
}

/// Geometry of the staging memory, equal on all ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct Inbox {
    /// The window that GIN carries from and to, where this rank's kernels see it, and in units of 128 bytes where in it incoming slots
    /// and outgoing ones are.
    pub window: DevPtr,
    pub base: DevPtr,
    pub incoming: u32,
    pub outgoing: u32,
    pub handle: u32,
    pub rings: u32,
    pub channels: u32,
    pub slots: u32,
    pub slot_bytes: u32,
    pub signal0: u32,
}

/// The parameter of a collective's kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub struct CollWork {
    pub comm: ncclDevComm,
    pub send: Buffer,
    pub recv: Buffer,
    pub inbox: Inbox,
    pub rails: Inbox,
    pub ll: ncclLLA2AHandle_t,
    pub count: u64,
    pub scalar: u64,
    pub scalar_at: DevPtr,
    pub elt_bytes: u32,
    pub kind: u32,
    pub how: u32,
    pub op: u32,
    pub root: u32,
    /// In a row of the grid.
    pub blocks: u32,
    pub scratch: u32,
    pub piece_bytes: u32,
    pub along: u32,
    pub cut_bytes: u32,
    /// Of those blocks; the ones before are of other calls.
    pub first: u32,
    /// [`super::datatype::DataType::code`].
    pub datatype: u32,
}

/// Ranks of a reduction by messages, at most.
pub const PASSING_RANKS: u32 = 32;
/// Ranks of a reduction between buffers in symmetric windows, at most.
pub const SUM_RANKS: u32 = 128;

/// Ranks of an LSA team whose buffers are mapped, at most, and bytes of a block's board (cuda/collectives/mapped.cuh).
pub const MAPPED_RANKS: usize = 32;
pub const MAPPED_BOARD: u64 = 1408;

/// The parameter of the kernels for mapped buffers. By rank of the team: where its kernels see a buffer of this rank; 0 for all if one does
/// not see it, or nobody touches it. With bit 63 the rest is signed: so far behind the window of the collectives' resources, in this rank's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub struct MappedWork {
    pub coll: CollWork,
    pub send: [DevPtr; MAPPED_RANKS],
    pub recv: [DevPtr; MAPPED_RANKS],
    /// Handle.
    pub board: u32,
    pub pad: u32,
}

/// Calls that one launch takes, at most, and words for where their buffers are seen.
pub const SEVERAL_ITEMS: usize = 32;
pub const SEVERAL_PLACES: usize = 232;

/// What collectives that go side by side do not have in common.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct SeveralItem {
    pub send: DevPtr,
    pub recv: DevPtr,
    pub count: u64,
    pub scalar: u64,
    pub scalar_at: DevPtr,
    pub root: u32,
    pub first: u16,
    pub blocks: u16,
    pub kind: u8,
    pub how: u8,
    pub op: u8,
    pub elt_bytes: u8,
    pub pad: u32,
}

/// The parameter of the kernels for several collectives.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub struct SeveralWork {
    pub common: CollWork,
    /// Handle.
    pub board: u32,
    pub n_items: u32,
    /// 1: reductions, one for each rank as root, which go together. `places` is 0, or `send` of each is told.
    pub is_for_each: u32,
    pub pad: u32,
    pub items: [SeveralItem; SEVERAL_ITEMS],
    /// Of each item [`MappedWork::send`], by rank of the team, then `recv`.
    pub places: [DevPtr; SEVERAL_PLACES],
}

/// Messages that one launch takes.
pub const P2P_ITEMS: usize = 112;

/// One message.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct P2pItem {
    pub at: DevPtr,
    pub bytes: u64,
    pub peer: u32,
    pub round: u32,
    /// Of a receive: where the peer's kernels see it (`mapped`), or 0.
    pub seen: DevPtr,
}

/// The parameter of the kernel for sends and receives.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub struct P2pWork {
    pub comm: ncclDevComm,
    pub inbox: Inbox,
    pub n_sends: u32,
    pub n_recvs: u32,
    pub sets: u32,
    pub channels: u32,
    /// Of them, for a message that does not go straight.
    pub narrow: u32,
    pub bytes_per_channel: u32,
    /// A message of so many bytes may go straight to where it is received; 0: none may.
    pub straight: u32,
    /// 1: who sends copies what is for the rank itself.
    pub senders_copy: u32,
    pub items: [P2pItem; P2P_ITEMS],
}

layout!(Buffer, 24, 8, at @ 0, window @ 8, offset @ 16);
layout!(Inbox, 48, 8, window @ 0, base @ 8, incoming @ 16, outgoing @ 20, handle @ 24, rings @ 28, channels @ 32, slots @ 36, slot_bytes @ 40, signal0 @ 44);
layout!(CollWork, 424, 8, comm @ 0, send @ 200, recv @ 224, inbox @ 248, rails @ 296, ll @ 344, count @ 352, scalar @ 360, scalar_at @ 368,
    elt_bytes @ 376, kind @ 380, how @ 384, op @ 388, root @ 392, blocks @ 396, scratch @ 400, piece_bytes @ 404, along @ 408, cut_bytes @ 412, first @ 416, datatype @ 420);
layout!(MappedWork, 944, 8, coll @ 0, send @ 424, recv @ 680, board @ 936, pad @ 940);
layout!(SeveralItem, 56, 8, send @ 0, recv @ 8, count @ 16, scalar @ 24, scalar_at @ 32, root @ 40, first @ 44, blocks @ 46, kind @ 48, how @ 49, op @ 50, elt_bytes @ 51, pad @ 52);
layout!(SeveralWork, 4088, 8, common @ 0, board @ 424, n_items @ 428, is_for_each @ 432, pad @ 436, items @ 440, places @ 2232);
layout!(P2pItem, 32, 8, at @ 0, bytes @ 8, peer @ 16, round @ 20, seen @ 24);
layout!(P2pWork, 280 + 32 * P2P_ITEMS, 8, comm @ 0, inbox @ 200, n_sends @ 248, n_recvs @ 252, sets @ 256, channels @ 260, narrow @ 264, bytes_per_channel @ 268, straight @ 272, senders_copy @ 276, items @ 280);
