/* T003, T114: the GPU's side of mlx5 queue pairs, by the names that kernels for NVIDIA's GDAKI backend call. NVIDIA's
 * headers have them in the device pass, and in the host pass with -DNCCL_GIN_GDAKI_ENABLE=1. */
#include "case.h"

#if NCCL_GIN_GDAKI_ENABLE
#include <stddef.h>

namespace doca_cases {
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "size of " #type)
#define AT(type, field, bytes) static_assert(offsetof(type, field) == (bytes), "offset of " #type "::" #field)
#if CASE_C(3)
SIZE(doca_gpu_dev_verbs_qp, 280);
AT(doca_gpu_dev_verbs_qp, sq_rsvd_index, 0);
AT(doca_gpu_dev_verbs_qp, sq_ready_index, 8);
AT(doca_gpu_dev_verbs_qp, sq_wqe_pi, 16);
AT(doca_gpu_dev_verbs_qp, sq_num, 24);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8, 28);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8_be, 32);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8_be_1ds, 36);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8_be_2ds, 40);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8_be_3ds, 44);
AT(doca_gpu_dev_verbs_qp, sq_num_shift8_be_4ds, 48);
AT(doca_gpu_dev_verbs_qp, sq_lock, 52);
AT(doca_gpu_dev_verbs_qp, sq_wqe_num, 56);
AT(doca_gpu_dev_verbs_qp, sq_wqe_mask, 58);
AT(doca_gpu_dev_verbs_qp, sq_wqe_daddr, 64);
AT(doca_gpu_dev_verbs_qp, sq_dbrec, 72);
AT(doca_gpu_dev_verbs_qp, sq_db, 80);
AT(doca_gpu_dev_verbs_qp, rq_num, 88);
AT(doca_gpu_dev_verbs_qp, rq_wqe_pi, 96);
AT(doca_gpu_dev_verbs_qp, rq_wqe_num, 104);
AT(doca_gpu_dev_verbs_qp, rq_wqe_mask, 108);
AT(doca_gpu_dev_verbs_qp, rq_wqe_daddr, 112);
AT(doca_gpu_dev_verbs_qp, rq_dbrec, 120);
AT(doca_gpu_dev_verbs_qp, rcv_wqe_size, 128);
AT(doca_gpu_dev_verbs_qp, rq_rsvd_index, 136);
AT(doca_gpu_dev_verbs_qp, rq_ready_index, 144);
AT(doca_gpu_dev_verbs_qp, rq_lock, 152);
AT(doca_gpu_dev_verbs_qp, cq_sq, 160);
AT(doca_gpu_dev_verbs_qp, cq_rq, 216);
AT(doca_gpu_dev_verbs_qp, nic_handler, 272);
AT(doca_gpu_dev_verbs_qp, mem_type, 276);
SIZE(doca_gpu_dev_verbs_cq, 56);
AT(doca_gpu_dev_verbs_cq, cqe_daddr, 0);
AT(doca_gpu_dev_verbs_cq, cq_num, 8);
AT(doca_gpu_dev_verbs_cq, cqe_num, 12);
AT(doca_gpu_dev_verbs_cq, dbrec, 16);
AT(doca_gpu_dev_verbs_cq, cqe_ci, 24);
AT(doca_gpu_dev_verbs_cq, cqe_mask, 32);
AT(doca_gpu_dev_verbs_cq, cqe_size, 36);
AT(doca_gpu_dev_verbs_cq, cqe_rsvd, 40);
AT(doca_gpu_dev_verbs_cq, mem_type, 48);
SIZE(doca_gpu_dev_verbs_wqe, 64);
SIZE(doca_gpu_dev_verbs_addr, 16);
SIZE(doca_gpu_dev_verbs_wqe_ctrl_seg, 16);
SIZE(doca_gpu_dev_verbs_wqe_wait_seg, 16);
SIZE(doca_gpunetio_ib_mlx5_wqe_data_seg, 16);
SIZE(doca_gpunetio_ib_mlx5_wqe_ctrl_seg, 16);
SIZE(doca_gpunetio_ib_mlx5_wqe_raddr_seg, 16);
SIZE(doca_gpunetio_ib_mlx5_wqe_atomic_seg, 16);
SIZE(doca_gpunetio_ib_mlx5_cqe64, 64);
#endif

