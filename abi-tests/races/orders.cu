// Waits and barriers whose order is weak, and enough: `orders`, 2 ranks as threads of one process, or processes of `ginrs-run -n 2`. Nothing here
// races. tests/races.rs compiles it with --check=race.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <string.h>
#include "../common/ranks.h"

static const int kThreads = 64, kRounds = 4;
static const size_t kRow = kThreads * sizeof(int);

__global__ void fills(int* mine, int round) { mine[threadIdx.x] = round; }

// What peers' earlier kernels wrote is there behind a relaxed barrier; what is stored here the next kernel reads, behind one that releases.
__global__ void exchange(ncclDevComm comm, ncclWindow_t window, int* out) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
  bar.sync(cta, cuda::memory_order_relaxed);
  int all = 0;
  for (int peer = 0; peer < comm.lsaSize; peer++) all += static_cast<int*>(ncclGetLsaPointer(window, 0, peer))[threadIdx.x];
  for (int peer = 0; peer < comm.lsaSize; peer++) static_cast<int*>(ncclGetLsaPointer(window, (1 + comm.lsaRank) * kRow, peer))[threadIdx.x] = all;
  out[threadIdx.x] = all;
  bar.sync(cta, cuda::memory_order_release);
}
__global__ void sums(int const* rows, int* out) { out[threadIdx.x] = rows[threadIdx.x] + rows[kThreads + threadIdx.x]; }

// A counter and a credit are followed by writes and puts alone, the message by a fence.
__global__ void messages(ncclDevComm comm, ncclWindow_t window, int* mine, int round, int* out) {
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  ncclTeam world = ncclTeamWorld(comm);
  int const next = (comm.rank + 1) % comm.nRanks, i = threadIdx.x;
  ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamTagWorld(), 0);
  bar.sync(cta, cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  for (int message = 2 * round; message < 2 * round + 2; message++) {
    mine[4 * kThreads + i] = message;
    gin.put(world, next, window, 5 * kRow, window, 4 * kRow, kRow, ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);
    gin.waitCounter(cta, 0, message + 1, 56, cuda::memory_order_relaxed);
    gin.waitSignal(cta, 0, message + 1, 64, cuda::memory_order_relaxed);
    if (message % 2 == 0) cuda::atomic_thread_fence(cuda::memory_order_acquire);
    else if (i == 0) __threadfence_system();
    __syncthreads();
    out[i] = mine[5 * kThreads + i];
    gin.signal(world, next, ncclGin_SignalInc{1}, cta);
    gin.waitSignal(cta, 1, message + 1, 64, cuda::memory_order_relaxed);
  }
}

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  ncclWindow_t window;
  int *out, *mine;
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(cudaMemset(memory, 0, 1 << 16));
  mine = static_cast<int*>(memory);
  CHECK(cudaMalloc(&out, 4096));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 2, needs.ginCounterCount = 1, needs.lsaBarrierCount = 1, needs.railGinBarrierCount = 1, needs.ginForceEnable = true;
  ncclDevComm dev;
  CHECK(ncclDevCommCreate(comm, &needs, &dev));
  for (int round = 0; round < kRounds; round++) {
    fills<<<1, kThreads>>>(mine, round);
    exchange<<<1, kThreads>>>(dev, window, out);
    sums<<<1, kThreads>>>(mine + kThreads, out);
    messages<<<1, kThreads>>>(dev, window, mine, round, out);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclDevCommDestroy(comm, &dev));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: ok\n", rank), fflush(stdout);
}

int main() { return runRanks(2, runRank); }
