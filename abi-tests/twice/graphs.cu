// CUDA graphs: a kernel that uses a device communicator is captured, with calls of the library between begin and end, and
// replayed.
#include "twice.h"

static const int kReplays = 50;

// Counts its runs; each run adds to every peer's word and meets all.
__global__ void step(ncclDevComm devComm, ncclWindow_t window, unsigned* runs, Found* found) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, 0};
  unsigned run = *runs;
  __syncthreads();
  int peer = threadIdx.x;
  if (peer < devComm.lsaSize) {
    unsigned* there = (unsigned*)ncclGetLsaPointer(window, 0, peer);
    there[devComm.lsaRank] = run * 10 + devComm.lsaRank;
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (peer < devComm.lsaSize) {
    volatile unsigned* mine = (volatile unsigned*)ncclGetLocalPointer(window, 0);
    DEVICE_EXPECT(found, mine[peer], run * 10 + peer);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (peer == 0) *runs = run + 1;
}

int runRank(Example& ex) {
  ncclWindow_t window;
  void* memory = ex.allocWindow(ex.nRanks * sizeof(unsigned), &window);
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 1;
  ncclDevComm devComm = devCommOf(ex, reqs);
  unsigned* runs;
  CUDACHECK(cudaMalloc(&runs, sizeof(unsigned)));
  CUDACHECK(cudaMemset(runs, 0, sizeof(unsigned)));
  Found* found = foundNew();

  // Whatever the library does for these calls must not end the capture.
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDACHECK(cudaStreamBeginCapture(ex.stream, cudaStreamCaptureModeThreadLocal));
  step<<<1, 32, 0, ex.stream>>>(devComm, window, runs, found);
  ncclTeam lsa = ncclTeamLsa(ex.comm);
  int count;
  NCCLCHECK(ncclCommCount(ex.comm, &count));
  TWICE_EXPECT(count, ex.nRanks);
  TWICE_EXPECT(lsa.nRanks, devComm.lsaSize);
  step<<<1, 32, 0, ex.stream>>>(devComm, window, runs, found);
  CUDACHECK(cudaStreamEndCapture(ex.stream, &graph));
  CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < kReplays; i++) CUDACHECK(cudaGraphLaunch(exec, ex.stream));
  foundReport(ex, found, "replays");
  unsigned ran;
  CUDACHECK(cudaMemcpy(&ran, runs, sizeof ran, cudaMemcpyDeviceToHost));
  TWICE_EXPECT(ran, 2 * kReplays);

  CUDACHECK(cudaGraphExecDestroy(exec));
  CUDACHECK(cudaGraphDestroy(graph));
  CUDACHECK(cudaFree(runs));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(memory, window);
  ex.elementsChecked = 2 * kReplays * ex.nRanks;
  return twiceWrong != 0;
}
