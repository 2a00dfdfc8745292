//! Structs that host code of an application passes (spec host, A.1).
use super::layout;
use std::ffi::c_char;
use zerocopy::{Immutable, IntoBytes};

/// A result code; `crate::error::Code` holds its values.
pub type ncclResult_t = i32;
/// Not an enum here: any integer may arrive.
pub type ncclDataType_t = i32;
/// As above.
pub type ncclRedOp_t = i32;
/// As above (`ncclScalarResidence_t`).
pub type ncclScalarResidence_t = i32;
/// Byte offset / 128 within the resource window.
pub type ncclDevResourceHandle_t = u32;
/// Signal number relative to its device communicator.
pub type ncclGinSignal_t = u32;
/// Counter number relative to its device communicator.
pub type ncclGinCounter_t = u32;

/// Opaque; `ncclComm_t` is a pointer to it that is never dereferenced.
#[repr(C)]
pub struct ncclComm {
    _opaque: [u8; 0],
}
pub type ncclComm_t = *mut ncclComm;
/// A device address; the host never dereferences it.
pub type ncclWindow_t = *mut super::ncclWindow_vidmem;
/// Opaque CUDA stream.
#[repr(C)]
pub struct CUstream_st {
    _opaque: [u8; 0],
}
pub type cudaStream_t = *mut CUstream_st;

pub const NCCL_CONFIG_UNDEF_INT: i32 = i32::MIN;
pub const NCCL_CONFIG_MAGIC: u32 = 0xcafe_beef;
pub const NCCL_SIM_INFO_MAGIC: u32 = 0x7468_5283;
/// The version code of the API: 2.28.9.
pub const NCCL_VERSION_CODE: i32 = 22809;
/// `color` of ncclCommSplit for a rank that joins no child.
pub const NCCL_SPLIT_NOCOLOR: i32 = -1;
/// `shrinkFlags` of ncclCommShrink.
pub const NCCL_SHRINK_DEFAULT: i32 = 0;
pub const NCCL_SHRINK_ABORT: i32 = 1;
/// `revokeFlags` of ncclCommRevoke.
pub const NCCL_REVOKE_DEFAULT: i32 = 0;
/// `estimatedTime` of [`ncclSimInfo_t`] that nobody has filled in.
pub const NCCL_UNDEF_FLOAT: f32 = -1.0;
pub const NCCL_WIN_COLL_SYMMETRIC: i32 = 1;
/// Window starts are multiples of it, counted from the start of their allocation. Bytes.
pub const NCCL_WIN_REQUIRED_ALIGNMENT: usize = 4096;
/// Bytes per unit of an [`ncclDevResourceHandle_t`].
pub const RESOURCE_HANDLE_UNIT: usize = 128;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclUniqueId {
    pub internal: [c_char; 128],
}
layout!(ncclUniqueId, 128, 1);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclConfig_t {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    pub blocking: i32,
    pub cgaClusterSize: i32,
    pub minCTAs: i32,
    pub maxCTAs: i32,
    pub netName: *const c_char,
    pub splitShare: i32,
    pub trafficClass: i32,
    pub commName: *const c_char,
    pub collnetEnable: i32,
    pub CTAPolicy: i32,
    pub shrinkShare: i32,
    pub nvlsCTAs: i32,
    pub nChannelsPerNetPeer: i32,
    pub nvlinkCentricSched: i32,
}
layout!(ncclConfig_t, 80, 8, magic @ 8, version @ 12, blocking @ 16, cgaClusterSize @ 20, minCTAs @ 24, maxCTAs @ 28,
    netName @ 32, splitShare @ 40, trafficClass @ 44, commName @ 48, collnetEnable @ 56, CTAPolicy @ 60, shrinkShare @ 64,
    nvlsCTAs @ 68, nChannelsPerNetPeer @ 72, nvlinkCentricSched @ 76);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclSimInfo_t {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    pub estimatedTime: f32,
}
layout!(ncclSimInfo_t, 24, 8, magic @ 8, version @ 12, estimatedTime @ 16);

/// A strided set of world ranks, seen from one of them. Returned by value in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ncclTeam_t {
    pub nRanks: i32,
    pub rank: i32,
    pub stride: i32,
}
layout!(ncclTeam_t, 12, 4, nRanks @ 0, rank @ 4, stride @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclDevCommRequirements_t {
    pub resourceRequirementsList: *mut ncclDevResourceRequirements_t,
    pub teamRequirementsList: *mut ncclTeamRequirements_t,
    pub lsaMultimem: u8,
    pub barrierCount: i32,
    pub lsaBarrierCount: i32,
    pub railGinBarrierCount: i32,
    pub lsaLLA2ABlockCount: i32,
    pub lsaLLA2ASlotCount: i32,
    pub ginForceEnable: u8,
    pub ginContextCount: i32,
    pub ginSignalCount: i32,
    pub ginCounterCount: i32,
}
layout!(ncclDevCommRequirements_t, 56, 8, resourceRequirementsList @ 0, teamRequirementsList @ 8, lsaMultimem @ 16,
    barrierCount @ 20, lsaBarrierCount @ 24, railGinBarrierCount @ 28, lsaLLA2ABlockCount @ 32, lsaLLA2ASlotCount @ 36,
    ginForceEnable @ 40, ginContextCount @ 44, ginSignalCount @ 48, ginCounterCount @ 52);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclDevResourceRequirements_t {
    pub next: *mut ncclDevResourceRequirements_t,
    pub bufferSize: usize,
    pub bufferAlign: usize,
    pub outBufferHandle: *mut ncclDevResourceHandle_t,
    pub ginSignalCount: i32,
    pub ginCounterCount: i32,
    pub outGinSignalStart: *mut ncclGinSignal_t,
    pub outGinCounterStart: *mut ncclGinCounter_t,
}
layout!(ncclDevResourceRequirements_t, 56, 8, bufferSize @ 8, bufferAlign @ 16, outBufferHandle @ 24, ginSignalCount @ 32,
    ginCounterCount @ 36, outGinSignalStart @ 40, outGinCounterStart @ 48);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclTeamRequirements_t {
    pub next: *mut ncclTeamRequirements_t,
    pub team: ncclTeam_t,
    pub multimem: u8,
    pub outMultimemHandle: *mut ncclMultimemHandle_t,
}
layout!(ncclTeamRequirements_t, 32, 8, team @ 8, multimem @ 20, outMultimemHandle @ 24);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclMultimemHandle_t {
    pub mcBasePtr: u64,
}
layout!(ncclMultimemHandle_t, 8, 8);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclLsaBarrierHandle_t {
    pub bufHandle: ncclDevResourceHandle_t,
    pub nBarriers: i32,
}
layout!(ncclLsaBarrierHandle_t, 8, 4, nBarriers @ 4);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclGinBarrierHandle_t {
    pub signal0: ncclGinSignal_t,
    pub bufHandle: ncclDevResourceHandle_t,
}
layout!(ncclGinBarrierHandle_t, 8, 4, bufHandle @ 4);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct ncclLLA2AHandle_t {
    pub bufHandle: ncclDevResourceHandle_t,
    pub nSlots: u32,
}
layout!(ncclLLA2AHandle_t, 8, 4, nSlots @ 4);
