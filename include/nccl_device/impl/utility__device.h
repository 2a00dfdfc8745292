/* nccl::utility, the part that exists only in CUDA TUs: lanes, read-only loads, memory orders, atomics whose scope is
 * known at run time. */
#ifndef _NCCL_DEVICE_UTILITY__DEVICE_H_
#define _NCCL_DEVICE_UTILITY__DEVICE_H_
#include "../utility.h"
#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#ifdef __GINRS_CPU__
#include <ginrs_cpu/runtime.h>
#endif

namespace nccl {
namespace utility {

/* 0, but no optimizer knows it. */
template <typename = void>
NCCL_DEVICE_INLINE int opaqueZero() {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  int zero;
  asm volatile("mov.b32 %0, 0;" : "=r"(zero));
  return zero;
#else
  volatile int zero = 0;
  return zero;
#endif
}

/* The calling thread's place in its warp, 0..31. */
NCCL_DEVICE_INLINE int lane() {
#ifdef __GINRS_CPU__
  return int(ginrs_cpu_self->lane);
#elif defined(__CUDA_ARCH__)
  unsigned id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return int(id);
#else
  return 0;
#endif
}
/* Bits of the lanes below the calling one. */
NCCL_DEVICE_INLINE unsigned lanemask_lt() {
  return (1u << lane()) - 1u;
}

/* Reciprocals of 0..64 (0 as 1), for divisors that are small as a rule. */
NCCL_DEVICE_INLINE uint32_t idivRcp32_upto64(int x) {
  return idivRcp32(x <= 0 ? 1u : uint32_t(x));
}
NCCL_DEVICE_INLINE uint64_t idivRcp64_upto64(int x) {
  return idivRcp64(x <= 0 ? 1u : uint64_t(x));
}

/* The acquiring half of an order: what a load may be given. */
NCCL_DEVICE_INLINE constexpr cuda::memory_order acquireOrderOf(cuda::memory_order order) {
  return order == cuda::memory_order_release   ? cuda::memory_order_relaxed
         : order == cuda::memory_order_acq_rel ? cuda::memory_order_acquire
                                               : order;
}
/* The releasing half: what a store may be given. */
NCCL_DEVICE_INLINE constexpr cuda::memory_order releaseOrderOf(cuda::memory_order order) {
  return order == cuda::memory_order_acquire   ? cuda::memory_order_relaxed
         : order == cuda::memory_order_acq_rel ? cuda::memory_order_release
                                               : order;
}

template <typename T>
NCCL_DEVICE_INLINE T atomicLoad(T* p, cuda::memory_order order, cuda::thread_scope scope) {
  switch (scope) {
  case cuda::thread_scope_thread: return cuda::atomic_ref<T, cuda::thread_scope_thread>(*p).load(order);
  case cuda::thread_scope_block: return cuda::atomic_ref<T, cuda::thread_scope_block>(*p).load(order);
  case cuda::thread_scope_device: return cuda::atomic_ref<T, cuda::thread_scope_device>(*p).load(order);
  default: return cuda::atomic_ref<T, cuda::thread_scope_system>(*p).load(order);
  }
}
template <typename T>
NCCL_DEVICE_INLINE void atomicStore(T* p, T value, cuda::memory_order order, cuda::thread_scope scope) {
  switch (scope) {
  case cuda::thread_scope_thread: cuda::atomic_ref<T, cuda::thread_scope_thread>(*p).store(value, order); break;
  case cuda::thread_scope_block: cuda::atomic_ref<T, cuda::thread_scope_block>(*p).store(value, order); break;
  case cuda::thread_scope_device: cuda::atomic_ref<T, cuda::thread_scope_device>(*p).store(value, order); break;
  default: cuda::atomic_ref<T, cuda::thread_scope_system>(*p).store(value, order); break;
  }
}

/* Fences of the names of 2.28.3. */
NCCL_DEVICE_INLINE void fenceAcquireGpu() {
  cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
}
NCCL_DEVICE_INLINE void fenceReleaseGpu() {
  cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
}

/* The widest unsigned piece that an object of this alignment can be cut into. */
template <size_t alignment>
struct ConstPiece {
  using Type = uint4;
};
template <>
struct ConstPiece<1> {
  using Type = unsigned char;
};
template <>
struct ConstPiece<2> {
  using Type = unsigned short;
};
template <>
struct ConstPiece<4> {
  using Type = unsigned int;
};
template <>
struct ConstPiece<8> {
  using Type = unsigned long long;
};

/* *p, read through the read-only path: nobody may write it while the kernel runs. T is trivially copyable. */
template <typename T>
NCCL_DEVICE_INLINE T loadConst(T const* p) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  using Piece = typename ConstPiece<alignof(T)>::Type;
  constexpr int nPieces = int(sizeof(T) / sizeof(Piece));
  union Result {
    Piece pieces[nPieces];
    T value;
    __device__ Result() {}
    __device__ ~Result() {}
  } result;
#pragma unroll
  for (int i = 0; i < nPieces; i++) result.pieces[i] = __ldg(reinterpret_cast<Piece const*>(p) + i);
  return result.value;
#else
  return *p;
#endif
}

}  // namespace utility
}  // namespace nccl
#endif
#endif
