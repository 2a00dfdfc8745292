/* Cooperative groups: which threads take part in a call. Device only.
 *
 * A Coop is any copyable type with thread_rank(), size() and sync(); the objects of CUDA's cooperative_groups.h fit.
 * The types here are the ones that the library's own code is written for:
 *
 *   ncclCoopThread       one thread
 *   ncclCoopTile<n>      n neighbouring lanes of a warp, n a power of two up to 32; ncclCoopWarp is Tile<32>
 *   ncclCoopLanes        any lanes of a warp, as a mask
 *   ncclCoopWarpSpan     neighbouring warps of a block; each span that is live at a time needs its own id, 0..14
 *   ncclCoopCta          the whole block
 *
 * sync() orders memory among the group's threads like __syncwarp or __syncthreads. Blocks are taken to be
 * one-dimensional: a thread's number is threadIdx.x. */
#ifndef _NCCL_DEVICE_COOP_H_
#define _NCCL_DEVICE_COOP_H_
#include "utility.h"

#if NCCL_CHECK_CUDACC
#include "../ginrs_device/trap.cuh"

template <int nThreadsPow2>
struct ncclCoopTile {
  static_assert(nThreadsPow2 >= 1 && nThreadsPow2 <= 32 && nccl::utility::isPow2(nThreadsPow2),
                "ncclCoopTile: the size must be a power of two from 1 to 32");

  NCCL_DEVICE_INLINE int thread_rank() const {
    return nccl::utility::lane() & (nThreadsPow2 - 1);
  }
  NCCL_DEVICE_INLINE constexpr int size() const {
    return nThreadsPow2;
  }
  NCCL_DEVICE_INLINE constexpr int num_threads() const {
    return nThreadsPow2;
  }
  /* The tile's lanes in its warp. */
  NCCL_DEVICE_INLINE uint32_t laneMask() const {
    return (0xffffffffu >> (32 - nThreadsPow2)) << (nccl::utility::lane() & -nThreadsPow2);
  }
  NCCL_DEVICE_INLINE void sync() {
    if (nThreadsPow2 > 1) __syncwarp(laneMask());
  }
};

typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

struct ncclCoopLanes {
  uint32_t lmask;

  NCCL_DEVICE_INLINE constexpr ncclCoopLanes(uint32_t lmask = -1u) : lmask(lmask) {}

  NCCL_DEVICE_INLINE int thread_rank() const {
    return __popc(lmask & nccl::utility::lanemask_lt());
  }
  NCCL_DEVICE_INLINE int size() const {
    return __popc(lmask);
  }
  NCCL_DEVICE_INLINE int num_threads() const {
    return __popc(lmask);
  }
  NCCL_DEVICE_INLINE void sync() {
    __syncwarp(lmask);
  }
};

struct ncclCoopWarpSpan {
  uint32_t warp0 : 8, nWarps : 8, id : 8;

  NCCL_DEVICE_INLINE constexpr ncclCoopWarpSpan(int warp0, int nWarps, int id)
      : warp0(uint32_t(warp0)), nWarps(uint32_t(nWarps)), id(uint32_t(id)) {}

  NCCL_DEVICE_INLINE int thread_rank() const {
    return int(threadIdx.x) - 32 * int(warp0);
  }
  NCCL_DEVICE_INLINE int size() const {
    return 32 * int(nWarps);
  }
  NCCL_DEVICE_INLINE int num_threads() const {
    return 32 * int(nWarps);
  }
  NCCL_DEVICE_INLINE void sync() {
    /* The hardware has 16 barriers; 0 belongs to __syncthreads. */
    GINRS_CHECK(id < 15, "ncclCoopWarpSpan: the id must be from 0 to 14");
#ifdef __GINRS_CPU__
    ginrs_cpu_barrier(1 + id, 32 * nWarps, "ncclCoopWarpSpan::sync", __FILE__, __LINE__);
#elif defined(__CUDA_ARCH__)
    asm volatile("barrier.sync %0, %1;" ::"r"(1 + id), "r"(32 * nWarps) : "memory");
#endif
  }
};

struct ncclCoopCta {
  NCCL_DEVICE_INLINE int thread_rank() const {
    return int(threadIdx.x);
  }
  NCCL_DEVICE_INLINE int size() const {
    return int(blockDim.x);
  }
  NCCL_DEVICE_INLINE int num_threads() const {
    return int(blockDim.x);
  }
  NCCL_DEVICE_INLINE void sync() {
    __syncthreads();
  }
};

/* The group's lanes in the calling thread's warp. Spans and blocks are taken to be made of full warps. */
template <int nThreads>
NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopTile<nThreads> coop) {
  return coop.laneMask();
}
NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop) {
  return coop.lmask;
}
NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopWarpSpan) {
  return -1u;
}
NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopCta) {
  return -1u;
}
/* The name of 2.28.3. */
template <typename Coop>
NCCL_DEVICE_INLINE uint32_t ncclCoopLaneMask(Coop coop) {
  return ncclCoopGetLaneMask(coop);
}

/* Known at compile time to be a single thread. */
template <int nThreads>
NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(ncclCoopTile<nThreads>) {
  return nThreads == 1;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(ncclCoopLanes) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(ncclCoopWarpSpan) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(ncclCoopCta) {
  return false;
}

/* Known at compile time to lie within one warp. */
template <int nThreads>
NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopTile<nThreads>) {
  return true;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopLanes) {
  return true;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopWarpSpan) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopCta) {
  return false;
}

/* The lanes that execute this call together. */
NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced() {
#if defined(__CUDA_ARCH__) || defined(__GINRS_CPU__)
  return ncclCoopLanes{__activemask()};
#else
  return ncclCoopLanes{};
#endif
}
/* The part of a group that lies in the calling thread's warp. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclCoopTile<32> ncclCoopCoalesced(Coop) {
  return ncclCoopTile<32>();
}
NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced(ncclCoopLanes coop) {
  return coop;
}
template <int nThreads>
NCCL_DEVICE_INLINE ncclCoopTile<nThreads> ncclCoopCoalesced(ncclCoopTile<nThreads> coop) {
  return coop;
}

/* ncclCoopBcast(coop, value, root, entrySync = true): thread `root`'s value, to every thread of the group; called by all
 * of them. What root wrote to memory before the call is visible to the others after it. T is trivially copyable.
 *
 * Groups within a warp take any size. The others pass the value through shared memory, at most 16 bytes, and do not sync
 * after reading it: entrySync = false is right only if the group has synced since its last broadcast. */
template <int nThreads, typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopTile<nThreads> coop, T value, int root, bool entrySync = true);
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopLanes coop, T value, int root, bool entrySync = true);
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopWarpSpan coop, T value, int root, bool entrySync = true);
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopCta coop, T value, int root, bool entrySync = true);

#include "impl/coop__funcs.h"
#endif
#endif
