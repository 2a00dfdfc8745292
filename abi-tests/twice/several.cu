// Several communicators at a time, each with several device communicators and a window: their kernels run side by side, and
// the last of them still works after the others have gone. First over LSA, then with the rounds over GIN beside them.
#include "twice.h"

static const int kComms = 3, kDevComms = 2, kRounds = 100;

__global__ void storeRounds(ncclDevComm devComm, ncclWindow_t window, int base, Found* found) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
  int peer = threadIdx.x, n = devComm.lsaSize;
  for (int round = 0; round < kRounds; round++) {
    int at = (base + blockIdx.x) * n;
    if (peer < n) ((int*)ncclGetLsaPointer(window, 0, peer))[at + devComm.lsaRank] = base + round;
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    if (peer < n) DEVICE_EXPECT(found, ((volatile int*)ncclGetLocalPointer(window, 0))[at + peer], base + round);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
}

// Every rank's value to all, each round another; block b uses signal b, as blocks may share a context.
__global__ void putRounds(ncclDevComm devComm, ncclWindow_t window, int base, Found* found) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, blockIdx.x);
  int n = world.nRanks;
  unsigned* slots = (unsigned*)ncclGetLocalPointer(window, 0) + (base + blockIdx.x) * n;
  size_t there = ((base + blockIdx.x) * n + world.rank) * sizeof(unsigned);
  for (unsigned round = 1; round <= kRounds; round++) {
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      gin.putValue(world, peer, window, there, round * 100 + world.rank + base, ncclGin_SignalInc{blockIdx.x});
    }
    gin.waitSignal(ncclCoopCta(), blockIdx.x, (uint64_t)n * round);
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      DEVICE_EXPECT(found, ((volatile unsigned*)slots)[peer], round * 100 + peer + base);
    }
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
}

// Rank 0's bytes.
__global__ void fetch(ncclWindow_t window, char* into, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) into[i] = ((const char*)ncclGetLsaPointer(window, 0, 0))[i];
}

// The other ids travel over the first communicator's window, or behind rank 0's node by a broadcast.
static void idsFromRank0(Example& ex, ncclUniqueId* ids, size_t bytes) {
  ncclWindow_t carrier;
  void* memory = windowNew(ex, bytes, &carrier);
  char* local;
  CUDACHECK(cudaMalloc(&local, bytes));
  if (ex.rank == 0) {
    for (int c = 0; c < 2 * kComms; c++) NCCLCHECK(ncclGetUniqueId(&ids[c]));
    CUDACHECK(cudaMemcpyAsync(memory, ids, bytes, cudaMemcpyHostToDevice, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  hostBarrier(ex);
  if (ncclTeamLsa(ex.comm).nRanks == ex.nRanks) {
    fetch<<<1, 128, 0, ex.stream>>>(carrier, local, (int)bytes);
  } else {
    NCCLCHECK(collective(ex, [&] { return ncclBroadcast(memory, local, bytes, ncclChar, 0, ex.comm, ex.stream); }));
  }
  CUDACHECK(cudaMemcpyAsync(ids, local, bytes, cudaMemcpyDeviceToHost, ex.stream));
  finish(ex);
  CUDACHECK(cudaFree(local));
  hostBarrier(ex);
  windowGone(ex, memory, carrier);
}

struct Other {
  Example ex;
  ncclWindow_t window;
  void* memory;
  ncclDevComm devComms[kDevComms];
  cudaStream_t streams[kDevComms];
};

// The same over all of them at once, then over the last one alone when the others have gone.
static void sideBySide(Example& ex, const ncclUniqueId* ids, bool gin) {
  Other others[kComms];
  for (int c = 0; c < kComms; c++) {
    Other& other = others[c];
    other.ex = ex;
    NCCLCHECK(collective(ex, [&] { return ncclCommInitRank(&other.ex.comm, ex.nRanks, ids[c], ex.rank); }));
    other.memory = windowNew(other.ex, 8 * ex.nRanks * sizeof(int), &other.window);
    for (int d = 0; d < kDevComms; d++) {
      ncclDevCommRequirements reqs = noRequirements();
      if (gin) {
        reqs.ginSignalCount = 2 + d;
        reqs.railGinBarrierCount = 2;
      } else {
        reqs.lsaBarrierCount = 2 + d;
      }
      other.devComms[d] = devCommOf(other.ex, reqs);
      CUDACHECK(cudaStreamCreateWithFlags(&other.streams[d], cudaStreamNonBlocking));
    }
  }
  Found* found = foundNew(ex);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  for (Other& other : others) {
    for (int d = 0; d < kDevComms; d++) {
      if (gin) {
        putRounds<<<2, 32, 0, other.streams[d]>>>(other.devComms[d], other.window, 2 * d, found);
      } else {
        storeRounds<<<2, 32, 0, other.streams[d]>>>(other.devComms[d], other.window, 2 * d, found);
      }
    }
  }
  for (Other& other : others) {
    for (int d = 0; d < kDevComms; d++) finish(ex, other.streams[d]);
  }
  foundReport(ex, found, "side by side");
  for (int c = 0; c < kComms; c++) {
    Other& other = others[c];
    if (c == kComms - 1) {
      // In one process, whoever is last to destroy a communicator frees what is on the others' GPUs too, which waits for their
      // kernels (NVIDIA's library).
      hostBarrier(ex);
      found = foundNew(ex);
      if (gin) {
        // The second device communicator's signals of this round stand at kRounds * n: a third one starts from zero again.
        ncclDevCommRequirements reqs = noRequirements();
        reqs.ginSignalCount = 2;
        reqs.railGinBarrierCount = 2;
        devCommGone(other.ex, other.devComms[0]);
        other.devComms[0] = devCommOf(other.ex, reqs);
        putRounds<<<2, 32, 0, ex.stream>>>(other.devComms[0], other.window, 4, found);
      } else {
        storeRounds<<<2, 32, 0, ex.stream>>>(other.devComms[0], other.window, 0, found);
      }
      foundReport(ex, found, "the last of them");
    }
    hostBarrier(other.ex);
    for (int d = 0; d < kDevComms; d++) {
      CUDACHECK(cudaStreamDestroy(other.streams[d]));
      devCommGone(other.ex, other.devComms[d]);
    }
    windowGone(other.ex, other.memory, other.window);
    NCCLCHECK(collective(ex, [&] { return ncclCommFinalize(other.ex.comm); }));
    NCCLCHECK(ncclCommDestroy(other.ex.comm));
  }
}

int test(Example& ex) {
  ncclUniqueId ids[2 * kComms];
  idsFromRank0(ex, ids, sizeof ids);
  sideBySide(ex, ids, false);
  ex.elementsChecked = (size_t)kComms * kDevComms * 2 * kRounds * ex.nRanks;
  if (ginHere(ex)) {
    sideBySide(ex, ids + kComms, true);
    ex.elementsChecked *= 2;
  }
  return twiceWrong != 0;
}
