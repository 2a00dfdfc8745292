//! Types of abi-tests/soft-verbs against rdma-core's headers (package libibverbs-dev), as tests/verbs_layouts.rs holds the library's own, and
//! a program that is compiled with those headers and drives it over memory of GPUs.

// Part of it is for others.
#[allow(unused_imports, unused_macros)]
#[path = "../../tests/in_c/mod.rs"]
mod in_c;

use soft_verbs::layout as ours;
use std::mem::offset_of;
use std::process::Command;

fn compare(all: &[(String, u64)]) {
    in_c::compare("libibverbs-dev", &["infiniband/verbs", "infiniband/mlx5dv"], all);
}

in_c::same! {
    ibv_device { name, dev_name, dev_path, ibdev_path }
    ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
    ibv_device_attr { node_guid, max_mr_size, vendor_id, max_qp, max_sge, max_cq, max_qp_rd_atom, atomic_cap, max_pkeys, phys_port_cnt }
    ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed }
    ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond, events_completed }
    ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
    ibv_qp_attr { qp_state, path_mtu, dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, port_num, rnr_retry }
    ibv_sge { addr, length, lkey }
    ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data }
    ibv_recv_wr { wr_id, next, sg_list, num_sge }
    ibv_wc { wr_id, status, opcode, byte_len, imm_data, qp_num, src_qp, wc_flags, sl }
    ibv_ece { vendor_id, options, comp_mask }
}

/// What a verb goes by in `ibv_context.ops`, as verbs.h calls it inline.
#[test]
fn places_of_inline_verbs() {
    let place = |verb: &str, at: usize| (format!("offsetof(struct ibv_context_ops, {verb})"), 8 * at as u64);
    let of = |part: &str, at: usize| (format!("offsetof(struct ibv_send_wr, wr.{part})"), at as u64);
    compare(&[
        place("poll_cq", ours::POLL_CQ),
        place("req_notify_cq", ours::REQ_NOTIFY_CQ),
        place("post_send", ours::POST_SEND),
        place("post_recv", ours::POST_RECV),
        of("atomic.remote_addr", offset_of!(ours::ibv_send_wr, remote_addr)),
        of("rdma.rkey", offset_of!(ours::ibv_send_wr, second)),
        of("atomic.compare_add", offset_of!(ours::ibv_send_wr, second)),
        of("atomic.swap", offset_of!(ours::ibv_send_wr, swap)),
        of("atomic.rkey", offset_of!(ours::ibv_send_wr, atomic_rkey)),
        in_c::size::<ours::ibv_device>("ibv_device"),
        in_c::size::<ours::ibv_context>("ibv_context"),
        in_c::size::<ours::ibv_device_attr>("ibv_device_attr"),
        in_c::size::<ours::ibv_wc>("ibv_wc"),
    ]);
}

/// Copies by the driver, of which the mock-driver is a stand-in whose memory has no host address.
#[test]
fn memory_of_gpus_is_copied_by_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let beside = std::env::current_exe().unwrap();
    let link = |built: &str, name: &str| {
        let built = beside.with_file_name(built);
        assert!(built.exists(), "{} is built with this test", built.display());
        std::os::unix::fs::symlink(built, folder.path().join(name)).unwrap();
    };
    link("libsoft_verbs.so", "libibverbs.so.1");
    link("libmock_cuda.so", "libcuda.so.1");
    let program = folder.path().join("gpu_memory");
    let mut cc = Command::new("cc");
    cc.arg("-o")
        .arg(&program)
        .args(["-std=gnu11", "-Wall", "-Werror"])
        .arg(abi_tests::root().join("abi-tests/theirs/gpu_memory.c"));
    abi_tests::run(cc.arg("-L").arg(folder.path()).args(["-l:libibverbs.so.1", "-l:libcuda.so.1"]));
    let mut program = Command::new(program);
    let environment = [("SOFTVERBS_GPU", "1"), ("GINRS_MOCK_DEVICES", "2"), ("GINRS_MOCK_PRIVATE", "1")];
    let said = abi_tests::run(program.env("LD_LIBRARY_PATH", folder.path()).envs(environment));
    assert_eq!(said, "ok\n");
}
