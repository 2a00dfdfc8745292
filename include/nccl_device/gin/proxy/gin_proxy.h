/* The proxy backend: descriptors go through queues in host memory to a thread of the host library, which moves the
 * bytes. The protocol is in ginrs_device/gin/{descriptor,queue,signal,flush}.cuh. */
#ifndef _NCCL_DEVICE_GIN_PROXY_H_
#define _NCCL_DEVICE_GIN_PROXY_H_
#include <nccl.h>
#include <stdint.h>

#include "../../utility.h"
#include "../gin_device_common.h"
#include "../gin_device_host_common.h"
#include "gin_proxy_device_host_common.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "../../../ginrs_device/gin/direct.cuh"
#include "../../../ginrs_device/gin/flush.cuh"
#include "../../../ginrs_device/gin/queue.cuh"
#include "../../../ginrs_device/gin/signal.cuh"

template <>
struct ncclGinApi_Put<NCCL_NET_DEVICE_GIN_PROXY> {
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, int peer, bool hasWins, ncclGinWindow_t dstWin,
                                      size_t dstOff, ncclGinWindow_t srcWin, size_t srcOff, size_t bytes,
                                      bool hasSignal, ncclGinSignal_t signalId, ncclGinSignalOp_t signalOp,
                                      uint64_t signalOpArg, bool hasCounter, ncclGinCounter_t counterId,
                                      bool /*hasDescriptor*/, ncclGinDescriptorSmem* /*built in registers*/,
                                      cuda::thread_scope alreadyReleased, cuda::thread_scope /*expected*/) {
    coop.sync();
    if (coop.thread_rank() == 0) {
      ginrs::gin::Operation op(hasSignal, signalId, signalOp, signalOpArg, hasCounter, counterId);
      if (hasWins) op.move(dstWin, dstOff, srcWin, srcOff, bytes);
      ginrs::gin::start(ctx, peer, op, alreadyReleased);
    }
    coop.sync();
  }
};

template <>
struct ncclGinApi_PutValue<NCCL_NET_DEVICE_GIN_PROXY> {
  template <typename Coop, typename T>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, int peer, ncclGinWindow_t dstWin, size_t dstOff,
                                      T srcData, bool hasSignal, ncclGinSignal_t signalId, ncclGinSignalOp_t signalOp,
                                      uint64_t signalOpArg, bool /*hasDescriptor*/,
                                      ncclGinDescriptorSmem* /*built in registers*/,
                                      cuda::thread_scope alreadyReleased, cuda::thread_scope /*expected*/) {
    coop.sync();
    if (coop.thread_rank() == 0) {
      ginrs::gin::Operation op(hasSignal, signalId, signalOp, signalOpArg, false, 0);
      ginrs::gin::start(ctx, peer, op.moveValue(dstWin, dstOff, ginrs::gin::bitsOf(srcData), sizeof(T)), alreadyReleased);
    }
    coop.sync();
  }
};

template <>
struct ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_PROXY> {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx ctx, ncclGinSignal_t signalId) {
    return nccl::utility::loadConst(&static_cast<ncclGinProxyGpuCtx_t const*>(ctx.handle)->signals) + signalId;
  }
};
template <>
struct ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_PROXY> {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx ctx, ncclGinCounter_t counterId) {
    return nccl::utility::loadConst(&static_cast<ncclGinProxyGpuCtx_t const*>(ctx.handle)->counters) + counterId;
  }
};
template <>
struct ncclGinApi_ResetSignal<NCCL_NET_DEVICE_GIN_PROXY> {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, ncclGinSignal_t signalId) {
    uint64_t* word = ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, signalId);
    ginrs::gin::SystemU64(*word).store(0, cuda::memory_order_relaxed);
  }
};
template <>
struct ncclGinApi_ResetCounter<NCCL_NET_DEVICE_GIN_PROXY> {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, ncclGinCounter_t counterId) {
    uint64_t* word = ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, counterId);
    ginrs::gin::SystemU64(*word).store(0, cuda::memory_order_relaxed);
  }
};
template <>
struct ncclGinApi_Flush<NCCL_NET_DEVICE_GIN_PROXY> {
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, cuda::memory_order order) {
    ginrs::gin::flush(ctx, coop, order);
  }
};

#include "../../impl/gin_proxy__compat.h"
#endif
#endif
