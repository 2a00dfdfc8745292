/* Step 2b of a put: claim a slot of the peer's queue, wait until the host has emptied it, publish the descriptor. The
 * host's half is src/gin/queue.rs.
 *
 *   order   what                                                    why
 *   1       idx = pi++, relaxed                                     producers of the whole GPU share the queue
 *   2       release fence                                           the payload is visible before any word of the slot
 *   3       hint {peer, idx + 1}, relaxed, if hints are wanted      the proxy looks here sooner; promises nothing
 *   4       wait until idx - ci < queueSize                         then the host has zeroed the slot
 *   5       write the 8 words, each with its flag, relaxed          the host takes each word when it sees its flag
 *
 * Nothing rings and nothing follows: the host polls the flag of the next slot (the CPU device says that something was posted, where
 * hints are wanted: the host may sleep). The claim comes before the fence because
 * it orders nothing: its round trip to the L2 passes while the fence waits.
 *
 * ci is in host memory: a look at it costs a PCIe round trip, 1.1 us on an H200. So step 4 looks first at cachedCis in
 * this GPU's memory, where every thread that had to read ci leaves what it read. What stands there is some past value of
 * ci, older or newer than the last one left by whichever race; ci only grows, so it is a lower bound, which can only make
 * a thread look at ci in vain. (A bound would have to be 2^32 - queueSize posts old to be taken for a new one.)
 *
 * Who orders step 5 after the host's zeroing of the slot: the host zeroes, then releases ci; the look at ci acquires.
 * Behind cachedCis stands a control dependency only (a store is not performed before the branch that it depends on is
 * decided), which the PTX model does not name: an acquire there would empty the L1 on every post. docs/internals/memory-model.md. */
#ifndef GINRS_DEVICE_GIN_QUEUE_CUH_
#define GINRS_DEVICE_GIN_QUEUE_CUH_
#include "../order.cuh"
#include "abort.cuh"
#include "descriptor.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

using SystemU64 = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

/* The context's extension: of a context that is not known, zeros. In pieces of 16 bytes, of which the compiler keeps those
 * that the caller uses. */
NCCL_DEVICE_INLINE ginrsGinExt loadExtension(void const* handle, uint32_t flags) {
  struct alignas(16) Image {
    ginrsGinExt ext;
  };
  static_assert(sizeof(Image) <= GINRS_GIN_EXT_SPACE, "the library keeps this much");
  if ((flags & GINRS_FLAG_KNOWN) == 0) return ginrsGinExt{};
  return nccl::utility::loadConst(reinterpret_cast<Image const*>(extensionAt(handle))).ext;
}

/* All of a context that posts and flushes use. Constant while kernels run. */
struct Queue {
  uint32_t flags; /* the context's */
  ginrsGinExt ext;
  ncclGinProxyGpuCtx_t abi;

  /* isDirect says which queues: what the flags say, asked once by the caller. */
  NCCL_DEVICE_INLINE Queue(void const* handle, uint32_t flags, bool isDirect)
      : flags(flags), ext(loadExtension(handle, flags)),
        abi(nccl::utility::loadConst(static_cast<ncclGinProxyGpuCtx_t const*>(handle))) {
    if (!isDirect) return;
    abi.queues = static_cast<ncclGinProxyGfd_t*>(ext.directQueues);
    abi.pis = ext.directPis;
    abi.cis = ext.directCis;
  }
  NCCL_DEVICE_INLINE bool has(uint32_t flag) const {
    return (flags & flag) != 0;
  }
};

/* Instead of alreadyReleased, from our own ncclGin only: a release of GPU scope is all that is left to do. */
constexpr cuda::thread_scope releaseOnGpuLeft = cuda::thread_scope(15);

/* What is left to do for data in the window `source`. Data in this GPU's memory that this GPU's copy engine will read
 * need not leave the GPU's L2 for that: a release of GPU scope is enough. Not where a signal follows: whoever sees that
 * may also read what the thread has stored at the peer by LSA, and before a put of no bytes that is all that there is to
 * publish. Why: docs/internals/memory-model.md. */
