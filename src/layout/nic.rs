//! GDAKI contexts and the verbs objects that kernels drive (spec host, A.3 and A.4): layouts alone, no backend of ours uses them.
//! Work queue and completion entries are big-endian.
use super::layout;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiGlobalGPUBufferTable {
    pub buffer: u64,
    /// Address of big-endian u32, one per rank.
    pub rkeys: u64,
    /// Big-endian, as every key here.
    pub lkey: u32,
}
layout!(ncclGinGdakiGlobalGPUBufferTable, 24, 8, rkeys @ 8, lkey @ 16);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiGPUContext {
    pub gdqp: u64,
    pub companion_gdqp: u64,
    pub counters_table: ncclGinGdakiGlobalGPUBufferTable,
    pub signals_table: ncclGinGdakiGlobalGPUBufferTable,
    pub sink_buffer_lkey: u32,
}
layout!(ncclGinGdakiGPUContext, 72, 8, companion_gdqp @ 8, counters_table @ 16, signals_table @ 40, sink_buffer_lkey @ 64);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiMemHandle {
    pub rkeys: u64,
    pub lkey: u32,
}
layout!(ncclGinGdakiMemHandle, 16, 8, lkey @ 8);

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

/// `doca_gpu_dev_verbs_nic_handler`
pub const DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO: u32 = 0;
pub const DOCA_GPUNETIO_VERBS_NIC_HANDLER_CPU_PROXY: u32 = 1;
pub const DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB: u32 = 2;
pub const DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_BF: u32 = 3;
/// `doca_gpu_dev_verbs_mem_type`
pub const DOCA_GPUNETIO_VERBS_MEM_TYPE_AUTO: u32 = 0;
pub const DOCA_GPUNETIO_VERBS_MEM_TYPE_HOST: u32 = 1;
pub const DOCA_GPUNETIO_VERBS_MEM_TYPE_GPU: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_data_seg {
    pub byte_count: u32,
    pub lkey: u32,
    pub addr: u64,
}
layout!(doca_gpunetio_ib_mlx5_wqe_data_seg, 16, 8, lkey @ 4, addr @ 8);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_raddr_seg {
    pub raddr: u64,
    pub rkey: u32,
    pub reserved: u32,
}
layout!(doca_gpunetio_ib_mlx5_wqe_raddr_seg, 16, 8, rkey @ 8, reserved @ 12);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_atomic_seg {
    pub swap_add: u64,
    pub compare: u64,
}
layout!(doca_gpunetio_ib_mlx5_wqe_atomic_seg, 16, 8, compare @ 8);

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_wqe_ctrl_seg {
    pub opmod_idx_opcode: u32,
    pub qpn_ds: u32,
    pub signature: u8,
    pub rsvd: [u8; 2],
    pub fm_ce_se: u8,
    pub imm: u32,
}
layout!(doca_gpu_dev_verbs_wqe_ctrl_seg, 16, 8, qpn_ds @ 4, signature @ 8, rsvd @ 9, fm_ce_se @ 11, imm @ 12);

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_wqe_wait_seg {
    pub resv: [u32; 2],
    pub max_index: u32,
    pub qpn_cqn: u32,
}
layout!(doca_gpu_dev_verbs_wqe_wait_seg, 16, 8, max_index @ 8, qpn_cqn @ 12);

/// A work queue entry by its segments of 16 bytes; C has views of each kind besides.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_wqe {
    pub dseg0: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg1: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg2: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg3: doca_gpunetio_ib_mlx5_wqe_data_seg,
}
layout!(doca_gpu_dev_verbs_wqe, 64, 8, dseg1 @ 16, dseg2 @ 32, dseg3 @ 48);

/// A completion entry (CQE64) as errors fill it; of a success, `wqe_counter` and `op_own` are the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_err_cqe_ex {
    pub rsvd0: [u8; 32],
    pub srqn: u32,
    pub rsvd1: [u8; 16],
    pub hw_err_synd: u8,
    pub hw_synd_type: u8,
    pub vendor_err_synd: u8,
    pub syndrome: u8,
    pub s_wqe_opcode_qpn: u32,
    pub wqe_counter: u16,
    pub signature: u8,
    pub op_own: u8,
}
layout!(doca_gpunetio_ib_mlx5_err_cqe_ex, 64, 4, srqn @ 32, rsvd1 @ 36, hw_err_synd @ 52, hw_synd_type @ 53,
    vendor_err_synd @ 54, syndrome @ 55, s_wqe_opcode_qpn @ 56, wqe_counter @ 60, signature @ 62, op_own @ 63);
