//! Structs that kernels share with a proxy or drive a NIC with, and that the library has no use for as a whole: a descriptor, and work queue
//! and completion entries, which are big-endian (spec host, A.2 to A.4).

/// A descriptor as it stands in a queue; storage is 16-aligned, the C type itself is not.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ncclGinProxyGfd_t {
    pub qword: [u64; 8],
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
