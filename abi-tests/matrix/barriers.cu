/* T090 to T095: the GIN barrier and the hybrid one. */
#include "case.h"

namespace barrier_cases {
using Cta = ncclCoopCta;

#if CASE_C(90)
GIN_KERNEL(t090) {
  ncclGinBarrierSession<Cta> a{Cta(), g, W, d.railGinBarrier, blockIdx.x};
  ncclGinBarrierSession<Cta> b{Cta(), g, ncclTeamTagRail(), 0};
  ncclGinBarrierSession c{ncclCoopWarp(), g, ncclTeamTagRail(), 1};
  ncclGinBarrierSession e{ncclCoopCta(), g, W, d.railGinBarrier, blockIdx.x};
  for (cuda::memory_order order : {cuda::memory_order_relaxed, cuda::memory_order_acquire, cuda::memory_order_release,
                                   cuda::memory_order_acq_rel, cuda::memory_order_seq_cst}) {
    a.sync(Cta(), order, ncclGinFenceLevel::Relaxed);
  }
  b.sync(Cta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);
  c.sync(ncclCoopWarp(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  isA<ncclGinBarrierSession<Cta>>(e);
}
#endif
#if CASE_C(91)
static_assert((int)ncclGinFenceLevel::Relaxed == 0, "T091");
#endif
#if CASE_N(91, 1)
GIN_KERNEL(t091default) {
  ncclGinBarrierSession<Cta> b{Cta(), g, ncclTeamTagRail(), 0};
  b.sync(Cta(), cuda::memory_order_acq_rel);
}
#endif
#if CASE_N(91, 2)
GIN_KERNEL(t091none) {
  ncclGinBarrierSession<Cta> b{Cta(), g, ncclTeamTagRail(), 0};
  b.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
}
#endif
#if CASE_C(92)
static_assert(!std::is_copy_constructible<ncclGinBarrierSession<Cta>>::value, "T092");
GIN_KERNEL(t092) {
  ncclGinBarrierSession<Cta> a{Cta(), g, ncclTeamTagRail(), 0};
  *(int*)o[0] = a.team.rank + int(a.handle.signal0 + a.index + a.epoch + a.signal) + int(a.net.contextId);
}
#endif
#if CASE_X(92, 1)
GIN_KERNEL(t092) {
  ncclGinBarrierSession<Cta> a{Cta(), g, ncclTeamTagRail(), 0}, copy(a);
}
#endif
#if CASE_C(93)
static_assert(!std::is_copy_constructible<ncclBarrierSession<Cta>>::value, "T093");
GIN_KERNEL(t093) {
  ncclBarrierSession<Cta> a{Cta(),            ncclTeamLsa(d), ncclTeamRail(d), g, d.lsaBarrier,
                            d.railGinBarrier, 0u,             true,            d.lsaMultimem};
  ncclBarrierSession b{Cta(), ncclTeamTagWorld(), g, blockIdx.x};
  ncclBarrierSession c{ncclCoopWarp(), ncclTeamTagWorld(), g, blockIdx.x, true};
  isA<ncclBarrierSession<Cta>>(b);
  a.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  c.sync(ncclCoopWarp(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
}
#endif
#if CASE_N(94, 1)
KERNEL(t094lsa) {
  UNUSED();
  ncclBarrierSession<Cta> lsa{Cta(), ncclTeamTagLsa(), d, 1u};
  lsa.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}
#endif
#if CASE_N(94, 2)
GIN_KERNEL(t094rail) {
  ncclBarrierSession<Cta> rail{Cta(), ncclTeamTagRail(), g, 1u};
  rail.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}
#endif
#if CASE_C(95)
GIN_KERNEL(t095) {
  ncclBarrierSession<Cta> a{Cta(), ncclTeamTagWorld(), g, blockIdx.x};
  a.lsaBarrier().sync(Cta(), cuda::memory_order_acq_rel);
  a.ginBarrier().sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  a.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  *(int*)o[0] = a.coop.size() + a.gin.present + a.innerLsaBar.present + a.outerGinBar.present;
}
#endif
}  // namespace barrier_cases
