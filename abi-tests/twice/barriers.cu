// LSA barriers of every form: for each the ranks write, meet, read what the others wrote, meet, many times over. Whole teams
// and halves of them, groups of a thread to a block, many barriers at once, two device communicators in turn.
#include "twice.h"

static const int kRounds = 300, kBarriers = 8;

// Slot [writer][barrier] of every member's window takes the round's number; then each reads what all wrote to it.
template <typename Coop>
__device__ void rounds(Coop coop, ncclLsaBarrierSession<Coop>& barrier, ncclTeam team, ncclWindow_t window, int index,
                       int split, Found* found) {
  for (int round = 1; round <= kRounds; round++) {
    for (int peer = coop.thread_rank(); peer < team.nRanks; peer += coop.size()) {
      int* there = (int*)ncclGetPeerPointer(window, 0, team, peer);
      there[team.rank * kBarriers + index] = round;
    }
    if (split) {
      barrier.arrive(coop, cuda::memory_order_acq_rel);
      barrier.wait(coop, cuda::memory_order_acq_rel);
    } else {
      barrier.sync(coop, cuda::memory_order_acq_rel);
    }
    volatile int* mine = (volatile int*)ncclGetLocalPointer(window, 0);
    for (int peer = coop.thread_rank(); peer < team.nRanks; peer += coop.size()) {
      DEVICE_EXPECT(found, mine[peer * kBarriers + index], round);
    }
    barrier.sync(coop, cuda::memory_order_acq_rel);
  }
}

__global__ void byCta(ncclDevComm devComm, ncclWindow_t window, Found* found) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
  rounds(ncclCoopCta(), barrier, ncclTeamLsa(devComm), window, blockIdx.x, blockIdx.x & 1, found);
}
__global__ void byWarp(ncclDevComm devComm, ncclWindow_t window, Found* found) {
  int warp = threadIdx.x / 32;
  ncclLsaBarrierSession<ncclCoopWarp> barrier{ncclCoopWarp(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, (uint32_t)warp};
  rounds(ncclCoopWarp(), barrier, ncclTeamLsa(devComm), window, warp, 0, found);
}
__global__ void byThread(ncclDevComm devComm, ncclWindow_t window, Found* found) {
  ncclLsaBarrierSession<ncclCoopThread> barrier{ncclCoopThread(), devComm, ncclTeamTagLsa{}, 3};
  rounds(ncclCoopThread(), barrier, ncclTeamLsa(devComm), window, 3, 1, found);
}
// Half of the team at a time: neighbours, and every other rank.
__global__ void byHalves(ncclDevComm devComm, ncclWindow_t window, ncclLsaBarrierHandle handle, int strided, Found* found) {
  ncclTeam lsa = ncclTeamLsa(devComm);
  ncclTeam half = strided ? ncclTeamOuterFactor(lsa, 2) : ncclTeamInnerFactor(lsa, 2);
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, half, handle, (uint32_t)strided};
  rounds(ncclCoopCta(), barrier, half, window, 5 + strided, 0, found);
}

int test(Example& ex) {
  ncclWindow_t window;
  void* memory = windowNew(ex, ex.nRanks * kBarriers * sizeof(int), &window);
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = kBarriers;
  ncclDevComm one = devCommOf(ex, reqs);
  ncclLsaBarrierHandle halves[2];
  ncclDevResourceRequirements list[2];
  memset(list, 0, sizeof list);
  // The number of ranks that a barrier is for is the size of the team that it is used with.
  ncclTeam lsa = ncclTeamLsa(ex.comm);
  bool even = lsa.nRanks % 2 == 0;
  ncclTeam inner = lsa, outer = lsa;
  if (even) inner = ncclTeamInnerFactor(lsa, 2), outer = ncclTeamOuterFactor(lsa, 2);
  NCCLCHECK(ncclLsaBarrierCreateRequirement(inner, 2, &halves[0], &list[0]));
  NCCLCHECK(ncclLsaBarrierCreateRequirement(outer, 2, &halves[1], &list[1]));
  list[0].next = &list[1];
  reqs.resourceRequirementsList = list;
  ncclDevComm two = devCommOf(ex, reqs);
  for (int turn = 0; turn < 2; turn++) {
    ncclDevComm& devComm = turn ? two : one;
    Found* found = foundNew(ex);
    byCta<<<kBarriers, 64, 0, ex.stream>>>(devComm, window, found);
    foundReport(ex, found, "by block");
    found = foundNew(ex);
    byWarp<<<1, 32 * kBarriers, 0, ex.stream>>>(devComm, window, found);
    foundReport(ex, found, "by warp");
    found = foundNew(ex);
    byThread<<<1, 1, 0, ex.stream>>>(devComm, window, found);
    foundReport(ex, found, "by thread");
  }
  for (int strided = 0; even && strided < 2; strided++) {
    Found* found = foundNew(ex);
    byHalves<<<1, 96, 0, ex.stream>>>(two, window, halves[strided], strided, found);
    foundReport(ex, found, strided ? "every other rank" : "neighbours");
  }
  devCommGone(ex, one);
  devCommGone(ex, two);
  windowGone(ex, memory, window);
  ex.elementsChecked = (size_t)kRounds * ex.nRanks * (2 * kBarriers + 1) * 2;
  return twiceWrong != 0;
}
