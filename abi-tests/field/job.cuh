// What the ranks of experts.cu, flags.cu, ptx.cu, shared.cu, practice.cu, phases.cu, pinned.cu and more.cu work on, and which of its cases such a program runs.
#pragma once
#include <nccl_device.h>
#include "../common/ranks.h"

static const int kThreads = 64, kRow = kThreads * sizeof(int);
static const size_t kBytes = 1 << 16;

// Zeroed, kBytes each: `memory` is the window's.
struct Buffers {
  ncclDevComm comm;
  ncclWindow_t window;
  int *memory, *local, *out;
  bool bug;
};

__device__ inline int* row(Buffers const& job, int number) { return job.memory + number * kThreads; }
__device__ inline int* rowOf(Buffers const& job, int peer, int number) { return static_cast<int*>(ncclGetLsaPointer(job.window, number * kRow, peer)); }
__device__ inline int next(Buffers const& job) { return (job.comm.rank + 1) % job.comm.nRanks; }
__device__ inline int before(Buffers const& job) { return (job.comm.rank + job.comm.nRanks - 1) % job.comm.nRanks; }

// Joins, and makes all but the device communicator.
static inline ncclComm_t join(Buffers& job, int rank, int device, int ranks, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  CHECK(ncclMemAlloc(&memory, kBytes));
  CHECK(cudaMemset(memory, 0, kBytes));
  job.memory = static_cast<int*>(memory);
  for (auto* at : {&job.local, &job.out}) {
    CHECK(cudaMalloc(at, kBytes));
    CHECK(cudaMemset(*at, 0, kBytes));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclCommWindowRegister(comm, memory, kBytes, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  return comm;
}

static int which;   // of the program's cases, the one that argv[1] names
static bool mended; // there is an argv[2]

// With `signals` of them, two counters and `barriers` for LSA.
static inline ncclDevCommRequirements requirements(int signals, int barriers) {
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = signals, needs.ginCounterCount = 2, needs.lsaBarrierCount = barriers, needs.ginForceEnable = true;
  return needs;
}

// Which of the cases argv[1] names; how many there are, and all of them with their ranks on stderr, if none.
template <typename Case, int N>
static int caseOf(Case const (&cases)[N], int argc, char** argv) {
  for (int i = 0; i < N && argc > 1; i++) {
    if (strcmp(argv[1], cases[i].name) == 0) return i;
  }
  for (auto const& it : cases) fprintf(stderr, "%s %d\n", it.name, it.ranks);
  return N;
}

// The main of a program: all ranks of that case.
template <typename Case, int N>
static int runCase(Case const (&cases)[N], int argc, char** argv, void (*runRank)(int rank, int device, int ranks, ncclUniqueId id)) {
  which = caseOf(cases, argc, argv);
  mended = argc > 2;
  return which == N ? 2 : runRanks(cases[which].ranks, runRank);
}
