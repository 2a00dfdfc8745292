/* Step 7 of a put: its source may be reused. The host moves a queue's consumer index past a descriptor only when the
 * operation is complete, and in order. */
#ifndef GINRS_DEVICE_GIN_FLUSH_CUH_
#define GINRS_DEVICE_GIN_FLUSH_CUH_
#include "abort.cuh"
#include "queue.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* Until all that was claimed for `peer` before this call is complete, or the communicator is aborted. */
NCCL_DEVICE_INLINE void flushPeer(ncclGinCtx const& ctx, ncclGinProxyGpuCtx_t const& queue, uint32_t peer,
                                  cuda::memory_order order) {
  uint32_t claimed = SystemU32(queue.pis[peer]).load(cuda::memory_order_relaxed);
  order = nccl::utility::acquireOrderOf(order);
  Spin<ncclGinCtx> spin(ctx);
  while (!nccl::utility::rollingLessEq(claimed, SystemU32(queue.cis[peer]).load(order))) {
    if (spin.aborted()) return;
  }
}

/* All peers, shared out among the threads of coop. */
template <typename Coop>
NCCL_DEVICE_INLINE void flush(ncclGinCtx const& ctx, Coop coop, cuda::memory_order order) {
  ncclGinProxyGpuCtx_t queue = loadContext(ctx);
  int step = int(coop.size());
  for (int peer = int(coop.thread_rank()); peer < queue.nranks; peer += step) flushPeer(ctx, queue, uint32_t(peer), order);
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
