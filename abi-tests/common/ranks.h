// The main of the planted programs: their ranks as threads of one process, or as processes of ginrs-run.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <ginrs_bootstrap.h>
#include <stdio.h>
#include <string.h>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

// Until the rank's kernels have ended, and says how, and whether they have found something wrong. Where the communicator has failed the program ends here.
static inline void awaitKernels(ncclComm_t comm, int rank, const int* wrong = nullptr) {
  cudaError_t error = cudaDeviceSynchronize();
  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(comm, &state));
  bool const failed = error || state;
  printf("rank %d: %s\n", rank, failed ? "ended" : wrong && *wrong ? "WRONG" : "ok"), fflush(stdout);
  if (failed) {
    CHECK(ncclCommAbort(comm));
    exitOnce(1);
  }
}

static ginrsBootstrap launched; // what the launcher says, for programs whose processes have more to tell each other

// `ranks` threads, or the one process that this is of a job.
static int runRanks(int ranks, void (*runRank)(int rank, int device, int ranks, ncclUniqueId id)) {
  ncclUniqueId id;
  CHECK(ginrsBootstrapInit(&launched));
  if (launched.nRanks > 1) {
    CHECK(ginrsBootstrapUniqueId(&launched, &id));
    runRank(launched.rank, launched.localRank, launched.nRanks, id);
    return 0;
  }
  CHECK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; rank++) threads.emplace_back(runRank, rank, rank, ranks, id);
  for (auto& thread : threads) thread.join();
  return 0;
}

// Which of the cases argv[1] names; how many there are, and all of them on stderr, if none.
template <int N>
static int whichOf(const char* const (&names)[N], int argc, char** argv) {
  for (int i = 0; i < N && argc > 1; i++) {
    if (strcmp(argv[1], names[i]) == 0) return i;
  }
  for (auto const& name : names) fprintf(stderr, "%s\n", name);
  return N;
}
