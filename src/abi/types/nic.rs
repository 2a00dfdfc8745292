//! GDAKI contexts and the verbs objects that kernels drive (spec host, A.3 and A.4). Big-endian words say so.
use super::layout;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiBufferTable {
    pub buffer: u64,
    /// Address of big-endian u32, one per rank.
    pub rkeys: u64,
    pub lkey_be: u32,
}
layout!(ncclGinGdakiBufferTable, 24, 8, rkeys @ 8, lkey_be @ 16);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiGPUContext {
    pub gdqp: u64,
    pub companion_gdqp: u64,
    pub counters_table: ncclGinGdakiBufferTable,
    pub signals_table: ncclGinGdakiBufferTable,
    pub sink_buffer_lkey_be: u32,
}
layout!(ncclGinGdakiGPUContext, 72, 8, companion_gdqp @ 8, counters_table @ 16, signals_table @ 40, sink_buffer_lkey_be @ 64);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiMemHandle {
    pub rkeys: u64,
    pub lkey_be: u32,
}
layout!(ncclGinGdakiMemHandle, 16, 8, lkey_be @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_cq {
    pub cqe_daddr: u64,
    pub cq_num: u32,
    pub cqe_num: u32,
    pub dbrec: u64,
    pub cqe_ci: u64,
    pub cqe_mask: u32,
    pub cqe_size: u8,
    pub cqe_rsvd: u64,
    pub mem_type: u32,
}
layout!(doca_gpu_dev_verbs_cq, 56, 8, cq_num @ 8, cqe_num @ 12, dbrec @ 16, cqe_ci @ 24, cqe_mask @ 32, cqe_size @ 36,
    cqe_rsvd @ 40, mem_type @ 48);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_qp {
    pub sq_rsvd_index: u64,
    pub sq_ready_index: u64,
    pub sq_wqe_pi: u64,
    pub sq_num: u32,
    pub sq_num_shift8: u32,
    pub sq_num_shift8_be: u32,
    pub sq_num_shift8_be_1ds: u32,
    pub sq_num_shift8_be_2ds: u32,
    pub sq_num_shift8_be_3ds: u32,
    pub sq_num_shift8_be_4ds: u32,
    pub sq_lock: i32,
    pub sq_wqe_num: u16,
    pub sq_wqe_mask: u16,
    pub sq_wqe_daddr: u64,
    pub sq_dbrec: u64,
    pub sq_db: u64,
    pub rq_num: u32,
    pub rq_wqe_pi: u64,
    pub rq_wqe_num: u32,
    pub rq_wqe_mask: u32,
    pub rq_wqe_daddr: u64,
    pub rq_dbrec: u64,
    pub rcv_wqe_size: u32,
    pub rq_rsvd_index: u64,
    pub rq_ready_index: u64,
    pub rq_lock: i32,
    pub cq_sq: doca_gpu_dev_verbs_cq,
    pub cq_rq: doca_gpu_dev_verbs_cq,
    pub nic_handler: u32,
    pub mem_type: u32,
}
layout!(doca_gpu_dev_verbs_qp, 280, 8, sq_ready_index @ 8, sq_wqe_pi @ 16, sq_num @ 24, sq_num_shift8 @ 28,
    sq_num_shift8_be @ 32, sq_lock @ 52, sq_wqe_num @ 56, sq_wqe_mask @ 58, sq_wqe_daddr @ 64, sq_dbrec @ 72, sq_db @ 80,
    rq_num @ 88, rq_wqe_pi @ 96, rq_wqe_num @ 104, rq_wqe_mask @ 108, rq_wqe_daddr @ 112, rq_dbrec @ 120, rcv_wqe_size @ 128,
    rq_rsvd_index @ 136, rq_ready_index @ 144, rq_lock @ 152, cq_sq @ 160, cq_rq @ 216, nic_handler @ 272, mem_type @ 276);
