/* T005, T020 to T030: cooperative groups. X tests of this kind are in reject.cu. */
#include <cooperative_groups.h>

#include "device.h"

static_assert(sizeof(ncclCoopWarpSpan) == 4 && sizeof(ncclCoopLanes) == 4, "T005");

template <typename Coop>
__device__ int ranks(Coop coop) {
  coop.sync();
  if (ncclCoopIsThread(coop)) return 1;
  return int(coop.thread_rank()) + coop.size() + coop.num_threads() + int(ncclCoopGetLaneMask(coop)) +
         ncclCoopWithinWarp(coop);
}
KERNEL(t020) {
  UNUSED();
  ncclCoopLanes lanes(0xff);
  int sum = ranks(ncclCoopThread()) + ranks(ncclCoopWarp()) + ranks(ncclCoopTile<1>()) + ranks(ncclCoopTile<2>()) +
            ranks(ncclCoopTile<4>()) + ranks(ncclCoopTile<8>()) + ranks(ncclCoopTile<16>()) + ranks(ncclCoopTile<32>()) +
            ranks(lanes) + ranks(ncclCoopWarpSpan(0, 2, 1)) + ranks(ncclCoopCta());
  *(int*)o[0] = sum + int(lanes.lmask) + int(ncclCoopTile<4>().laneMask());
}
KERNEL(t022) {
  UNUSED();
  constexpr ncclCoopLanes l(0xff);
  constexpr ncclCoopWarpSpan s(0, 2, 1);
  constexpr int n = ncclCoopWarp().size();
  static_assert(n == 32 && ncclCoopTile<4>().num_threads() == 4, "T022");
  *(int*)o[0] = int(l.lmask + s.nWarps) + n;
  static_assert(ncclCoopIsThread(ncclCoopThread()) && !ncclCoopIsThread(ncclCoopCta()), "T023");
  static_assert(ncclCoopWithinWarp(ncclCoopTile<8>()) && !ncclCoopWithinWarp(ncclCoopCta()), "T023");
}
KERNEL(t024) {
  UNUSED();
  Is<ncclCoopLanes>::a(ncclCoopCoalesced());
  Is<ncclCoopTile<32>>::a(ncclCoopCoalesced(ncclCoopCta()));
  Is<ncclCoopTile<32>>::a(ncclCoopCoalesced(ncclCoopWarpSpan(0, 1, 0)));
  Is<ncclCoopLanes>::a(ncclCoopCoalesced(ncclCoopLanes(3)));
  Is<ncclCoopTile<8>>::a(ncclCoopCoalesced(ncclCoopTile<8>()));
}

struct Twelve {
  int x[3];
};
template <typename T>
__device__ T bcast(T value) {
  value = ncclCoopBcast(ncclCoopWarp(), value, 3);
  value = ncclCoopBcast(ncclCoopWarp(), value, 3, false);
  value = ncclCoopBcast(ncclCoopLanes(0xff), value, 1);
  value = ncclCoopBcast(ncclCoopLanes(0xff), value, 1, false);
  value = ncclCoopBcast(ncclCoopWarpSpan(0, 1, 2), value, 0);
  value = ncclCoopBcast(ncclCoopWarpSpan(0, 1, 2), value, 0, false);
  value = ncclCoopBcast(ncclCoopCta(), value, 0);
  return ncclCoopBcast(ncclCoopCta(), value, 0, false);
}
KERNEL(t025) {
  UNUSED();
  *(int*)o[0] = bcast(*(int*)o[1]);
  *(double*)o[2] = bcast(*(double*)o[3]);
  *(ulonglong2*)o[4] = bcast(*(ulonglong2*)o[5]);
  *(Twelve*)o[6] = bcast(*(Twelve*)o[7]);
}

/* T028, T029: other people's groups wherever a Coop goes. */
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
KERNEL(t028) {
  UNUSED();
  namespace cg = cooperative_groups;
  everywhere(cg::this_thread_block(), d, w, h, o);
  everywhere(cg::coalesced_threads(), d, w, h, o);
  everywhere(cg::tiled_partition<32>(cg::this_thread_block()), d, w, h, o);
  everywhere(UserCoop{int(blockDim.x)}, d, w, h, o);
#ifdef OURS
  ncclGin g{d, 0};
  uint64_t before, delta;
  g.waitSignalFollowShadow(cg::this_thread_block(), 0, uint64_t(1), &before, &delta);
  g.waitSignalFollowShadow(cg::coalesced_threads(), 0, uint64_t(1), &before, &delta);
  g.waitSignalFollowShadow(cg::tiled_partition<32>(cg::this_thread_block()), 0, uint64_t(1), &before, &delta);
#endif
}
#ifdef OURS
KERNEL(t030) {
  UNUSED();
  *(unsigned*)o[0] = ncclCoopLaneMask(ncclCoopTile<4>()) + ncclCoopLaneMask(ncclCoopCta());
}
#endif
