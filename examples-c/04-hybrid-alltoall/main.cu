// All-to-all across nodes: ranks of the same node are written to with plain stores (LSA), the others through GIN.
// One barrier spans both.
#include "../common/example.h"

static const size_t kBlock = 2048; // elements for each pair of ranks

__global__ void hybridAllToAll(ncclDevComm devComm, ncclSymPtr<int> send, ncclSymPtr<int> recv) {
  ncclTeam world = ncclTeamWorld(devComm), lsa = ncclTeamLsa(devComm);
  ncclGin gin(devComm, 0);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);
  uint64_t before = gin.readSignal(0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);

  int firstLsa = world.rank - lsa.rank, remote = 0;
  for (int peer = 0; peer < world.nRanks; peer++) {
    bool near = peer >= firstLsa && peer < firstLsa + lsa.nRanks;
    if (near) {
      const int* from = send.localPtr() + peer * kBlock;
      int* to = recv.peerPtr(world, peer) + world.rank * kBlock;
      for (size_t i = threadIdx.x; i < kBlock; i += blockDim.x) to[i] = from[i];
    } else {
      gin.put(world, peer, recv + world.rank * kBlock, send + peer * kBlock, kBlock, ncclGin_SignalInc{0}, ncclGin_None{},
              ncclCoopCta());
      remote++;
    }
  }
  // What came through GIN is announced by the signal, what came by stores by the barrier.
  gin.waitSignal(ncclCoopCta(), 0, before + remote);
  gin.flush(ncclCoopCta());
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}

static int element(int from, int to, size_t i) { return from * 65537 - to * 257 + (int)i; }

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
  reqs.barrierCount = 1;
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  if (ex.rank == 0) printf("%d ranks, %d to a node\n", devComm.nRanks, devComm.lsaSize);

  hybridAllToAll<<<1, 256, 0, ex.stream>>>(devComm, ncclSymPtr<int>(sendWindow), ncclSymPtr<int>(recvWindow));
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  CUDACHECK(cudaMemcpy(host.data(), recv, count * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int from = 0; from < ex.nRanks; from++)
    for (size_t i = 0; i < kBlock; i++) wrong |= host[from * kBlock + i] != element(from, ex.rank, i);
  ex.elementsChecked = count;
  ex.bytesMoved = count * sizeof(int);

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(recv, recvWindow);
  ex.freeWindow(send, sendWindow);
  return wrong;
}
