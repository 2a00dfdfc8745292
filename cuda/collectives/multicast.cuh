/* All-reduce, reduce-scatter and all-gather of large symmetric buffers through the switch (NVLS): it adds up what all ranks have at a place, and
 * takes a store to all. Between the two barriers of the direct way, and two-shot: a rank reduces its part for all. Only where it is asked for
 * (GINRS_COLLECTIVE=multicast); run on the CPU device's multicast, and on no GPU. */
#ifndef GINRS_COLLECTIVES_MULTICAST_CUH_
#define GINRS_COLLECTIVES_MULTICAST_CUH_
#include "ll.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GINRS_MULTIMEM_LOAD(what, constraint, w, at) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];" : "=" constraint(w) : "l"(at) : "memory")
#define GINRS_MULTIMEM_LOAD4(what, constraint, w, at)                                                                                              \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." what " {%0, %1, %2, %3}, [%4];"                                                           \
               : "=" constraint(w[0]), "=" constraint(w[1]), "=" constraint(w[2]), "=" constraint(w[3])                                            \
               : "l"(at)                                                                                                                           \
               : "memory")
#else
#define GINRS_MULTIMEM_LOAD(what, constraint, w, at) \
  (void)(at);                                        \
  GINRS_TRAP("a collective through the switch on a GPU older than sm_90")
#define GINRS_MULTIMEM_LOAD4(what, constraint, w, at) GINRS_MULTIMEM_LOAD(what, constraint, w, at)
#endif

/* 16 bytes of every rank as one: sums, and of integers and half-precision floats maxima and minima; `at` is a multicast address. Which types and
 * operations there are is the ISA's; src/coll/datatype.rs asks for no others. */
__device__ __forceinline__ void loadSwitched(uint32_t op, char* at, uint32_t (&w)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    char* const word = at + 4 * i;
    switch (op) {
      case GINRS_COLL_MAX_S: GINRS_MULTIMEM_LOAD("max.s32", "r", w[i], word); break;
      case GINRS_COLL_MAX_U: GINRS_MULTIMEM_LOAD("max.u32", "r", w[i], word); break;
      case GINRS_COLL_MIN_S: GINRS_MULTIMEM_LOAD("min.s32", "r", w[i], word); break;
      case GINRS_COLL_MIN_U: GINRS_MULTIMEM_LOAD("min.u32", "r", w[i], word); break;
      default: GINRS_MULTIMEM_LOAD("add.u32", "r", w[i], word);
    }
  }
}
__device__ __forceinline__ void loadSwitched(uint32_t op, char* at, uint64_t (&w)[2]) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    char* const word = at + 8 * i;
    switch (op) {
      case GINRS_COLL_MAX_S: GINRS_MULTIMEM_LOAD("max.s64", "l", w[i], word); break;
      case GINRS_COLL_MAX_U: GINRS_MULTIMEM_LOAD("max.u64", "l", w[i], word); break;
      case GINRS_COLL_MIN_S: GINRS_MULTIMEM_LOAD("min.s64", "l", w[i], word); break;
      case GINRS_COLL_MIN_U: GINRS_MULTIMEM_LOAD("min.u64", "l", w[i], word); break;
      default: GINRS_MULTIMEM_LOAD("add.u64", "l", w[i], word);
    }
  }
}
__device__ __forceinline__ void loadSwitched(uint32_t, char* at, float (&w)[4]) { GINRS_MULTIMEM_LOAD4("add.v4.f32", "f", w, at); }
__device__ __forceinline__ void loadSwitched(uint32_t, char* at, double (&w)[2]) {
#pragma unroll
  for (int i = 0; i < 2; i++) GINRS_MULTIMEM_LOAD("add.f64", "d", w[i], at + 8 * i);
}
__device__ __forceinline__ void loadSwitched(uint32_t op, char* at, __half2 (&halves)[4]) {
  uint32_t w[4];
  switch (op) {
    case GINRS_COLL_MAX_S: GINRS_MULTIMEM_LOAD4("max.v4.f16x2", "r", w, at); break;
    case GINRS_COLL_MIN_S: GINRS_MULTIMEM_LOAD4("min.v4.f16x2", "r", w, at); break;
    default: GINRS_MULTIMEM_LOAD4("add.acc::f32.v4.f16x2", "r", w, at);
  }
  memcpy(static_cast<void*>(halves), w, sizeof w);
}
__device__ __forceinline__ void loadSwitched(uint32_t op, char* at, __nv_bfloat162 (&halves)[4]) {
  uint32_t w[4];
  switch (op) {
    case GINRS_COLL_MAX_S: GINRS_MULTIMEM_LOAD4("max.v4.bf16x2", "r", w, at); break;
    case GINRS_COLL_MIN_S: GINRS_MULTIMEM_LOAD4("min.v4.bf16x2", "r", w, at); break;
    default: GINRS_MULTIMEM_LOAD4("add.acc::f32.v4.bf16x2", "r", w, at);
  }
  memcpy(static_cast<void*>(halves), w, sizeof w);
}

