/* Every entry point in a kernel with launch bounds, down to machine code: registers for a block's threads are what ptxas has to
 * keep to, and what a call in relocatable code does not know. BOUND_THREADS and BOUND_BLOCKS as in __launch_bounds__; without
 * them no bounds. */
#include "case.h"

#ifdef BOUND_THREADS
#define BOUNDED(name) extern "C" __global__ void __launch_bounds__(BOUND_THREADS, BOUND_BLOCKS) name
#else
#define BOUNDED(name) extern "C" __global__ void name
#endif
using Cta = ncclCoopCta;

BOUNDED(boundPut)(ncclDevComm d, ncclWindow_t w) {
  ncclGin g{d, 0};
  g.put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
}
BOUNDED(boundPutByBlock)(ncclDevComm d, ncclSymPtr<float> p, size_t n) {
  ncclGin g{d, 0};
  g.put(ncclTeamWorld(d), 1, p, p, n, ncclGin_SignalAdd{0, n}, ncclGin_CounterInc{0}, Cta());
}
BOUNDED(boundPutValue)(ncclDevComm d, ncclWindow_t w, uint64_t value) {
  ncclGin g{d, 0};
  g.putValue(ncclTeamWorld(d), 1, w, 0, value, ncclGin_SignalInc{0});
}
BOUNDED(boundSignal)(ncclDevComm d) {
  ncclGin g{d, 0};
  g.signal(ncclTeamWorld(d), 1, ncclGin_SignalAdd{0, 5});
}
BOUNDED(boundFlush)(ncclDevComm d) {
  ncclGin g{d, 0};
  g.flush(Cta());
}
BOUNDED(boundWaits)(ncclDevComm d, uint64_t* o) {
  ncclGin g{d, 0};
  g.waitSignal(Cta(), 0, 1);
  g.waitCounter(Cta(), 0, 1);
  g.waitSignalMeetShadow(Cta(), 0);
  g.waitSignalFollowShadow(Cta(), 0, uint64_t(1), o, o + 1);
  o[2] = g.readSignal(0) + g.readCounter(0);
  g.resetSignal(0);
  g.resetCounter(0);
}
BOUNDED(boundLsaBarrier)(ncclDevComm d) {
  ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  bar.sync(Cta(), cuda::memory_order_acq_rel);
}
BOUNDED(boundGinBarrier)(ncclDevComm d) {
  ncclGin g{d, 0};
  ncclGinBarrierSession<Cta> bar{Cta(), g, ncclTeamTagRail(), blockIdx.x};
  bar.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}
BOUNDED(boundBarrier)(ncclDevComm d) {
  ncclGin g{d, 0};
  ncclBarrierSession<Cta> bar{Cta(), ncclTeamTagWorld(), g, blockIdx.x};
  bar.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}
BOUNDED(boundAllToAll)(ncclDevComm d, ncclLLA2AHandle h, double* o) {
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  a.bcast(threadIdx.x, o[0]);
  a.send(1, threadIdx.x, o[1]);
  o[2] = a.recv<double>(threadIdx.x);
  a.endEpoch(Cta());
}