NCCL_DEVICE_INLINE cuda::thread_scope releaseLeft(uint32_t flags, ncclWindow_t source, bool hasSignal,
                                                  cuda::thread_scope alreadyReleased) {
  if (alreadyReleased == cuda::thread_scope_system || hasSignal) return alreadyReleased;
  if ((flags & GINRS_FLAG_SAME_GPU) == 0) return alreadyReleased;
  if (nccl::utility::loadConst(&source->ginrsMark) != GINRS_MARK_WINDOW_GPU) return alreadyReleased;
  return alreadyReleased == cuda::thread_scope_device ? cuda::thread_scope_system : releaseOnGpuLeft;
}

/* The place that decides what publishing a payload costs. Whoever reads it does so by way of the CPU, so the scope is
 * the system's unless the caller says that it has released that far. (On an H200 a post costs 1.6 us with this fence,
 * 0.5 us with one of GPU scope, 0.3 us without.) */
NCCL_DEVICE_INLINE void releasePayload(cuda::thread_scope alreadyReleased) {
  if (alreadyReleased == releaseOnGpuLeft) {
    fenceRelease<cuda::thread_scope_device>();
  } else if (alreadyReleased != cuda::thread_scope_system) {
    fenceRelease<cuda::thread_scope_system>();
  }
}

/* Eight words, each whole and with its flag at once. A descriptor's type has alignment 1, a queue's slots have 64. */
NCCL_DEVICE_INLINE void writeSlot(void* slot, ncclGinProxyGfd_t const& gfd) {
  uint64_t* words = static_cast<uint64_t*>(slot);
#pragma unroll
  for (int i = 0; i < ncclGinProxyGfdQwords; i += 2) storeRelaxed(words + i, gfd.qword[i].raw, gfd.qword[i + 1].raw);
}

/* Until *ci, of `peer`'s queue, has reached `end`, rolling, or the communicator is aborted (false). What was seen is left in *cached, if
 * there is one, released: it carries on what this thread acquired from the host. */
NCCL_DEVICE_INLINE bool waitForConsumer(ncclGinCtx const& ctx, uint32_t* ci, uint32_t* cached, uint32_t peer, uint32_t end,
                                        cuda::memory_order order) {
  uint32_t seen = 0;
  bool isReached = until(
      ctx, [&] { return nccl::utility::rollingLessEq(end, seen = look(ci, order)); },
      [&] { return waitsFor(GINRS_WAITS_QUEUE, peer, ci, end, 32); });
  settle(order);
  if (isReached && cached != nullptr) {
    fenceRelease<cuda::thread_scope_device>();
    storeRelaxed(cached, seen);
  }
  return isReached;
}

NCCL_DEVICE_INLINE uint32_t* cachedOf(Queue const& queue, uint32_t peer) {
  return queue.has(GINRS_FLAG_CACHED) ? queue.ext.cachedCis + peer : nullptr;
}

/* The communicator was aborted while a claimed slot had no credit. The host goes on consuming, and kernels of other headers
 * that share the queue wait behind this slot: so it is waited for a little longer, some milliseconds, and then written. */
NCCL_DEVICE_INLINE bool waitForSlotAfterAbort(uint32_t* ci, uint32_t end) {
#pragma unroll 1
  for (int looks = 0; looks < 4096; looks++) {
    if (nccl::utility::rollingLessEq(end, look(ci, cuda::memory_order_acquire))) return true;
#ifdef __GINRS_CPU__
    ginrs_cpu_yield(GINRS_CPU_WAITING);
#endif
  }
  return false;
}