/* 16 bytes to every rank. */
__device__ __forceinline__ void storeSwitched(char* at, uint4 const& raw) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  float w[4];
  memcpy(w, &raw, sizeof w);
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(w[0]), "f"(w[1]), "f"(w[2]), "f"(w[3]) : "memory");
#else
  (void)at, (void)raw;
  GINRS_TRAP("a collective through the switch on a GPU older than sm_90");
#endif
}

/* What the switch takes as one word of 16 bytes. */
template <typename T> struct Switched { typedef typename T::Stored Word[16 / sizeof(typename T::Stored)]; };
template <> struct Switched<F16> { typedef __half2 Word[4]; };
template <> struct Switched<Bf16> { typedef __nv_bfloat162 Word[4]; };

/* 16 bytes of the result, of what all ranks have at `at`. */
template <typename T>
__device__ __forceinline__ uint4 reducedSwitched(Operation<T> const& op, char* at) {
  constexpr int N = 16 / sizeof(typename T::Stored);
  if constexpr (sizeof(typename T::Stored) == 1) {
    GINRS_TRAP("the switch does not add up bytes");
    return {};
  } else {
    typename Switched<T>::Word word;
    loadSwitched(op.op, at, word);
    typename T::Sum sum[1][N];
    uint4 raw;
    memcpy(&raw, static_cast<void const*>(word), sizeof raw);
    op.first(sum[0], Pack<T, N>::of(raw));
    return op.last(sum[0]).raw();
  }
}

/* The same memory is read and written at its own address and at the switch's: what was done at one comes before what follows at the other. */
__device__ __forceinline__ void meetSwitched(Barrier& barrier) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("fence.proxy.alias;" ::: "memory");
#endif
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("fence.proxy.alias;" ::: "memory");
#endif
}

__device__ __forceinline__ char* switched(ginrsCollWork const& work, ginrsCollBuffer const& buffer) {
  return static_cast<char*>(ncclGetLsaMultimemPointer(buffer.window, buffer.offset, work.comm));
}

/* Bytes are a multiple of 16, and so are addresses in windows (src/coll/launch.rs). */
__device__ __forceinline__ void reducingSwitched(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  uint64_t const bytes = work.count * work.eltBytes, self = work.comm.lsaRank, n = work.comm.lsaSize;
  bool const forAll = work.kind == GINRS_COLL_ALL_REDUCE;
  /* Of an all-reduce each rank has a part of whole lines. */
  uint64_t const part = forAll ? (bytes + 128 * n - 1) / (128 * n) * 128 : bytes;
  uint64_t const begin = forAll ? min(self * part, bytes) : self * bytes, end = forAll ? min(begin + part, bytes) : begin + bytes;
  meetSwitched(barrier);
  char* const from = switched(work, work.send);
  char* const all = forAll ? switched(work, work.recv) : nullptr;
  Crew const crew = Crew::of(work);
  AnyOperation::of(work).typed([&](auto const& op) {
    for (uint64_t at = begin + 16 * crew.worker; at < end; at += 16 * crew.workers) {
      uint4 const out = reducedSwitched(op, from + at);
      if (forAll) {
        storeSwitched(all + at, out);
      } else {
        storeBytes(static_cast<char*>(work.recv.at) + (at - begin), 16, out);
      }
    }
  });
  meetSwitched(barrier);
}

__device__ __forceinline__ void gatheringSwitched(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  uint64_t const bytes = work.count * work.eltBytes;
  meetSwitched(barrier);
  char* const to = switched(work, work.recv) + work.comm.lsaRank * bytes;
  Crew const crew = Crew::of(work);
  for (uint64_t i = crew.worker; i < bytes / 16; i += crew.workers) {
    storeSwitched(to + 16 * i, loadBytes(static_cast<char const*>(work.send.at) + 16 * i, 16));
  }
  meetSwitched(barrier);
}

__device__ __forceinline__ void multicast(ginrsCollWork const& work) {
  if (work.kind == GINRS_COLL_ALL_GATHER) {
    gatheringSwitched(work);
  } else {
    reducingSwitched(work);
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
