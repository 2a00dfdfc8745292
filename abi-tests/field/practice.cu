// Programs as people write them with templates, lambdas and copies, and what the host does with buffers, each with one mistake and mended: `practice
// CASE`, `practice CASE mended`; ranks as threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have
// to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <string.h>
#include "job.cuh"

typedef Buffers Job;

__device__ ncclGin_SignalInc inc(int signal) { return ncclGin_SignalInc{ncclGinSignal_t(signal)}; }
__device__ void meet(Job const& job) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  bar.sync(cta, cuda::memory_order_acq_rel);
}

// Tokens are sorted by source at the expert: where a rank's begin is the sum of the counts of those before it.
__global__ void prefix(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, n = world.nRanks, rank = world.rank;
  if (i < n) gin.putValue(world, i, job.window, 8 * kRow + rank * sizeof(int), 8 * (rank + 1), inc(0));
  gin.waitSignal(cta, 0, n);
  __shared__ int begin;
  if (i == 0) {
    begin = 0;
    for (int from = 0; from < (job.bug ? rank - 1 : rank); from++) begin += row(job, 8)[from];
  }
  __syncthreads();
  if (rank != 0) gin.put(world, 0, job.window, 10 * kRow + begin * sizeof(int), job.window, 0, 8 * (rank + 1) * sizeof(int), inc(1), ncclGin_None{}, cta);  // bug of: prefix
  else gin.waitSignal(cta, 1, n - 1);
  gin.flush(cta);
}

// The value of a signal says which layer has come: values add up.
__global__ void layers(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, count = 4;
  for (int layer = 0; layer < count && world.rank == 0; layer++) {
    row(job, layer)[i] = layer;
    uint64_t const value = job.bug ? layer + 1 : 1;
    gin.put(world, 1, job.window, (8 + layer) * kRow, job.window, layer * kRow, kRow, ncclGin_SignalAdd{0, value}, ncclGin_None{}, cta);  // bug of: layers
  }
  for (int layer = 0; layer < count && world.rank == 1; layer++) {
    gin.waitSignal(cta, 0, layer + 1);
    job.out[layer * kThreads + i] = row(job, 8 + layer)[i];  // bug of: layers
  }
  gin.flush(cta);
}

// A 2 x 2 grid of ranks: two edges and a corner come to each by one signal.
__global__ void corners(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, x = world.rank % 2, y = world.rank / 2;
  row(job, 0)[i] = world.rank;
  int const beside = y * 2 + 1 - x, above = (1 - y) * 2 + x, across = (1 - y) * 2 + 1 - x;
  gin.put(world, beside, job.window, 8 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);
  gin.put(world, above, job.window, 9 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);
  gin.put(world, across, job.window, 10 * kRow, job.window, 0, sizeof(int), inc(0), ncclGin_None{}, cta);
  gin.waitSignal(cta, 0, job.bug ? 2 : 3);
  job.out[i] = row(job, 8)[i] + row(job, 9)[i] + (i == 0 ? row(job, 10)[0] : 0);  // bug of: corners
  gin.waitSignal(cta, 0, 3);
  gin.flush(cta);
}

// A policy says how many messages are under way: one more than there are slots.
struct Eager { static constexpr int credits = 3; };
struct Exact { static constexpr int credits = 2; };
template <typename Policy>
__device__ void stage(Job const& job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, slots = 2;
  for (int m = 0; m < 6; m++) {
    if (world.rank == 0) {
      if (m >= Policy::credits) gin.waitSignal(cta, 1, m - Policy::credits + 1);
      gin.flush(cta);
      row(job, m % slots)[i] = m;
      gin.put(world, 1, job.window, (8 + m % slots) * kRow, job.window, m % slots * kRow, kRow, inc(0), ncclGin_None{}, cta);  // bug of: policy
    } else if (world.rank == 1) {
      gin.waitSignal(cta, 0, m + 1);
      job.out[i] += row(job, 8 + m % slots)[i];  // bug of: policy
      gin.signal(world, 0, inc(1), cta);
    }
  }
  gin.flush(cta);
}
__global__ void policy(Job job) {
  if (job.bug) stage<Eager>(job);
  else stage<Exact>(job);
}

