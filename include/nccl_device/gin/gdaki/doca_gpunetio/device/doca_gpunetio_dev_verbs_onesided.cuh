/* Device verbs: one-sided operations. Each posts its requests and rings; a ticket is the index of the last request.
 *
 * put         bytes from l to r
 * p           a value to r
 * put_signal  the same, then an addition at sig_r; sig_l is where the old value goes
 * signal      the addition alone
 * wait        until the ticket's request is complete
 *
 * The warp's forms are called by all lanes, and one of them posts. */
#ifndef DOCA_GPUNETIO_DEV_VERBS_ONESIDED_CUH
#define DOCA_GPUNETIO_DEV_VERBS_ONESIDED_CUH
#include "../../../../../ginrs_device/gin/gdaki_put.cuh"
#include "doca_gpunetio_dev_verbs_qp.cuh"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#define GINRS_ES_THREAD enum doca_gpu_dev_verbs_exec_scope exec_scope = DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD
#define GINRS_SIGNAL_OP enum doca_gpu_dev_verbs_signal_op signal_op

namespace ginrs {
namespace gdaki {
NCCL_DEVICE_INLINE Place placeOf(doca_gpu_dev_verbs_addr const& addr) {
  Place place;
  place.address = addr.addr;
  place.key = addr.key;
  return place;
}
NCCL_DEVICE_INLINE void setPut(Transfer& t, doca_gpu_dev_verbs_addr const& to, doca_gpu_dev_verbs_addr const& from,
                               uint64_t bytes) {
  t.hasPayload = true;
  t.to = placeOf(to);
  t.from = placeOf(from);
  t.bytes = bytes;
}
template <typename T>
NCCL_DEVICE_INLINE void setValue(Transfer& t, doca_gpu_dev_verbs_addr const& to, T const& value) {
  static_assert(sizeof(T) <= 8, "an inline value has up to 8 bytes");
  t.hasPayload = t.isInline = true;
  t.to = placeOf(to);
  t.bytes = sizeof(T);
  __builtin_memcpy(&t.value, &value, sizeof(T));
}
NCCL_DEVICE_INLINE void setAdd(Transfer& t, doca_gpu_dev_verbs_addr const& to, doca_gpu_dev_verbs_addr const& sink,
                               uint64_t addend) {
  t.hasAdd = true;
  t.addTo = placeOf(to);
  t.sink = placeOf(sink);
  t.addend = addend;
}
/* Posts and rings. */
template <doca_gpu_dev_verbs_resource_sharing_mode sharing, doca_gpu_dev_verbs_nic_handler handler>
NCCL_DEVICE_INLINE uint64_t issue(doca_gpu_dev_verbs_qp* qp, Transfer const& t) {
  uint64_t const last = post<sharing>(own(qp), t);
  doca_gpu_dev_verbs_submit<sharing, DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU, handler>(qp, last + 1);
  return last;
}
template <doca_gpu_dev_verbs_resource_sharing_mode sharing, doca_gpu_dev_verbs_nic_handler handler>
NCCL_DEVICE_INLINE uint64_t issueByWarp(doca_gpu_dev_verbs_qp* qp, Transfer const& t) {
  uint64_t last = 0;
  __syncwarp();
  if (nccl::utility::lane() == 0) last = issue<sharing, handler>(qp, t);
  return __shfl_sync(0xffffffffu, static_cast<unsigned long long>(last), 0);
}
template <doca_gpu_dev_verbs_exec_scope scope, doca_gpu_dev_verbs_resource_sharing_mode sharing,
          doca_gpu_dev_verbs_nic_handler handler>
NCCL_DEVICE_INLINE void issueBy(doca_gpu_dev_verbs_qp* qp, Transfer const& t, uint64_t* ticket) {
  uint64_t const last = scope == DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP ? issueByWarp<sharing, handler>(qp, t)
                                                                     : issue<sharing, handler>(qp, t);
  if (ticket != nullptr) *ticket = last;
}
}  // namespace gdaki
}  // namespace ginrs

#define GINRS_TYPE typename T,
#define GINRS_OP GINRS_SIGNAL_OP,
#define GINRS_TYPE_OP typename T, GINRS_SIGNAL_OP,
#define GINRS_ADDR struct doca_gpu_dev_verbs_addr

