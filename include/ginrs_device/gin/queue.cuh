/* Step 2b of a put: claim a slot of the peer's queue, wait until the host has emptied it, publish the descriptor. The
 * host's half is src/gin/queue.rs.
 *
 *   order   what                                                    why
 *   1       release fence                                           the payload is visible before any word of the slot
 *   2       idx = pi++, relaxed                                     producers of the whole GPU share the queue
 *   3       hint {peer, idx + 1}, relaxed                           the proxy looks here sooner; promises nothing
 *   4       wait until idx - ci < queueSize                         then the host has zeroed the slot
 *   5       write the 8 words, each with its flag, relaxed          the host takes each word when it sees its flag
 *
 * Nothing rings and nothing follows: the host polls the flag of the next slot. */
#ifndef GINRS_DEVICE_GIN_QUEUE_CUH_
#define GINRS_DEVICE_GIN_QUEUE_CUH_
#include "abort.cuh"
#include "descriptor.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

using SystemU32 = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;
using SystemU64 = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

NCCL_DEVICE_INLINE ncclGinProxyGpuCtx_t loadContext(ncclGinCtx const& ctx) {
  return nccl::utility::loadConst(static_cast<ncclGinProxyGpuCtx_t const*>(ctx.handle));
}

/* The one place that decides what publishing the payload costs. The reader is the CPU, or a device that reads the
 * payload over PCIe or NVLink, so the scope is the system's unless the caller says that it has released that far. (On an
 * H200 a post costs 1.6 us with this fence and 0.2 us without; a gpu-scope fence would cost 0.5 us, and is enough only
 * where source and reader are known to be one GPU.) */
NCCL_DEVICE_INLINE void releasePayload(cuda::thread_scope alreadyReleased) {
  if (alreadyReleased != cuda::thread_scope_system) {
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_system);
  }
}

/* Tells the proxy that `peer`'s queue is claimed up to, not including, `end`. A ring entry that is overwritten before
 * the proxy reads it is made up for by its slow scan. */
NCCL_DEVICE_INLINE void hint(ncclGinCtx const& ctx, uint32_t peer, uint32_t end) {
  ginrsGinExt const* ext = extensionOf(ctx);
  if (ext == nullptr) return;
  uint64_t* ring = nccl::utility::loadConst(&ext->hintRing);
  if (ring == nullptr) return;
  uint32_t* head = nccl::utility::loadConst(&ext->hintHead);
  uint32_t slot = SystemU32(*head).fetch_add(1, cuda::memory_order_relaxed) & nccl::utility::loadConst(&ext->hintMask);
  SystemU64(ring[slot]).store(GINRS_HINT(peer, end), cuda::memory_order_relaxed);
}

/* Eight words, each whole and with its flag at once. A descriptor's type has alignment 1, a queue's slots have 64. */
NCCL_DEVICE_INLINE void writeSlot(void* slot, ncclGinProxyGfd_t const& gfd) {
  uint64_t* words = static_cast<uint64_t*>(slot);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
#pragma unroll
  for (int i = 0; i < ncclGinProxyGfdQwords; i += 2) {
    asm volatile("st.relaxed.sys.v2.b64 [%0], {%1, %2};" ::"l"(words + i), "l"(gfd.qword[i].raw),
                 "l"(gfd.qword[i + 1].raw)
                 : "memory");
  }
#elif defined(__GINRS_CPU__)
  /* Release costs nothing on x86, and shows ThreadSanitizer the order that the fence above made. */
  for (int i = 0; i < ncclGinProxyGfdQwords; i++) SystemU64(words[i]).store(gfd.qword[i].raw, cuda::memory_order_release);
#else
  (void)words, (void)gfd;
#endif
}

/* False if the communicator was aborted: the descriptor is dropped. */
NCCL_DEVICE_INLINE bool post(ncclGinCtx const& ctx, uint32_t peer, ncclGinProxyGfd_t const& gfd) {
  ncclGinProxyGpuCtx_t queue = loadContext(ctx);
  GINRS_CHECK(peer < uint32_t(queue.nranks), "gin: the peer is not a rank of the communicator");
#ifdef __GINRS_CPU__
  if (isAborted(ctx)) return false; /* cheap here; on a GPU the host drops what still arrives */
#endif
  uint32_t index = SystemU32(queue.pis[peer]).fetch_add(1, cuda::memory_order_relaxed);
  hint(ctx, peer, index + 1);

  Spin<ncclGinCtx> spin(ctx);
  while (index - SystemU32(queue.cis[peer]).load(cuda::memory_order_relaxed) >= queue.queueSize) {
    if (spin.aborted()) return false;
  }
  writeSlot(queue.queues + size_t(peer) * queue.queueSize + (index & (queue.queueSize - 1)), gfd);
  return true;
}

/* Steps 2a and 2b: the whole of a put, putValue or signal on the GPU. */
NCCL_DEVICE_INLINE void submit(ncclGinCtx const& ctx, int peer, Operation const& op,
                               cuda::thread_scope alreadyReleased) {
  if (char const* why = fault(op)) GINRS_TRAP(why);
  releasePayload(alreadyReleased);
  post(ctx, uint32_t(peer), encode(op));
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
