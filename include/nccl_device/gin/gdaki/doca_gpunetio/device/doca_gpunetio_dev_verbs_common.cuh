/* Device verbs: byte order, fences, atomics by sharing mode, copies. */
#ifndef DOCA_GPUNETIO_DEV_VERBS_COMMON_H
#define DOCA_GPUNETIO_DEV_VERBS_COMMON_H
#include "../common/doca_gpunetio_verbs_dev.h"
#include "../../../../utility.h"

/* What the architecture and the toolkit can do, and Linux' names for volatile accesses. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define DOCA_GPUNETIO_VERBS_HAS_ASYNC_STORE_RELEASE 1
#else
#define DOCA_GPUNETIO_VERBS_HAS_ASYNC_STORE_RELEASE 0
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define DOCA_GPUNETIO_VERBS_HAS_TMA_COPY 1
#else
#define DOCA_GPUNETIO_VERBS_HAS_TMA_COPY 0
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION >= 12020
#define DOCA_GPUNETIO_VERBS_HAS_STORE_RELAXED_MMIO 1
#else
#define DOCA_GPUNETIO_VERBS_HAS_STORE_RELAXED_MMIO 0
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION >= 12080 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define DOCA_GPUNETIO_VERBS_HAS_FENCE_ACQUIRE_RELEASE_PTX 1
#else
#define DOCA_GPUNETIO_VERBS_HAS_FENCE_ACQUIRE_RELEASE_PTX 0
#endif
#define DOCA_GPUNETIO_VOLATILE(x) (*(volatile __typeof__(x)*)&(x))
#ifndef ACCESS_ONCE
#define ACCESS_ONCE(x) DOCA_GPUNETIO_VOLATILE(x)
#endif
#ifndef READ_ONCE
#define READ_ONCE(x) DOCA_GPUNETIO_VOLATILE(x)
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, v) (DOCA_GPUNETIO_VOLATILE(x) = (v))
#endif
#if DOCA_GPUNETIO_VERBS_ENABLE_DEBUG && NCCL_CHECK_CUDACC
#include <assert.h>
#define DOCA_GPUNETIO_VERBS_ASSERT(x) assert(x)
#else
#define DOCA_GPUNETIO_VERBS_ASSERT(x) ((void)0)
#endif

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include <errno.h>

#include "../../../../../ginrs_device/gin/gdaki_queue.cuh"

#define GINRS_VERBS __device__ static __forceinline__

namespace ginrs {
namespace gdaki {
static_assert(sizeof(QueuePair) == sizeof(doca_gpu_dev_verbs_qp) && sizeof(CompletionQueue) == sizeof(doca_gpu_dev_verbs_cq),
              "two views of one queue");
NCCL_DEVICE_INLINE QueuePair* own(doca_gpu_dev_verbs_qp* qp) {
  return reinterpret_cast<QueuePair*>(qp);
}
NCCL_DEVICE_INLINE CompletionQueue* own(doca_gpu_dev_verbs_cq* cq) {
  return reinterpret_cast<CompletionQueue*>(cq);
}
NCCL_DEVICE_INLINE constexpr cuda::thread_scope scopeOf(doca_gpu_dev_verbs_sync_scope scope) {
  return scope == DOCA_GPUNETIO_VERBS_SYNC_SCOPE_SYS   ? cuda::thread_scope_system
         : scope == DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU ? cuda::thread_scope_device
                                                       : cuda::thread_scope_block;
}
}  // namespace gdaki
}  // namespace ginrs

GINRS_VERBS uint64_t doca_gpu_dev_verbs_query_globaltimer() {
#if defined(__GINRS_CPU__)
  return __globaltimer();
#elif defined(__CUDA_ARCH__)
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return 0;
#endif
}
GINRS_VERBS unsigned int doca_gpu_dev_verbs_get_lane_id() {
  return unsigned(nccl::utility::lane());
}
GINRS_VERBS uint64_t doca_gpu_dev_verbs_bswap64(uint64_t x) {
  return ginrs::gdaki::big64(x);
}
GINRS_VERBS uint32_t doca_gpu_dev_verbs_bswap32(uint32_t x) {
  return ginrs::gdaki::big32(x);
}
GINRS_VERBS uint16_t doca_gpu_dev_verbs_bswap16(uint16_t x) {
  return ginrs::gdaki::big16(x);
}

/* ---- Stores and fences ---- */

