// Each rank stores its row into its neighbour's window; TOO_FAR: one element too far, behind what was registered, where the mapping goes on.
// tests/races.rs compiles it with --check=race.
#include "../../examples-c/common/example.h"

__global__ void shift(ncclDevComm comm, ncclSymPtr<int> row, int n, int too) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  int* theirs = row.lsaPtr((comm.lsaRank + 1) % comm.lsaSize);
  for (int i = threadIdx.x; i < n; i += blockDim.x) theirs[i + too] = i;  // behind
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

int runRank(Example& ex) {
  int const n = 256, too = getenv("TOO_FAR") ? 1 : 0;
  ncclWindow_t window;
  void* memory = ex.allocWindow(n * sizeof(int), &window);
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.lsaBarrierCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &needs, &devComm));
  shift<<<1, 64, 0, ex.stream>>>(devComm, ncclSymPtr<int>(window), n, too);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(memory, window);
  return 0;
}
