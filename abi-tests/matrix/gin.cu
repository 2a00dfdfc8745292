/* T060 to T074: ncclGin, what starts operations. */
#include <cuda_fp16.h>

#include "case.h"

namespace gin_cases {
#if CASE_C(60)
static_assert(std::is_copy_constructible<ncclGin>::value, "T060");
__device__ void t060byValue(ncclGin g) {
  g.resetSignal(0);
}
__device__ void t060byReference(ncclGin const& g) {
  g.resetCounter(0);
}
KERNEL(t060) {
  UNUSED();
  ncclGin g{d, 0}, copy = g;
  ncclGin other(d, int(blockIdx.x) % d.ginContextCount);
  t060byValue(copy);
  t060byReference(other);
  auto lambda = [=] { g.signal(ncclTeamWorld(d), 1, ncclGin_SignalInc{0}); };
  lambda();
}
#endif
#if CASE_X(60, 1)
KERNEL(t060) {
  UNUSED();
  ncclGin g;
}
#endif
#if CASE_X(60, 2)
KERNEL(t060) {
  UNUSED();
  ncclGin a{d, 0}, b{d, 1};
  a = b;
}
#endif

#if CASE_C(61)
GIN_KERNEL(t061) {
  g.put(W, 1, w, 0, w, 0, 8);
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalAdd{0, 5});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_CounterInc{0});
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalAdd{0, 5}, ncclGin_CounterInc{0});
}
#endif
#if CASE_C(62)
template <typename Coop>
__device__ void t062put(ncclGin const& g, ncclTeam W, ncclWindow_t w, Coop coop) {
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, coop);
}
GIN_KERNEL(t062) {
  t062put(g, W, w, ncclCoopThread());
  t062put(g, W, w, ncclCoopWarp());
  t062put(g, W, w, ncclCoopCta());
  t062put(g, W, w, ncclCoopTile<4>());
  t062put(g, W, w, ncclCoopLanes(3));
  t062put(g, W, w, ncclCoopWarpSpan(0, 1, 1));
}
#endif
#if CASE_C(63)
GIN_KERNEL(t063) {
  __shared__ ncclGinDescriptorSmem smem;
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, ncclCoopCta(), ncclGin_DescriptorSmem{&smem});
}
#endif
#if CASE_C(64)
GIN_KERNEL(t064) {
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, ncclCoopThread(), ncclGin_None{}, cuda::thread_scope_device,
        cuda::thread_scope_system);
}
#endif
#if CASE_C(65)
GIN_KERNEL(t065) {
  g.put<ncclGin_SignalInc, ncclGin_None, ncclCoopWarp>(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0}, ncclGin_None{},
                                                       ncclCoopWarp{});
}
#endif
#if CASE_C(66)
GIN_KERNEL(t066) {
  g.put(W, 1, p, p, 4);
  g.put<float>(W, 1, p, p, 4, ncclGin_SignalInc{0});
  g.put(W, 1, p + 1, p + size_t(2), 4);
}
#endif
#if CASE_X(66, 1)
GIN_KERNEL(t066) {
  g.put(W, 1, p, ncclSymPtr<int>(w), 4);
}
#endif
#if CASE_C(67)
GIN_KERNEL(t067) {
  g.put(W, 1, w, 0, w, 0, 8);
  g.put(W, 1, w, 0, w, 0, 0, ncclGin_SignalInc{0});
}
#endif

#if CASE_C(68) || CASE_N(68, 1) || CASE_N(68, 2) || CASE_N(68, 3) || CASE_N(68, 4) || CASE_N(68, 5)
template <typename T>
__device__ void t068value(ncclGin const& g, ncclTeam W, ncclWindow_t w, void** o) {
  g.putValue(W, 1, w, 0, *(T*)o[0]);
  g.putValue<T>(W, 1, w, 0, *(T*)o[0], ncclGin_SignalInc{0});
}
template <int n>
struct Bytes {
  char x[n];
};
#endif
#if CASE_C(68)
GIN_KERNEL(t068) {
  t068value<uint8_t>(g, W, w, o);
  t068value<uint16_t>(g, W, w, o);
  t068value<uint32_t>(g, W, w, o);
  t068value<uint64_t>(g, W, w, o);
  t068value<int>(g, W, w, o);
  t068value<float>(g, W, w, o);
  t068value<double>(g, W, w, o);
  t068value<__half>(g, W, w, o);
  t068value<int*>(g, W, w, o);
}
#endif
#if CASE_N(68, 1)
GIN_KERNEL(t068n8) {
  t068value<Bytes<8>>(g, W, w, o);
}
#endif
#if CASE_N(68, 2)
GIN_KERNEL(t068n3) {
  t068value<Bytes<3>>(g, W, w, o);
}
#endif
#if CASE_N(68, 3)
GIN_KERNEL(t068n5) {
  t068value<Bytes<5>>(g, W, w, o);
}
#endif
#if CASE_N(68, 4)
GIN_KERNEL(t068n6) {
  t068value<Bytes<6>>(g, W, w, o);
}
#endif
#if CASE_N(68, 5)
GIN_KERNEL(t068n7) {
  t068value<Bytes<7>>(g, W, w, o);
}
#endif
#if CASE_C(69)
GIN_KERNEL(t069) {
  __shared__ ncclGinDescriptorSmem smem;
  g.putValue<uint32_t>(W, 1, w, 0, 7u);
  g.putValue(W, 1, ncclSymPtr<uint32_t>{}, 7u);
  g.putValue(W, 1, ncclSymPtr<uint32_t>(w, 4), 7u, ncclGin_SignalInc{0});
  g.putValue(W, 1, ncclSymPtr<uint32_t>(w, 4), 7u, ncclGin_SignalAdd{0, 5}, ncclCoopWarp(),
             ncclGin_DescriptorSmem{&smem}, cuda::thread_scope_thread, cuda::thread_scope_system);
}
#endif
#if CASE_X(70, 1)
struct Sixteen {
  char x[16];
};
GIN_KERNEL(t070) {
  g.putValue(W, 1, w, 0, *(Sixteen*)o[0]);
}
#endif

#if CASE_C(72)
GIN_KERNEL(t072) {
  __shared__ ncclGinDescriptorSmem smem;
  g.signal(W, 1, ncclGin_SignalInc{0});
  g.signal(W, 1, ncclGin_SignalAdd{0, 5}, ncclCoopWarp());
  g.signal(W, 1, ncclGin_SignalInc{0}, ncclCoopCta(), ncclGin_DescriptorSmem{&smem}, cuda::thread_scope_thread,
           cuda::thread_scope_device);
  g.signal<ncclGin_SignalInc>(W, 1, ncclGin_SignalInc{0});
}
#endif
/* T073 is an X that NVIDIA's headers let through. */
#if CASE_X(73, 1)
GIN_KERNEL(t073) {
  g.signal(W, 1, ncclGin_None{});
}
#endif
#if CASE_C(74)
GIN_KERNEL(t074) {
  g.flush(ncclCoopThread());
  g.flush(ncclCoopCta(), cuda::memory_order_relaxed);
}
#endif
}  // namespace gin_cases
