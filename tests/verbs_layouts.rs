//! `src/verbs/sys.rs` against rdma-core's headers (package libibverbs-dev): every field's offset, the sizes of what is handed over, and
//! every number, as a C program prints them.

mod in_c;

use ginrs::verbs::sys as ours;

const HEADERS: &[&str] = &["infiniband/verbs", "infiniband/mlx5dv"];

/// Compares with what the C expressions come to.
fn compare(all: &[(String, u64)]) {
    in_c::compare("libibverbs-dev", HEADERS, all);
}

in_c::same! {
    ibv_context { device, ops, cmd_fd, async_fd }
    ibv_async_event { element, event_type }
    ibv_mr { context, pd, addr, length, handle, lkey, rkey }
    ibv_port_attr {
        state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc,
        max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2
    }
    ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
    ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
    mlx5dv_context_attr { flags, comp_mask }
    mlx5dv_devx_umem { umem_id }
    mlx5dv_devx_umem_in { addr, size, access, pgsz_bitmap, comp_mask, dmabuf_fd }
    mlx5dv_devx_event_channel { fd }
    mlx5dv_devx_uar { reg_addr, base_addr, page_id, mmap_off, comp_mask }
    mlx5dv_pd { pdn, comp_mask }
    mlx5dv_ah { av, comp_mask }
    mlx5_wqe_av { dqp_dct, stat_rate_sl, fl_mlid, rlid, reserved0, rmac, tclass, hop_limit, grh_gid_fl, rgid }
    mlx5dv_obj { qp, cq, srq, rwq, dm, ah, pd }
}

#[test]
fn sizes() {
    use in_c::size as of;
    compare(&[
        ("sizeof(union ibv_gid)".into(), size_of::<ours::ibv_gid>() as u64),
        of::<ours::ibv_async_event>("ibv_async_event"),
        of::<ours::ibv_mr>("ibv_mr"),
        of::<ours::ibv_port_attr>("ibv_port_attr"),
        of::<ours::ibv_global_route>("ibv_global_route"),
        of::<ours::ibv_ah_attr>("ibv_ah_attr"),
        of::<ours::mlx5dv_context_attr>("mlx5dv_context_attr"),
        of::<ours::mlx5dv_devx_umem_in>("mlx5dv_devx_umem_in"),
        of::<ours::mlx5dv_devx_uar>("mlx5dv_devx_uar"),
        of::<ours::mlx5dv_pd>("mlx5dv_pd"),
        of::<ours::mlx5dv_ah>("mlx5dv_ah"),
        of::<ours::mlx5_wqe_av>("mlx5_wqe_av"),
        of::<ours::mlx5dv_obj>("mlx5dv_obj"),
    ]);
}

#[test]
fn numbers() {
    compare(in_c::equal! {
        IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_ATOMIC IBV_PORT_ACTIVE
        IBV_ACCESS_RELAXED_ORDERING
        IBV_LINK_LAYER_ETHERNET MLX5DV_CONTEXT_FLAGS_DEVX MLX5DV_UAR_ALLOC_TYPE_NC MLX5DV_OBJ_AH MLX5DV_OBJ_PD
        MLX5DV_UMEM_MASK_DMABUF IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR
    });
}

/// Elements and completions as rdma-core names what the model reads and writes (`src/nic`).
#[test]
fn opcodes_and_syndromes_of_the_model() {
    use ginrs::nic::completion::Syndrome;
    let all = [
        ("MLX5_OPCODE_RDMA_WRITE", u64::from(ginrs::nic::element::RDMA_WRITE)),
        ("MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR", Syndrome::LocalOperation as u64),
        ("MLX5_CQE_SYNDROME_LOCAL_PROT_ERR", Syndrome::LocalProtection as u64),
        ("MLX5_CQE_SYNDROME_WR_FLUSH_ERR", Syndrome::Flushed as u64),
        ("MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR", Syndrome::RemoteAccess as u64),
        ("MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR", Syndrome::Retries as u64),
        ("MLX5_INLINE_SEG", u64::from(ginrs::nic::element::INLINE)),
    ];
    compare(&all.map(|(name, value)| (name.to_owned(), value)));
}
