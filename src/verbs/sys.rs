//! Types of libibverbs and libmlx5 as rdma-core's C headers lay them out: what we touch, in order, and nothing behind it.
//! `tests/verbs_layouts.rs` holds each offset and number against the headers.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, missing_docs)]

use std::ffi::{c_int, c_void};

/// Types that only the libraries look into.
macro_rules! opaque {
    ($($name:ident)*) => { $(pub enum $name {})* };
}
opaque! { ibv_device ibv_pd ibv_ah mlx5dv_devx_obj }

pub const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub const IBV_ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub const IBV_ACCESS_REMOTE_READ: c_int = 1 << 2;
pub const IBV_ACCESS_REMOTE_ATOMIC: c_int = 1 << 3;
pub const IBV_ACCESS_RELAXED_ORDERING: c_int = 1 << 20;
pub const IBV_PORT_ACTIVE: u32 = 4;
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub const IBV_EVENT_DEVICE_FATAL: u32 = 8;
pub const IBV_EVENT_PORT_ACTIVE: u32 = 9;
pub const IBV_EVENT_PORT_ERR: u32 = 10;
pub const MLX5DV_CONTEXT_FLAGS_DEVX: u32 = 1;
/// A doorbell page whose stores are not combined.
pub const MLX5DV_UAR_ALLOC_TYPE_NC: u32 = 1;
pub const MLX5DV_OBJ_AH: u64 = 1 << 5;
pub const MLX5DV_OBJ_PD: u64 = 1 << 6;

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: [*const c_void; 32],
    pub cmd_fd: c_int,
    pub async_fd: c_int,
}

/// `element` is a port's number, or a pointer to what it is about.
#[repr(C)]
pub struct ibv_async_event {
    pub element: u64,
    pub event_type: u32,
}

#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_port_attr {
    pub state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// 16 bytes, aligned as the words that C also sees in them.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_gid {
    pub raw: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
pub struct mlx5dv_context_attr {
    pub flags: u32,
    pub comp_mask: u64,
}

#[repr(C)]
pub struct mlx5dv_devx_umem {
    pub umem_id: u32,
}

/// `comp_mask`: `dmabuf_fd` counts, and `addr` from its start.
pub const MLX5DV_UMEM_MASK_DMABUF: u64 = 1;

#[repr(C)]
pub struct mlx5dv_devx_umem_in {
    pub addr: *mut c_void,
    pub size: usize,
    pub access: u32,
    pub pgsz_bitmap: u64,
    pub comp_mask: u64,
    pub dmabuf_fd: c_int,
}

#[repr(C)]
pub struct mlx5dv_devx_uar {
    pub reg_addr: *mut c_void,
    pub base_addr: *mut c_void,
    pub page_id: u32,
    pub mmap_off: i64,
    pub comp_mask: u64,
}

#[repr(C)]
pub struct mlx5dv_devx_event_channel {
    pub fd: c_int,
}

#[repr(C)]
#[derive(Default)]
pub struct mlx5dv_pd {
    pub pdn: u32,
    pub comp_mask: u64,
}

#[repr(C)]
pub struct mlx5dv_ah {
    pub av: *mut mlx5_wqe_av,
    pub comp_mask: u64,
}

/// What a card is told of the way to a peer.
#[repr(C)]
pub struct mlx5_wqe_av {
    pub key: u64,
    pub dqp_dct: u32,
    pub stat_rate_sl: u8,
    pub fl_mlid: u8,
    pub rlid: u16,
    pub reserved0: [u8; 4],
    pub rmac: [u8; 6],
    pub tclass: u8,
    pub hop_limit: u8,
    pub grh_gid_fl: u32,
    pub rgid: [u8; 16],
}

/// A verbs object, and where to say what mlx5 has of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mlx5dv_pair {
    pub object: *mut c_void,
    pub out: *mut c_void,
}

#[repr(C)]
pub struct mlx5dv_obj {
    pub qp: mlx5dv_pair,
    pub cq: mlx5dv_pair,
    pub srq: mlx5dv_pair,
    pub rwq: mlx5dv_pair,
    pub dm: mlx5dv_pair,
    pub ah: mlx5dv_pair,
    pub pd: mlx5dv_pair,
}
