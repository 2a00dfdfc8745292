/* Step 2b of a put: claim a slot of the peer's queue, wait until the host has emptied it, publish the descriptor. The
 * host's half is src/gin/queue.rs.
 *
 *   order   what                                                    why
 *   1       idx = pi++, relaxed                                     producers of the whole GPU share the queue
 *   2       hint {peer, idx + 1}, relaxed, if hints are wanted      the proxy looks here sooner; promises nothing
 *   3       release fence                                           the payload is visible before any word of the slot
 *   4       wait until idx - ci < queueSize                         then the host has zeroed the slot
 *   5       write the 8 words, each with its flag, relaxed          the host takes each word when it sees its flag
 *
 * Nothing rings and nothing follows: the host polls the flag of the next slot. The claim comes before the fence because
 * it orders nothing: its round trip to the L2 passes while the fence waits.
 *
 * ci is in host memory: a look at it costs a PCIe round trip, 1.1 us on an H200. So step 4 looks first at cachedCis in
 * this GPU's memory, where every thread that had to read ci leaves what it read. What stands there is some past value of
 * ci, older or newer than the last one left by whichever race; ci only grows, so it is a lower bound, which can only make
 * a thread look at ci in vain. (A bound would have to be 2^32 - queueSize posts old to be taken for a new one.)
 *
 * Who orders step 5 after the host's zeroing of the slot: the host zeroes, then releases ci; the look at ci acquires.
 * Behind cachedCis stands a control dependency only (a store is not performed before the branch that it depends on is
 * decided), which the PTX model does not name: an acquire there would empty the L1 on every post. docs/device-memory-model.md. */
#ifndef GINRS_DEVICE_GIN_QUEUE_CUH_
#define GINRS_DEVICE_GIN_QUEUE_CUH_
#include "../order.cuh"
#include "abort.cuh"
#include "descriptor.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

using SystemU32 = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;
using SystemU64 = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;
using GpuU32 = cuda::atomic_ref<uint32_t, cuda::thread_scope_device>;

NCCL_DEVICE_INLINE ncclGinProxyGpuCtx_t loadContext(ncclGinCtx const& ctx) {
  return nccl::utility::loadConst(static_cast<ncclGinProxyGpuCtx_t const*>(ctx.handle));
}

/* The context's extension, zero in all that the library does not know. In pieces of 16 bytes, of which the compiler
 * keeps those that the caller uses; choices instead of branches, so that all of them are on their way at once. */
NCCL_DEVICE_INLINE ginrsGinExt loadExtension(ncclGinCtx const& ctx) {
  struct alignas(16) Image {
    ginrsGinExt ext;
  };
  static_assert(sizeof(Image) <= GINRS_GIN_EXT_SPACE, "the library keeps this much");
  if (ctx.ginrs.mark != GINRS_MARK_WORD) return ginrsGinExt{};
  char const* at = static_cast<char const*>(ctx.handle) + GINRS_GIN_EXT_OFFSET;
  ginrsGinExt ext = nccl::utility::loadConst(reinterpret_cast<Image const*>(at)).ext;
  bool const isOne = ext.magic == GINRS_GIN_EXT_MAGIC, isTwo = isOne && ext.version >= 2;
  ext.abortWord = isOne ? ext.abortWord : nullptr;
  ext.hintRing = isOne ? ext.hintRing : nullptr;
  ext.abortHost = isTwo ? ext.abortHost : nullptr;
  ext.cachedCis = isTwo ? ext.cachedCis : nullptr;
  ext.flags = isTwo ? ext.flags : 0;
  return ext;
}

/* All of a context that posts and flushes use. Constant while kernels run. */
struct Queue {
  ncclGinProxyGpuCtx_t abi;
  ginrsGinExt ext;

  NCCL_DEVICE_INLINE explicit Queue(ncclGinCtx const& ctx) : abi(loadContext(ctx)), ext(loadExtension(ctx)) {}
};

/* Instead of alreadyReleased, from our own ncclGin only: a release of GPU scope is all that is left to do. */
constexpr cuda::thread_scope releaseOnGpuLeft = cuda::thread_scope(15);