#if CASE_C(114)
#define NAME(name) doca_gpu_dev_verbs_##name
#define ENUM(name) DOCA_GPUNETIO_VERBS_##name
#define MLX5(name) DOCA_GPUNETIO_IB_MLX5_##name
static_assert(ENUM(RESOURCE_SHARING_MODE_EXCLUSIVE) == 0 && ENUM(RESOURCE_SHARING_MODE_CTA) == 1 &&
                  ENUM(RESOURCE_SHARING_MODE_GPU) == 2,
              "T114");
static_assert(ENUM(NIC_HANDLER_AUTO) == 0 && ENUM(NIC_HANDLER_CPU_PROXY) == 1 && ENUM(NIC_HANDLER_GPU_SM_DB) == 2 &&
                  ENUM(NIC_HANDLER_GPU_SM_BF) == 3,
              "T114");
static_assert(ENUM(SYNC_SCOPE_SYS) == 0 && ENUM(SYNC_SCOPE_GPU) == 1 && ENUM(SYNC_SCOPE_CTA) == 2, "T114");
static_assert(ENUM(EXEC_SCOPE_THREAD) == 0 && ENUM(EXEC_SCOPE_WARP) == 1 && ENUM(SIGNAL_OP_ADD) == 0 && ENUM(QP_SQ) == 0,
              "T114");
static_assert(ENUM(GPU_CODE_OPT_DEFAULT) == 0 && ENUM(GPU_CODE_OPT_ASYNC_STORE_RELEASE) == 1, "T114");
static_assert(ENUM(MEM_TYPE_AUTO) == 0 && ENUM(MEM_TYPE_HOST) == 1 && ENUM(MEM_TYPE_GPU) == 2, "T114");
static_assert(MLX5(OPCODE_NOP) == 0 && MLX5(OPCODE_RDMA_WRITE) == 8 && MLX5(OPCODE_WAIT) == 0xf &&
                  MLX5(OPCODE_RDMA_READ) == 0x10 && MLX5(OPCODE_ATOMIC_CS) == 0x11 && MLX5(OPCODE_ATOMIC_FA) == 0x12 &&
                  MLX5(OPCODE_DUMP) == 0x23 && MLX5(OPCODE_SEND) == 0xa && MLX5(OPCODE_UMR) == 0x25,
              "T114");
static_assert(MLX5(WQE_CTRL_CQ_UPDATE) == 8 && MLX5(WQE_CTRL_FENCE) == 0x80 && MLX5(WQE_CTRL_SOLICITED) == 2 &&
                  MLX5(WQE_CTRL_CQ_ERROR_UPDATE) == 0 && MLX5(WQE_CTRL_CQ_FIRST_CQE_ERROR) == 4 &&
                  MLX5(WQE_CTRL_INITIATOR_SMALL_FENCE) == 0x20 && MLX5(WQE_CTRL_STRONG_ORDERING) == 0x60,
              "T114");
static_assert(ENUM(MAX_INLINE_SIZE) == 28 && ENUM(CQE_SIZE) == 64 && ENUM(WQE_IDX_SHIFT) == 8 &&
                  ENUM(MAX_TRANSFER_SIZE_SHIFT) == 30 && ENUM(MAX_TRANSFER_SIZE) == 1u << 30 && ENUM(MKEY_SWAPPED) == 1 &&
                  ENUM(WARP_SIZE) == 32,
              "T114");

using QP = doca_gpu_dev_verbs_qp;
constexpr auto kGpu = ENUM(RESOURCE_SHARING_MODE_GPU);
constexpr auto kAuto = ENUM(NIC_HANDLER_AUTO);
constexpr auto kAdd = ENUM(SIGNAL_OP_ADD);
constexpr auto kUpdate = MLX5(WQE_CTRL_CQ_UPDATE);

