// One program with kernels of both header sets: this file is compiled with our headers (and has main), and again with NVIDIA's
// and -DBOTH_THEIRS. By turns, ranks and rounds use the one or the other on the same barriers, signals and queues; then both at
// once on two streams.
#include "both.h"

__host__ __device__ static inline unsigned bothElement(int from, int to, unsigned round, int i) {
  return from * 1000003u + to * 8191u + round * 131u + i;
}

namespace {  // each half has its own kernel of this name
__global__ void bothRound(ncclDevComm devComm, BothArea area, Found* found) {
  int n = devComm.nRanks, rank = devComm.rank, part = area.part;
  unsigned round = area.round;
  size_t block = (size_t)n * (kBothCount + 1) * sizeof(unsigned), in = part * 2 * block, out = in + block;
  unsigned *send = (unsigned*)ncclGetLocalPointer(area.window, out);
  volatile unsigned* recv = (volatile unsigned*)ncclGetLocalPointer(area.window, in);
  ncclLsaBarrierSession<ncclCoopCta> lsa{ncclCoopCta(), devComm, ncclTeamTagLsa{}, (uint32_t)part};

  // LSA stores between two barriers, then an LL round.
  if (threadIdx.x < n) {
    *(unsigned*)ncclGetPeerPointer(area.window, in + (n * kBothCount + rank) * sizeof(unsigned), (int)threadIdx.x) =
        bothElement(rank, threadIdx.x, round, 5);
  }
  lsa.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (threadIdx.x < n) DEVICE_EXPECT(found, recv[n * kBothCount + threadIdx.x], bothElement(threadIdx.x, rank, round, 5));
  {
    ncclLLA2ASession<ncclCoopCta> ll{ncclCoopCta(), devComm, ncclTeamLsa(devComm), area.ll, (uint32_t)part, n, false};
    if (threadIdx.x < n) ll.send((int)threadIdx.x, rank, bothElement(rank, threadIdx.x, round, 9));
    if (threadIdx.x < n) DEVICE_EXPECT(found, ll.recv<unsigned>(threadIdx.x), bothElement(threadIdx.x, rank, round, 9));
    ll.endEpoch(ncclCoopCta());
  }
  lsa.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (!area.gin) return;

  // Puts to all with signals and a counter, all on context 0: parts that run at the same time share its queues.
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, part);
  for (int i = threadIdx.x; i < n * kBothCount; i += blockDim.x) {
    send[i] = bothElement(rank, i / kBothCount, round, i % kBothCount);
  }
  __syncthreads();
  for (int peer = 0; peer < n; peer++) {
    gin.put(world, peer, area.window, in + rank * kBothCount * sizeof(unsigned), area.window,
            out + peer * kBothCount * sizeof(unsigned), kBothCount * sizeof(unsigned), ncclGin_SignalAdd{(ncclGinSignal_t)part, 3},
            ncclGin_CounterInc{(ncclGinCounter_t)part}, ncclCoopCta());
  }
  gin.waitSignal(ncclCoopCta(), part, 3ull * n * (round + 1));
  for (int i = threadIdx.x; i < n * kBothCount; i += blockDim.x) {
    DEVICE_EXPECT(found, recv[i], bothElement(i / kBothCount, rank, round, i % kBothCount));
  }
  gin.waitCounter(ncclCoopCta(), part, (uint64_t)n * (round + 1));
  gin.flush(ncclCoopCta());
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}
}  // namespace

#ifdef BOTH_THEIRS
void bothTheirs(const ncclDevComm& devComm, const BothArea& area, Found* found, cudaStream_t stream) {
  bothRound<<<1, 64, 0, stream>>>(devComm, area, found);
}
#else
#include "twice.h"

void bothOurs(const ncclDevComm& devComm, const BothArea& area, Found* found, cudaStream_t stream) {
  bothRound<<<1, 64, 0, stream>>>(devComm, area, found);
}

static const int kRounds = 200;

static void run(Example& ex, bool gin) {
  ncclWindow_t window;
  void* memory = windowNew(ex, (size_t)3 * 2 * ex.nRanks * (kBothCount + 1) * sizeof(unsigned), &window);
  BothArea area = {window, {}, gin, 0, 0};
  ncclDevResourceRequirements list;
  NCCLCHECK(ncclLLA2ACreateRequirement(3, ncclLLA2ACalcSlots(ex.nRanks, 4), &area.ll, &list));
  ncclDevCommRequirements reqs = noRequirements();
  reqs.resourceRequirementsList = &list;
  reqs.lsaBarrierCount = 3;
  if (gin) {
    reqs.railGinBarrierCount = 3;
    reqs.ginSignalCount = reqs.ginCounterCount = 3;
  }
  ncclDevComm devComm = devCommOf(ex, reqs);
  cudaStream_t beside;
  CUDACHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  Found* found = foundNew(ex);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  hostBarrier(ex);
  for (int round = 0; round < kRounds; round++) {
    area.round = round;
    area.part = 0;
    ((round / 3 + ex.rank) % 2 ? bothOurs : bothTheirs)(devComm, area, found, ex.stream);
  }
  foundReport(ex, found, gin ? "by turns, GIN" : "by turns, LSA");
  for (int round = 0; round < kRounds; round++) {
    area.round = round;
    area.part = 1;
    (ex.rank % 2 ? bothOurs : bothTheirs)(devComm, area, found, ex.stream);
    area.part = 2;
    (ex.rank % 2 ? bothTheirs : bothOurs)(devComm, area, found, beside);
  }
  finish(ex, beside);
  foundReport(ex, found, gin ? "side by side, GIN" : "side by side, LSA");
  CUDACHECK(cudaStreamDestroy(beside));
  devCommGone(ex, devComm);
  hostBarrier(ex);
  windowGone(ex, memory, window);
}

int test(Example& ex) {
  run(ex, false);
  if (ginHere(ex)) run(ex, true);
  ex.elementsChecked = 4 * kRounds * ex.nRanks;
  return twiceWrong != 0;
}
#endif
