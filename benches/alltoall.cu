// An all-to-all by GIN between ranks of which each waits for all others in every round, with more blocks than the machine has
// cores: what counts is how soon a rank that waits gives its core to one that could end the wait. The same program as processes and
// as threads of one process (scripts/bench.sh prints the ratio): hosts that spin starve each other only as processes.
#include <sched.h>

#include <chrono>

#include "../examples-c/common/example.h"

static const int kBlocks = 16, kThreads = 512, kRounds = 20, kRepeats = 5;
static const size_t kBytes = 8192;

__global__ void allToAll(ncclDevComm devComm, ncclWindow_t window, int rounds) {
  ncclTeam world = ncclTeamWorld(devComm);
  ncclGin gin(devComm, blockIdx.x);
  ncclGinSignal_t signal = blockIdx.x;
  uint64_t expected = gin.readSignal(signal);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, blockIdx.x);
  for (int round = 0; round < rounds; round++) {
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x) {
      size_t at = (size_t)(blockIdx.x * world.nRanks) * kBytes;
      gin.put(world, peer, window, (gridDim.x + blockIdx.x) * world.nRanks * kBytes + world.rank * kBytes, window, at + peer * kBytes, kBytes,
              ncclGin_SignalInc{signal});
    }
    expected += world.nRanks;
    gin.waitSignal(ncclCoopCta(), signal, expected);
    gin.flush(ncclCoopCta());
  }
}

int runRank(Example& ex) {
  ncclWindow_t window;
  void* memory = ex.allocWindow(2 * kBlocks * ex.nRanks * kBytes, &window);
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = kBlocks;
  reqs.railGinBarrierCount = kBlocks;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  // All of the time counts: ranks that starve each other do it now and then, for seconds.
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; i++) {
    allToAll<<<kBlocks, kThreads, 0, ex.stream>>>(devComm, window, kRounds);
    // As nccl-tests waits: the host polls, too.
    ncclResult_t state = ncclSuccess;
    while (cudaStreamQuery(ex.stream) == cudaErrorNotReady) {
      NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
      sched_yield();
    }
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  double all = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (ex.rank == 0) printf("%.1f us a round of an all-to-all by GIN, %d ranks\n", all / kRounds / kRepeats, ex.nRanks);
  ex.elementsChecked = kRounds * kRepeats;
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(memory, window);
  return 0;
}
