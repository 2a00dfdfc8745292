// Words that some change atomically and others touch plainly, and memory that is in two windows, each with one mistake and mended: `shared CASE`,
// `shared CASE mended`; ranks as threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include "job.cuh"

namespace cg = cooperative_groups;

struct Job : Buffers {
  ncclDevComm other;
  ncclWindow_t second;
};

// Split-k: all blocks add to C, the first one hands it on.
__global__ void split(Job job) {
  float* sum = reinterpret_cast<float*>(job.local);
  atomicAdd(&sum[threadIdx.x], 1.0f);  // bug of: split
  if (!job.bug) cg::this_grid().sync();
  if (blockIdx.x == 0) job.out[threadIdx.x] = int(sum[threadIdx.x]);  // bug of: split
}

// A counter that the kernel itself sets to its start.
__global__ void start(Job job) {
  if (blockIdx.x == 0 && threadIdx.x == 0) job.local[0] = 5;  // bug of: start
  if (!job.bug) cg::this_grid().sync();
  if (threadIdx.x == 0) job.out[blockIdx.x] = atomicAdd(&job.local[0], 1);  // bug of: start
}

// Tiles by ticket; the counter is set back for the next round while others draw.
__global__ void tickets(Job job) {
  auto grid = cg::this_grid();
  for (int round = 0; round < 2; round++) {
    while (threadIdx.x == 0 && atomicAdd(&job.local[0], 1) < 6) __nanosleep(20);  // bug of: tickets
    if (!job.bug) grid.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) job.local[0] = 0;  // bug of: tickets
    grid.sync();
  }
}

// Everybody adds to its neighbour's sums over NVLink, and reads its own.
__global__ void remote(Job job) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), job.comm, ncclTeamTagLsa(), 0);
  for (int peer = 0; peer < job.comm.nRanks; peer++) atomicAdd_system(&rowOf(job, peer, 0)[threadIdx.x], 1);  // bug of: remote
  if (!job.bug) bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  job.out[threadIdx.x] = row(job, 0)[threadIdx.x];  // bug of: remote
}

// A counter of all blocks, added to in the scope of each.
__global__ void narrow(Job job) {
  if (job.bug) atomicAdd_block(&job.local[0], 1);  // bug of: narrow
  else atomicAdd(&job.local[0], 1);
}

// The next layer adds to what is still being sent.
__global__ void sent(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  row(job, 0)[threadIdx.x] = 3;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: sent
  if (!job.bug) gin.flush(cta);
  atomicAdd(&row(job, 0)[kThreads - 1 - threadIdx.x], 1);  // bug of: sent
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
}

// A lane reserves for its warp; the others read where, in place of a shuffle.
__global__ void reserve(Job job) {
  int const lane = threadIdx.x % 32;
  int first = 0;
  if (lane == 0) first = atomicAdd(&job.local[0], 32);  // bug of: reserve
  if (job.bug) first = lane == 0 ? first : job.local[0] - 32;  // bug of: reserve
  else first = __shfl_sync(~0u, first, 0);
  job.out[(first + lane) % 1024] = 1;
}

// A flag by a volatile store, looked at plainly.
__global__ void plainly(Job job) {
  if (threadIdx.x != 0) return;
  volatile int* flag = job.local;
  if (blockIdx.x == 0) *flag = 1;  // bug of: plainly
  else if (job.bug) job.out[blockIdx.x] = job.local[0] + 1;  // bug of: plainly
  else job.out[blockIdx.x] = *flag;
}

// What came by one communicator, whose signal the other one gives: the window of each has the same memory.
__global__ void windows(Job job) {
  ncclGin gin(job.comm, 0), other(job.other, 0);
  ncclTeam const world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  row(job, 0)[threadIdx.x] = 7;
  if (job.bug) {
    gin.put(world, next(job), job.window, kRow, job.window, 0, kRow, ncclGin_None{}, ncclGin_None{}, cta);  // bug of: windows
    other.signal(world, next(job), ncclGin_SignalInc{0}, cta);
  } else {
    other.put(world, next(job), job.second, kRow, job.second, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
  }
  other.waitSignal(cta, 0, 1);
  job.out[threadIdx.x] = row(job, 1)[threadIdx.x];  // bug of: windows
  gin.flush(cta), other.flush(cta);
}

static const struct Case { const char* name; void (*kernel)(Job); int blocks, ranks = 2; } cases[] = {
  {"split", split, 3}, {"start", start, 3}, {"tickets", tickets, 3}, {"remote", remote, 1, 3}, {"narrow", narrow, 2}, {"sent", sent, 1}, {"reserve", reserve, 1},
  {"plainly", plainly, 2}, {"windows", windows, 1},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id), other;
  CHECK(ncclCommSplit(comm, 0, rank, &other, nullptr));
  CHECK(ncclCommWindowRegister(other, job.memory, kBytes, &job.second, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs = requirements(4, 2);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  CHECK(ncclDevCommCreate(other, &needs, &job.other));
  void* arguments[] = {&job};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(it.kernel), dim3(it.blocks), dim3(kThreads), arguments, 0, nullptr));
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(other, &job.other));
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(other));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
