/* GIN's device side, below ncclGin: which backends a TU is compiled for, what a context is, and the functions that a
 * backend provides. */
#ifndef _NCCL_GIN_DEVICE_COMMON_H_
#define _NCCL_GIN_DEVICE_COMMON_H_
#include "../net_device.h"
#include "../utility.h"
#include "gin_device_host_common.h"

/* Predefine either to 0 to leave a backend out. GDAKI needs CUDA 12.2 and sm_70; a pass whose architecture is not known
 * (the host pass) counts as capable, so that ncclGin is one type in all passes of a TU. */
#ifndef NCCL_GIN_PROXY_ENABLE
#define NCCL_GIN_PROXY_ENABLE 1
#endif
#ifndef NCCL_GIN_GDAKI_ENABLE
#if (defined(CUDA_VERSION) && CUDA_VERSION < 12020) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700)
#define NCCL_GIN_GDAKI_ENABLE 0
#else
#define NCCL_GIN_GDAKI_ENABLE 1
#endif
#endif

#define NCCL_GIN_BACKEND_MASK_ALL \
  ((NCCL_GIN_PROXY_ENABLE ? 1u << 2 : 0u) | (NCCL_GIN_GDAKI_ENABLE ? 1u << 3 : 0u)) /* 1 << ncclNetDeviceType */

#if defined(CUDA_VERSION) && CUDA_VERSION >= 12080 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define NCCL_GIN_HAS_FENCE_ACQUIRE_RELEASE_PTX 1
#else
#define NCCL_GIN_HAS_FENCE_ACQUIRE_RELEASE_PTX 0
#endif

/* One context of the calling rank, as backends get it. rank and nRanks are of the world. The padding behind nRanks is
 * ours: GINRS_MARK_CTX and flags if the library is ginrs (ginrs_device/marker.h). It is a member so that copies keep it, and in a
 * union so that {backend, rank, nRanks, handle} still initialises the struct. */
typedef struct ncclGinCtx {
  ncclNetDeviceType backend;
  int rank;
  union {
    int nRanks;
    struct {
      int nRanks;
      uint32_t mark;
    } ginrs;
  };
  void* handle;
} ncclGinCtx;

/* Shared memory in which a descriptor may be built; declare it __shared__. */
typedef struct ncclGinDescriptorSmem {
  char space[64] __attribute__((aligned(16)));
} ncclGinDescriptorSmem;

#ifdef __cplusplus
/* A context known to have one of the backends in the mask. */
template <unsigned backendMask>
struct ncclGinCtx_M : ncclGinCtx {};

#if NCCL_CHECK_CUDACC
#include "../../ginrs_device/trap.cuh"

/* What a backend provides, each as a specialisation with a static function `call`. These general ones stand for a
 * backend that this TU was compiled without. `peer` is a world rank; ids are absolute (the devcomm's base added); offsets
 * are in bytes from the start of the registration; alreadyReleased and expected as in ncclGin::put. */

#define GINRS_NO_BACKEND(operation)                                                                          \
  GINRS_TRAP("GIN " operation ": the context's backend is not compiled into this kernel, or the devcomm has no GIN " \
             "(see NCCL_GIN_PROXY_ENABLE, NCCL_GIN_GDAKI_ENABLE, ginForceEnable)")

template <ncclNetDeviceType backend>
struct ncclGinApi_Put {
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx, Coop, int, bool, ncclGinWindow_t, size_t, ncclGinWindow_t, size_t,
                                      size_t, bool, ncclGinSignal_t, ncclGinSignalOp_t, uint64_t, bool,
                                      ncclGinCounter_t, bool, ncclGinDescriptorSmem*, cuda::thread_scope,
                                      cuda::thread_scope) {
    GINRS_NO_BACKEND("put");
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_PutValue {
  template <typename Coop, typename T>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx, Coop, int, ncclGinWindow_t, size_t, T, bool, ncclGinSignal_t,
                                      ncclGinSignalOp_t, uint64_t, bool, ncclGinDescriptorSmem*, cuda::thread_scope,
                                      cuda::thread_scope) {
    GINRS_NO_BACKEND("putValue");
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_GetSignalPtr {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx, ncclGinSignal_t) {
    GINRS_NO_BACKEND("signal access");
    return nullptr;
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_GetCounterPtr {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx, ncclGinCounter_t) {
    GINRS_NO_BACKEND("counter access");
    return nullptr;
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_ResetSignal {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx, ncclGinSignal_t) {
    GINRS_NO_BACKEND("signal reset");
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_ResetCounter {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx, ncclGinCounter_t) {
    GINRS_NO_BACKEND("counter reset");
  }
};
template <ncclNetDeviceType backend>
struct ncclGinApi_Flush {
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx, Coop, cuda::memory_order) {
    GINRS_NO_BACKEND("flush");
  }
};
#undef GINRS_NO_BACKEND

/* Calls ApiFn<the context's backend>::call(ctx, arg...). */
template <template <ncclNetDeviceType> typename ApiFn, unsigned backendMask, typename... Arg>
NCCL_DEVICE_INLINE static decltype(auto) ncclGinCall(ncclGinCtx_M<backendMask> ctx, Arg&&... arg);

#include "../../ginrs_device/gin/dispatch.cuh"
#endif
#endif
#endif
