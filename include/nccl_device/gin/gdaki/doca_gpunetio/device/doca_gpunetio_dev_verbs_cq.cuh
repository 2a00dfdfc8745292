/* Device verbs: completions. 0: complete; EBUSY: not yet; -EIO: failed. */
#ifndef DOCA_GPUNETIO_DEV_VERBS_CQ_H
#define DOCA_GPUNETIO_DEV_VERBS_CQ_H
#include "doca_gpunetio_dev_verbs_common.cuh"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
GINRS_VERBS doca_gpu_dev_verbs_cq* doca_gpu_dev_verbs_qp_get_cq_sq(doca_gpu_dev_verbs_qp* qp) {
  return &qp->cq_sq;
}
GINRS_VERBS uint32_t doca_gpu_dev_verbs_cqe_idx_inc_mask(uint32_t index, uint32_t increment) {
  return (index + increment) & DOCA_GPUNETIO_VERBS_CQE_CI_MASK;
}
/* Tells the card what is free, unless it may overrun the queue; the index. */
template <bool is_overrun>
GINRS_VERBS uint32_t doca_gpu_dev_verbs_cq_update_dbrec(doca_gpu_dev_verbs_cq* cq, uint32_t n) {
  uint32_t const index = uint32_t(cq->cqe_ci + n) & DOCA_GPUNETIO_VERBS_CQE_CI_MASK;
  cq->cqe_ci += n;
  if (!is_overrun) ginrs::storeRelaxed(reinterpret_cast<uint32_t*>(cq->dbrec), ginrs::gdaki::big32(index));
  return index;
}

#define GINRS_CQ_TEMPLATE                                                                                           \
  template <enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode =                                   \
                DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU,                                                      \
            enum doca_gpu_dev_verbs_qp_type qp_type = DOCA_GPUNETIO_VERBS_QP_SQ>

/* Those named doca_priv order nothing, and leave cqe_ci alone. */
GINRS_CQ_TEMPLATE
GINRS_VERBS int doca_priv_gpu_dev_verbs_poll_one_cq_at(doca_gpu_dev_verbs_cq* cq, uint64_t index) {
  return ginrs::gdaki::glance<resource_sharing_mode>(ginrs::gdaki::own(cq), index);
}
GINRS_CQ_TEMPLATE
GINRS_VERBS int doca_priv_gpu_dev_verbs_poll_cq_at(doca_gpu_dev_verbs_cq* cq, uint64_t index) {
  int state;
  do {
    state = doca_priv_gpu_dev_verbs_poll_one_cq_at<resource_sharing_mode, qp_type>(cq, index);
  } while (state == EBUSY);
  return state;
}
GINRS_CQ_TEMPLATE
GINRS_VERBS int doca_gpu_dev_verbs_poll_one_cq_at(doca_gpu_dev_verbs_cq* cq, uint64_t index) {
  return ginrs::gdaki::poll<resource_sharing_mode>(ginrs::gdaki::own(cq), index);
}
GINRS_CQ_TEMPLATE
GINRS_VERBS int doca_gpu_dev_verbs_poll_cq_at(doca_gpu_dev_verbs_cq* cq, uint64_t index) {
  return ginrs::gdaki::pollUntilDone<resource_sharing_mode>(ginrs::gdaki::own(cq), index);
}
/* The next `count` completions. */
GINRS_CQ_TEMPLATE
GINRS_VERBS int doca_gpu_dev_verbs_poll_cq(doca_gpu_dev_verbs_cq* cq, uint32_t count) {
  if (count == 0) return 0;
  uint64_t const first = ginrs::gdaki::loadShared<resource_sharing_mode>(&cq->cqe_ci);
  return doca_gpu_dev_verbs_poll_cq_at<resource_sharing_mode, qp_type>(cq, first + count - 1);
}
static_assert(EBUSY == ginrs::gdaki::kBusy && -EIO == ginrs::gdaki::kFailed, "results of a poll");
#endif
#endif
