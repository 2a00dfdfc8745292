// All-to-all with nothing but GIN: every rank puts one block to every rank, itself included, and waits until it has been
// given one by each. Two contexts share the peers.
#include "../common/example.h"

static const size_t kBlock = 2048; // elements for each pair of ranks
static const int kRounds = 3;      // the barrier lets a window be reused

// Two CTAs; CTA b uses context b and serves the peers congruent to b. Signal b counts what arrived through it.
__global__ void ginAllToAll(ncclDevComm devComm, ncclSymPtr<int> send, ncclSymPtr<int> recv, int rounds) {
  ncclTeam world = ncclTeamWorld(devComm);
  ncclGin gin(devComm, blockIdx.x);
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, blockIdx.x);
  ncclGinSignal_t signal = blockIdx.x;
  uint64_t expected = gin.readSignal(signal);
  for (int round = 0; round < rounds; round++) {
    // Nobody writes before everybody has read what the last round brought.
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int peer = blockIdx.x + gridDim.x * threadIdx.x; peer < world.nRanks; peer += gridDim.x * blockDim.x) {
      gin.put(world, peer, recv + world.rank * kBlock, send + peer * kBlock, kBlock, ncclGin_SignalInc{signal});
    }
    // A sender reaches us through the CTA that serves our rank: only that one waits.
    if (world.rank % gridDim.x == blockIdx.x) expected += world.nRanks;
    gin.waitSignal(ncclCoopCta(), signal, expected);
    gin.flush(ncclCoopCta());
  }
}

static int element(int from, int to, size_t i) { return from * 7919 + to * 104729 + (int)i; }

int runRank(Example& ex) {
  size_t count = kBlock * ex.nRanks;
  ncclWindow_t sendWindow, recvWindow;
  int* send = (int*)ex.allocWindow(count * sizeof(int), &sendWindow);
  int* recv = (int*)ex.allocWindow(count * sizeof(int), &recvWindow);
  std::vector<int> host(count);
  for (int to = 0; to < ex.nRanks; to++)
    for (size_t i = 0; i < kBlock; i++) host[to * kBlock + i] = element(ex.rank, to, i);
  CUDACHECK(cudaMemcpy(send, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 2;
  reqs.railGinBarrierCount = 2;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));

  ginAllToAll<<<2, 64, 0, ex.stream>>>(devComm, ncclSymPtr<int>(sendWindow), ncclSymPtr<int>(recvWindow), kRounds);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  CUDACHECK(cudaMemcpy(host.data(), recv, count * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int from = 0; from < ex.nRanks; from++)
    for (size_t i = 0; i < kBlock; i++) wrong |= host[from * kBlock + i] != element(from, ex.rank, i);
  ex.elementsChecked = count;
  ex.bytesMoved = count * sizeof(int) * kRounds;

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(recv, recvWindow);
  ex.freeWindow(send, sendWindow);
  return wrong;
}
