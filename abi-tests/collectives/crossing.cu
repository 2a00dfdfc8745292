// Calls on several communicators, each on a stream of its own, which even ranks launch in one order and odd ranks in the other: every
// device's first launch waits for the last one of the others, so a device must have room for all of them at the same time.
//
//   GINRS_CPU_RESIDENT=16 ginrs-run -n 2 ./crossing     also ./crossing --threads 4; COMMS=n: how many communicators (4)
#include "../../examples-c/common/example.h"

static const size_t kBytes = 1 << 20;  // more than any way takes at once
static const int kMost = 8;

struct Side {
  ncclComm_t comm;
  cudaStream_t stream;
  char *send, *recv;
};

// One call that takes as many blocks as any, or one group of sends and receives.
static ncclResult_t launch(const Example& ex, const Side& side, int what) {
  size_t each = kBytes / ex.nRanks / sizeof(int);
  int *send = (int*)side.send, *recv = (int*)side.recv;
  switch (what) {
    case 0: return ncclAllReduce(send, recv, kBytes / sizeof(int), ncclInt, ncclSum, side.comm, side.stream);
    case 1: return ncclAllReduce(send, recv, 1000, ncclInt, ncclSum, side.comm, side.stream);
    case 2: return ncclAlltoAll(send, recv, each, ncclInt, side.comm, side.stream);
    case 3: return ncclReduceScatter(send, recv, each, ncclInt, ncclSum, side.comm, side.stream);
    default: break;
  }
  NCCLCHECK(ncclGroupStart());
  for (int peer = 0; peer < ex.nRanks; peer++) {
    NCCLCHECK(ncclSend(send + peer * each, each, ncclInt, peer, side.comm, side.stream));
    NCCLCHECK(ncclRecv(recv + peer * each, each, ncclInt, peer, side.comm, side.stream));
  }
  return ncclGroupEnd();
}

// Every input is rank + 1 in all places.
static int expected(const Example& ex, int what, size_t i) {
  size_t each = kBytes / ex.nRanks / sizeof(int);
  bool sums = what == 0 || what == 1 || what == 3;
  return sums ? ex.nRanks * (ex.nRanks + 1) / 2 : (int)(i / each) + 1;
}

static size_t results(const Example& ex, int what) {
  if (what == 0) return kBytes / sizeof(int);
  if (what == 1) return 1000;
  size_t each = kBytes / ex.nRanks / sizeof(int);
  return what == 3 ? each : each * ex.nRanks;
}

int runRank(Example& ex) {
  const char* text = getenv("COMMS");
  int comms = text ? atoi(text) : 4, wrong = 0;
  if (comms < 1 || comms > kMost) comms = kMost;
  Side sides[kMost];
  std::vector<int> host(kBytes / sizeof(int), ex.rank + 1);
  for (int c = 0; c < comms; c++) {
    Side& side = sides[c];
    NCCLCHECK(ncclCommSplit(ex.comm, 0, ex.rank, &side.comm, NULL));
    CUDACHECK(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking));
    CUDACHECK(cudaMalloc(&side.send, kBytes));
    CUDACHECK(cudaMalloc(&side.recv, kBytes));
    CUDACHECK(cudaMemcpy(side.send, host.data(), kBytes, cudaMemcpyHostToDevice));
  }
  for (int what = 0; what < 5; what++) {
    for (int c = 0; c < comms; c++) CUDACHECK(cudaMemset(sides[c].recv, 0, kBytes));
    CUDACHECK(cudaDeviceSynchronize());
    for (int i = 0; i < comms; i++) NCCLCHECK(launch(ex, sides[ex.rank % 2 ? comms - 1 - i : i], what));
    for (int c = 0; c < comms; c++) {
      CUDACHECK(cudaStreamSynchronize(sides[c].stream));
      CUDACHECK(cudaMemcpy(host.data(), sides[c].recv, kBytes, cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < results(ex, what); i++) wrong += host[i] != expected(ex, what, i);
      ex.elementsChecked += results(ex, what);
    }
    if (wrong) fprintf(stderr, "rank %d: %d elements of call %d are wrong\n", ex.rank, wrong, what);
  }
  for (int c = 0; c < comms; c++) {
    NCCLCHECK(ncclCommDestroy(sides[c].comm));
    CUDACHECK(cudaStreamDestroy(sides[c].stream));
    CUDACHECK(cudaFree(sides[c].send));
    CUDACHECK(cudaFree(sides[c].recv));
  }
  return wrong != 0;
}
