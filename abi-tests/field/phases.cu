// Phases, credits, streams and several communicators, each with one mistake and mended: `phases CASE`, `phases CASE mended`; ranks as threads of one
// process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <string.h>
#include "job.cuh"
#include "branches.cuh"

typedef Buffers Job;
static const auto release = cuda::memory_order_release, acquire = cuda::memory_order_acquire;

__device__ ncclGin_SignalInc inc(int signal) { return ncclGin_SignalInc{ncclGinSignal_t(signal)}; }

// Recursive doubling: partial sums of all rounds come to one place.
__global__ void doubling(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  int sum = world.rank + i;
  for (int round = 0; 1 << round < world.nRanks; round++) {
    int const place = job.bug ? 8 : 8 + round;
    row(job, round)[i] = sum;
    gin.put(world, world.rank ^ 1 << round, job.window, place * kRow, job.window, round * kRow, kRow, inc(round), ncclGin_None{}, cta);  // bug of: doubling
    gin.waitSignal(cta, round, 1);
    sum += row(job, place)[i];  // bug of: doubling
  }
  job.out[i] = sum;
  gin.flush(cta);
}

// A barrier in two halves, with work between: it is done too early.
__global__ void between(Job job) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  int const i = threadIdx.x;
  row(job, 0)[i] = job.comm.rank;  // bug of: between
  bar.arrive(cta, release);
  int sum = row(job, 0)[i];
  if (job.bug) sum += rowOf(job, next(job), 0)[i];  // bug of: between
  bar.wait(cta, acquire);
  if (!job.bug) sum += rowOf(job, next(job), 0)[i];
  job.out[i] = sum;
  bar.arrive(cta, release);
  bar.wait(cta, acquire);
  row(job, 0)[i] = 0;
}

// A second store behind the arrival that was to tell of both.
__global__ void arrived(Job job) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  int const i = threadIdx.x;
  rowOf(job, next(job), 0)[i] = i;
  if (job.bug) bar.arrive(cta, release);
  rowOf(job, next(job), 1)[i] = 2 * i;  // bug of: arrived
  if (!job.bug) bar.arrive(cta, release);
  bar.wait(cta, acquire);
  job.out[i] = row(job, 0)[i] + row(job, 1)[i];  // bug of: arrived
}

// Four blocks put on four contexts and change each other's rows: all but the first forget that a flush is of one context.
__global__ void flushes(Job job) {
  ncclGin gin(job.comm, blockIdx.x);
  ncclCoopCta cta;
  int const i = threadIdx.x, b = blockIdx.x;
  row(job, b)[i] = b;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, (8 + b) * kRow, job.window, b * kRow, kRow, inc(b), ncclGin_None{}, cta);  // bug of: flushes
  if (!job.bug || b == 0) gin.flush(cta);
  cooperative_groups::this_grid().sync();
  row(job, (b + 1) % gridDim.x)[i] = -1;  // bug of: flushes
  gin.waitSignal(cta, b, 1);
  gin.flush(cta);
}

// The credit goes back before the slot is read.
__global__ void credit(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  for (int m = 0; m < 5; m++) {
    if (m >= 2) gin.waitSignal(cta, 1, m - 1);
    gin.flush(cta);
    row(job, m % 2)[i] = m;
    gin.put(world, next(job), job.window, (8 + m % 2) * kRow, job.window, m % 2 * kRow, kRow, inc(0), ncclGin_None{}, cta);  // bug of: credit
    gin.waitSignal(cta, 0, m + 1);
    if (job.bug) gin.signal(world, before(job), inc(1), cta);
    job.out[i] += row(job, 8 + m % 2)[i];  // bug of: credit
    if (!job.bug) gin.signal(world, before(job), inc(1), cta);
  }
  gin.waitSignal(cta, 1, 5);
  gin.flush(cta);
}

// A rank without tokens for another one says nothing.
__global__ void tokens(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  for (int peer = 0; peer < world.nRanks; peer++) {
    int const count = (peer + world.rank) % 3;
    if (count > 0) gin.put(world, peer, job.window, (8 + world.rank) * kRow, job.window, 0, count * 32, inc(0), ncclGin_None{}, cta);
    else if (!job.bug) gin.signal(world, peer, inc(0), cta);
  }
  gin.waitSignal(cta, 0, world.nRanks);  // bug of: tokens
  gin.flush(cta);
}

// A wait in front of the collective that its sender stands in.
__global__ void waits(Job job) {
  ncclGin gin(job.comm, 0);
  gin.waitSignal(ncclCoopCta(), 0, 1);  // bug of: behind
}
__global__ void tells(Job job) {
  ncclGin gin(job.comm, 0);
  gin.signal(ncclTeamWorld(job.comm), next(job), inc(0));
}
static void behind(Job const& job, ncclComm_t comm) {
  bool const isEarly = job.bug && job.comm.rank == 0;
  if (isEarly) waits<<<1, kThreads>>>(job);
  CHECK(ncclAllReduce(job.local, job.out, kThreads, ncclInt, ncclSum, comm, nullptr));
  tells<<<1, 1>>>(job);
  if (!isEarly) waits<<<1, kThreads>>>(job);
}

__global__ void fills(Job job) { row(job, 0)[threadIdx.x] = job.comm.rank; }  // bug of: branches
__global__ void sends(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);  // bug of: branches
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
}
static void branches(Job const& job, ncclComm_t) { launchBranches(job, fills, sends); }

// Puts of two halves of the communicator, with the window of the whole one: all are refused, and so race with none.
__global__ void halfPut(Job job, ncclDevComm half, ncclWindow_t window) {
  ncclGin gin(half, 0);
  ncclTeam world = ncclTeamWorld(half);
  ncclCoopCta cta;
  gin.put(world, 1 - world.rank, window, 8 * kRow, window, 0, kRow, inc(0), ncclGin_None{}, cta);  // bug of: parent
  gin.waitSignal(cta, 0, 1);
  job.out[threadIdx.x] = row(job, 8)[threadIdx.x];
  gin.flush(cta);
}
static void parent(Job const& job, ncclComm_t comm) {
  ncclComm_t half;
  ncclWindow_t window;
  ncclDevComm child;
  CHECK(ncclCommSplit(comm, job.comm.rank % 2, job.comm.rank, &half, nullptr));
  CHECK(ncclCommWindowRegister(half, job.memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs = requirements(2, 1);
  CHECK(ncclDevCommCreate(half, &needs, &child));
  halfPut<<<1, kThreads>>>(job, child, job.bug ? job.window : window);
  awaitKernels(half, job.comm.rank);
  CHECK(ncclCommDestroy(half));
}

static const struct Case { const char* name; int ranks; void (*kernel)(Job); void (*host)(Job const&, ncclComm_t); int blocks; } cases[] = {
  {"doubling", 4, doubling, nullptr, 1}, {"between", 3, between, nullptr, 1}, {"arrived", 2, arrived, nullptr, 1}, {"flushes", 2, flushes, nullptr, 4},
  {"credit", 3, credit, nullptr, 1}, {"tokens", 3, tokens, nullptr, 1}, {"behind", 2, nullptr, behind, 1},
  {"branches", 2, nullptr, branches, 1}, {"parent", 4, nullptr, parent, 1},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(4, 2);
  needs.ginContextCount = 4;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  void* arguments[] = {&job};
  if (it.kernel != nullptr) CHECK(cudaLaunchCooperativeKernel(it.kernel, it.blocks, kThreads, arguments));
  else it.host(job, comm);
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
