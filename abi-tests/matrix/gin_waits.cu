/* T075 to T080, T087, T088: signals, counters, shadows. */
#include "case.h"

namespace gin_wait_cases {
#if CASE_C(75)
GIN_KERNEL(t075) {
  uint64_t sum = g.readSignal(0) + g.readSignal(0, 32) + g.readSignal(0, 64, cuda::memory_order_relaxed);
  sum += g.readCounter(0) + g.readCounter(0, 32) + g.readCounter(0, 56, cuda::memory_order_relaxed);
  *(uint64_t*)o[0] = sum;
}
#endif
#if CASE_C(76)
GIN_KERNEL(t076) {
  uint64_t least = *(uint64_t*)o[0];
  g.waitSignal(ncclCoopCta(), 0, 1);
  g.waitSignal(ncclCoopCta(), 0, 1u, 32);
  g.waitSignal(ncclCoopCta(), 0, least, 64, cuda::memory_order_acquire);
  g.waitCounter(ncclCoopWarp(), 0, 1);
  g.waitCounter(ncclCoopWarp(), 0, 1u, 32);
  g.waitCounter(ncclCoopWarp(), 0, least, 56, cuda::memory_order_acquire);
}
#endif
#if CASE_C(78)
GIN_KERNEL(t078) {
  g.waitSignalMeetShadow(ncclCoopWarp(), 0);
  g.waitSignalMeetShadow(ncclCoopWarp(), 0, 32, cuda::memory_order_relaxed);
}
#endif
#if CASE_C(79)
GIN_KERNEL(t079) {
  uint32_t before32, delta32;
  uint64_t before, delta;
  uint16_t before16, delta16;
  g.waitSignalFollowShadow(ncclCoopWarp(), 0, 1u, &before32, &delta32, 32);
  g.waitSignalFollowShadow(ncclCoopCta(), 0, uint64_t(1), &before, &delta);
  g.waitSignalFollowShadow(ncclCoopLanes(3), 0, uint64_t(1), &before, &delta, 64, cuda::memory_order_relaxed);
  g.waitSignalFollowShadow(ncclCoopWarpSpan(0, 1, 0), 0, uint16_t(1), &before16, &delta16, 16);
  *(uint64_t*)o[0] = before32 + before + before16 + delta32 + delta + delta16;
}
#endif
#if CASE_C(80)
GIN_KERNEL(t080) {
  *g.getSignalShadowPtr(0) = 5;
  *g.getSignalShadowPtr(0) += 2;
  g.increaseSignalShadow(0, 1);
  g.resetSignal(0);
  g.resetCounter(0);
}
#endif
#if CASE_C(87)
GIN_KERNEL(t087) {
  ncclGinSignal_t signal = 3;
  uint32_t counter = 4;
  unsigned plain = 5;
  g.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{signal}, ncclGin_CounterInc{counter});
  ncclGin_SignalAdd add{plain, plain};
  add.value += add.signal;
  g.signal(W, 1, add);
}
#endif
#if CASE_C(88)
__device__ void t088loop(ncclDevComm const& d) {
  for (int i = 0; i < d.ginContextCount; i++) {
    ncclGin each = ncclGin(d, i);
    each.flush(ncclCoopThread());
  }
}
KERNEL(t088) {
  UNUSED();
  t088loop(d);
}
#endif
}  // namespace gin_wait_cases
