/* T050 to T057: the LSA barrier. */
#include <new>

#include "case.h"

namespace lsa_cases {
using Cta = ncclCoopCta;
using Session = ncclLsaBarrierSession<Cta>;
#define ORDERS                                                                                              \
  {cuda::memory_order_relaxed, cuda::memory_order_acquire, cuda::memory_order_release, cuda::memory_order_acq_rel, \
   cuda::memory_order_seq_cst}

#if CASE_C(50)
KERNEL(t050) {
  UNUSED();
  ncclLsaBarrierSession<ncclCoopCta> b{ncclCoopCta(), d, ncclTeamLsa(d), d.lsaBarrier, blockIdx.x};
  b.sync(Cta(), cuda::memory_order_acq_rel);
}
#endif
#if CASE_C(51)
KERNEL(t051) {
  UNUSED();
  Session b{Cta(), d, ncclTeamLsa(d), d.lsaBarrier, blockIdx.x, true, d.lsaMultimem};
  b.sync(Cta(), cuda::memory_order_acq_rel);
}
#endif
#if CASE_C(52)
KERNEL(t052) {
  UNUSED();
  Session a{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  Session b{Cta(), d, ncclTeamTagLsa(), blockIdx.x, /*multimem=*/true};
  a.sync(Cta(), cuda::memory_order_acq_rel);
  b.sync(Cta(), cuda::memory_order_acq_rel);
}
#endif
#if CASE_C(53)
KERNEL(t053) {
  UNUSED();
  ncclLsaBarrierSession cta(Cta(), d, ncclTeamLsa(d), d.lsaBarrier, 0);
  ncclLsaBarrierSession warp{ncclCoopWarp(), d, ncclTeamTagLsa{}, 0, false};
  ncclLsaBarrierSession thread{ncclCoopThread(), d, ncclTeamTagLsa(), 1};
  ncclLsaBarrierSession tile{ncclCoopTile<8>(), d, ncclTeamTagLsa(), 2};
  ncclLsaBarrierSession lanes{ncclCoopLanes(3), d, ncclTeamTagLsa(), 4};
  ncclLsaBarrierSession span{ncclCoopWarpSpan(0, 2, 1), d, ncclTeamTagLsa(), 5};
  isA<Session>(cta);
  isA<ncclLsaBarrierSession<ncclCoopWarpSpan>>(span);
  warp.sync(ncclCoopWarp(), cuda::memory_order_relaxed);
  thread.sync(ncclCoopThread(), cuda::memory_order_relaxed);
}
#endif
#if CASE_C(54)
KERNEL(t054) {
  UNUSED();
  int index = 3;
  ncclLsaBarrierSession<Cta> cta(Cta(), d, ncclTeamLsa(d), d.lsaBarrier, index);
  ncclLsaBarrierSession<Cta> tag(Cta(), d, ncclTeamTagLsa(), index);
}
#endif
#if CASE_C(55)
KERNEL(t055) {
  UNUSED();
  Session bar{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  for (cuda::memory_order order : ORDERS) {
    bar.arrive(Cta(), order);
    bar.wait(Cta(), order);
    bar.sync(Cta(), order);
  }
  bar.arrive(Cta(), cuda::memory_order_release);
  bar.wait(Cta(), cuda::memory_order_acquire);
}
#endif
#if CASE_X(55, 1)
KERNEL(t055) {
  UNUSED();
  Session bar{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  bar.arrive(Cta());
}
#endif
#if CASE_C(56)
static_assert(!std::is_copy_constructible<Session>::value, "T056");
__device__ void t056byReference(ncclLsaBarrierSession<ncclCoopCta>& bar) {
  bar.sync(Cta(), cuda::memory_order_acq_rel);
}
KERNEL(t056) {
  UNUSED();
  alignas(16) __shared__ char storage[sizeof(Session)];
  auto* placed = new (storage) Session(Cta(), d, ncclTeamTagLsa(), 6);
  t056byReference(*placed);
  placed->~ncclLsaBarrierSession<Cta>();
  Cta coop;
  ncclTeam team = ncclTeamLsa(d);
  ncclLsaBarrierHandle handle = d.lsaBarrier;
  uint32_t index = 7;
  nccl::utility::Optional<Session> optional{nccl::utility::present(coop, d, team, handle, index)};
  t056byReference(optional.thing);
}
#endif
#if CASE_X(56, 1)
KERNEL(t056) {
  UNUSED();
  Session bar{Cta(), d, ncclTeamTagLsa(), 0}, copy(bar);
}
#endif
#if CASE_C(57)
KERNEL(t057) {
  UNUSED();
  Session a{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  o[0] = a.mcInbox(false);
  o[1] = a.ucInbox(0, 1);
  o[2] = a.mmHandle.mcBasePtr;
  *(int*)o[3] = int(a.epoch) + a.index + a.team.rank + int(a.handle.bufHandle) + a.comm.rank + a.multimem +
                a.coop.thread_rank();
}
#endif
}  // namespace lsa_cases
