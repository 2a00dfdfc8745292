// CUDA graphs: kernels that use a device communicator are captured, with calls of the library between begin and end, and
// replayed; first over LSA, then over GIN.
#include "twice.h"

static const int kReplays = 50, kCount = 512;

// Counts its runs; each run writes every peer's word and meets all.
__global__ void stores(ncclDevComm devComm, ncclWindow_t window, unsigned* runs, Found* found) {
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

// Each run puts a new vector into the right neighbour's window; the shadow remembers how many signals there were.
__global__ void puts(ncclDevComm devComm, ncclSymPtr<unsigned> send, ncclSymPtr<unsigned> recv, unsigned* runs, Found* found) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  int right = (world.rank + 1) % world.nRanks, left = (world.rank + world.nRanks - 1) % world.nRanks;
  unsigned run = *runs;
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) send.localPtr()[i] = run * 1000003u + world.rank * 1009u + i;
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagRail(), 0);
  gin.put(world, right, recv, send, kCount, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());
  if (threadIdx.x == 0) gin.increaseSignalShadow(0, 1);
  gin.waitSignalMeetShadow(ncclCoopCta(), 0);
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) {
    DEVICE_EXPECT(found, recv.localPtr()[i], run * 1000003u + left * 1009u + i);
  }
  gin.flush(ncclCoopCta());
  // All have looked: the next run may write.
  if (threadIdx.x == 0) gin.signal(world, left, ncclGin_SignalAdd{1, 3});
  gin.waitSignal(ncclCoopCta(), 1, 3ull * (run + 1));
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  if (threadIdx.x == 0) *runs = run + 1;
}

// Captures two launches with library calls beside them, and replays.
template <typename Launch>
static void replay(Example& ex, unsigned* runs, const char* what, Found* found, Launch launch) {
  CUDACHECK(cudaMemsetAsync(runs, 0, sizeof(unsigned), ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDACHECK(cudaStreamBeginCapture(ex.stream, cudaStreamCaptureModeThreadLocal));
  launch();
  // Whatever the library does for these calls must not end the capture.
  ncclTeam lsa = ncclTeamLsa(ex.comm);
  int count;
  NCCLCHECK(ncclCommCount(ex.comm, &count));
  TWICE_EXPECT(count, ex.nRanks);
  TWICE_EXPECT(lsa.nRanks <= ex.nRanks, 1);
  launch();
  CUDACHECK(cudaStreamEndCapture(ex.stream, &graph));
  CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
  hostBarrier(ex);
  for (int i = 0; i < kReplays; i++) CUDACHECK(cudaGraphLaunch(exec, ex.stream));
  foundReport(ex, found, what);
  unsigned ran;
  CUDACHECK(cudaMemcpyAsync(&ran, runs, sizeof ran, cudaMemcpyDeviceToHost, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  TWICE_EXPECT(ran, 2 * kReplays);
  // What a graph gives back may wait for kernels of ranks that share the GPU, and these for a copy that waits behind that.
  hostBarrier(ex);
  CUDACHECK(cudaGraphExecDestroy(exec));
  CUDACHECK(cudaGraphDestroy(graph));
}

int test(Example& ex) {
  ncclWindow_t window, sendWindow, recvWindow;
  void* memory = windowNew(ex, ex.nRanks * sizeof(unsigned), &window);
  void* send = windowNew(ex, kCount * sizeof(unsigned), &sendWindow);
  void* recv = windowNew(ex, kCount * sizeof(unsigned), &recvWindow);
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 1;
  ncclDevComm devComm = devCommOf(ex, reqs);
  unsigned* runs;
  CUDACHECK(cudaMalloc(&runs, sizeof(unsigned)));
  Found* found = foundNew(ex);
  replay(ex, runs, "stores", found, [&] { stores<<<1, 32, 0, ex.stream>>>(devComm, window, runs, found); });
  devCommGone(ex, devComm);
  ex.elementsChecked = 2 * kReplays * ex.nRanks;

  if (ginHere(ex)) {
    reqs = noRequirements();
    reqs.ginSignalCount = 2;
    reqs.railGinBarrierCount = 1;
    devComm = devCommOf(ex, reqs);
    found = foundNew(ex);
    replay(ex, runs, "puts", found, [&] {
      puts<<<1, 64, 0, ex.stream>>>(devComm, ncclSymPtr<unsigned>(sendWindow), ncclSymPtr<unsigned>(recvWindow), runs, found);
    });
    devCommGone(ex, devComm);
    ex.elementsChecked += 2 * kReplays * kCount;
    ex.bytesMoved = 2 * kReplays * kCount * sizeof(unsigned);
  }
  CUDACHECK(cudaFree(runs));
  windowGone(ex, recv, recvWindow);
  windowGone(ex, send, sendWindow);
  windowGone(ex, memory, window);
  return twiceWrong != 0;
}
