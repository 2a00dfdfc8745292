/* Plain C: a process per rank by fork, the id through a pipe, a token around a ring, then half of the ranks apart. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CUDA(call)                                                                              \
  do {                                                                                          \
    cudaError_t e_ = (call);                                                                    \
    if (e_ != cudaSuccess) {                                                                    \
      fprintf(stderr, "rank %d line %d: %s\n", rank, __LINE__, cudaGetErrorString(e_));         \
      return 1;                                                                                 \
    }                                                                                           \
  } while (0)
#define NCCL(call)                                                                              \
  do {                                                                                          \
    ncclResult_t r_ = (call);                                                                   \
    if (r_ != ncclSuccess) {                                                                    \
      fprintf(stderr, "rank %d line %d: %s (%s)\n", rank, __LINE__, ncclGetErrorString(r_), ncclGetLastError(NULL)); \
      return 1;                                                                                 \
    }                                                                                           \
  } while (0)

enum { COUNT = 3000 };

static int passRound(int rank, int ranks, ncclComm_t comm, cudaStream_t stream, double* token, double* arrived) {
  int step;
  for (step = 0; step < ranks; step++) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(token, COUNT, ncclDouble, (rank + 1) % ranks, comm, stream));
    NCCL(ncclRecv(arrived, COUNT, ncclDouble, (rank + ranks - 1) % ranks, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaMemcpyAsync(token, arrived, COUNT * sizeof(double), cudaMemcpyDeviceToDevice, stream));
  }
  return 0;
}

static int runRank(int rank, int ranks, ncclUniqueId id) {
  ncclComm_t world, half;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  cudaStream_t stream;
  double *token, *arrived, host[COUNT], sum = 0;
  int i, halfRank, halfRanks, device, wrong = 0;
  CUDA(cudaSetDevice(rank));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  config.commName = "ring";
  NCCL(ncclCommInitRankConfig(&world, ranks, id, rank, &config));
  CUDA(cudaMalloc((void**)&token, sizeof host));
  CUDA(cudaMalloc((void**)&arrived, sizeof host));
  for (i = 0; i < COUNT; i++) host[i] = rank * 10000.0 + i;
  CUDA(cudaMemcpy(token, host, sizeof host, cudaMemcpyHostToDevice));

  if (passRound(rank, ranks, world, stream, token, arrived) != 0) return 1;
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemcpy(host, token, sizeof host, cudaMemcpyDeviceToHost));
#ifdef PLANT
  host[7] += 1;
#endif
  for (i = 0; i < COUNT; i++) wrong += host[i] != rank * 10000.0 + i; /* once around: home again */

  NCCL(ncclCommSplit(world, rank % 2, ranks - rank, &half, NULL)); /* the key turns the order around */
  NCCL(ncclCommUserRank(half, &halfRank));
  NCCL(ncclCommCount(half, &halfRanks));
  NCCL(ncclCommCuDevice(half, &device));
  wrong += halfRanks != (ranks + 1 - rank % 2) / 2 || halfRank != halfRanks - 1 - rank / 2 || device != rank;
  NCCL(ncclAllReduce(token, arrived, COUNT, ncclDouble, ncclSum, half, stream));
  CUDA(cudaMemcpyAsync(host, arrived, sizeof host, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (i = rank % 2; i < ranks; i += 2) sum += i * 10000.0;
  for (i = 0; i < COUNT; i++) wrong += host[i] != sum + (double)halfRanks * i;

  NCCL(ncclCommFinalize(half));
  NCCL(ncclCommDestroy(half));
  NCCL(ncclCommDestroy(world));
  CUDA(cudaFree(token));
  CUDA(cudaFree(arrived));
  CUDA(cudaStreamDestroy(stream));
  if (wrong != 0) fprintf(stderr, "rank %d: %d wrong\n", rank, wrong);
  return wrong != 0;
}

int main(int argc, char** argv) {
  int ranks = argc > 1 ? atoi(argv[1]) : 2, (*ends)[2] = malloc(sizeof(int[2]) * ranks), r, status, failed = 0;
  ncclUniqueId id;
  for (r = 0; r < ranks; r++) {
    if (pipe(ends[r]) != 0) return perror("pipe"), 1;
    if (fork() == 0) {
      if (read(ends[r][0], &id, sizeof id) != sizeof id) _exit(1);
      status = runRank(r, ranks, id);
      fflush(NULL);
      _exit(status);
    }
  }
  if (ncclGetUniqueId(&id) != ncclSuccess) return fprintf(stderr, "%s\n", ncclGetLastError(NULL)), 1;
  for (r = 0; r < ranks; r++) failed |= write(ends[r][1], &id, sizeof id) != sizeof id;
  while (wait(&status) > 0) failed |= status != 0;
  free(ends);
  puts(failed ? "ring: WRONG" : "ring: ok");
  return failed;
}
