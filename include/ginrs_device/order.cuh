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
#include "function.cuh"
#if NCCL_CHECK_CUDACC

#if !defined(__GINRS_CPU__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12080
#define GINRS_ONE_WAY_FENCES 1
#else
#define GINRS_ONE_WAY_FENCES 0
#endif

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

/* Atomics on words that lie in global memory, which the compiler does not know of a pointer out of a struct: for a
 * generic address it puts a barrier of the block's memory in front of every fence. */
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
#define GINRS_GLOBAL(pointer) "l"(__cvta_generic_to_global(pointer))

NCCL_DEVICE_INLINE uint32_t loadRelaxed(uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(value) : GINRS_GLOBAL(word) : "memory");
  return value;
}
NCCL_DEVICE_INLINE uint64_t loadRelaxed(uint64_t* word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(value) : GINRS_GLOBAL(word) : "memory");
  return value;
}
NCCL_DEVICE_INLINE void storeRelaxed(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::GINRS_GLOBAL(word), "r"(value) : "memory");
}
NCCL_DEVICE_INLINE void storeRelaxed(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::GINRS_GLOBAL(word), "l"(value) : "memory");
}
/* Two words at once, aligned to 16 bytes; each is whole. */
NCCL_DEVICE_INLINE void storeRelaxed(uint64_t* words, uint64_t first, uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::GINRS_GLOBAL(words), "l"(first), "l"(second) : "memory");
}
/* word++ among the threads of this GPU. wrap is 2^32 - 1, but not so that the compiler knows: the addition of 1 that
 * this then is, it would gather among the lanes of the warp, and hand out the sum behind it. For the one lane that posts,
 * that is half of what the atomic takes. */
NCCL_DEVICE_INLINE uint32_t claimNext(uint32_t* word, uint32_t wrap) {
  uint32_t before;
  asm volatile("atom.inc.relaxed.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : GINRS_GLOBAL(word), "r"(wrap) : "memory");
  return before;
}
/* Nothing that needs these values is reckoned before this place. */
NCCL_DEVICE_INLINE void holdBack(uint32_t& a, uint32_t& b) {
  asm volatile("" : "+r"(a), "+r"(b)::"memory");
}
/* Of which nobody wants the old value. */
NCCL_DEVICE_INLINE void addRelaxed(uint64_t* word, uint64_t value) {
  asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::GINRS_GLOBAL(word), "l"(value) : "memory");
}
#undef GINRS_GLOBAL
#else
template <typename T>
NCCL_DEVICE_INLINE T loadRelaxed(T* word) {
  return cuda::atomic_ref<T, cuda::thread_scope_system>(*word).load(cuda::memory_order_relaxed);
}
template <typename T>
NCCL_DEVICE_INLINE void storeRelaxed(T* word, T value) {
  cuda::atomic_ref<T, cuda::thread_scope_system>(*word).store(value, cuda::memory_order_relaxed);
}
/* Release costs nothing on x86, and shows ThreadSanitizer the order that a fence before made. */
NCCL_DEVICE_INLINE void storeRelaxed(uint64_t* words, uint64_t first, uint64_t second) {
  cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(words[0]).store(first, cuda::memory_order_release);
  cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(words[1]).store(second, cuda::memory_order_release);
}
NCCL_DEVICE_INLINE uint32_t claimNext(uint32_t* word, uint32_t) {
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(*word).fetch_add(1, cuda::memory_order_relaxed);
}
NCCL_DEVICE_INLINE void holdBack(uint32_t&, uint32_t&) {}
NCCL_DEVICE_INLINE void addRelaxed(uint64_t* word, uint64_t value) {
  cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*word).fetch_add(value, cuda::memory_order_relaxed);
}
#endif

/* One look of a loop that ends with settle(order). */
template <typename T>
NCCL_DEVICE_INLINE T look(T* word, cuda::memory_order order) {
#if GINRS_ONE_WAY_FENCES
  if (order == cuda::memory_order_relaxed || order == cuda::memory_order_acquire) return loadRelaxed(word);
#endif
  return cuda::atomic_ref<T, cuda::thread_scope_system>(*word).load(order);
}
NCCL_DEVICE_INLINE void settle(cuda::memory_order order) {
#if GINRS_ONE_WAY_FENCES
  if (order == cuda::memory_order_acquire) asm volatile("fence.acquire.sys;" ::: "memory");
#else
  (void)order;
#endif
}

}  // namespace ginrs
#endif
#endif