/* Until everything of `peer`'s queue before index `end` is complete; false if the communicator was aborted. */
NCCL_DEVICE_INLINE bool waitUntilComplete(ncclGinCtx const& ctx, Queue const& queue, uint32_t peer, uint32_t end,
                                          cuda::memory_order order) {
  uint32_t* cached = cachedOf(queue, peer);
  if (cached != nullptr && nccl::utility::rollingLessEq(end, look(cached, order))) {
    settle(order);
    return true;
  }
  return waitForConsumer(ctx, queue.abi.cis + peer, cached, peer, end, order);
}

/* Where a descriptor went. Not queued: the communicator was aborted, and the descriptor is dropped. */
struct Posted {
  bool isQueued;
  uint32_t index;
};

/* The payload is released to the system already, or by what alreadyReleased says is left. */
NCCL_DEVICE_INLINE Posted post(ncclGinCtx const& ctx, Queue const& queue, uint32_t peer, ncclGinProxyGfd_t const& gfd,
                               cuda::thread_scope alreadyReleased = cuda::thread_scope_system) {
  GINRS_CHECK(peer < uint32_t(queue.abi.nranks), "gin: the peer is not a rank of the communicator");
#ifdef __GINRS_CPU__
  if (isAborted(ctx)) return {false, 0}; /* cheap here; on a GPU the host drops what still arrives */
#endif
  uint32_t const size = queue.abi.queueSize;
  uint32_t* cached = cachedOf(queue, peer);
  uint32_t const wrap = 0u - (size < 1 ? size : 1); /* see claimNext */
  /* Both are on their way while the fence waits: nothing before it may need their answers. */
  uint32_t index = claimNext(queue.abi.pis + peer, wrap);
  uint32_t known = queue.has(GINRS_FLAG_CACHED) ? loadRelaxed(cached) : 0;
  releasePayload(alreadyReleased);
  holdBack(index, known);
  if (queue.has(GINRS_FLAG_HINTS)) {
    /* An entry that is overwritten before the proxy reads it is made up for by its slow scan. */
    uint32_t entry = claimNext(queue.ext.hintHead, wrap) & queue.ext.hintMask;
    storeRelaxed(queue.ext.hintRing + entry, uint64_t(GINRS_HINT(peer, index + 1)));
  }

  if (!queue.has(GINRS_FLAG_CACHED) || index - known >= size) {
    uint32_t end = index + 1 - size; /* then the slot's last descriptor is done */
    uint32_t* ci = queue.abi.cis + peer;
    if (!waitForConsumer(ctx, ci, cached, peer, end, cuda::memory_order_acquire) && !waitForSlotAfterAbort(ci, end)) {
      return {false, index};
    }
  }
  ncclGinProxyGfd_t* const slot = queue.abi.queues + size_t(peer) * size + (index & (size - 1));
#ifdef __GINRS_CPU__
  uint64_t const began = isWrittenDown() ? ginrs_cpu_timeline_now() : 0;
#endif
  writeSlot(slot, gfd);
#ifdef __GINRS_CPU__
  if (began != 0) ginrs_cpu_timeline_post(began, slot, index);
  if (queue.has(GINRS_FLAG_HINTS)) ginrs_cpu_posted();
#endif
  return {true, index};
}

/* Steps 2a and 2b: the whole of a put, putValue or signal on the GPU. Where payloads are stored (direct.cuh) a signal publishes those of
 * earlier puts, of which no caller can know that they are released. */
NCCL_DEVICE_INLINE Posted submit(ncclGinCtx const& ctx, Queue const& queue, int peer, Operation const& op,
                                 cuda::thread_scope alreadyReleased) {
  if (queue.has(GINRS_FLAG_STORES) && op.hasSignal) alreadyReleased = cuda::thread_scope_thread;
  Operation fitting = op;
  if (!fits(op)) {
    /* What leaves every window is our host's to refuse; a kernel that traps takes its GPU's context with it. */
    if (!queue.has(GINRS_FLAG_KNOWN) || !clamp(fitting)) GINRS_TRAP(fault(op));
  }
  return post(ctx, queue, uint32_t(peer), encode(fitting), alreadyReleased);
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
