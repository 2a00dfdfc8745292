// One thread drives all ranks: ncclCommInitAll, then registration and device communicators inside groups.
// group [RANKS]
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define OK(call)                                                                      \
  do {                                                                                \
    int result_ = (int)(call);                                                        \
    if (result_ != 0) {                                                               \
      fprintf(stderr, "group.cu:%d: %s: %d: %s\n", __LINE__, #call, result_, ncclGetLastError(NULL)); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

__global__ void exchange(ncclDevComm devComm, ncclSymPtr<int> data, int value) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x)
    gin.putValue(world, peer, data + world.rank, value + world.rank * 10 + peer, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopCta(), 0, world.nRanks);
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, 0};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4, devices;
  OK(cudaGetDeviceCount(&devices));
  if (devices < n) { fprintf(stderr, "%d devices for %d ranks\n", devices, n); return 1; }
  std::vector<ncclComm_t> comms(n);
  OK(ncclCommInitAll(comms.data(), n, NULL));
  std::vector<void*> memory(n);
  std::vector<ncclWindow_t> windows(n);
  std::vector<ncclDevComm> devComms(n);
  std::vector<cudaStream_t> streams(n);
  for (int r = 0; r < n; r++) {
    OK(cudaSetDevice(r));
    OK(cudaStreamCreate(&streams[r]));
    OK(ncclMemAlloc(&memory[r], n * sizeof(int)));
  }
  // Children: all ranks split in one group, even and odd ones, in reverse order.
  std::vector<ncclComm_t> halves(n);
  OK(ncclGroupStart());
  for (int r = 0; r < n; r++) OK(ncclCommSplit(comms[r], r % 2, -r, &halves[r], NULL));
  OK(ncclGroupEnd());
  int misplaced = 0;
  for (int r = 0; r < n; r++) {
    int size, place;
    OK(ncclCommCount(halves[r], &size));
    OK(ncclCommUserRank(halves[r], &place));
    misplaced += size != (n + 1 - r % 2) / 2 || place != size - 1 - r / 2;
  }
  for (int r = 0; r < n; r++) OK(ncclCommDestroy(halves[r]));
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaBarrierCount = 1;
  reqs.ginSignalCount = 1;
  OK(ncclGroupStart());
  for (int r = 0; r < n; r++) {
    OK(ncclCommWindowRegister(comms[r], memory[r], n * sizeof(int), &windows[r], NCCL_WIN_COLL_SYMMETRIC));
    OK(ncclDevCommCreate(comms[r], &reqs, &devComms[r]));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < n; r++) {
    OK(cudaSetDevice(r));
    exchange<<<1, 32, 0, streams[r]>>>(devComms[r], ncclSymPtr<int>(windows[r]), 1000);
    OK(cudaGetLastError());
  }
  int wrong = misplaced;
  for (int r = 0; r < n; r++) {
    OK(cudaSetDevice(r));
    OK(cudaStreamSynchronize(streams[r]));
    std::vector<int> got(n);
    OK(cudaMemcpy(got.data(), memory[r], n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int from = 0; from < n; from++) wrong += got[from] != 1000 + from * 10 + r;
  }
  for (int r = 0; r < n; r++) {
    OK(ncclDevCommDestroy(comms[r], &devComms[r]));
    OK(ncclCommWindowDeregister(comms[r], windows[r]));
    OK(ncclMemFree(memory[r]));
  }
  OK(ncclGroupStart());
  for (int r = 0; r < n; r++) OK(ncclCommFinalize(comms[r]));
  OK(ncclGroupEnd());
  for (int r = 0; r < n; r++) OK(ncclCommDestroy(comms[r]));
  printf("group of %d: %s\n", n, wrong ? "WRONG" : "ok");
  return wrong != 0;
}
