/* Device verbs: operations that also add to a word of this rank's when they are complete, by way of a companion queue. */
#ifndef DOCA_GPUNETIO_DEV_VERBS_COUNTER_CUH
#define DOCA_GPUNETIO_DEV_VERBS_COUNTER_CUH
#include "doca_gpunetio_dev_verbs_onesided.cuh"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
/* Rings n queues, in order. */
template <unsigned int num_qps, GINRS_RS_GPU, GINRS_SS_GPU, GINRS_CO_DEFAULT>
GINRS_VERBS void doca_gpu_dev_verbs_submit_db_multi_qps(doca_gpu_dev_verbs_qp** qps, uint64_t* ends) {
  for (unsigned int i = 0; i < num_qps; i++) {
    doca_gpu_dev_verbs_submit_db<resource_sharing_mode, sync_scope, code_opt>(qps[i], ends[i]);
  }
}
template <unsigned int num_qps, GINRS_RS_GPU, GINRS_SS_GPU>
GINRS_VERBS void doca_gpu_dev_verbs_submit_proxy_multi_qps(doca_gpu_dev_verbs_qp** qps, uint64_t* ends) {
  for (unsigned int i = 0; i < num_qps; i++) {
    doca_gpu_dev_verbs_submit_proxy<resource_sharing_mode, sync_scope>(qps[i], ends[i]);
  }
}
template <unsigned int num_qps, GINRS_RS_GPU, GINRS_SS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_submit_multi_qps(doca_gpu_dev_verbs_qp** qps, uint64_t* ends) {
  for (unsigned int i = 0; i < num_qps; i++) {
    doca_gpu_dev_verbs_submit<resource_sharing_mode, sync_scope, nic_handler>(qps[i], ends[i]);
  }
}

namespace ginrs {
namespace gdaki {
template <doca_gpu_dev_verbs_resource_sharing_mode sharing, doca_gpu_dev_verbs_nic_handler handler>
NCCL_DEVICE_INLINE void issueCounted(doca_gpu_dev_verbs_qp* qp, Transfer const& t, doca_gpu_dev_verbs_qp* companion,
                                     doca_gpu_dev_verbs_addr const& counter, doca_gpu_dev_verbs_addr const& sink,
                                     uint64_t addend) {
  uint64_t const last = post<sharing>(own(qp), t);
  uint64_t const end = postCount<sharing>(own(companion), own(qp), last, placeOf(counter), placeOf(sink), addend);
  doca_gpu_dev_verbs_qp* both[2] = {qp, companion};
  uint64_t ends[2] = {last + 1, end};
  doca_gpu_dev_verbs_submit_multi_qps<2, sharing, DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU, handler>(both, ends);
}
}  // namespace gdaki
}  // namespace ginrs

#define GINRS_COUNTER \
  doca_gpu_dev_verbs_qp *companion_qp, GINRS_ADDR counter_raddr, GINRS_ADDR counter_laddr, uint64_t counter_val
#define GINRS_ISSUE_COUNTED                                               \
  ginrs::gdaki::issueCounted<resource_sharing_mode, nic_handler>(qp, t, companion_qp, counter_raddr, counter_laddr, \
                                                                 counter_val)

template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_counter(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr,
                                                size_t size, GINRS_COUNTER) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  GINRS_ISSUE_COUNTED;
}
template <GINRS_TYPE GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_p_counter(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, T value, GINRS_COUNTER) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setValue(t, raddr, value);
  GINRS_ISSUE_COUNTED;
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_signal_counter(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr,
                                                       size_t size, GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr,
                                                       uint64_t sig_val, GINRS_COUNTER) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  GINRS_ISSUE_COUNTED;
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_signal_counter(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr,
                                                   uint64_t sig_val, GINRS_COUNTER) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  GINRS_ISSUE_COUNTED;
}
#undef GINRS_COUNTER
#undef GINRS_ISSUE_COUNTED
#undef GINRS_TYPE
#undef GINRS_OP
#undef GINRS_TYPE_OP
#undef GINRS_ADDR
#undef GINRS_SIGNAL_OP
#undef GINRS_ES_THREAD
#undef GINRS_RS_GPU
#undef GINRS_NH_AUTO
#undef GINRS_SS_GPU
#undef GINRS_CO_DEFAULT
#undef GINRS_QT_SQ
#undef GINRS_REQUEST
#undef GINRS_SEGMENTS
#undef GINRS_CQ_TEMPLATE
#undef GINRS_VERBS
#endif
#endif
