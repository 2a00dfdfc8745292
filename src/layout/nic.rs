//! What kernels of the GDAKI backend see (spec host 4.9 and A.4): contexts, keys, and queue pairs as DOCA's device verbs have them. Keys and
//! what is named `_be` are big-endian.

use super::layout;
use zerocopy::{Immutable, IntoBytes};

/// Of `ncclDevComm.ginTypes`.
pub const NCCL_NET_DEVICE_GIN_GDAKI: i32 = 3;

/// Words of all ranks: the local ones, and a key for each rank's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct ncclGinGdakiGlobalGPUBufferTable {
    pub buffer: u64,
    /// Address of u32 big-endian keys, by world rank.
    pub rkeys: u64,
    pub lkey: u32,
    pub pad: u32,
}
layout!(ncclGinGdakiGlobalGPUBufferTable, 24, 8, rkeys @ 8, lkey @ 16);

/// What `ginHandles[c]` points to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct ncclGinGdakiGPUContext {
    /// Queue pairs, by world rank.
    pub gdqp: u64,
    /// For counters, likewise.
    pub companion_gdqp: u64,
    pub counters_table: ncclGinGdakiGlobalGPUBufferTable,
    pub signals_table: ncclGinGdakiGlobalGPUBufferTable,
    pub sink_buffer_lkey: u32,
    pub pad: u32,
}
layout!(ncclGinGdakiGPUContext, 72, 8, companion_gdqp @ 8, counters_table @ 16, signals_table @ 40, sink_buffer_lkey @ 64);

/// What `ginWins[c]` points to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct ncclGinGdakiMemHandle {
    /// As in [`ncclGinGdakiGlobalGPUBufferTable`].
    pub rkeys: u64,
    pub lkey: u32,
    pub pad: u32,
}
layout!(ncclGinGdakiMemHandle, 16, 8, lkey @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct doca_gpu_dev_verbs_cq {
    pub cqe_daddr: u64,
    pub cq_num: u32,
    pub cqe_num: u32,
    pub dbrec: u64,
    /// All completions below are known.
    pub cqe_ci: u64,
    pub cqe_mask: u32,
    pub cqe_size: u8,
    pub pad0: [u8; 3],
    pub cqe_rsvd: u64,
    pub mem_type: u32,
    pub pad1: u32,
}
layout!(doca_gpu_dev_verbs_cq, 56, 8, cq_num @ 8, cqe_num @ 12, dbrec @ 16, cqe_ci @ 24, cqe_mask @ 32, cqe_size @ 36, cqe_rsvd @ 40, mem_type @ 48);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub struct doca_gpu_dev_verbs_qp {
    /// Slots claimed, built, rung: kernels write them.
    pub sq_rsvd_index: u64,
    pub sq_ready_index: u64,
    pub sq_wqe_pi: u64,
    pub sq_num: u32,
    pub sq_num_shift8: u32,
    pub sq_num_shift8_be: u32,
    /// The same with so many segments.
    pub sq_num_shift8_be_1ds: u32,
    pub sq_num_shift8_be_2ds: u32,
    pub sq_num_shift8_be_3ds: u32,
    pub sq_num_shift8_be_4ds: u32,
    pub sq_lock: i32,
    pub sq_wqe_num: u16,
    pub sq_wqe_mask: u16,
    pub pad0: u32,
    pub sq_wqe_daddr: u64,
    pub sq_dbrec: u64,
    pub sq_db: u64,
    /// There is no receive queue.
    pub rq_num: u32,
    pub pad1: u32,
    pub rq_wqe_pi: u64,
    pub rq_wqe_num: u32,
    pub rq_wqe_mask: u32,
    pub rq_wqe_daddr: u64,
    pub rq_dbrec: u64,
    pub rcv_wqe_size: u32,
    pub pad2: u32,
    pub rq_rsvd_index: u64,
    pub rq_ready_index: u64,
    pub rq_lock: i32,
    pub pad3: u32,
    pub cq_sq: doca_gpu_dev_verbs_cq,
    pub cq_rq: doca_gpu_dev_verbs_cq,
    pub nic_handler: u32,
    pub mem_type: u32,
}
layout!(doca_gpu_dev_verbs_qp, 280, 8, sq_rsvd_index @ 0, sq_num @ 24, sq_num_shift8_be_1ds @ 36, sq_lock @ 52, sq_wqe_num @ 56, sq_wqe_mask @ 58,
    sq_wqe_daddr @ 64, sq_dbrec @ 72, sq_db @ 80, rq_num @ 88, cq_sq @ 160, cq_rq @ 216, nic_handler @ 272, mem_type @ 276);
