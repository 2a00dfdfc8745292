/* T060 to T088: ncclGin. */
#include <cuda_fp16.h>

#include "device.h"

static_assert(!std::is_default_constructible<ncclGin>::value, "T060");
static_assert(std::is_copy_constructible<ncclGin>::value && !std::is_copy_assignable<ncclGin>::value, "T060");
static_assert(sizeof(ncclGin) == 32, "T005");

__device__ void byValue(ncclGin g) {
  g.resetSignal(0);
}
__device__ void byReference(ncclGin const& g) {
  g.resetCounter(0);
}
KERNEL(t060) {
  UNUSED();
  ncclGin g{d, 0}, copy = g;
  ncclGin other(d, int(blockIdx.x) % d.ginContextCount);
  byValue(copy);
  byReference(other);
  auto lambda = [=] { g.signal(ncclTeamWorld(d), 1, ncclGin_SignalInc{0}); };
  lambda();
  for (int i = 0; i < d.ginContextCount; i++) {
    ncclGin each = ncclGin(d, i);
    each.flush(ncclCoopThread());
  }
}
KERNEL(t061) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  g.put(W, 1, w, 0, w, 0, 8);
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalAdd{0, 5});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_CounterInc{0});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalAdd{0, 5}, ncclGin_CounterInc{0});
}
template <typename Coop>
__device__ void putWith(ncclGin const& g, ncclTeam W, ncclWindow_t w, Coop coop) {
  __shared__ ncclGinDescriptorSmem smem;
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, coop);
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, coop, ncclGin_DescriptorSmem{&smem});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, coop, ncclGin_None{}, cuda::thread_scope_device,
        cuda::thread_scope_system);
}
KERNEL(t062) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  putWith(g, W, w, ncclCoopThread());
  putWith(g, W, w, ncclCoopWarp());
  putWith(g, W, w, ncclCoopCta());
  putWith(g, W, w, ncclCoopTile<4>());
  putWith(g, W, w, ncclCoopLanes(3));
  putWith(g, W, w, ncclCoopWarpSpan(0, 1, 1));
}
KERNEL(t065) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  g.put<ncclGin_SignalInc, ncclGin_None, ncclCoopWarp>(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0}, ncclGin_None{},
                                                       ncclCoopWarp{});
  g.put(W, 1, p, p, 4);
  g.put<float>(W, 1, p, p, 4, ncclGin_SignalInc{0});
  g.put(W, 1, p + 1, p + size_t(2), 4);
}
template <typename T>
__device__ void value(ncclGin const& g, ncclTeam W, ncclWindow_t w, void** o) {
  g.putValue(W, 1, w, 0, *(T*)o[0]);
  g.putValue<T>(W, 1, w, 0, *(T*)o[0], ncclGin_SignalInc{0});
}
#ifdef OURS
struct S3 {
  char x[3];
};
struct S5 {
  char x[5];
};
struct S7 {
  char x[7];
};
struct S8 {
  float x, y;
};
#endif
KERNEL(t068) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  value<uint8_t>(g, W, w, o);
  value<uint16_t>(g, W, w, o);
  value<uint32_t>(g, W, w, o);
  value<uint64_t>(g, W, w, o);
  value<int>(g, W, w, o);
  value<float>(g, W, w, o);
  value<double>(g, W, w, o);
  value<__half>(g, W, w, o);
#ifdef OURS
  value<void*>(g, W, w, o);
  value<S3>(g, W, w, o);
  value<S5>(g, W, w, o);
  value<S7>(g, W, w, o);
  value<S8>(g, W, w, o);