/* What is left to do for data in the window `source`. Data in this GPU's memory that this GPU's copy engine will read
 * need not leave the GPU's L2 for that: a release of GPU scope is enough. Why: docs/device-memory-model.md. */
NCCL_DEVICE_INLINE cuda::thread_scope releaseLeft(uint32_t flags, ncclWindow_t source,
                                                  cuda::thread_scope alreadyReleased) {
  if (alreadyReleased == cuda::thread_scope_system || (flags & GINRS_FLAG_SAME_GPU) == 0) return alreadyReleased;
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

/* Tells the proxy that `peer`'s queue is claimed up to, not including, `end`. A ring entry that is overwritten before
 * the proxy reads it is made up for by its slow scan. */
NCCL_DEVICE_INLINE void hint(ginrsGinExt const& ext, uint32_t peer, uint32_t end) {
  if (ext.hintRing == nullptr) return;
  uint32_t slot = GpuU32(*ext.hintHead).fetch_add(1, cuda::memory_order_relaxed) & ext.hintMask;
  SystemU64(ext.hintRing[slot]).store(GINRS_HINT(peer, end), cuda::memory_order_relaxed);
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

/* Until *ci has reached `end`, rolling, or the communicator is aborted (false). What was seen is left in *cached, if
 * there is one, released: it carries on what this thread acquired from the host. Not inlined: whoever comes here waits
 * for PCIe, and a kernel's registers are better spent elsewhere. */
template <typename = void>
GINRS_DEVICE_NOINLINE bool waitForConsumer(ncclGinCtx ctx, uint32_t* ci, uint32_t* cached, uint32_t end,
                                           cuda::memory_order order) {
  uint32_t seen = 0;
  bool isReached = until(ctx, [&] { return nccl::utility::rollingLessEq(end, seen = look(ci, order)); });
  settle(order);
  if (isReached && cached != nullptr) GpuU32(*cached).store(seen, cuda::memory_order_release);
  return isReached;
}

/* Until everything of `peer`'s queue before index `end` is complete; false if the communicator was aborted. */
NCCL_DEVICE_INLINE bool waitUntilComplete(ncclGinCtx const& ctx, Queue const& queue, uint32_t peer, uint32_t end,
                                          cuda::memory_order order) {
  uint32_t* cached = queue.ext.cachedCis == nullptr ? nullptr : queue.ext.cachedCis + peer;
  if (cached != nullptr && nccl::utility::rollingLessEq(end, GpuU32(*cached).load(order))) return true;
  return waitForConsumer(ctx, queue.abi.cis + peer, cached, end, order);
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
  uint32_t* cached = queue.ext.cachedCis == nullptr ? nullptr : queue.ext.cachedCis + peer;
  /* Before the claim, so that both are on their way at once, and so that it cannot be beyond the claim. */
  uint32_t known = cached == nullptr ? 0 : GpuU32(*cached).load(cuda::memory_order_relaxed);
  uint32_t index = GpuU32(queue.abi.pis[peer]).fetch_add(1, cuda::memory_order_relaxed);
  hint(queue.ext, peer, index + 1);
  releasePayload(alreadyReleased);

  if (cached == nullptr || index - known >= size) {
    uint32_t end = index + 1 - size; /* then the slot's last descriptor is done */
    if (!waitForConsumer(ctx, queue.abi.cis + peer, cached, end, cuda::memory_order_acquire)) return {false, index};
  }
  writeSlot(queue.abi.queues + size_t(peer) * size + (index & (size - 1)), gfd);
  return {true, index};
}

/* Steps 2a and 2b: the whole of a put, putValue or signal on the GPU. */
NCCL_DEVICE_INLINE Posted submit(ncclGinCtx const& ctx, Queue const& queue, int peer, Operation const& op,
                                 cuda::thread_scope alreadyReleased) {
  if (char const* why = fault(op)) GINRS_TRAP(why);
  return post(ctx, queue, uint32_t(peer), encode(op), alreadyReleased);
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
