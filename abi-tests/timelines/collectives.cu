// Two collectives, a message to the next rank and one from the previous, and a mistake that is told: tests/timeline.rs looks for them.
#include <nccl.h>
#include <ginrs_bootstrap.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                              \
  do {                                                                           \
    int result = int(call);                                                      \
    if (result != 0) fprintf(stderr, "%s: %d\n", #call, result), exit(2); \
  } while (0)

int main() {
  ginrsBootstrap boot;
  ncclUniqueId id;
  CHECK(ginrsBootstrapInit(&boot));
  CHECK(ginrsBootstrapUniqueId(&boot, &id));
  CHECK(cudaSetDevice(boot.rank));
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, boot.nRanks, id, boot.rank));
  float *from, *to;
  const size_t count = 1 << 16;
  CHECK(cudaMalloc((void**)&from, count * sizeof(float)));
  CHECK(cudaMalloc((void**)&to, count * sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream));
  CHECK(ncclAllGather(from, to, count / boot.nRanks / 2, ncclFloat, comm, stream));
  CHECK(ncclGroupStart());
  CHECK(ncclSend(from, count, ncclFloat, (boot.rank + 1) % boot.nRanks, comm, stream));
  CHECK(ncclRecv(to, count, ncclFloat, (boot.rank + boot.nRanks - 1) % boot.nRanks, comm, stream));
  CHECK(ncclGroupEnd());
  CHECK(cudaStreamSynchronize(stream));
  CHECK(ncclBroadcast(from, to, count, ncclFloat, 0, nullptr, stream) != ncclInvalidArgument);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  CHECK(ncclCommDestroy(comm));
}
