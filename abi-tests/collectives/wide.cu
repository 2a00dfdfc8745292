// More ranks than a launch has places for: several all-gathers in a group, which go side by side, and all of them are made.
#include "../common/ranks.h"

static const int kRanks = 40, kCalls = 4;

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  CHECK(cudaSetDevice(device));
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  int *in, *out;
  CHECK(cudaMallocManaged(&in, kCalls * sizeof *in));
  CHECK(cudaMallocManaged(&out, kCalls * ranks * sizeof *out));
  for (int call = 0; call < kCalls; call++) in[call] = 100 * call + rank;
  memset(out, -1, kCalls * ranks * sizeof *out);
  CHECK(ncclGroupStart());
  for (int call = 0; call < kCalls; call++) CHECK(ncclAllGather(in + call, out + call * ranks, 1, ncclInt, comm, nullptr));
  CHECK(ncclGroupEnd());
  CHECK(cudaStreamSynchronize(nullptr));
  int wrong = 0;
  for (int call = 0; call < kCalls; call++) {
    for (int peer = 0; peer < ranks; peer++) wrong += out[call * ranks + peer] != 100 * call + peer;
  }
  awaitKernels(comm, rank, &wrong);
  CHECK(ncclCommDestroy(comm));
}

int main() { return runRanks(kRanks, runRank); }
