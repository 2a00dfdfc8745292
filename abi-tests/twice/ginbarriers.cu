// GIN barriers over the world and over halves of it, and hybrid barriers of every factorisation: the ranks put or store, meet,
// and look at what the others wrote, many times over, in several blocks (contexts) at once.
#include "twice.h"

static const int kRounds = 60, kBlocks = 4;

// A barrier says nothing of puts that went before; a signal with each put does. The barrier is what keeps the next round's
// value from overtaking the look at this one's.
template <typename Sync>
__device__ void rounds(ncclGin& gin, ncclTeam team, ncclWindow_t window, ncclGinSignal_t signal, int kind, Sync sync,
                       Found* found) {
  int n = team.nRanks;
  size_t column = ((size_t)kind * gin.comm.nRanks * kBlocks + blockIdx.x) * sizeof(int);
  signal += blockIdx.x;  // blocks may share a context
  for (int round = 1; round <= kRounds; round++) {
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      gin.putValue(team, peer, window, column + team.rank * kBlocks * sizeof(int), kind * 100000 + round * 64 + team.rank,
                   ncclGin_SignalInc{signal});
    }
    gin.waitSignal(ncclCoopCta(), signal, (uint64_t)n * round);
    volatile int* mine = (volatile int*)ncclGetLocalPointer(window, column);
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      DEVICE_EXPECT(found, mine[peer * kBlocks], kind * 100000 + round * 64 + peer);
    }
    sync();
  }
}

__global__ void overTeam(ncclDevComm devComm, ncclWindow_t window, ncclGinBarrierHandle handle, int step, ncclGinSignal_t signal,
                         Found* found) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  // step 1: neighbours, n / 2 at a time; 2: every other rank; 0: all
  ncclTeam team = step == 0 ? world : step == 1 ? ncclTeamInnerFactor(world, world.nRanks / 2) : ncclTeamOuterFactor(world, 2);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, team, handle, blockIdx.x);
  rounds(gin, team, window, signal, step,
         [&] { barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed); }, found);
}

// The world as the product of two teams: `inner` neighbours by LSA, those of equal place by GIN. Ranks store to all peers of
// the node and put to the others; the barrier orders the stores.
__global__ void hybrid(ncclDevComm devComm, ncclWindow_t window, ncclLsaBarrierHandle lsaHandle, ncclGinBarrierHandle ginHandle,
                       int inner, ncclGinSignal_t signal, Found* found) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamInnerFactor(world, inner), ncclTeamOuterFactor(world, inner),
                                          gin, lsaHandle, ginHandle, blockIdx.x);
  int n = world.nRanks, first = world.rank - world.rank % inner, column = 3 * n * kBlocks + blockIdx.x;
  signal += blockIdx.x;
  volatile int* mine = (volatile int*)ncclGetLocalPointer(window, 0);
  for (int round = 1; round <= kRounds; round++) {
    int value = inner * 1000000 + round * 64 + world.rank;
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      size_t at = (world.rank * kBlocks + column) * sizeof(int);
      if (peer >= first && peer < first + inner) {
        *(int*)ncclGetPeerPointer(window, at, peer) = value;
      } else {
        gin.putValue(world, peer, window, at, value, ncclGin_SignalInc{signal});
      }
    }
    gin.waitSignal(ncclCoopCta(), signal, (uint64_t)(n - inner) * round);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      DEVICE_EXPECT(found, mine[peer * kBlocks + column], inner * 1000000 + round * 64 + peer);
    }
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
}

__global__ void worldTag(ncclDevComm devComm, Found* found) {
  ncclGin gin(devComm, blockIdx.x);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);
  for (int round = 0; round < kRounds; round++) {
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  DEVICE_EXPECT(found, barrier.lsaBarrier().team.nRanks, devComm.lsaSize);
  DEVICE_EXPECT(found, barrier.ginBarrier().team.nRanks, devComm.nRanks / devComm.lsaSize);
}

int test(Example& ex) {
  if (!ginHere(ex)) return kNotHere;
  ncclWindow_t window;
  void* memory = windowNew(ex, 4 * ex.nRanks * kBlocks * sizeof(int), &window);
  int n = ex.nRanks, node = ncclTeamLsa(ex.comm).nRanks;
  ncclDevCommRequirements reqs = noRequirements();
  reqs.barrierCount = kBlocks;
  reqs.ginSignalCount = 4 * kBlocks;  // the first kBlocks are barriers made by hand, as code does that cannot use the list
  ncclLsaBarrierHandle lsaHandle;
  ncclGinBarrierHandle listed, byHand;
  ncclDevResourceRequirements list[3];
  NCCLCHECK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(ex.comm), 4 * kBlocks, &lsaHandle, &list[0]));
  NCCLCHECK(ncclGinBarrierCreateRequirement(ex.comm, ncclTeamWorld(ex.comm), kBlocks, &listed, &list[1]));
  memset(&list[2], 0, sizeof list[2]);
  list[2].bufferSize = kBlocks * 16;
  list[2].bufferAlign = 4;
  list[2].outBufferHandle = &byHand.bufHandle;
  list[0].next = &list[1];
  list[1].next = &list[2];
  reqs.resourceRequirementsList = list;
  ncclDevComm devComm = devCommOf(ex, reqs);
  byHand.signal0 = 0;
  const ncclGinSignal_t data = kBlocks;  // signals of the rounds' data: for each kind one for each block

  Found* found = foundNew(ex);
  overTeam<<<kBlocks, 64, 0, ex.stream>>>(devComm, window, listed, 0, data, found);
  foundReport(ex, found, "the world, barriers of the list");
  if (n % 2 == 0) {
    for (int step = 1; step <= 2; step++) {
      found = foundNew(ex);
      // Another team on the same barrier: its epochs and signals would not fit, so each has its own.
      overTeam<<<kBlocks, 32, 0, ex.stream>>>(devComm, window, step == 1 ? byHand : devComm.railGinBarrier, step, data + step * kBlocks, found);
      foundReport(ex, found, step == 1 ? "neighbours, barriers by hand" : "every other rank, the rail's barriers");
    }
  }
  hostBarrier(ex);  // the rail's barriers serve another team now: nobody may signal it while others are in the last one
  for (int turn = 0; turn < 2; turn++) {
    found = foundNew(ex);
    worldTag<<<kBlocks, 96, 0, ex.stream>>>(devComm, found);
    foundReport(ex, found, "hybrid, world");
  }
  devCommGone(ex, devComm);

  int kinds = 0;
  for (int inner = 1; inner <= node; inner++) {
    if (node % inner != 0) continue;
    NCCLCHECK(ncclLsaBarrierCreateRequirement(ncclTeamInnerFactor(ncclTeamLsa(ex.comm), inner), kBlocks, &lsaHandle, &list[0]));
    list[0].next = &list[1];
    devComm = devCommOf(ex, reqs);
    found = foundNew(ex);
    hybrid<<<kBlocks, 64, 0, ex.stream>>>(devComm, window, lsaHandle, listed, inner, data, found);
    foundReport(ex, found, "hybrid, by factors");
    devCommGone(ex, devComm);
    kinds++;
  }
  ex.elementsChecked = (size_t)kRounds * kBlocks * n * (3 + kinds);
  hostBarrier(ex);
  windowGone(ex, memory, window);
  return twiceWrong != 0;
}
