/* Step 7 of a put: its source may be reused. The host moves a queue's consumer index past a descriptor only when the
 * operation is complete, and in order. Peers to which nothing is under way cost no look at the host's memory. */
#ifndef GINRS_DEVICE_GIN_FLUSH_CUH_
#define GINRS_DEVICE_GIN_FLUSH_CUH_
#include "queue.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* Until all that was claimed for `peer` before this call is complete, or the communicator is aborted. */
GINRS_DEVICE_FUNCTION void flushPeer(ncclGinCtx const& ctx, Queue const& queue, uint32_t peer, cuda::memory_order order) {
  uint32_t claimed = loadRelaxed(queue.abi.pis + peer);
  waitUntilComplete(ctx, queue, peer, claimed, nccl::utility::acquireOrderOf(order));
}

/* All peers, shared out among the threads of coop. */
template <typename Coop>
GINRS_DEVICE_FUNCTION void flush(ncclGinCtx const& ctx, Coop coop, cuda::memory_order order) {
  uint32_t const flags = flagsOf(ctx);
  Queue queue(ctx.handle, flags, (flags & GINRS_FLAG_DIRECT) != 0);
  int step = int(coop.size());
  for (int peer = int(coop.thread_rank()); peer < queue.abi.nranks; peer += step) {
    flushPeer(ctx, queue, uint32_t(peer), order);
  }
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
