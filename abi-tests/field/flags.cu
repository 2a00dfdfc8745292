// What people build from flags, locks and barriers of their own, each with one mistake and mended: `flags CASE`, `flags CASE mended`; ranks as threads
// of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include "job.cuh"
#include "branches.cuh"

namespace cg = cooperative_groups;

typedef Buffers Job;

// A flag of PTX, as expert-parallel kernels have it.
__device__ void storeRelease(int* at, int value) { asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); }
__device__ void storeRelaxed(int* at, int value) { asm volatile("st.relaxed.sys.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); }
__device__ int loadAcquire(int const* at) {
  int value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ int loadVolatile(int const* at) {
  int value;
  asm volatile("ld.volatile.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__global__ void ptx(Job job) {
  int const i = threadIdx.x;
  rowOf(job, next(job), 0)[i] = job.comm.rank;  // bug of: ptx
  __syncthreads();
  if (i == 0) {
    if (job.bug) storeRelaxed(rowOf(job, next(job), 8), 1);
    else storeRelease(rowOf(job, next(job), 8), 1);
    while (loadAcquire(row(job, 8)) == 0) __nanosleep(20);
  }
  __syncthreads();
  job.out[i] = row(job, 0)[i];  // bug of: ptx
}

// Everybody adds to a counter of the expert's.
__global__ void added(Job job) {
  int const i = threadIdx.x, n = job.comm.nRanks;
  rowOf(job, 0, job.comm.rank)[i] = job.comm.rank;  // bug of: added
  __syncthreads();
  int* count = rowOf(job, 0, 8);
  if (i == 0) {
    if (job.bug) asm volatile("red.relaxed.sys.global.add.s32 [%0], %1;" ::"l"(count), "r"(1) : "memory");
    else asm volatile("red.release.sys.global.add.s32 [%0], %1;" ::"l"(count), "r"(1) : "memory");
  }
  if (job.comm.rank != 0) return;
  while (i == 0 && loadVolatile(count) < n) __nanosleep(20);
  __syncthreads();
  for (int from = 0; from < n; from++) job.out[i] += row(job, from)[i];  // bug of: added
}

// A lock around a list.
__global__ void lock(Job job) {
  if (threadIdx.x != 0) return;
  for (int k = 0; k < 4; k++) {
    while (atomicCAS(job.local, 0, 1) != 0) __nanosleep(20);
    __threadfence();
    job.local[64] += 1;  // bug of: lock
    if (!job.bug) __threadfence();
    atomicExch(job.local, 0);
  }
}

// The last one to let go of a buffer clears it: all had it from the start.
__global__ void references(Job job) {
  if (threadIdx.x != 0) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> gone(job.local[0]);
  row(job, 0)[blockIdx.x] = 7;  // bug of: references
  if (gone.fetch_add(1, job.bug ? cuda::memory_order_relaxed : cuda::memory_order_release) == int(gridDim.x) - 1) {
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    for (int k = 0; k < int(gridDim.x); k++) row(job, 0)[k] = 0;  // bug of: references
  }
}

// A queue from rank to rank: the producer's tail, the consumer's head.
__global__ void queue(Job job) {
  if (threadIdx.x != 0) return;
  int const depth = 4, messages = 12;
  typedef cuda::atomic_ref<int, cuda::thread_scope_system> Word;
  if (job.comm.rank == 0) {
    Word tail(rowOf(job, 1, 2)[0]), head(row(job, 3)[0]);
    for (int m = 0; m < messages; m++) {
      while (m - head.load(cuda::memory_order_acquire) >= (job.bug ? depth + 1 : depth)) __nanosleep(20);
      rowOf(job, 1, 0)[m % depth] = m;  // bug of: queue
      tail.store(tail.load(cuda::memory_order_relaxed) + 1, cuda::memory_order_release);
    }
  } else if (job.comm.rank == 1) {
    Word tail(row(job, 2)[0]), head(rowOf(job, 0, 3)[0]);
    for (int m = 0; m < messages; m++) {
      while (tail.load(cuda::memory_order_acquire) <= m) __nanosleep(20);
      for (int work = 0; m == 2 && work < 300; work++) __nanosleep(20);
      job.out[m] = row(job, 0)[m % depth];  // bug of: queue
      head.store(m + 1, cuda::memory_order_release);
    }
  }
}

// One lane waits, the others get to know by a shuffle.
__global__ void shuffle(Job job) {
  ncclGin gin(job.comm, 0);
  int const lane = threadIdx.x % 32;
  if (threadIdx.x >= 32) return;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopWarp());  // bug of: shuffle
  int from = 0;
  if (lane == 0) gin.waitSignal(ncclCoopThread(), 0, 1), from = 1;
  if (job.bug) from = 1;
  else from = __shfl_sync(~0u, from, 0);
  job.out[lane] = row(job, from)[lane];  // bug of: shuffle
  gin.flush(ncclCoopWarp());
}

// Two warps of four meet at a barrier of their own.
__global__ void named(Job job) {
  __shared__ int tile[128];
  int const i = threadIdx.x;
  if (i >= 64) return;
  tile[i] = i;  // bug of: named
  if (job.bug) __syncwarp();
  else asm volatile("bar.sync 1, 64;" ::: "memory");
  job.out[blockIdx.x * kThreads + i] = tile[63 - i];  // bug of: named
}

// Producers arrive, consumers wait.
__global__ void arrivals(Job job) {
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  __shared__ int tile[kThreads];
  int const i = threadIdx.x;
  if (i == 0) init(&full, kThreads);
  __syncthreads();
  tile[i] = i;  // bug of: arrivals
  auto token = full.arrive();
  if (job.bug) job.out[i] = tile[kThreads - 1 - i];  // bug of: arrivals
  full.wait(std::move(token));
  if (!job.bug) job.out[i] = tile[kThreads - 1 - i];
}

// All blocks write, one sends.
__global__ void grid(Job job) {
  ncclGin gin(job.comm, 0);
  row(job, blockIdx.x)[threadIdx.x] = blockIdx.x;  // bug of: grid
  if (job.bug) __syncthreads();
  else cg::this_grid().sync();
  if (blockIdx.x > 0) return;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, gridDim.x * kRow, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());  // bug of: grid
  gin.waitSignal(ncclCoopCta(), 0, 1);
  gin.flush(ncclCoopCta());
}

// A release that no other block sees.
__global__ void scope(Job job) {
  int const i = threadIdx.x;
  if (blockIdx.x == 0) {
    row(job, 0)[i] = i;  // bug of: scope
    __syncthreads();
    if (i == 0 && job.bug) asm volatile("st.release.cta.global.s32 [%0], %1;" ::"l"(job.local), "r"(1) : "memory");
    if (i == 0 && !job.bug) asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(job.local), "r"(1) : "memory");
  } else {
    while (i == 0 && loadAcquire(job.local) == 0) __nanosleep(20);
    __syncthreads();
    job.out[i] = row(job, 0)[i];  // bug of: scope
  }
}

// Each thread has a flag of its own; the fence stands on the wrong side.
__global__ void sides(Job job) {
  int const i = threadIdx.x;
  int* theirs = rowOf(job, next(job), 0);
  volatile int *told = theirs + kThreads, *mine = row(job, 1);
  if (job.bug) __threadfence_system();
  theirs[i] = i;  // bug of: sides
  if (!job.bug) __threadfence_system();
  told[i] = 1;
  while (mine[i] == 0) __nanosleep(20);
  __threadfence_system();
  job.out[i] = row(job, 0)[i];  // bug of: sides
}

// The counter is reset for the next round while the last put is not done.
__global__ void counters(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  for (int round = 0; round < 3; round++) {
    for (int k = 0; k < 2; k++) {
      gin.put(ncclTeamWorld(job.comm), next(job), job.window, (8 + 2 * round + k) * kRow, job.window, k * kRow, kRow, ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);  // bug of: counters
    }
    gin.waitCounter(cta, 0, job.bug ? 1 : 2);
    if (threadIdx.x == 0) gin.resetCounter(0);  // bug of: counters
    __syncthreads();
  }
  gin.waitSignal(cta, 0, 6);
  gin.flush(cta);
}

__global__ void fill(Job job) { row(job, 0)[threadIdx.x] = 7; }  // bug of: graph
__global__ void send(Job job) {
  ncclGin gin(job.comm, 0);
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());  // bug of: graph
  gin.waitSignal(ncclCoopCta(), 0, 1);
  gin.flush(ncclCoopCta());
}

static const struct Case { const char* name; void (*kernel)(Job); int blocks, ranks = 3; } cases[] = {
  {"ptx", ptx, 1}, {"added", added, 1}, {"lock", lock, 3}, {"references", references, 3}, {"queue", queue, 1}, {"shuffle", shuffle, 1}, {"named", named, 2},
  {"arrivals", arrivals, 1}, {"grid", grid, 3}, {"scope", scope, 2}, {"sides", sides, 1}, {"counters", counters, 1}, {"graph", nullptr, 1},
};
static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(4, 2);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  void* arguments[] = {&job};
  if (it.kernel == nullptr) launchBranches(job, fill, send);
  else CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(it.kernel), dim3(it.blocks), dim3(it.kernel == named ? 128 : kThreads), arguments, 0, nullptr));
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
