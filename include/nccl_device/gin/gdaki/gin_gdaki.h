/* The GDAKI backend: the GPU writes work requests into the network card's queues and rings its doorbell. What is posted
 * is in ginrs_device/gin/gdaki_put.cuh, how in gdaki_queue.cuh. ginrs creates no such contexts; NVIDIA's library does. */
#ifndef _NCCL_DEVICE_GIN_GDAKI_H_
#define _NCCL_DEVICE_GIN_GDAKI_H_
#include "../gin_device_common.h"
#include "gin_gdaki_device_host_common.h"

#ifndef DOCA_VERBS_USE_CUDA_WRAPPER
#define DOCA_VERBS_USE_CUDA_WRAPPER
#endif
#ifndef DOCA_VERBS_USE_NET_WRAPPER
#define DOCA_VERBS_USE_NET_WRAPPER
#endif
#ifdef NCCL_DEVICE_GIN_GDAKI_ENABLE_DEBUG
#define DOCA_GPUNETIO_VERBS_ENABLE_DEBUG 1
#endif
#include "doca_gpunetio/doca_gpunetio_device.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include "../../../ginrs_device/gin/descriptor.cuh"
#include "../../../ginrs_device/gin/gdaki_put.cuh"

namespace ginrs {
namespace gdaki {
NCCL_DEVICE_INLINE ncclGinGdakiGPUContext contextOf(ncclGinCtx const& ctx) {
  return nccl::utility::loadConst(static_cast<ncclGinGdakiGPUContext const*>(ctx.handle));
}
NCCL_DEVICE_INLINE QueuePair* queuePair(doca_gpu_dev_verbs_qp* first, int peer) {
  return reinterpret_cast<QueuePair*>(first) + peer;
}
NCCL_DEVICE_INLINE uint32_t remoteKey(ncclGinWindow_t window, int peer) {
  using nccl::utility::loadConst;
  return loadConst(loadConst(&static_cast<ncclGinGdakiMemHandle const*>(window)->rkeys) + peer);
}
NCCL_DEVICE_INLINE uint32_t localKey(ncclGinWindow_t window) {
  return nccl::utility::loadConst(&static_cast<ncclGinGdakiMemHandle const*>(window)->lkey);
}
NCCL_DEVICE_INLINE Place wordOf(ncclGinGdakiGlobalGPUBufferTable<uint64_t> const& table, uint32_t id, int rank) {
  Place place;
  place.address = uint64_t(id) * 8;
  place.key = nccl::utility::loadConst(table.rkeys + rank);
  return place;
}
/* A fence for the whole system where one of the two scopes is the system's and the other is not. The case that the caller
 * has released and wants less, NCCL 2.28.9 fences too, and kernels may lean on it. Otherwise the doorbell's fences, of
 * the GPU's scope, are what publishes the source. */
NCCL_DEVICE_INLINE void releaseSource(cuda::thread_scope alreadyReleased, cuda::thread_scope expected) {
  if ((alreadyReleased == cuda::thread_scope_system) != (expected == cuda::thread_scope_system)) {
    fenceRelease<cuda::thread_scope_system>();
  }
}
/* A call, where the whole program is compiled at once: inlined into every put it would double what a kernel with puts takes
 * to compile, and next to a doorbell it costs nothing. In relocatable code ptxas gives a function its registers before it
 * knows the callers' launch bounds, and then refuses callers of more than 512 threads. */
#ifdef __CUDACC_RDC__
#define GINRS_GDAKI_CALL NCCL_DEVICE_INLINE
#else
#define GINRS_GDAKI_CALL __device__ __noinline__
#endif
/* By one thread. A template, so that it may stand in many TUs. */
template <typename = void>
GINRS_GDAKI_CALL void start(ncclGinCtx ctx, ncclGinGdakiGPUContext context, int peer, Transfer t, bool hasCounter,
                                   uint32_t counterId) {
  GINRS_CHECK(peer >= 0 && peer < ctx.nRanks, "gin: the peer is not a rank of the communicator");
  QueuePair* qp = queuePair(context.gdqp, peer);
  uint64_t const last = post<kGpu>(qp, t);
  submit<kGpu>(qp, last + 1);
  if (hasCounter) {
    QueuePair* companion = queuePair(context.companion_gdqp, peer);
    Place sink;
    sink.key = context.sink_buffer_lkey;
    Place counter = wordOf(context.counters_table, counterId, ctx.rank);
    submit<kGpu>(companion, postCount<kGpu>(companion, qp, last, counter, sink, 1));
  }
#ifdef NCCL_DEVICE_GIN_GDAKI_ENABLE_DEBUG
  waitFor(qp, last);
#endif
}
/* For a wait that lasts: what it waits for may be behind a request that has failed. */
template <typename = void>
GINRS_GDAKI_CALL void endIfFailed(ncclGinCtx ctx) {
  ncclGinGdakiGPUContext const context = contextOf(ctx);
  for (int peer = 0; peer < ctx.nRanks; peer++) {
    endIfFailed(queuePair(context.gdqp, peer));
    endIfFailed(queuePair(context.companion_gdqp, peer));
  }
}
#undef GINRS_GDAKI_CALL
/* What every call that starts an operation does. By one thread. */
NCCL_DEVICE_INLINE void start(ncclGinCtx const& ctx, int peer, gin::Operation const& op, cuda::thread_scope alreadyReleased,
                              cuda::thread_scope expected) {
  releaseSource(alreadyReleased, expected);
  if (!op.hasPayload && !op.hasSignal) return;
  ncclGinGdakiGPUContext const context = contextOf(ctx);
  Transfer t;
  t.hasPayload = op.hasPayload;
  t.isInline = op.isInline;
  t.bytes = op.bytes;
  t.value = op.value;
  if (op.hasPayload) {
    t.to.address = op.dstOff;
    t.to.key = remoteKey(op.dstWin, peer);
  }
  if (op.hasPayload && !op.isInline) {
    t.from.address = op.srcOff;
    t.from.key = localKey(op.srcWin);
  }
  if (op.hasSignal) {
    t.hasAdd = true;
    t.addTo = wordOf(context.signals_table, op.signalId, peer);
    t.sink.key = context.sink_buffer_lkey;
    t.addend = op.addend();
  }
  start(ctx, context, peer, t, op.hasCounter, op.counterId);
}
}  // namespace gdaki
}  // namespace ginrs

