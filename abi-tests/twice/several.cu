// Several communicators at a time, each with several device communicators and a window: their kernels run side by side, and
// the last of them still works after the others have gone.
#include "twice.h"

static const int kComms = 3, kDevComms = 2, kRounds = 100;

__global__ void meet(ncclDevComm devComm, ncclWindow_t window, int base, Found* found) {
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

// Rank 0's bytes.
__global__ void fetch(ncclWindow_t window, char* into, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) into[i] = ((const char*)ncclGetLsaPointer(window, 0, 0))[i];
}

int runRank(Example& ex) {
  // The other ids travel over the first communicator's window: rank 0 stores them into all.
  ncclUniqueId ids[kComms];
  ncclWindow_t carrier;
  void* memory = ex.allocWindow(sizeof ids, &carrier);
  if (ex.rank == 0) {
    for (ncclUniqueId& id : ids) NCCLCHECK(ncclGetUniqueId(&id));
    CUDACHECK(cudaMemcpy(memory, ids, sizeof ids, cudaMemcpyHostToDevice));
  }
  ncclDevComm first = devCommOf(ex, noRequirements());  // ends with a barrier: the ids are there
  char* local;
  CUDACHECK(cudaMalloc(&local, sizeof ids));
  fetch<<<1, 128, 0, ex.stream>>>(carrier, local, (int)sizeof ids);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaMemcpy(ids, local, sizeof ids, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(local));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &first));

  ncclComm_t comms[kComms];
  ncclWindow_t windows[kComms];
  void* data[kComms];
  ncclDevComm devComms[kComms][kDevComms];
  cudaStream_t streams[kComms][kDevComms];
  for (int c = 0; c < kComms; c++) {
    NCCLCHECK(ncclCommInitRank(&comms[c], ex.nRanks, ids[c], ex.rank));
    Example other = ex;
    other.comm = comms[c];
    data[c] = other.allocWindow(8 * ex.nRanks * sizeof(int), &windows[c]);
    for (int d = 0; d < kDevComms; d++) {
      ncclDevCommRequirements reqs = noRequirements();
      reqs.lsaBarrierCount = 2 + d;
      devComms[c][d] = devCommOf(other, reqs);
      CUDACHECK(cudaStreamCreateWithFlags(&streams[c][d], cudaStreamNonBlocking));
    }
  }
  Found* found = foundNew();
  for (int c = 0; c < kComms; c++) {
    for (int d = 0; d < kDevComms; d++) meet<<<2, 32, 0, streams[c][d]>>>(devComms[c][d], windows[c], 2 * d, found);
  }
  for (int c = 0; c < kComms; c++) {
    for (int d = 0; d < kDevComms; d++) CUDACHECK(cudaStreamSynchronize(streams[c][d]));
  }
  foundReport(ex, found, "side by side");
  for (int c = 0; c < kComms; c++) {
    if (c == kComms - 1) {
      found = foundNew();
      meet<<<2, 32, 0, ex.stream>>>(devComms[c][0], windows[c], 0, found);
      foundReport(ex, found, "the last of them");
    }
    for (int d = 0; d < kDevComms; d++) {
      CUDACHECK(cudaStreamDestroy(streams[c][d]));
      NCCLCHECK(ncclDevCommDestroy(comms[c], &devComms[c][d]));
    }
    NCCLCHECK(ncclCommWindowDeregister(comms[c], windows[c]));
    NCCLCHECK(ncclMemFree(data[c]));
    NCCLCHECK(ncclCommFinalize(comms[c]));
    NCCLCHECK(ncclCommDestroy(comms[c]));
  }
  ex.freeWindow(memory, carrier);
  ex.elementsChecked = (size_t)kComms * kDevComms * 2 * kRounds * ex.nRanks;
  return twiceWrong != 0;
}
