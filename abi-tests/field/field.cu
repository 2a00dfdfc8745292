// Programs of the field, each with the mistakes that people make in them, and mended: `field CASE`, `field CASE mended`; ranks as threads of one
// process, or as processes of ginrs-run. Every rank checks what came. tests/field.rs runs them under `ginrs-run --check` and finds the lines that
// have to be named ("bug of: CASE") by their marks.
#include <nccl.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common/ranks.h"
#include "kernels.cuh"

static int which, mended;

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  int const bug = mended ? -1 : which;
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void *memory, *more;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, kBytes));
  CHECK(cudaMemset(memory, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  job.memory = static_cast<int*>(memory);
  CHECK(ncclCommWindowRegister(comm, memory, kBytes, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(ncclMemAlloc(&more, kBytes));
  CHECK(ncclCommWindowRegister(comm, more, kBytes, &job.second, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(cudaMallocManaged(&job.wrong, sizeof(int)));
  *job.wrong = 0;
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  ncclDevResourceRequirements list = {};
  CHECK(ncclLLA2ACreateRequirement(2, ranks, &job.ll, &list));
  needs.resourceRequirementsList = &list;
  needs.ginSignalCount = bug == HOST_NEEDS && rank == 1 ? 8 : 16;
  needs.ginCounterCount = 4, needs.lsaBarrierCount = 2, needs.barrierCount = 2, needs.railGinBarrierCount = 2;
  job.program = which;
  needs.ginForceEnable = bug != HOST_GIN;
  if (bug == HOST_GIN) needs.ginSignalCount = 0, needs.ginCounterCount = 0, needs.barrierCount = 0, needs.railGinBarrierCount = 0;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));  // bug of: host-needs
  if (bug == HOST_GONE) CHECK(ncclCommWindowDeregister(comm, job.second));
  if (which <= HALO_SOURCE) {
    halo<<<1, kThreads>>>(job, bug);
  } else if (which <= MOE_COMBINE) {
    moe<<<1, kThreads>>>(job, bug);
  } else if (which <= GATHER_END) {
    for (job.launch = 0; job.launch < 2; job.launch++) gather<<<1, kThreads>>>(job, bug);
  } else if (which <= REDUCE_OFFSET) {
    reduce<<<2, kThreads>>>(job, bug);
  } else if (which <= PIPE_TAIL) {
    pipe<<<1, kThreads>>>(job, bug);
  } else if (which <= SCATTER_SIGNAL) {
    scatter<<<1, kThreads>>>(job, bug);
  } else if (which <= LL_BLOCK) {
    ll<<<2, kThreads>>>(job, bug);
  } else if (bug == HOST_DESTROYED) {
    ncclDevComm copy = job.comm;
    CHECK(ncclDevCommDestroy(comm, &copy));
    simple<<<1, kThreads>>>(job, bug);
  } else if (which == HOST_STALE) {
    for (job.launch = 0; job.launch < 3; job.launch++) simple<<<1, kThreads>>>(job, bug);
  } else if (which >= SYNC_WARPS) {
    sync<<<2, kThreads>>>(job, bug);
  } else {
    simple<<<1, kThreads>>>(job, bug);
  }
  int early = bug == HOST_READ ? *job.memory : 0;  // bug of: host-read
  if (bug == HOST_READ) printf("%d\n", early);
  awaitKernels(comm, rank, job.wrong);
  if (bug != HOST_DESTROYED) CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
  if (*job.wrong) exitOnce(1);
}

int main(int argc, char** argv) {
  for (which = 0; which < CASES && (argc < 2 || strcmp(argv[1], names[which].name) != 0);) which++;
  if (which == CASES) {
    for (auto const& name : names) fprintf(stderr, "%s %d %s\n", name.name, name.ranks, name.nodes ? name.nodes : "");
    return 2;
  }
  mended = argc > 2;
  if (names[which].nodes) setenv("GINRS_FAKE_NODES", names[which].nodes, 1);
  return runRanks(names[which].ranks, runRank);
}