GINRS_VERBS void doca_gpu_dev_verbs_store_relaxed_mmio(uint64_t* word, uint64_t value) {
  ginrs::gdaki::storeMmio(word, value);
}
/* A plain releasing store: these two exist for cards that take asynchronous ones. */
template <enum doca_gpu_dev_verbs_sync_scope sync_scope>
GINRS_VERBS void doca_gpu_dev_verbs_async_store_release(uint32_t* word, uint32_t value) {
  cuda::atomic_ref<uint32_t, ginrs::gdaki::scopeOf(sync_scope)>(*word).store(value, cuda::memory_order_release);
}
template <enum doca_gpu_dev_verbs_sync_scope sync_scope>
GINRS_VERBS void doca_gpu_dev_verbs_async_store_release(uint64_t* word, uint64_t value) {
  cuda::atomic_ref<uint64_t, ginrs::gdaki::scopeOf(sync_scope)>(*word).store(value, cuda::memory_order_release);
}
template <enum doca_gpu_dev_verbs_sync_scope sync_scope>
GINRS_VERBS void doca_gpu_dev_verbs_fence_acquire() {
  cuda::atomic_thread_fence(cuda::memory_order_acquire, ginrs::gdaki::scopeOf(sync_scope));
}
template <enum doca_gpu_dev_verbs_sync_scope sync_scope>
GINRS_VERBS void doca_gpu_dev_verbs_fence_release() {
  if (sync_scope == DOCA_GPUNETIO_VERBS_SYNC_SCOPE_CTA) {
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
  } else {
    ginrs::fenceRelease<ginrs::gdaki::scopeOf(sync_scope)>();
  }
}

/* ---- Copies ---- */

GINRS_VERBS bool doca_gpu_dev_verbs_isaligned(void* ptr, size_t alignment) {
  return reinterpret_cast<uintptr_t>(ptr) % alignment == 0;
}
GINRS_VERBS void doca_gpu_dev_verbs_memcpy_data(void* dst, void* src, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) static_cast<uint8_t*>(dst)[i] = static_cast<uint8_t*>(src)[i];
}
GINRS_VERBS void doca_gpu_dev_verbs_memcpy_aligned_data(void* dst, void* src, size_t bytes) {
  size_t const words = bytes / 8;
  for (size_t i = 0; i < words; i++) static_cast<uint64_t*>(dst)[i] = static_cast<uint64_t*>(src)[i];
  doca_gpu_dev_verbs_memcpy_data(static_cast<uint64_t*>(dst) + words, static_cast<uint64_t*>(src) + words, bytes % 8);
}
template <typename T>
GINRS_VERBS void doca_gpu_dev_verbs_memcpy_inl_aligned_data(T* dst, T const* src, size_t n) {
  for (size_t i = 0; i < n; i++) dst[i] = src[i];
}

/* ---- Atomics at the scope of the sharing mode; each gives the value before ---- */

template <typename T, enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode, bool need_fence_acquire = false>
GINRS_VERBS T doca_gpu_dev_verbs_atomic_max(T* word, T value) {
  T before;
  if (resource_sharing_mode == DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_EXCLUSIVE) {
    before = *word;
    if (before < value) *word = value;
  } else {
    before = ginrs::gdaki::maxShared<resource_sharing_mode>(word, value);
    if (need_fence_acquire) ginrs::gdaki::fenceShared<resource_sharing_mode>(cuda::memory_order_acquire);
  }
  return before;
}
template <typename T, enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS T doca_gpu_dev_verbs_atomic_add(T* word, T value) {
  return ginrs::gdaki::addShared<resource_sharing_mode>(word, value);
}
template <typename T, enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS T doca_gpu_dev_verbs_atomic_read(T* word) {
  return ginrs::gdaki::loadShared<resource_sharing_mode>(word);
}
template <enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS uint64_t doca_gpu_dev_verbs_load_relaxed(uint64_t* word) {
  return ginrs::gdaki::loadShared<resource_sharing_mode>(word);
}
GINRS_VERBS uint8_t doca_gpu_dev_verbs_load_relaxed_sys_global(uint8_t* byte) {
  return *static_cast<uint8_t volatile*>(byte);
}
GINRS_VERBS uint32_t doca_gpu_dev_verbs_load_relaxed_sys_global(uint32_t* word) {
  return ginrs::loadRelaxed(word);
}
GINRS_VERBS uint64_t doca_gpu_dev_verbs_load_relaxed_sys_global(uint64_t* word) {
  return ginrs::loadRelaxed(word);
}
template <enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS void doca_gpu_dev_verbs_lock(int* word) {
  ginrs::gdaki::lock<resource_sharing_mode>(word);
}
template <enum doca_gpu_dev_verbs_resource_sharing_mode resource_sharing_mode>
GINRS_VERBS void doca_gpu_dev_verbs_unlock(int* word) {
  ginrs::gdaki::unlock<resource_sharing_mode>(word);
}

/* x in units of 2^shift, rounded up. */
GINRS_VERBS uint64_t doca_gpu_dev_verbs_div_ceil_aligned_pow2(uint64_t x, unsigned int shift) {
  return (x + (uint64_t(1) << shift) - 1) >> shift;
}
GINRS_VERBS uint32_t doca_gpu_dev_verbs_div_ceil_aligned_pow2_32bits(uint64_t x, int shift) {
  return uint32_t((x + (uint64_t(1) << shift) - 1) >> shift);
}
#endif
#endif