#endif
  __shared__ ncclGinDescriptorSmem smem;
  g.putValue<uint32_t>(W, 1, w, 0, 7u);
  g.putValue(W, 1, ncclSymPtr<uint32_t>{}, 7u);
  g.putValue(W, 1, ncclSymPtr<uint32_t>(w, 4), 7u, ncclGin_SignalAdd{0, 5}, ncclCoopWarp(),
             ncclGin_DescriptorSmem{&smem}, cuda::thread_scope_thread, cuda::thread_scope_system);
}
KERNEL(t072) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  __shared__ ncclGinDescriptorSmem smem;
  g.signal(W, 1, ncclGin_SignalInc{0});
  g.signal(W, 1, ncclGin_SignalAdd{0, 5}, ncclCoopWarp());
  g.signal(W, 1, ncclGin_SignalInc{0}, ncclCoopCta(), ncclGin_DescriptorSmem{&smem}, cuda::thread_scope_thread,
           cuda::thread_scope_device);
  g.signal<ncclGin_SignalInc>(W, 1, ncclGin_SignalInc{0});
  g.flush(ncclCoopThread());
  g.flush(ncclCoopCta(), cuda::memory_order_relaxed);
}
KERNEL(t075) {
  UNUSED();
  ncclGin g{d, 0};
  uint64_t sum = g.readSignal(0) + g.readSignal(0, 32) + g.readSignal(0, 64, cuda::memory_order_relaxed);
  sum += g.readCounter(0) + g.readCounter(0, 32) + g.readCounter(0, 56, cuda::memory_order_seq_cst);
  *(uint64_t*)o[0] = sum;
  g.waitSignal(ncclCoopCta(), 0, 1);
  g.waitSignal(ncclCoopCta(), 0, 1u, 32);
  g.waitSignal(ncclCoopCta(), 0, sum, 64, cuda::memory_order_acquire);
  g.waitCounter(ncclCoopWarp(), 0, 1);
  g.waitCounter(ncclCoopWarp(), 0, 1u, 32);
  g.waitCounter(ncclCoopWarp(), 0, sum, 56, cuda::memory_order_acquire);
  g.waitSignalMeetShadow(ncclCoopWarp(), 0);
  g.waitSignalMeetShadow(ncclCoopWarp(), 0, 32, cuda::memory_order_relaxed);
  uint32_t before32, delta32;
  uint64_t before, delta;
  uint16_t before16, delta16;
  g.waitSignalFollowShadow(ncclCoopWarp(), 0, 1u, &before32, &delta32, 32);
  g.waitSignalFollowShadow(ncclCoopCta(), 0, uint64_t(1), &before, &delta);
  g.waitSignalFollowShadow(ncclCoopLanes(3), 0, uint64_t(1), &before, &delta, 64, cuda::memory_order_relaxed);
  g.waitSignalFollowShadow(ncclCoopWarpSpan(0, 1, 0), 0, uint16_t(1), &before16, &delta16, 16);
  *g.getSignalShadowPtr(0) = before32 + before + before16 + delta32 + delta + delta16;
  g.increaseSignalShadow(0, 1);
  g.resetSignal(0);
  g.resetCounter(0);
}
KERNEL(t081) {
  UNUSED();
  ncclGin g{d, 0};
  o[0] = g._ginHandle;
  o[1] = g._signalShadows;
  o[2] = g._makeCtx().handle;
  *(unsigned*)o[3] = g.comm.rank + g.contextId + g.nContexts + g._ginBackend + unsigned(g._makeCtx().backend) +
                     unsigned(g._makeCtx().rank + g._makeCtx().nRanks);
  ncclGinSignal_t signal = 3;
  uint32_t counter = 4;
  unsigned plain = 5; /* T087 */
  g.put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{signal}, ncclGin_CounterInc{counter});
  g.signal(ncclTeamWorld(d), 1, ncclGin_SignalAdd{plain, plain});
}
template <unsigned mask>
__device__ uint64_t helper(ncclGin_BackendMask<mask> const& g) { /* T083 */
  g.flush(ncclCoopThread());
  return g.readSignal(0);
}
template <ncclNetDeviceType backend>
__device__ void one(ncclDevComm const& d, ncclWindow_t w) { /* T082 */
  ncclGin_BackendOne<backend> g{d, 0};
  helper(g);
  g.waitSignal(ncclCoopCta(), 0, 1);
  g.resetSignal(0);
#ifdef OURS
  g.put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
  g.putValue(ncclTeamWorld(d), 1, w, 0, 1u, ncclGin_SignalInc{0});
  g.signal(ncclTeamWorld(d), 1, ncclGin_SignalInc{0});
#endif
}
KERNEL(t082) {
  UNUSED();
#if NCCL_GIN_PROXY_ENABLE
  one<NCCL_NET_DEVICE_GIN_PROXY>(d, w);
#endif
#if NCCL_GIN_GDAKI_ENABLE
  one<NCCL_NET_DEVICE_GIN_GDAKI>(d, w);
#endif
  helper(ncclGin{d, 0});
}
#if NCCL_GIN_PROXY_ENABLE
KERNEL(t084) {
  UNUSED();
  ncclGin g{d, 0};
  ncclGinCtx ctx = g._makeCtx();
  *(uint64_t*)o[0] = *ncclGinCall<ncclGinApi_GetSignalPtr>(g._makeCtx(), 0u);
  *(uint64_t*)o[0] = *ncclGinApi_GetCounterPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, 0u);
  ncclGinApi_Put<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, ncclCoopThread(), 1, true, w->ginWins[0], 0, w->ginWins[0], 0, 8,
                                                  true, 0u, ncclGinSignalAdd, 5, true, 0u, false, nullptr,
                                                  cuda::thread_scope_thread, cuda::thread_scope_device);
  ncclGinProxyGpuCtx_t* context = static_cast<ncclGinProxyGpuCtx_t*>(g._ginHandle);
  nccl::gin::proxy::flush(context, 1, cuda::memory_order_acquire);
  ncclGinProxyGfd_t gfd;
  ncclGinProxyOp_t op;
  nccl::gin::proxy::constructProxyOp(op, false, true, ncclGinSignalAdd, true);
  nccl::gin::proxy::buildGfd<int>(&gfd, op, 0, false, 0, w->ginWins[0], 0, w->ginWins[0], 8, 0, 0, 5);
  nccl::gin::proxy::postGfd(ncclCoopThread(), context, &gfd, 1);
}
#endif
template <>
struct ncclGinApi_Flush<(ncclNetDeviceType)7> { /* T085 */
  template <typename Coop>
  __device__ static void call(ncclGinCtx, Coop coop, cuda::memory_order) {
    coop.sync();
  }
};
KERNEL(t085) {
  UNUSED();
  ncclGinCtx_M<1u << 7> ctx;
  ctx.backend = (ncclNetDeviceType)7;
  cuda::memory_order order = cuda::memory_order_acquire;
  ncclGinCall<ncclGinApi_Flush>(ctx, ncclCoopThread(), order);
}
#ifdef OURS
KERNEL(positional) {
  UNUSED();
  ncclGinCtx ctx{NCCL_NET_DEVICE_GIN_PROXY, d.rank, d.nRanks, d.ginHandles[0]};
  *(uint64_t*)o[0] = *ncclGinApi_GetSignalPtr<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, 0u);
}
/* T086: one type in the host and the device pass. */
template <typename Gin>
__global__ void byType(int) {}
void const* t086() {
  return reinterpret_cast<void const*>(&byType<ncclGin>);
}
static_assert(NCCL_GIN_BACKEND_MASK_ALL == ((NCCL_GIN_PROXY_ENABLE ? 4u : 0u) | (NCCL_GIN_GDAKI_ENABLE ? 8u : 0u)), "mask");
#endif