template <>
struct ncclGinApi_Put<NCCL_NET_DEVICE_GIN_GDAKI> {
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, int peer, bool hasWins, ncclGinWindow_t dstWin,
                                      size_t dstOff, ncclGinWindow_t srcWin, size_t srcOff, size_t bytes,
                                      bool hasSignal, ncclGinSignal_t signalId, ncclGinSignalOp_t signalOp,
                                      uint64_t signalOpArg, bool hasCounter, ncclGinCounter_t counterId,
                                      bool /*hasDescriptor*/, ncclGinDescriptorSmem* /*built in registers*/,
                                      cuda::thread_scope alreadyReleased, cuda::thread_scope expected) {
    coop.sync();
    if (coop.thread_rank() == 0) {
      ginrs::gin::Operation op(hasSignal, signalId, signalOp, signalOpArg, hasCounter, counterId);
      if (hasWins) op.move(dstWin, dstOff, srcWin, srcOff, bytes);
      ginrs::gdaki::start(ctx, peer, op, alreadyReleased, expected);
    }
    coop.sync();
  }
};

template <>
struct ncclGinApi_PutValue<NCCL_NET_DEVICE_GIN_GDAKI> {
  template <typename Coop, typename T>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, int peer, ncclGinWindow_t dstWin, size_t dstOff,
                                      T srcData, bool hasSignal, ncclGinSignal_t signalId, ncclGinSignalOp_t signalOp,
                                      uint64_t signalOpArg, bool /*hasDescriptor*/,
                                      ncclGinDescriptorSmem* /*built in registers*/,
                                      cuda::thread_scope alreadyReleased, cuda::thread_scope expected) {
    static_assert(sizeof(T) <= 8, "putValue: the value has more than 8 bytes");
    coop.sync();
    if (coop.thread_rank() == 0) {
      ginrs::gin::Operation op(hasSignal, signalId, signalOp, signalOpArg, false, 0);
      op.moveValue(dstWin, dstOff, ginrs::gin::bitsOf(srcData), sizeof(T));
      ginrs::gdaki::start(ctx, peer, op, alreadyReleased, expected);
    }
    coop.sync();
  }
};

template <>
struct ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_GDAKI> {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx ctx, ncclGinSignal_t signalId) {
    return nccl::utility::loadConst(&static_cast<ncclGinGdakiGPUContext const*>(ctx.handle)->signals_table.buffer) +
           signalId;
  }
};
template <>
struct ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_GDAKI> {
  NCCL_DEVICE_INLINE static uint64_t* call(ncclGinCtx ctx, ncclGinCounter_t counterId) {
    return nccl::utility::loadConst(&static_cast<ncclGinGdakiGPUContext const*>(ctx.handle)->counters_table.buffer) +
           counterId;
  }
};
template <>
struct ncclGinApi_ResetSignal<NCCL_NET_DEVICE_GIN_GDAKI> {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, ncclGinSignal_t signalId) {
    ginrs::storeRelaxed(ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_GDAKI>::call(ctx, signalId), uint64_t(0));
  }
};
template <>
struct ncclGinApi_ResetCounter<NCCL_NET_DEVICE_GIN_GDAKI> {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, ncclGinCounter_t counterId) {
    ginrs::storeRelaxed(ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_GDAKI>::call(ctx, counterId), uint64_t(0));
  }
};
template <>
struct ncclGinApi_Flush<NCCL_NET_DEVICE_GIN_GDAKI> {
  /* Acquires at the system's scope, whatever the order. */
  template <typename Coop>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, Coop coop, cuda::memory_order) {
    doca_gpu_dev_verbs_qp* const first = ginrs::gdaki::contextOf(ctx).gdqp;
    int const step = int(coop.size());
    for (int peer = int(coop.thread_rank()); peer < ctx.nRanks; peer += step) {
      ginrs::gdaki::flush(ginrs::gdaki::queuePair(first, peer));
    }
  }
};
#endif
#endif
