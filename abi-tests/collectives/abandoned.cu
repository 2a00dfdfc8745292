// What a large call that is aborted still does: the last rank has not come, rank 0 aborts, and no rank goes through the rest of its slices. Counted by
// what it writes into a receive buffer, of what others would have sent.
#include <unistd.h>

#include "../../examples-c/common/example.h"

static const size_t kPart = 8 << 20;
static const unsigned char kBefore = 0x5a;
static const char* const kKinds[] = {"AllReduce", "Reduce", "ReduceScatter", "AllGather", "Broadcast", "AlltoAll", "Gather", "Scatter", "Recv"};

// Receives `bytes`, of which the rank's own are `own` from `*ownAt` on.
static ncclResult_t call(int kind, Example& ex, ncclComm_t comm, char* send, char* recv, size_t* bytes, size_t* ownAt, size_t* own) {
  int last = ex.nRanks - 1;
  bool ofEach = kind == 3 || kind == 5 || kind == 6;
  *bytes = ofEach ? ex.nRanks * kPart : kPart;
  *ownAt = ofEach ? ex.rank * kPart : 0;
  *own = ofEach ? kPart : 0;
  switch (kind) {
    case 0: return ncclAllReduce(send, recv, kPart / 4, ncclFloat, ncclSum, comm, ex.stream);
    case 1: return ncclReduce(send, recv, kPart / 4, ncclFloat, ncclSum, 0, comm, ex.stream);
    case 2: return ncclReduceScatter(send, recv, kPart / 4, ncclFloat, ncclSum, comm, ex.stream);
    case 3: return ncclAllGather(send, recv, kPart, ncclUint8, comm, ex.stream);
    case 4: return ncclBroadcast(send, recv, kPart, ncclUint8, last, comm, ex.stream);
    case 5: return ncclAlltoAll(send, recv, kPart, ncclUint8, comm, ex.stream);
    case 6: return ncclGather(send, recv, kPart, ncclUint8, 0, comm, ex.stream);
    case 7: return ncclScatter(send, recv, kPart, ncclUint8, last, comm, ex.stream);
    default: return ncclRecv(recv, kPart, ncclUint8, last, comm, ex.stream);
  }
}

int runRank(Example& ex) {
  char *send, *recv;
  CUDACHECK(cudaMalloc(&send, ex.nRanks * kPart));
  CUDACHECK(cudaMalloc(&recv, ex.nRanks * kPart));
  CUDACHECK(cudaMemset(send, 0, ex.nRanks * kPart));
  std::vector<unsigned char> found(ex.nRanks * kPart);
  int failed = 0;
  for (int kind = 0; kind < int(sizeof kKinds / sizeof *kKinds); kind++) {
    ncclComm_t child;
    NCCLCHECK(ncclCommSplit(ex.comm, 0, ex.rank, &child, NULL));
    NCCLCHECK(ncclAllReduce(send, send, 1, ncclFloat, ncclSum, child, ex.stream));
    CUDACHECK(cudaMemset(recv, kBefore, ex.nRanks * kPart));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    size_t bytes = 0, ownAt = 0, own = 0, written = 0;
    bool takesPart = ex.rank != ex.nRanks - 1;
    if (takesPart) NCCLCHECK(call(kind, ex, child, send, recv, &bytes, &ownAt, &own));
    if (ex.rank == 0) {
      usleep(100000);
      NCCLCHECK(ncclCommAbort(child));
      cudaStreamSynchronize(ex.stream);
    } else {
      cudaStreamSynchronize(ex.stream);
      ncclResult_t state = ncclSuccess;
      while (state == ncclSuccess) NCCLCHECK(ncclCommGetAsyncError(child, &state));
      NCCLCHECK(ncclCommAbort(child));
    }
    cudaMemcpy(found.data(), recv, bytes, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < bytes; i++) written += (i < ownAt || i >= ownAt + own) && found[i] != kBefore;
    // The slices that it was at: two blocks, each with those of two machines and two ranks.
    if (written > kPart / 4) {
      printf("rank %d went on with its %s: %zu bytes\n", ex.rank, kKinds[kind], written);
      failed = 1;
    }
    ex.elementsChecked += bytes - own;
    NCCLCHECK(ncclAllReduce(send, send, 1, ncclFloat, ncclSum, ex.comm, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  CUDACHECK(cudaFree(send));
  CUDACHECK(cudaFree(recv));
  return failed;
}