// What is done to each element is a lambda's affair: the compiler makes one function of it and the kernel.
template <typename F>
__device__ void forEach(int* data, int count, F&& f) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) data[i] = f(i);  // bug of: lambdas
}
__global__ void lambdas(Job job) {
  int *mine = row(job, 0), *theirs = rowOf(job, next(job), 0);
  forEach(mine, kThreads, [=](int i) { return i * 3; });
  if (!job.bug) meet(job);
  forEach(job.out, kThreads, [=](int i) {
    return theirs[kThreads - 1 - i] + 1;  // bug of: lambdas
  });
  meet(job);
}

// A row is taken by memcpy, before it has come.
__global__ void copied(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);  // bug of: copied
  if (!job.bug) gin.waitSignal(cta, 0, 1);
  if (threadIdx.x == 0) memcpy(job.out, row(job, 8), kRow);  // bug of: copied
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
}

// By a bulk copy, whose bytes an mbarrier counts: it knows nothing of the put.
__global__ void bulk(Job job) {
  __shared__ __align__(128) int tile[kThreads];
  __shared__ uint64_t full;
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  unsigned const to = unsigned(__cvta_generic_to_shared(tile)), bar = unsigned(__cvta_generic_to_shared(&full));
  if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);  // bug of: bulk
  if (!job.bug) gin.waitSignal(cta, 0, 1);
  __syncthreads();
  if (i == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(kRow) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(row(job, 8)), "r"(kRow), "r"(bar) : "memory");  // bug of: bulk
  }
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
  }
  job.out[i] = tile[kThreads - 1 - i];
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
}

// Arrays of a class's objects in shared memory.
__global__ void halves(Job job) {
  __shared__ __nv_bfloat16 tile[kThreads] __attribute__((aligned(16)));
  int const i = threadIdx.x;
  tile[i] = __float2bfloat16(float(i));  // bug of: halves
  if (!job.bug) __syncthreads();
  job.out[i] = int(__bfloat162float(tile[kThreads - 1 - i]));  // bug of: halves
}

// The neighbours of a row of ranks: the first and the last one have one. To ask for the other one's pointer is no mistake.
__global__ void edges(Job job) {
  ncclTeam lsa = ncclTeamLsa(job.comm);
  int const i = threadIdx.x;
  int *left = rowOf(job, lsa.rank - 1, 1), *right = rowOf(job, lsa.rank + 1, 2);
  if (lsa.rank > 0) left[i] = lsa.rank;
  if (job.bug || lsa.rank + 1 < lsa.nRanks) right[i] = lsa.rank;  // bug of: edges
}

// The window goes before the memory.
static void releases(Job const& job, ncclComm_t comm) {
  if (job.bug) CHECK(ncclMemFree(job.memory));  // bug of: releases
  CHECK(ncclCommWindowDeregister(comm, job.window));
  if (!job.bug) CHECK(ncclMemFree(job.memory));
}
// Counts are of elements.
static void elements(Job const& job, ncclComm_t comm) {
  CHECK(ncclAllGather(job.local, job.out, kBytes / (job.bug ? 1 : 16), ncclInt, comm, nullptr));  // bug of: elements
}
static void messages(Job const& job, ncclComm_t comm) {
  int const other = 1 - job.comm.rank;
  CHECK(ncclGroupStart());
  CHECK(ncclSend(job.local, kBytes / 4, ncclInt, other, comm, nullptr));
  CHECK(ncclRecv(job.out + 64 * job.bug, kBytes / 4, ncclInt, other, comm, nullptr));  // bug of: messages
  CHECK(ncclGroupEnd());
}

static const struct Case { const char* name; int ranks; void (*kernel)(Job); void (*host)(Job const&, ncclComm_t) = nullptr; } cases[] = {
  {"prefix", 3, prefix}, {"layers", 2, layers}, {"corners", 4, corners}, {"policy", 2, policy}, {"lambdas", 2, lambdas}, {"copied", 2, copied}, {"bulk", 2, bulk},
  {"halves", 2, halves}, {"edges", 2, edges}, {"releases", 2, nullptr, releases}, {"elements", 2, nullptr, elements}, {"messages", 2, nullptr, messages},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(4, 1);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  if (it.kernel != nullptr) it.kernel<<<1, kThreads>>>(job);
  else it.host(job, comm);
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
