/* T017, T081 to T086, T118b: below ncclGin. */
#include <nccl_device/gin/gdaki/gin_gdaki_device_host_common.h>

#include "case.h"

#if CASE_C(85) /* what a third party may add to NCCL's templates */
template <>
struct ncclGinApi_Flush<(ncclNetDeviceType)7> {
  template <typename Coop>
  __device__ static void call(ncclGinCtx, Coop coop, cuda::memory_order) {
    coop.sync();
  }
};
#endif

namespace gin_backend_cases {
/* Which headers the TU sees: all four choices of NCCL_GIN_PROXY_ENABLE and NCCL_GIN_GDAKI_ENABLE include cleanly, and
 * what starts operations compiles with each. */
#if CASE_C(17)
GIN_KERNEL(t017) {
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
  g.signal(W, 1, ncclGin_SignalInc{0});
  g.flush(ncclCoopCta());
}
#endif
#if CASE_N(17, 1) /* with neither backend; tests.txt says so */
GIN_KERNEL(t017none) {
  *(uint64_t*)o[0] = g.readSignal(0);
}
#endif

#if CASE_C(81)
GIN_KERNEL(t081) {
  o[0] = g._ginHandle;
  o[1] = g._signalShadows;
  o[2] = g._makeCtx().handle;
  *(unsigned*)o[3] = g.comm.rank + g.contextId + g.nContexts + g._ginBackend + unsigned(g._makeCtx().backend) +
                     unsigned(g._makeCtx().rank + g._makeCtx().nRanks);
}
#endif

#if NCCL_GIN_PROXY_ENABLE
#define EACH_PROXY(call, ...) call<NCCL_NET_DEVICE_GIN_PROXY>(__VA_ARGS__)
#else
#define EACH_PROXY(call, ...) ((void)0)
#endif
#if NCCL_GIN_GDAKI_ENABLE
#define EACH_GDAKI(call, ...) call<NCCL_NET_DEVICE_GIN_GDAKI>(__VA_ARGS__)
#else
#define EACH_GDAKI(call, ...) ((void)0)
#endif
#if CASE_C(82)
template <ncclNetDeviceType backend>
__device__ void t082one(ncclDevComm const& d) {
  ncclGin_BackendOne<backend> g{d, 0};
  g.flush(ncclCoopThread());
  g.waitSignal(ncclCoopCta(), 0, 1 + g.readSignal(0));
  g.waitCounter(ncclCoopCta(), 0, 1 + g.readCounter(0));
  g.resetSignal(0);
  g.resetCounter(0);
}
KERNEL(t082) {
  UNUSED();
  EACH_PROXY(t082one, d);
  EACH_GDAKI(t082one, d);
}
#endif
#if CASE_N(82, 1)
template <ncclNetDeviceType backend>
__device__ void t082put(ncclDevComm const& d, ncclWindow_t w) {
  ncclGin_BackendOne<backend>(d, 0).put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
}
KERNEL(t082puts) {
  UNUSED();
  EACH_PROXY(t082put, d, w);
  EACH_GDAKI(t082put, d, w);
}
#endif
#if CASE_N(82, 2)
template <ncclNetDeviceType backend>
__device__ void t082value(ncclDevComm const& d, ncclWindow_t w) {
  ncclGin_BackendOne<backend>(d, 0).putValue(ncclTeamWorld(d), 1, w, 0, 1u, ncclGin_SignalInc{0});
}
KERNEL(t082values) {
  UNUSED();
  EACH_PROXY(t082value, d, w);
  EACH_GDAKI(t082value, d, w);
}
#endif
#if CASE_N(82, 3)
template <ncclNetDeviceType backend>
__device__ void t082signal(ncclDevComm const& d) {
  ncclGin_BackendOne<backend>(d, 0).signal(ncclTeamWorld(d), 1, ncclGin_SignalInc{0});
}
KERNEL(t082signals) {
  UNUSED();
  EACH_PROXY(t082signal, d);
  EACH_GDAKI(t082signal, d);
}
#endif

#if CASE_C(83)
template <unsigned mask>
__device__ uint64_t t083helper(ncclGin_BackendMask<mask> const& g) {
  g.flush(ncclCoopThread());
  return g.readSignal(0);
}
GIN_KERNEL(t083) {
  *(uint64_t*)o[0] = t083helper(g);
  *(uint64_t*)o[1] = t083helper(ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL>(d, 1));
  ncclGin_SignalAdd add{1, 5};
  ncclGin_CounterInc count{2};
#ifdef OURS /* NVIDIA's have it in the device pass alone */
  static_assert(NCCL_GIN_HAS_FENCE_ACQUIRE_RELEASE_PTX <= 1, "T083");
#endif
  *(uint64_t*)o[2] = ncclGin_isSignal(add) + ncclGin_getSignalId(g, add) + ncclGin_getSignalOp(add) +
                     ncclGin_getSignalOpArg(add) + ncclGin_isCounter(count) + ncclGin_getCounterId(g, count) +
                     ncclGin_isDescriptor(ncclGin_None()) + (ncclGin_getDescriptor(ncclGin_None()) == nullptr);
}
#endif

#if CASE_C(84) && NCCL_GIN_PROXY_ENABLE
GIN_KERNEL(t084) {
  ncclGinCtx ctx = g._makeCtx();
  *(uint64_t*)o[0] = *ncclGinCall<ncclGinApi_GetSignalPtr>(g._makeCtx(), 0u);
  *(uint64_t*)o[0] = *ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, 0u);
  ncclGinApi_Put<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, ncclCoopThread(), 1, true, w->ginWins[0], 0, w->ginWins[0], 0, 8,
                                                  true, 0u, ncclGinSignalAdd, 5, true, 0u, false, nullptr,
                                                  cuda::thread_scope_thread, cuda::thread_scope_device);
  ncclGinCall<ncclGinApi_ResetSignal>(g._makeCtx(), 0u);
  ncclGinCall<ncclGinApi_ResetCounter>(g._makeCtx(), 0u);
  ncclGinProxyGpuCtx_t* context = static_cast<ncclGinProxyGpuCtx_t*>(g._ginHandle);
  nccl::gin::proxy::flush(context, 1, cuda::memory_order_acquire);
  ncclGinProxyGfd_t gfd;
  ncclGinProxyOp_t op;
  nccl::gin::proxy::constructProxyOp(op, false, true, ncclGinSignalAdd, true);
  nccl::gin::proxy::buildGfd<int>(&gfd, op, 0, false, 0, w->ginWins[0], 0, w->ginWins[0], 8, 0, 0, 5);
  nccl::gin::proxy::postGfd(ncclCoopThread(), context, &gfd, 1);
}
#endif
#if CASE_C(85)
KERNEL(t085) {
  UNUSED();
  ncclGinCtx_M<1u << 7> ctx;
  ctx.backend = (ncclNetDeviceType)7;
  cuda::memory_order order = cuda::memory_order_acquire;
  ncclGinCall<ncclGinApi_Flush>(ctx, ncclCoopThread(), order);
}
#endif
#if CASE_N(86, 1)
/* One type in the host and the device pass; the test also compares the names in the objects. */
template <typename Gin>
__global__ void t086byType(int) {}
void const* t086() {
  return reinterpret_cast<void const*>(&t086byType<ncclGin>);
}
static_assert(NCCL_GIN_BACKEND_MASK_ALL == ((NCCL_GIN_PROXY_ENABLE ? 4u : 0u) | (NCCL_GIN_GDAKI_ENABLE ? 8u : 0u)), "T086");
#endif

#if CASE_C(1181) /* T118b */
__global__ void t118b(ncclGinGdakiGPUContext* context, doca_gpu_dev_verbs_qp** o) {
  *o = context->gdqp;
}
#endif
#ifdef OURS /* {backend, rank, nRanks, handle} although nRanks is in a union */
#if RUN_C == 0
KERNEL(positional) {
  UNUSED();
  ncclGinCtx ctx{NCCL_NET_DEVICE_GIN_PROXY, d.rank, d.nRanks, d.ginHandles[0]};
  *(uint64_t*)o[0] = *ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, 0u);
}
#endif
#endif
}  // namespace gin_backend_cases
