// All-gather around a ring: in each of nRanks-1 steps a rank passes one block to its right neighbour and waits for one
// from its left. Every hop is a put with a signal.
#include "../common/example.h"

static const size_t kBlock = 4096; // elements per rank

// One CTA. Signal 0 counts the blocks that arrived from the left.
__global__ void ringAllGather(ncclDevComm devComm, ncclSymPtr<int> blocks) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  int n = world.nRanks, right = (world.rank + 1) % n;
  // Signals count up for the life of the device communicator: wait for what comes on top. The barrier keeps the left
  // neighbour from sending before we have looked.
  uint64_t before = gin.readSignal(0);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  for (int step = 0; step < n - 1; step++) {
    int passed = (world.rank - step + n) % n; // the block that arrived in the last step; our own in the first
    gin.put(world, right, blocks + passed * kBlock, blocks + passed * kBlock, kBlock, ncclGin_SignalInc{0}, ncclGin_None{},
            ncclCoopCta());
    gin.waitSignal(ncclCoopCta(), 0, before + step + 1);
  }
  gin.flush(ncclCoopCta());
}

static int element(int rank, size_t i) { return rank * 1000003 + (int)i; }

int runRank(Example& ex) {
  size_t count = kBlock * ex.nRanks;
  ncclWindow_t window;
  int* blocks = (int*)ex.allocWindow(count * sizeof(int), &window);
  std::vector<int> host(kBlock);
  for (size_t i = 0; i < kBlock; i++) host[i] = element(ex.rank, i);
  CUDACHECK(cudaMemcpy(blocks + kBlock * ex.rank, host.data(), kBlock * sizeof(int), cudaMemcpyHostToDevice));

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  reqs.railGinBarrierCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));

  ringAllGather<<<1, 128, 0, ex.stream>>>(devComm, ncclSymPtr<int>(window));
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  host.resize(count);
  CUDACHECK(cudaMemcpy(host.data(), blocks, count * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int r = 0; r < ex.nRanks; r++)
    for (size_t i = 0; i < kBlock; i++) wrong |= host[r * kBlock + i] != element(r, i);
  ex.elementsChecked = count;
  ex.bytesMoved = kBlock * sizeof(int) * (ex.nRanks - 1);

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(blocks, window);
  return wrong;
}
