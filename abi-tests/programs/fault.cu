// Waits must end: FAULT=kill: the last rank is killed while the others wait for it in kernels; FAULT=abort: rank 0 aborts;
// FAULT=barrier, FAULT=lsa, FAULT=ll: the same death, seen from other waits. Survivors print what the library told them.
#include <signal.h>
#include <unistd.h>

#include "../../examples-c/common/example.h"
#include "../common/said.h"

__global__ void waitFor(ncclDevComm devComm, ncclLLA2AHandle ll, int what) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  if (what == 0) {
    gin.waitSignal(ncclCoopCta(), 0, 1000000);
    gin.waitSignal(ncclCoopCta(), 0, 2000000); // later waits return at once
  } else if (what == 1) {
    ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, blockIdx.x);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  } else if (what == 2) {
    ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  } else {
    ncclLLA2ASession<ncclCoopCta> a2a(ncclCoopCta(), devComm, ncclTeamLsa(devComm), ll, blockIdx.x, world.nRanks);
    if (threadIdx.x == 0) a2a.recv<int>((world.rank + world.nRanks - 1) % world.nRanks);
    __syncthreads();
  }
}

int runRank(Example& ex) {
  const char* fault = getenv("FAULT");
  if (!fault) fault = "kill";
  int what = !strcmp(fault, "barrier") ? 1 : !strcmp(fault, "lsa") ? 2 : !strcmp(fault, "ll") ? 3 : 0;
  ncclLLA2AHandle ll;
  ncclDevResourceRequirements resource;
  NCCLCHECK(ncclLLA2ACreateRequirement(2, ncclLLA2ACalcSlots(ex.nRanks, sizeof(int)), &ll, &resource));
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.resourceRequirementsList = &resource;
  reqs.barrierCount = 2;
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  bool victim = ex.rank == ex.nRanks - 1;
  if (victim && strcmp(fault, "abort") != 0) {
    usleep(200000);
    raise(SIGKILL);
  }
  waitFor<<<1, 64, 0, ex.stream>>>(devComm, ll, what);
  CUDACHECK(cudaGetLastError());
  if (!strcmp(fault, "abort") && ex.rank == 0) {
    usleep(200000);
    timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    ncclResult_t result = ncclCommAbort(ex.comm);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("rank 0 aborted: %s in %.1f ms\n", ncclGetErrorString(result), (t1.tv_sec - t0.tv_sec) * 1e3 + (t1.tv_nsec - t0.tv_nsec) / 1e6);
  }
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  ncclResult_t state = ncclSuccess;
  if (!(ex.rank == 0 && !strcmp(fault, "abort"))) {
    NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
    printf("rank %d released: %s: %s\n", ex.rank, ncclGetErrorString(state), ncclGetLastError(ex.comm));
    ncclCommAbort(ex.comm);
  }
  fflush(stdout);
  waitUntilAllHaveSaid(ex.rank, ex.nRanks, ex.nRanks - (strcmp(fault, "abort") != 0));
  _exit(state == ncclRemoteError || (ex.rank == 0 && !strcmp(fault, "abort")) ? 0 : 3);
}
