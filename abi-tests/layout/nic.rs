//! Structs that kernels share with a proxy or drive a NIC with, and that the library has no use for yet: a descriptor as a whole,
//! GDAKI contexts and the verbs objects (spec host, A.2 to A.4). Work queue and completion entries are big-endian.

/// A descriptor as it stands in a queue; storage is 16-aligned, the C type itself is not.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ncclGinProxyGfd_t {
    pub qword: [u64; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiGlobalGPUBufferTable {
    pub buffer: u64,
    /// Address of big-endian u32, one per rank.
    pub rkeys: u64,
    /// Big-endian, as every key here.
    pub lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiGPUContext {
    pub gdqp: u64,
    pub companion_gdqp: u64,
    pub counters_table: ncclGinGdakiGlobalGPUBufferTable,
    pub signals_table: ncclGinGdakiGlobalGPUBufferTable,
    pub sink_buffer_lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ncclGinGdakiMemHandle {
    pub rkeys: u64,
    pub lkey: u32,
}

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

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_data_seg {
    pub byte_count: u32,
    pub lkey: u32,
    pub addr: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_raddr_seg {
    pub raddr: u64,
    pub rkey: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpunetio_ib_mlx5_wqe_atomic_seg {
    pub swap_add: u64,
    pub compare: u64,
}

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

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_wqe_wait_seg {
    pub resv: [u32; 2],
    pub max_index: u32,
    pub qpn_cqn: u32,
}

/// A work queue entry by its segments of 16 bytes; C has views of each kind besides.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct doca_gpu_dev_verbs_wqe {
    pub dseg0: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg1: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg2: doca_gpunetio_ib_mlx5_wqe_data_seg,
    pub dseg3: doca_gpunetio_ib_mlx5_wqe_data_seg,
}

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
