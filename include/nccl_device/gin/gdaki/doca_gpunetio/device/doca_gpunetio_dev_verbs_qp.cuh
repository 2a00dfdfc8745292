/* Device verbs: slots of a send queue, work requests, doorbells. What each does and in which order is in
 * ginrs_device/gin/gdaki_queue.cuh. */
#ifndef DOCA_GPUNETIO_DEV_VERBS_QP_H
#define DOCA_GPUNETIO_DEV_VERBS_QP_H
#include "doca_gpunetio_dev_verbs_cq.cuh"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#define GINRS_RS_GPU \
  enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU
#define GINRS_NH_AUTO enum doca_gpu_dev_verbs_nic_handler nic_handler = DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO
#define GINRS_SS_GPU enum doca_gpu_dev_verbs_sync_scope sync_scope = DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU
#define GINRS_CO_DEFAULT enum doca_gpu_dev_verbs_gpu_code_opt code_opt = DOCA_GPUNETIO_VERBS_GPU_CODE_OPT_DEFAULT
#define GINRS_QT_SQ enum doca_gpu_dev_verbs_qp_type qp_type = DOCA_GPUNETIO_VERBS_QP_SQ

/* ---- Slots ---- */

GINRS_VERBS void doca_gpu_dev_verbs_store_wqe_seg(uint64_t* to, uint64_t* from) {
  ginrs::gdaki::write(reinterpret_cast<ginrs::gdaki::Segment*>(to), {from[0], from[1]});
}
GINRS_VERBS doca_gpu_dev_verbs_wqe* doca_gpu_dev_verbs_get_wqe_ptr(doca_gpu_dev_verbs_qp* qp, uint16_t index) {
  return reinterpret_cast<doca_gpu_dev_verbs_wqe*>(ginrs::gdaki::slotOf(ginrs::gdaki::own(qp), index));
}
/* Until request `index` may be written, that is, the one before it in its slot is complete. */
template <GINRS_RS_GPU, GINRS_QT_SQ>
GINRS_VERBS void doca_gpu_dev_verbs_wait_until_slot_available(doca_gpu_dev_verbs_qp* qp, uint64_t index) {
  if (index < qp->sq_wqe_num) return;
  doca_gpu_dev_verbs_poll_cq_at<resource_sharing_mode, qp_type>(&qp->cq_sq, index - qp->sq_wqe_num);
}
template <GINRS_RS_GPU, GINRS_QT_SQ, bool wait = true>
GINRS_VERBS uint64_t doca_gpu_dev_verbs_reserve_wq_slots(doca_gpu_dev_verbs_qp* qp, uint32_t n) {
  return ginrs::gdaki::claim<resource_sharing_mode>(ginrs::gdaki::own(qp), n, wait);
}
/* `to` is the last. */
template <GINRS_RS_GPU, GINRS_QT_SQ>
GINRS_VERBS void doca_gpu_dev_verbs_mark_wqes_ready(doca_gpu_dev_verbs_qp* qp, uint64_t from, uint64_t to) {
  ginrs::gdaki::publish<resource_sharing_mode>(ginrs::gdaki::own(qp), from, to + 1);
}

/* ---- Doorbells. `end` is the last request's index + 1. ---- */

GINRS_VERBS __be32 doca_gpu_dev_verbs_prepare_dbr(uint32_t end) {
  return ginrs::gdaki::doorbellRecord(end);
}
template <GINRS_QT_SQ>
GINRS_VERBS void doca_priv_gpu_dev_verbs_update_dbr(doca_gpu_dev_verbs_qp* qp, uint32_t end) {
  ginrs::gdaki::record(ginrs::gdaki::own(qp), end);
}
template <GINRS_SS_GPU, GINRS_CO_DEFAULT, GINRS_QT_SQ>
GINRS_VERBS void doca_gpu_dev_verbs_update_dbr(doca_gpu_dev_verbs_qp* qp, uint32_t end) {
  doca_gpu_dev_verbs_fence_release<sync_scope>();
  ginrs::gdaki::record(ginrs::gdaki::own(qp), end);
}
GINRS_VERBS uint64_t doca_gpu_dev_verbs_prepare_db(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  return ginrs::gdaki::doorbell(qp->sq_num_shift8, end);
}
template <GINRS_SS_GPU, GINRS_CO_DEFAULT>
GINRS_VERBS void doca_gpu_dev_verbs_ring_db(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  doca_gpu_dev_verbs_fence_release<sync_scope>();
  ginrs::gdaki::ring(ginrs::gdaki::own(qp), end);
}
/* A whole request into the card's register; by the warp: 8 bytes by each of 8 lanes. */
template <GINRS_SS_GPU>
GINRS_VERBS void doca_gpu_dev_verbs_ring_bf(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_wqe* wqe) {
  doca_gpu_dev_verbs_fence_release<sync_scope>();
  for (int i = 0; i < 8; i++) ginrs::gdaki::storeMmio(qp->sq_db + i, reinterpret_cast<uint64_t*>(wqe)[i]);
}
template <GINRS_SS_GPU>
GINRS_VERBS void doca_gpu_dev_verbs_ring_bf_warp(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_wqe* wqe) {
  doca_gpu_dev_verbs_fence_release<sync_scope>();
  unsigned int const lane = doca_gpu_dev_verbs_get_lane_id();
  if (lane < 8) ginrs::gdaki::storeMmio(qp->sq_db + lane, reinterpret_cast<uint64_t*>(wqe)[lane]);
  __syncwarp();
}
template <enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS void doca_gpu_dev_verbs_ring_proxy(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  ginrs::gdaki::maxScoped<cuda::thread_scope_system>(qp->sq_db, end);
}

