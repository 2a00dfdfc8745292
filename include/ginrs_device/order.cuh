/* Memory order at its price on the hardware. A fence of both directions also throws away the L1, so the words that a
 * wait or a put reads next come from far; from sm_90 and PTX 8.6 on a fence of one direction does not pay for the other:
 *
 *   fence.release   waits for the stores before it; the L1 stays
 *   fence.acquire   throws away the L1; waits for nothing
 *
 * So a poll is a loop of relaxed loads and one acquire fence behind it, which PTX takes for an acquire pattern like
 * ld.acquire, without the L1's loss in every turn. */
#ifndef GINRS_DEVICE_ORDER_CUH_
#define GINRS_DEVICE_ORDER_CUH_
#include "../nccl_device/utility.h"
#if NCCL_CHECK_CUDACC

#if !defined(__GINRS_CPU__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12080
#define GINRS_ONE_WAY_FENCES 1
#else
#define GINRS_ONE_WAY_FENCES 0
#endif

#define GINRS_DEVICE_NOINLINE __device__ __noinline__

namespace ginrs {

template <cuda::thread_scope scope>
NCCL_DEVICE_INLINE void fenceRelease() {
#if GINRS_ONE_WAY_FENCES
  if (scope == cuda::thread_scope_system) {
    asm volatile("fence.release.sys;" ::: "memory");
  } else {
    asm volatile("fence.release.gpu;" ::: "memory");
  }
#else
  cuda::atomic_thread_fence(cuda::memory_order_release, scope);
#endif
}

/* One look of a loop that ends with settle(order). Each word that a thread polls is this process's or a peer's. */
template <typename T>
NCCL_DEVICE_INLINE T look(T* word, cuda::memory_order order) {
  cuda::atomic_ref<T, cuda::thread_scope_system> atomic(*word);
#if GINRS_ONE_WAY_FENCES
  if (order == cuda::memory_order_acquire) return atomic.load(cuda::memory_order_relaxed);
#endif
  return atomic.load(order);
}
NCCL_DEVICE_INLINE void settle(cuda::memory_order order) {
#if GINRS_ONE_WAY_FENCES
  if (order == cuda::memory_order_acquire) asm volatile("fence.acquire.sys;" ::: "memory");
#else
  (void)order;
#endif
}

/* Adds to a word of which nobody wants the old value. */
NCCL_DEVICE_INLINE void addRelaxed(uint64_t* word, uint64_t value) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value) : "memory");
#else
  cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*word).fetch_add(value, cuda::memory_order_relaxed);
#endif
}

}  // namespace ginrs
#endif
#endif
