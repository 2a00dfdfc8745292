/* nccl::gin::proxy: NCCL's own names for the steps of a proxy put, which some kernels call. Without a ncclGinCtx they
 * know neither hints nor the abort word. */
#ifndef _NCCL_DEVICE_GIN_PROXY__COMPAT_H_
#define _NCCL_DEVICE_GIN_PROXY__COMPAT_H_
#include "../gin/proxy/gin_proxy.h"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {
NCCL_DEVICE_INLINE ncclGinCtx unmarked(ncclGinProxyGpuCtx_t* context) {
  ncclGinCtx ctx;
  ctx.backend = NCCL_NET_DEVICE_GIN_PROXY;
  ctx.rank = 0; /* not used below ncclGin */
  ctx.ginrs.nRanks = context->nranks;
  ctx.ginrs.mark = 0;
  ctx.handle = context;
  return ctx;
}
}  // namespace gin
}  // namespace ginrs

namespace nccl {
namespace gin {
namespace proxy {

NCCL_DEVICE_INLINE void flush(ncclGinProxyGpuCtx_t* context, uint32_t peer, cuda::memory_order order) {
  ncclGinCtx ctx = ginrs::gin::unmarked(context);
  ginrs::gin::flushPeer(ctx, ginrs::gin::Queue(context, 0, false), peer, order);
}

NCCL_DEVICE_INLINE void constructProxyOp(ncclGinProxyOp_t& opcode, bool isInline, bool hasSignal,
                                         ncclGinSignalOp_t signalOp, bool hasCounter) {
  ginrs::gin::Operation op;
  op.isInline = isInline;
  op.hasSignal = hasSignal;
  op.signalOp = signalOp;
  op.hasCounter = hasCounter;
  opcode = ncclGinProxyOp_t(ginrs::gin::opcodeOf(op));
}

/* With isInline the value is sent; else srcOff and srcWin say where the data lies. */
template <typename T>
NCCL_DEVICE_INLINE void buildGfd(ncclGinProxyGfd_t* gfd, ncclGinProxyOp_t opcode, T value, bool isInline, size_t srcOff,
                                 ncclGinWindow_t srcWin, size_t dstOff, ncclGinWindow_t dstWin, size_t bytes,
                                 ncclGinCounter_t counterId, ncclGinSignal_t signalId, uint64_t signalVal) {
  ginrs::gin::setPayload(*gfd, uint32_t(opcode), bytes, dstOff, dstWin);
  if (isInline) {
    ginrs::gin::setInline(*gfd, ginrs::gin::bitsOf(value));
  } else {
    ginrs::gin::setSource(*gfd, srcOff, srcWin);
  }
  ginrs::gin::setCompletion(*gfd, counterId, signalId, signalVal);
}

template <typename Coop>
NCCL_DEVICE_INLINE void postGfd(Coop coop, ncclGinProxyGpuCtx_t* context, ncclGinProxyGfd_t* gfd, uint32_t peer) {
  coop.sync();
  if (coop.thread_rank() == 0) {
    ncclGinCtx ctx = ginrs::gin::unmarked(context);
    ginrs::gin::post(ctx, ginrs::gin::Queue(context, 0, false), peer, *gfd);
  }
  coop.sync();
}

template <typename Coop, typename T>
NCCL_DEVICE_INLINE void put(Coop coop, ncclGinProxyGfd_t*, ncclGinProxyGpuCtx_t* context, int peer,
                            ncclGinWindow_t dstWin, size_t dstOff, T value, bool isInline, ncclGinWindow_t srcWin,
                            size_t srcOff, size_t bytes, bool hasSignal, ncclGinSignal_t signalId,
                            ncclGinSignalOp_t signalOp, uint64_t signalArg, bool hasCounter,
                            ncclGinCounter_t counterId, cuda::thread_scope alreadyReleased, cuda::thread_scope) {
  coop.sync();
  if (coop.thread_rank() == 0) {
    ginrs::gin::Operation op(hasSignal, signalId, signalOp, signalArg, hasCounter, counterId);
    op.move(dstWin, dstOff, srcWin, srcOff, bytes);
    if (isInline) op.moveValue(dstWin, dstOff, ginrs::gin::bitsOf(value), bytes);
    ncclGinCtx ctx = ginrs::gin::unmarked(context);
    ginrs::gin::submit(ctx, ginrs::gin::Queue(context, 0, false), peer, op, alreadyReleased);
  }
  coop.sync();
}

}  // namespace proxy
}  // namespace gin
}  // namespace nccl
#endif
#endif