template <GINRS_RS_GPU, GINRS_SS_GPU, GINRS_CO_DEFAULT, GINRS_QT_SQ>
GINRS_VERBS void doca_gpu_dev_verbs_submit_db(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  if (sync_scope == DOCA_GPUNETIO_VERBS_SYNC_SCOPE_SYS) doca_gpu_dev_verbs_fence_release<sync_scope>();
  ginrs::gdaki::submitToCard<resource_sharing_mode>(ginrs::gdaki::own(qp), end);
}
template <GINRS_RS_GPU, GINRS_SS_GPU>
GINRS_VERBS void doca_gpu_dev_verbs_submit_proxy(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  if (sync_scope == DOCA_GPUNETIO_VERBS_SYNC_SCOPE_SYS) doca_gpu_dev_verbs_fence_release<sync_scope>();
  ginrs::gdaki::submitToMailbox(ginrs::gdaki::own(qp), end);
}
template <GINRS_RS_GPU, GINRS_SS_GPU, GINRS_CO_DEFAULT>
GINRS_VERBS void doca_gpu_dev_verbs_submit_bf(doca_gpu_dev_verbs_qp* qp, uint64_t end, doca_gpu_dev_verbs_wqe* wqe) {
  doca_gpu_dev_verbs_submit_db<resource_sharing_mode, sync_scope, code_opt>(qp, end);
  (void)wqe; /* the card reads it from the ring */
}
template <GINRS_RS_GPU, GINRS_SS_GPU, GINRS_CO_DEFAULT>
GINRS_VERBS void doca_gpu_dev_verbs_submit_bf_warp(doca_gpu_dev_verbs_qp* qp, uint64_t end, doca_gpu_dev_verbs_wqe* wqe) {
  if (doca_gpu_dev_verbs_get_lane_id() == 0) {
    doca_gpu_dev_verbs_submit_bf<resource_sharing_mode, sync_scope, code_opt>(qp, end, wqe);
  }
  __syncwarp();
}
/* AUTO: as the queue's nic_handler says. */
template <GINRS_RS_GPU, GINRS_SS_GPU, GINRS_NH_AUTO, GINRS_QT_SQ>
GINRS_VERBS void doca_gpu_dev_verbs_submit(doca_gpu_dev_verbs_qp* qp, uint64_t end) {
  bool const isCard = nic_handler == DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO
                          ? qp->nic_handler == DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB
                          : nic_handler != DOCA_GPUNETIO_VERBS_NIC_HANDLER_CPU_PROXY;
  if (isCard) {
    doca_gpu_dev_verbs_submit_db<resource_sharing_mode, sync_scope>(qp, end);
  } else {
    doca_gpu_dev_verbs_submit_proxy<resource_sharing_mode, sync_scope>(qp, end);
  }
}

/* ---- Requests. Keys are swapped; addresses, sizes and indices are not. ---- */

#define GINRS_REQUEST                                                                                        \
  doca_gpu_dev_verbs_qp *qp, doca_gpu_dev_verbs_wqe *wqe, uint16_t index, enum doca_gpu_dev_verbs_wqe_ctrl_flags flags
#define GINRS_SEGMENTS ginrs::gdaki::Segment* const slot = reinterpret_cast<ginrs::gdaki::Segment*>(wqe)

GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_nop(GINRS_REQUEST) {
  GINRS_SEGMENTS;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, ginrs::gdaki::kNop, 1, flags));
}
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_write(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_wqe* wqe,
                                                      uint16_t index, uint32_t opcode,
                                                      enum doca_gpu_dev_verbs_wqe_ctrl_flags flags, uint32_t imm,
                                                      uint64_t raddr, uint32_t rkey, uint64_t laddr, uint32_t lkey,
                                                      uint32_t bytes) {
  GINRS_SEGMENTS;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, opcode, 3, flags, imm));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::remote(raddr, rkey));
  ginrs::gdaki::write(slot + 2, ginrs::gdaki::local(laddr, lkey, bytes));
}
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_write(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_wqe* wqe,
                                                      uint16_t index, uint32_t opcode,
                                                      enum doca_gpu_dev_verbs_wqe_ctrl_flags flags, uint32_t imm,
                                                      uint64_t raddr, uint32_t rkey, uint64_t laddr1, uint32_t lkey1,
                                                      uint32_t bytes1, uint64_t laddr2, uint32_t lkey2,
                                                      uint32_t bytes2) {
  GINRS_SEGMENTS;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, opcode, 4, flags, imm));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::remote(raddr, rkey));
  ginrs::gdaki::write(slot + 2, ginrs::gdaki::local(laddr1, lkey1, bytes1));
  ginrs::gdaki::write(slot + 3, ginrs::gdaki::local(laddr2, lkey2, bytes2));
}
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_read(GINRS_REQUEST, uint64_t raddr, uint32_t rkey, uint64_t laddr,
                                                     uint32_t lkey, uint32_t bytes) {
  doca_gpu_dev_verbs_wqe_prepare_write(qp, wqe, index, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_READ, flags, 0, raddr, rkey,
                                       laddr, lkey, bytes);
}
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_read(GINRS_REQUEST, uint64_t raddr, uint32_t rkey, uint64_t laddr1,
                                                     uint32_t lkey1, uint32_t bytes1, uint64_t laddr2, uint32_t lkey2,
                                                     uint32_t bytes2) {
  doca_gpu_dev_verbs_wqe_prepare_write(qp, wqe, index, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_READ, flags, 0, raddr, rkey,
                                       laddr1, lkey1, bytes1, laddr2, lkey2, bytes2);
}
/* An inline write in two steps: all but the value, then the value, of up to 8 bytes. */
GINRS_VERBS void doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_header(GINRS_REQUEST, uint64_t raddr, uint32_t rkey,
                                                                      uint32_t bytes) {
  GINRS_SEGMENTS;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, ginrs::gdaki::kWrite, 3, flags));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::remote(raddr, rkey));
  ginrs::storeRelaxed(reinterpret_cast<uint32_t*>(slot + 2), ginrs::gdaki::big32(ginrs::gdaki::kInline | bytes));
}
template <typename T>
GINRS_VERBS void doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_data(doca_gpu_dev_verbs_qp*, doca_gpu_dev_verbs_wqe* wqe,
                                                                    T value) {
  static_assert(sizeof(T) <= 8, "an inline value has up to 8 bytes");
  uint32_t words[2] = {0, 0};
  __builtin_memcpy(words, &value, sizeof(T));
  uint32_t* to = reinterpret_cast<uint32_t*>(wqe) + 9;
  ginrs::storeRelaxed(to, words[0]);
  if (sizeof(T) > 4) ginrs::storeRelaxed(to + 1, words[1]);
}
/* Up to MAX_INLINE_SIZE bytes from laddr; beyond 12 the request has a fourth segment. */
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_write_inl(GINRS_REQUEST, uint64_t raddr, uint32_t rkey, uint64_t laddr,
                                                          uint32_t bytes) {
  GINRS_SEGMENTS;
  uint32_t const segments = bytes > 12 ? 4 : 3;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, ginrs::gdaki::kWrite, segments, flags));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::remote(raddr, rkey));
  ginrs::storeRelaxed(reinterpret_cast<uint32_t*>(slot + 2), ginrs::gdaki::big32(ginrs::gdaki::kInline | bytes));
  doca_gpu_dev_verbs_memcpy_data(reinterpret_cast<uint32_t*>(wqe) + 9, reinterpret_cast<void*>(laddr), bytes);
}
/* FETCH_ADD adds compare_add; COMPARE_SWAP compares with it and stores swap_add. The old value goes to laddr. */
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_atomic(doca_gpu_dev_verbs_qp* qp, doca_gpu_dev_verbs_wqe* wqe,
                                                       uint16_t index, uint32_t opcode,
                                                       enum doca_gpu_dev_verbs_wqe_ctrl_flags flags, uint64_t raddr,
                                                       uint32_t rkey, uint64_t laddr, uint32_t lkey, uint32_t bytes,
                                                       uint64_t compare_add, uint64_t swap_add) {
  GINRS_SEGMENTS;
  bool const adds = opcode == DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, opcode, 4, flags));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::remote(raddr, rkey));
  ginrs::gdaki::write(slot + 2, ginrs::gdaki::operands(adds ? compare_add : swap_add, adds ? 0 : compare_add));
  ginrs::gdaki::write(slot + 3, ginrs::gdaki::local(laddr, lkey, bytes));
}
/* Until completion max_index of queue cqn. */
GINRS_VERBS void doca_gpu_dev_verbs_wqe_prepare_wait(GINRS_REQUEST, uint32_t max_index, uint32_t cqn) {
  GINRS_SEGMENTS;
  ginrs::gdaki::write(slot, ginrs::gdaki::control(qp->sq_num_shift8, index, ginrs::gdaki::kWait, 2, flags));
  ginrs::gdaki::write(slot + 1, ginrs::gdaki::waitFor(max_index, cqn));
}
#endif
#endif
