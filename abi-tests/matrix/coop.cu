/* T005, T020 to T030: cooperative groups. */
#include <cooperative_groups.h>

#include "case.h"

namespace coop_cases {
#if CASE_C(5)
static_assert(sizeof(ncclCoopWarpSpan) == 4 && sizeof(ncclCoopLanes) == 4 && sizeof(ncclGin) == 32, "T005");
#endif

#if CASE_C(20)
template <typename Coop>
__device__ int t020ranks(Coop coop) {
  coop.sync();
  return int(coop.thread_rank()) + coop.size() + coop.num_threads();
}
KERNEL(t020) {
  UNUSED();
  ncclCoopLanes lanes(0xff), all;
  int sum = t020ranks(ncclCoopThread()) + t020ranks(ncclCoopWarp()) + t020ranks(ncclCoopTile<1>()) +
            t020ranks(ncclCoopTile<2>()) + t020ranks(ncclCoopTile<4>()) + t020ranks(ncclCoopTile<8>()) +
            t020ranks(ncclCoopTile<16>()) + t020ranks(ncclCoopTile<32>()) + t020ranks(lanes) + t020ranks(all) +
            t020ranks(ncclCoopWarpSpan(0, 2, 1)) + t020ranks(ncclCoopCta());
  *(int*)o[0] = sum + int(lanes.lmask) + int(ncclCoopTile<4>().laneMask());
}
#endif

#if CASE_X(21, 1)
KERNEL(t021) {
  UNUSED();
  ncclCoopTile<3>().sync();
}
#endif
#if CASE_X(21, 2)
KERNEL(t021) {
  UNUSED();
  ncclCoopTile<64>().sync();
}
#endif

#if CASE_C(22)
KERNEL(t022) {
  UNUSED();
  constexpr ncclCoopLanes l(0xff);
  constexpr ncclCoopWarpSpan s(0, 2, 1);
  constexpr int n = ncclCoopWarp().size();
  static_assert(n == 32 && ncclCoopTile<4>().num_threads() == 4, "T022");
  *(int*)o[0] = int(l.lmask + s.warp0 + s.nWarps + s.id) + n;
}
#endif

#if CASE_C(23)
template <typename Coop>
__device__ uint32_t t023ask(Coop c) {
  if (ncclCoopIsThread(c)) return 1;
  return ncclCoopGetLaneMask(c) + (ncclCoopWithinWarp(c) ? 1 : 2);
}
KERNEL(t023) {
  UNUSED();
  *(uint32_t*)o[0] = t023ask(ncclCoopThread()) + t023ask(ncclCoopTile<8>()) + t023ask(ncclCoopLanes(3)) +
                     t023ask(ncclCoopWarpSpan(0, 1, 1)) + t023ask(ncclCoopCta());
  static_assert(ncclCoopIsThread(ncclCoopThread()) && !ncclCoopIsThread(ncclCoopCta()), "T023");
  static_assert(ncclCoopWithinWarp(ncclCoopTile<8>()) && !ncclCoopWithinWarp(ncclCoopCta()), "T023");
}
#endif

#if CASE_C(24)
KERNEL(t024) {
  UNUSED();
  isA<ncclCoopLanes>(ncclCoopCoalesced());
  isA<ncclCoopTile<32>>(ncclCoopCoalesced(ncclCoopCta()));
  isA<ncclCoopTile<32>>(ncclCoopCoalesced(ncclCoopWarpSpan(0, 1, 0)));
  isA<ncclCoopLanes>(ncclCoopCoalesced(ncclCoopLanes(3)));
  isA<ncclCoopTile<8>>(ncclCoopCoalesced(ncclCoopTile<8>()));
}
#endif

#if CASE_C(25)
struct Twelve {
  int x[3];
};
template <typename Coop, typename T>
__device__ T t025twice(Coop coop, T value) {
  return ncclCoopBcast(coop, ncclCoopBcast(coop, value, 0), 0, /*entrySync=*/false);
}
template <typename T>
__device__ T t025bcast(T value) {
  value = t025twice(ncclCoopWarp(), t025twice(ncclCoopLanes(0xff), value));
  return t025twice(ncclCoopWarpSpan(0, 1, 2), t025twice(ncclCoopCta(), value));
}
KERNEL(t025) {
  UNUSED();
  *(int*)o[0] = t025bcast(*(int*)o[1]);
  *(double*)o[2] = t025bcast(*(double*)o[3]);
  *(ulonglong2*)o[4] = t025bcast(*(ulonglong2*)o[5]);
  *(Twelve*)o[6] = t025bcast(*(Twelve*)o[7]);
}
#endif

#if CASE_X(26, 1)
struct Wide {
  char x[32];
};
KERNEL(t026) {
  UNUSED();
  *(Wide*)o[0] = ncclCoopBcast(ncclCoopCta(), *(Wide*)o[0], 0);
}
#endif

#if CASE_C(28) || CASE_C(29)
/* Wherever a group goes. */
template <typename Coop>
__device__ void everywhere(Coop coop, ncclDevComm const& d, ncclWindow_t w, ncclLLA2AHandle h, void** o) {
  ncclGin g{d, 0};
  ncclTeam world = ncclTeamWorld(d);
  g.put(world, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0}, ncclGin_None{}, coop);
  g.flush(coop);
  g.waitSignal(coop, 0, 1);
  g.waitCounter(coop, 0, 1);
  g.waitSignalMeetShadow(coop, 0);
  ncclLsaBarrierSession<Coop> lsa{coop, d, ncclTeamLsa(d), d.lsaBarrier, 0};
  lsa.sync(coop, cuda::memory_order_acq_rel);
  ncclBarrierSession<Coop> both{coop, ncclTeamTagWorld(), g, 0};
  both.sync(coop, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  ncclLLA2ASession<Coop> a2a{coop, d, ncclTeamLsa(d), h, 0, 8};
  a2a.bcast(0, 1.0f);
  a2a.endEpoch(coop);
  o[0] = ncclFindWindow(coop, d, o);
}
#endif
#if CASE_C(28)
KERNEL(t028) {
  UNUSED();
  namespace cg = cooperative_groups;
  everywhere(cg::this_thread_block(), d, w, h, o);
  everywhere(cg::coalesced_threads(), d, w, h, o);
  everywhere(cg::tiled_partition<32>(cg::this_thread_block()), d, w, h, o);
}
#endif
#if CASE_C(29)
KERNEL(t029) {
  UNUSED();
  everywhere(UserCoop{int(blockDim.x)}, d, w, h, o);
}
#endif
#if CASE_N(28, 1)
template <typename Coop>
__device__ void t028follow(ncclGin const& g, Coop coop) {
  uint64_t before, delta;
  g.waitSignalFollowShadow(coop, 0, uint64_t(1), &before, &delta);
}
KERNEL(t028follows) {
  UNUSED();
  namespace cg = cooperative_groups;
  ncclGin g{d, 0};
  t028follow(g, cg::this_thread_block());
  t028follow(g, cg::coalesced_threads());
  t028follow(g, cg::tiled_partition<32>(cg::this_thread_block()));
}
#endif

#if CASE_N(30, 1)
KERNEL(t030) {
  UNUSED();
  *(unsigned*)o[0] = ncclCoopLaneMask(ncclCoopTile<4>()) + ncclCoopLaneMask(ncclCoopLanes(3)) +
                     ncclCoopLaneMask(ncclCoopWarpSpan(0, 1, 0)) + ncclCoopLaneMask(ncclCoopCta());
}
#endif
}  // namespace coop_cases
