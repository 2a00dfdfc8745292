// All-to-all over GIN in which sixteen blocks of 512 threads share one signal: each reads its value, meets the blocks of
// its own number on all ranks, and then waits for what all blocks of all ranks send. Right only where the blocks of a
// kernel start together. Peers of the same node are written to directly if the second argument says "hybrid".
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int kBlocks = 16, kThreads = 512;
static const size_t kWords = 600; // for each pair of ranks

#define TRY(call) try_((int)(call), #call, __LINE__)
static void try_(int code, const char* what, int line) {
  if (code == 0) return;
  fprintf(stderr, "line %d: %s: code %d, %s\n", line, what, code, ncclGetLastError(NULL));
  exit(1);
}

__global__ void putToAll(ncclDevComm comm, ncclWindow_t from, ncclWindow_t to) {
  ncclGin gin{comm, 0};
  const uint64_t start = gin.readSignal(0);
  ncclTeam world = ncclTeamWorld(comm);
  ncclGinBarrierSession<ncclCoopCta> gate{ncclCoopCta(), gin, world, comm.railGinBarrier, blockIdx.x};
  gate.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  const size_t bytes = kWords * sizeof(int);
  for (int peer = blockIdx.x * blockDim.x + threadIdx.x; peer < world.nRanks; peer += gridDim.x * blockDim.x)
    gin.put(world, peer, to, world.rank * bytes, from, peer * bytes, bytes, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopCta(), 0, start + world.nRanks);
  gin.flush(ncclCoopCta());
}

__global__ void storeOrPut(ncclDevComm comm, ncclWindow_t from, ncclWindow_t to) {
  ncclGin gin{comm, 1};
  const uint64_t start = gin.readSignal(0);
  ncclTeam world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm);
  ncclBarrierSession<ncclCoopCta> gate{ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x};
  gate.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  const size_t bytes = kWords * sizeof(int);
  const int me = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  for (int n = me; n < world.nRanks - lsa.nRanks; n += all) {
    int peer = ncclTeamRankInDifference(world, lsa, n);
    gin.put(world, peer, to, world.rank * bytes, from, peer * bytes, bytes, ncclGin_SignalInc{0});
  }
  const int* mine = (const int*)ncclGetLocalPointer(from, 0);
  for (int n = 0; n < lsa.nRanks; n++) {
    int* theirs = (int*)ncclGetLsaPointer(to, world.rank * bytes, n);
    const int* source = mine + ncclTeamRankToWorld(comm, lsa, n) * kWords;
    for (size_t i = me; i < kWords; i += all) theirs[i] = source[i];
  }
  gin.waitSignal(ncclCoopCta(), 0, start + world.nRanks - lsa.nRanks);
  gin.flush(ncclCoopCta());
  gate.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}

static int ranks, hybrid;
static ncclUniqueId id;
static int word(int from, int to, size_t i) { return from * 70001 + to * 307 + (int)i; }

static void* runRank(void* argument) {
  const int rank = (int)(intptr_t)argument;
  const size_t words = kWords * ranks, bytes = words * sizeof(int);
  ncclComm_t comm;
  void *out, *in;
  ncclWindow_t outWindow, inWindow;
  cudaStream_t stream;
  int *host = (int*)malloc(bytes), wrong = 0;
  TRY(cudaSetDevice(rank));
  TRY(cudaStreamCreate(&stream));
  TRY(ncclCommInitRank(&comm, ranks, id, rank));
  TRY(ncclMemAlloc(&out, bytes));
  TRY(ncclMemAlloc(&in, bytes));
  TRY(ncclCommWindowRegister(comm, out, bytes, &outWindow, NCCL_WIN_COLL_SYMMETRIC));
  TRY(ncclCommWindowRegister(comm, in, bytes, &inWindow, NCCL_WIN_COLL_SYMMETRIC));
  for (size_t i = 0; i < words; i++) host[i] = word(rank, (int)(i / kWords), i % kWords);
  TRY(cudaMemcpy(out, host, bytes, cudaMemcpyHostToDevice));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1;
  needs.barrierCount = needs.railGinBarrierCount = kBlocks;
  needs.ginForceEnable = true;
  ncclDevComm device;
  TRY(ncclDevCommCreate(comm, &needs, &device));
  for (int round = 0; round < 2; round++) {
    TRY(cudaMemsetAsync(in, 0xff, bytes, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(ncclAllReduce(in, in, 0, ncclInt, ncclSum, comm, stream)); // nothing to add: allowed
    TRY(ncclAllReduce(out, out, 1, ncclInt, ncclMax, comm, stream)); // a barrier: `in` is clean everywhere
    TRY(cudaMemcpyAsync(out, host, sizeof(int), cudaMemcpyHostToDevice, stream));
    if (hybrid)
      storeOrPut<<<kBlocks, kThreads, 0, stream>>>(device, outWindow, inWindow);
    else
      putToAll<<<kBlocks, kThreads, 0, stream>>>(device, outWindow, inWindow);
    TRY(cudaGetLastError());
    TRY(cudaStreamSynchronize(stream));
    int* got = (int*)malloc(bytes);
    TRY(cudaMemcpy(got, in, bytes, cudaMemcpyDeviceToHost));
#ifdef PLANT
    got[words - 1]++;
#endif
    for (size_t i = 0; i < words; i++) wrong += got[i] != word((int)(i / kWords), rank, i % kWords);
    free(got);
  }
  TRY(ncclDevCommDestroy(comm, &device));
  TRY(ncclCommWindowDeregister(comm, outWindow));
  TRY(ncclCommWindowDeregister(comm, inWindow));
  TRY(ncclMemFree(out));
  TRY(ncclMemFree(in));
  TRY(ncclCommDestroy(comm));
  TRY(cudaStreamDestroy(stream));
  free(host);
  if (wrong) fprintf(stderr, "rank %d: %d words are wrong\n", rank, wrong);
  return (void*)(intptr_t)wrong;
}

int main(int argc, char** argv) {
  ranks = argc > 1 ? atoi(argv[1]) : 2;
  hybrid = argc > 2 && strcmp(argv[2], "hybrid") == 0;
  TRY(ncclGetUniqueId(&id));
  pthread_t* threads = (pthread_t*)malloc(sizeof *threads * ranks);
  int wrong = 0;
  for (int r = 0; r < ranks; r++) TRY(pthread_create(&threads[r], NULL, runRank, (void*)(intptr_t)r));
  for (int r = 0; r < ranks; r++) {
    void* result;
    pthread_join(threads[r], &result);
    wrong |= result != NULL;
  }
  free(threads);
  printf("shared_signal: %s\n", wrong ? "WRONG" : "ok");
  return wrong;
}
