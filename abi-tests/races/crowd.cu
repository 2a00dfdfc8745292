// Four ranks meet in a barrier that is relaxed, and each reads what its neighbour has written before: the report names the barrier, whichever of the
// ranks had come last.
#include "../../examples-c/common/example.h"

__global__ void stencil(ncclDevComm comm, ncclSymPtr<float> field, float* out, int n) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);  // Both run from here on.
  float* mine = field.localPtr();
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine[i] = comm.lsaRank + i;
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed);  // wait
  float* theirs = field.lsaPtr((comm.lsaRank + 1) % comm.lsaSize);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = theirs[i];  // race
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

int runRank(Example& ex) {
  int const n = 128;
  ncclWindow_t window;
  void* memory = ex.allocWindow(n * sizeof(float), &window);
  float* out;
  CUDACHECK(cudaMalloc(&out, n * sizeof(float)));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.lsaBarrierCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &needs, &devComm));
  stencil<<<1, 64, 0, ex.stream>>>(devComm, ncclSymPtr<float>(window), out, n);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(memory, window);
  CUDACHECK(cudaFree(out));
  return 0;
}