/* Slots, builders and doorbells by hand. */
__global__ void t114byHand(QP* qp, uint32_t rkey, uint32_t lkey, uint64_t* o) {
  uint64_t base = NAME(reserve_wq_slots)<kGpu>(qp, 4);
  doca_gpu_dev_verbs_wqe* wqe = NAME(get_wqe_ptr)(qp, uint16_t(base));
  NAME(wqe_prepare_write)(qp, wqe, uint16_t(base), MLX5(OPCODE_RDMA_WRITE), kUpdate, 0, 64, rkey, 128, lkey, 256);
  wqe = NAME(get_wqe_ptr)(qp, uint16_t(base + 1));
  NAME(wqe_prepare_nop)(qp, wqe, uint16_t(base + 1), kUpdate);
  wqe = NAME(get_wqe_ptr)(qp, uint16_t(base + 2));
  NAME(wqe_prepare_atomic)(qp, wqe, uint16_t(base + 2), MLX5(OPCODE_ATOMIC_FA), kUpdate, 8, rkey, 0, lkey, 8, 1, 0);
  wqe = NAME(get_wqe_ptr)(qp, uint16_t(base + 3));
  NAME(wqe_prepare_wait)(qp, wqe, uint16_t(base + 3), kUpdate, uint32_t(base), 7);
  NAME(mark_wqes_ready)<kGpu>(qp, base, base + 3);
  NAME(submit)<kGpu, ENUM(SYNC_SCOPE_GPU), kAuto>(qp, base + 4);
  NAME(wait)(qp);
  NAME(wait)(qp, base);
  o[0] = uint64_t(NAME(poll_one_cq_at)(NAME(qp_get_cq_sq)(qp), base));
  o[1] = uint64_t(NAME(poll_cq_at)<kGpu>(NAME(qp_get_cq_sq)(qp), base));
  wqe = NAME(get_wqe_ptr)(qp, 5);
  NAME(wqe_prepare_read)(qp, wqe, 5, kUpdate, 64, rkey, 128, lkey, 256);
  NAME(prepare_inl_rdma_write_wqe_header)(qp, wqe, 5, kUpdate, 64, rkey, 4);
  NAME(prepare_inl_rdma_write_wqe_data)<uint32_t>(qp, wqe, 7);
  NAME(wqe_prepare_write_inl)(qp, wqe, 5, kUpdate, 64, rkey, uint64_t(o), 8);
  o[2] = NAME(prepare_db)(qp, 5) + NAME(prepare_dbr)(5);
}
/* The one-sided operations, with and without a companion queue. */
__global__ void t114oneSided(QP* qp, QP* companion, doca_gpu_dev_verbs_addr r, doca_gpu_dev_verbs_addr l,
                             doca_gpu_dev_verbs_addr s, doca_gpu_dev_verbs_addr c, uint64_t* o) {
  uint64_t ticket;
  NAME(put)(qp, r, l, 256);
  NAME(put)<kGpu, kAuto, ENUM(EXEC_SCOPE_THREAD)>(qp, r, l, 256, &ticket);
  NAME(put)<kGpu, kAuto, ENUM(EXEC_SCOPE_WARP)>(qp, r, l, 256, &ticket);
  NAME(p)<uint32_t>(qp, r, 7u);
  NAME(p)<uint64_t>(qp, r, 7ull, &ticket);
  NAME(put_signal)<kAdd>(qp, r, l, 256, s, c, 1);
  NAME(put_signal)<kAdd>(qp, r, l, 256, s, c, 1, &ticket);
  NAME(p_signal)<uint32_t, kAdd>(qp, r, 7u, s, c, 1);
  NAME(signal)<kAdd>(qp, s, c, 1);
  NAME(signal)<kAdd>(qp, s, c, 1, &ticket);
  NAME(put_counter)<>(qp, r, l, 256, companion, s, c, 1);
  NAME(p_counter)<uint32_t>(qp, r, 7u, companion, s, c, 1);
  NAME(put_signal_counter)<kAdd>(qp, r, l, 256, s, c, 1, companion, s, c, 1);
  NAME(signal_counter)<kAdd>(qp, s, c, 1, companion, s, c, 1);
  NAME(fence)<>(qp);
  o[0] = ticket;
}
__global__ void t114helpers(QP* qp, uint64_t* o) {
  o[0] = NAME(query_globaltimer)() + NAME(get_lane_id)() + NAME(bswap64)(1) + NAME(bswap32)(1) + NAME(bswap16)(1);
  NAME(fence_acquire)<ENUM(SYNC_SCOPE_SYS)>();
  NAME(fence_release)<ENUM(SYNC_SCOPE_GPU)>();
  o[1] = NAME(atomic_max)<uint64_t, kGpu>(o, 5) + NAME(atomic_add)<uint64_t, kGpu>(o, 5) + NAME(atomic_read)<uint64_t, kGpu>(o);
  NAME(lock)<kGpu>(&qp->sq_lock);
  NAME(unlock)<kGpu>(&qp->sq_lock);
  o[2] = NAME(load_relaxed_sys_global)(o) + NAME(load_relaxed)<kGpu>(o) + NAME(div_ceil_aligned_pow2)(5, 2) +
         NAME(div_ceil_aligned_pow2_32bits)(5, 2) + NAME(cqe_idx_inc_mask)(1, 3);
  NAME(store_relaxed_mmio)(qp->sq_db, 5);
  NAME(ring_db)<ENUM(SYNC_SCOPE_GPU), ENUM(GPU_CODE_OPT_DEFAULT)>(qp, 5);
  NAME(update_dbr)<ENUM(SYNC_SCOPE_GPU), ENUM(GPU_CODE_OPT_DEFAULT)>(qp, 5);
  NAME(ring_proxy)<kGpu>(qp, 5);
  NAME(submit_db)<kGpu, ENUM(SYNC_SCOPE_GPU)>(qp, 5);
  NAME(submit_proxy)<kGpu, ENUM(SYNC_SCOPE_GPU)>(qp, 5);
}
__global__ void t114forms(QP* qp, doca_gpu_dev_verbs_addr r, doca_gpu_dev_verbs_addr l, doca_gpu_dev_verbs_addr s,
                          doca_gpu_dev_verbs_addr c, uint64_t* o) {
  uint64_t ticket;
  NAME(put_thread)(qp, r, l, 256, &ticket);
  NAME(put_warp)(qp, r, l, 256, &ticket);
  NAME(p_thread)<uint32_t>(qp, r, 7u, &ticket);
  NAME(p_warp)<uint32_t>(qp, r, 7u, &ticket);
  NAME(put_signal_thread)<kAdd>(qp, r, l, 256, s, c, 1, &ticket);
  NAME(put_signal_warp)<kAdd>(qp, r, l, 256, s, c, 1, &ticket);
  NAME(signal_thread)<kAdd>(qp, s, c, 1, &ticket);
  NAME(signal_warp)<kAdd>(qp, s, c, 1, &ticket);
  QP* pair[] = {qp, qp};
  uint64_t ends[] = {5, 6};
  NAME(submit_multi_qps)<2, kGpu, ENUM(SYNC_SCOPE_GPU), kAuto>(pair, ends);
  NAME(submit_db_multi_qps)<2, kGpu, ENUM(SYNC_SCOPE_GPU)>(pair, ends);
  NAME(submit_proxy_multi_qps)<2, kGpu, ENUM(SYNC_SCOPE_GPU)>(pair, ends);
  NAME(wait_until_slot_available)<kGpu>(qp, 5);
  NAME(store_wqe_seg)(o, o + 2);
  NAME(memcpy_data)(o, o + 2, 16);
  NAME(memcpy_aligned_data)(o, o + 2, 16);
  o[0] = ticket + NAME(isaligned)(o, 8) + uint64_t(NAME(poll_cq)<kGpu>(NAME(qp_get_cq_sq)(qp), 1));
  o[1] = NAME(cq_update_dbrec)<false>(NAME(qp_get_cq_sq)(qp), 1);
}
#endif
}  // namespace doca_cases
#endif

#if CASE_N(114, 1) && (NCCL_GIN_GDAKI_ENABLE || !defined(OURS))
/* In host code too. */
static_assert(sizeof(doca_gpu_dev_verbs_qp) == 280, "T114");
__global__ void t114kernel(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_addr r, doca_gpu_dev_verbs_addr l) {
  doca_gpu_dev_verbs_put(qp, r, l, 256);
}
uint32_t t114host(doca_gpu_dev_verbs_qp const& qp) {
  return qp.sq_num + DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB;
}
#endif
