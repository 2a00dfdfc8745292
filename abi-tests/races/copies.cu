// Copies and fills of the CUDA API that race with kernels and puts: `copies CASE` and `copies CASE mended`, 2 ranks as threads of one process, or
// processes of `ginrs-run -n 2`. tests/races.rs compiles it with --check=race and finds the marked lines by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include "../common/ranks.h"

static const char* which;
static bool mended;
constexpr int kBytes = 256, kTarget = 4096;

__global__ void sends(ncclDevComm comm, ncclWindow_t window, bool flushes) {
  ncclGin gin(comm, 0);
  ncclTeam world = ncclTeamWorld(comm);
  if (comm.rank != 0) return;
  gin.put(world, 1, window, kTarget, window, 0, kBytes, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());  // put
  if (flushes) gin.flush(ncclCoopCta());
  // Says that it was posted, and not that it has landed.
  ncclGin(comm, 1).signal(world, 1, ncclGin_SignalInc{0}, ncclCoopCta());
}

__global__ void receives(ncclDevComm comm, int context) {
  ncclGin gin(comm, context);
  gin.waitSignal(ncclCoopCta(), 0, 1);
}

// Nobody's communicator goes, which waits for puts, before both have copied.
__global__ void meets(ncclDevComm comm) {
  ncclGin gin(comm, 1);
  gin.signal(ncclTeamWorld(comm), 1 - comm.rank, ncclGin_SignalInc{1}, ncclCoopCta());
  gin.waitSignal(ncclCoopCta(), 1, 1);
}

// Runs until the host has seen what it has to.
__global__ void writes(int* data, volatile int* stage) {
  data[threadIdx.x] = threadIdx.x;  // write
  __syncthreads();
  if (threadIdx.x == 0) {
    *stage = 1;
    while (*stage == 1) {}
  }
}

// Another stream copies what the kernel has written, and nothing orders the two.
static void streams() {
  int *data, *stage, copy[64];
  cudaStream_t one, other;
  CHECK(cudaStreamCreate(&one));
  CHECK(cudaStreamCreate(&other));
  CHECK(cudaMalloc(&data, sizeof copy));
  CHECK(cudaMallocManaged(&stage, sizeof(int)));
  volatile int* word = stage;
  *word = 0;
  writes<<<1, 64, 0, one>>>(data, stage);
  while (*word == 0) std::this_thread::yield();
  if (mended) {
    *word = 2;
    CHECK(cudaStreamSynchronize(one));
  }
  CHECK(cudaMemcpyAsync(copy, data, sizeof copy, cudaMemcpyDeviceToHost, other));  // copy of: streams
  CHECK(cudaStreamSynchronize(other));
  *word = 2;
  CHECK(cudaDeviceSynchronize());
}

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  ncclWindow_t window;
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(cudaMemset(memory, 0, 1 << 16));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 2, needs.ginForceEnable = true;
  ncclDevComm dev;
  CHECK(ncclDevCommCreate(comm, &needs, &dev));
  char* bytes = static_cast<char*>(memory);
  int words[kBytes / 4];
  bool const isSource = strcmp(which, "source") == 0, isTarget = strcmp(which, "target") == 0;
  if (strcmp(which, "streams") == 0) {
    if (rank == 0) streams();
  } else {
    sends<<<1, 64>>>(dev, window, !isSource || mended);
    if (isSource && rank == 0) CHECK(cudaMemsetAsync(bytes, 1, kBytes, nullptr));  // copy of: source
    if (rank == 1) receives<<<1, 64>>>(dev, isTarget && mended ? 0 : 1);
    if (isTarget && rank == 1) CHECK(cudaMemcpy(words, bytes + kTarget, kBytes, cudaMemcpyDeviceToHost));  // copy of: target
    meets<<<1, 64>>>(dev);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclDevCommDestroy(comm, &dev));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: ok\n", rank), fflush(stdout);
}

int main(int argc, char** argv) {
  which = argc > 1 ? argv[1] : "", mended = argc > 2;
  return runRanks(2, runRank);
}