/* Each in three forms: by a thread, by a warp, and as the execution scope says. */
template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_thread(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_warp(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_RS_GPU, GINRS_NH_AUTO, GINRS_ES_THREAD>
GINRS_VERBS void doca_gpu_dev_verbs_put(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    uint64_t* ticket = nullptr) {
  if (exec_scope == DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP) {
    doca_gpu_dev_verbs_put_warp<resource_sharing_mode, nic_handler>(qp, raddr, laddr, size, ticket);
  } else {
    doca_gpu_dev_verbs_put_thread<resource_sharing_mode, nic_handler>(qp, raddr, laddr, size, ticket);
  }
}

template <GINRS_TYPE GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_p_thread(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, T value, uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setValue(t, raddr, value);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_TYPE GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_p_warp(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, T value, uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setValue(t, raddr, value);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_TYPE GINRS_RS_GPU, GINRS_NH_AUTO, GINRS_ES_THREAD>
GINRS_VERBS void doca_gpu_dev_verbs_p(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, T value, uint64_t* ticket = nullptr) {
  if (exec_scope == DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP) {
    doca_gpu_dev_verbs_p_warp<T, resource_sharing_mode, nic_handler>(qp, raddr, value, ticket);
  } else {
    doca_gpu_dev_verbs_p_thread<T, resource_sharing_mode, nic_handler>(qp, raddr, value, ticket);
  }
}

template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_signal_thread(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val, uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_put_signal_warp(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val, uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setPut(t, raddr, laddr, size);
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO, GINRS_ES_THREAD>
GINRS_VERBS void doca_gpu_dev_verbs_put_signal(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, GINRS_ADDR laddr, size_t size,
    GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val, uint64_t* ticket = nullptr) {
  if (exec_scope == DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP) {
    doca_gpu_dev_verbs_put_signal_warp<signal_op, resource_sharing_mode, nic_handler>(qp, raddr, laddr, size, sig_raddr, sig_laddr, sig_val, ticket);
  } else {
    doca_gpu_dev_verbs_put_signal_thread<signal_op, resource_sharing_mode, nic_handler>(qp, raddr, laddr, size, sig_raddr, sig_laddr, sig_val, ticket);
  }
}

template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_signal_thread(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val,
    uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_signal_warp(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val,
    uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP, resource_sharing_mode, nic_handler>(qp, t, ticket);
}
template <GINRS_OP GINRS_RS_GPU, GINRS_NH_AUTO, GINRS_ES_THREAD>
GINRS_VERBS void doca_gpu_dev_verbs_signal(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR sig_raddr, GINRS_ADDR sig_laddr, uint64_t sig_val,
    uint64_t* ticket = nullptr) {
  if (exec_scope == DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP) {
    doca_gpu_dev_verbs_signal_warp<signal_op, resource_sharing_mode, nic_handler>(qp, sig_raddr, sig_laddr, sig_val, ticket);
  } else {
    doca_gpu_dev_verbs_signal_thread<signal_op, resource_sharing_mode, nic_handler>(qp, sig_raddr, sig_laddr, sig_val, ticket);
  }
}

template <GINRS_TYPE_OP GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_p_signal(doca_gpu_dev_verbs_qp* qp, GINRS_ADDR raddr, T value, GINRS_ADDR sig_raddr,
                                             GINRS_ADDR sig_laddr, uint64_t sig_val, uint64_t* ticket = nullptr) {
  ginrs::gdaki::Transfer t;
  ginrs::gdaki::setValue(t, raddr, value);
  ginrs::gdaki::setAdd(t, sig_raddr, sig_laddr, sig_val);
  ginrs::gdaki::issueBy<DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD, resource_sharing_mode, nic_handler>(qp, t, ticket);
}

template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS int doca_gpu_dev_verbs_wait(doca_gpu_dev_verbs_qp* qp, uint64_t ticket) {
  return doca_gpu_dev_verbs_poll_cq_at<resource_sharing_mode>(&qp->cq_sq, ticket);
}
/* Everything that was claimed before the call. */
template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS int doca_gpu_dev_verbs_wait(doca_gpu_dev_verbs_qp* qp) {
  uint64_t const claimed = ginrs::gdaki::loadShared<resource_sharing_mode>(&qp->sq_rsvd_index);
  return claimed == 0 ? 0 : doca_gpu_dev_verbs_wait<resource_sharing_mode, nic_handler>(qp, claimed - 1);
}
/* A queue pair executes in order: nothing to do. */
template <GINRS_RS_GPU, GINRS_NH_AUTO>
GINRS_VERBS void doca_gpu_dev_verbs_fence(doca_gpu_dev_verbs_qp*) {}
#endif
#endif
