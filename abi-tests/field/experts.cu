// Kernels as people write them for experts, attention and caches, each with one mistake and mended: `experts CASE`, `experts CASE mended`; ranks as
// threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include "job.cuh"

namespace cg = cooperative_groups;

struct Job : Buffers {
  ncclDevComm another;
  ncclLLA2AHandle ll;
};

// Dispatch in two hops: over the rail to the other node, there by a store to the neighbour.
__global__ void hierarchy(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam rail = ncclTeamRail(job.comm), lsa = ncclTeamLsa(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, neighbour = (lsa.rank + 1) % lsa.nRanks;
  row(job, 0)[i] = job.comm.rank;
  gin.put(rail, (rail.rank + 1) % rail.nRanks, job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
  if (job.bug) {
    if (i < 32) gin.waitSignal(ncclCoopWarp(), 0, 1);  // the other warp has not waited
  } else {
    gin.waitSignal(cta, 0, 1);
  }
  rowOf(job, neighbour, 2)[i] = row(job, 1)[i];  // bug of: hierarchy
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  bar.sync(cta, cuda::memory_order_acq_rel);
  job.out[i] = row(job, 2)[i];
  gin.flush(cta);
}

// Two buffers in turn, each with a flag.
__global__ void phases(Job job) {
  int const i = threadIdx.x, peers = job.comm.nRanks;
  for (int step = 0; step < 6; step++) {
    int const buffer = step % 2, value = job.bug ? 1 : step + 1;  // a flag that is 1 for ever
    for (int peer = 0; peer < peers; peer++) rowOf(job, peer, 8 * buffer + job.comm.rank)[i] = step;  // bug of: phases
    __syncthreads();
    if (i < peers) {
      cuda::atomic_ref<int, cuda::thread_scope_system> flag(rowOf(job, i, 20 + buffer)[job.comm.rank]);
      flag.store(value, cuda::memory_order_release);
      cuda::atomic_ref<int, cuda::thread_scope_system> mine(row(job, 20 + buffer)[i]);
      while (mine.load(cuda::memory_order_acquire) < value) __nanosleep(20);
    }
    __syncthreads();
    int sum = 0;
    for (int peer = 0; peer < peers; peer++) sum += row(job, 8 * buffer + peer)[i];  // bug of: phases
    job.out[i] = sum;
    __syncthreads();
  }
}

// Block 0 gathers, block 1 multiplies what has come.
__global__ void gemm(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  int const i = threadIdx.x, chunks = 4;
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(job.local[0]);
  if (blockIdx.x == 0) {
    row(job, 0)[i] = job.comm.rank;
    for (int chunk = 0; chunk < chunks; chunk++) {
      gin.put(ncclTeamWorld(job.comm), next(job), job.window, (8 + chunk) * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: gemm
      gin.waitSignal(cta, 0, chunk + 1);
      if (i == 0) ready.fetch_add(1, cuda::memory_order_release);
    }
    gin.flush(cta);
  } else {
    for (int chunk = 0; chunk < chunks; chunk++) {
      if (i == 0) {
        while (ready.load(job.bug ? cuda::memory_order_relaxed : cuda::memory_order_acquire) <= chunk) __nanosleep(20);  // bug of: gemm
      }
      __syncthreads();
      job.out[i] += row(job, 8 + chunk)[i];  // bug of: gemm
    }
  }
}

// Keys go around while the block works on those that came before.
__global__ void attention(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, steps = 5;
  row(job, 0)[i] = job.comm.rank;
  for (int step = 0; step < steps; step++) {
    int const now = step % 2, then = 1 - now;
    if (step > 0) gin.waitSignal(cta, 1, step);  // the next one is done with what it had there
    gin.put(world, next(job), job.window, then * kRow, job.window, now * kRow, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: attention
    if (job.bug) gin.signal(world, before(job), ncclGin_SignalInc{1}, cta);
    job.out[i] += row(job, now)[kThreads - 1 - i];  // bug of: attention
    gin.flush(cta);
    if (!job.bug) gin.signal(world, before(job), ncclGin_SignalInc{1}, cta);
    gin.waitSignal(cta, 0, step + 1);
  }
}

// Pages of a cache go to the next rank, two at a time without an answer; answers come for four, which never are.
__global__ void migrate(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x, pages = 8, window = 2, batch = job.bug ? 4 : 1;
  if (job.comm.rank == 0) {
    for (int page = 0; page < pages; page++) {
      if (page >= window) gin.waitSignal(cta, 1, page - window + 1);  // bug of: migrate
      gin.flush(cta);
      row(job, page % window)[i] = page;
      gin.put(world, 1, job.window, (8 + page % window) * kRow, job.window, page % window * kRow, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
    }
  } else if (job.comm.rank == 1) {
    for (int page = 0; page < pages; page++) {
      gin.waitSignal(cta, 0, page + 1);  // bug of: migrate
      job.out[page * kThreads + i] = row(job, 8 + page % window)[i];
      if ((page + 1) % batch == 0) gin.signal(world, 0, ncclGin_SignalAdd{1, uint64_t(batch)}, cta);
    }
  }
  gin.flush(cta);
}

// Everybody tells everybody how many tokens come: 4 bytes each, sent as 8.
__global__ void histogram(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  int const i = threadIdx.x, n = world.nRanks;
  if (i < n) {
    size_t const at = job.comm.rank * sizeof(int);
    if (job.bug) gin.putValue(world, i, job.window, at, uint64_t(i + 1), ncclGin_SignalInc{0});  // bug of: histogram
    else gin.putValue(world, i, job.window, at, i + 1, ncclGin_SignalInc{0});
  }
  gin.waitSignal(ncclCoopCta(), 0, n);
  if (i < n) job.out[i] = row(job, 0)[i];
  gin.flush(ncclCoopCta());
}

// Two streams, a device communicator for each; or the same one for both.
__global__ void streams(Job job, int part) {
  ncclCoopCta cta;
  ncclDevComm const& comm = part == 0 || job.bug ? job.comm : job.another;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);  // bug of: streams
  for (int step = 0; step < 500; step++) {
    row(job, part)[threadIdx.x] = step;
    bar.sync(cta, cuda::memory_order_acq_rel);  // bug of: streams
    job.out[part * kThreads + threadIdx.x] = rowOf(job, next(job), part)[threadIdx.x];
    bar.sync(cta, cuda::memory_order_acq_rel);  // bug of: streams
  }
}

// A context for each block; there are four, and five blocks.
__global__ void contexts(Job job) {
  ncclGin gin(job.comm, blockIdx.x);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  int const signal = job.bug ? 0 : blockIdx.x / 4;
  row(job, blockIdx.x)[i] = blockIdx.x;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, (8 + blockIdx.x) * kRow, job.window, blockIdx.x * kRow, kRow, ncclGin_SignalInc{ncclGinSignal_t(signal)}, ncclGin_None{}, cta);  // bug of: contexts
  gin.waitSignal(cta, signal, 1);
  job.out[blockIdx.x * kThreads + i] = row(job, 8 + blockIdx.x)[i];  // bug of: contexts
  gin.flush(cta);
}

// A warp fills what the other one sends; the flag between them.
__global__ void warps(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopWarp warp;
  __shared__ int filled, sent;
  int const i = threadIdx.x % 32, half = kRow / 2;
  if (threadIdx.x == 0) filled = sent = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> full(filled), empty(sent);
  for (int step = 0; step < 4; step++) {
    if (threadIdx.x < 32) {
      while (empty.load(cuda::memory_order_acquire) < step) __nanosleep(20);
      row(job, 0)[i] = step;  // bug of: warps
      if (!job.bug) __syncwarp();
      if (i == 0) full.store(step + 1, cuda::memory_order_release);
    } else {
      while (full.load(cuda::memory_order_acquire) <= step) __nanosleep(20);
      __syncwarp();
      gin.put(ncclTeamWorld(job.comm), next(job), job.window, (8 + step) * kRow, job.window, 0, half, ncclGin_SignalInc{0}, ncclGin_None{}, warp);  // bug of: warps
      gin.flush(warp);
      if (i == 0) empty.store(step + 1, cuda::memory_order_release);
    }
  }
  gin.waitSignal(ncclCoopCta(), 0, 4);
}

// A sum over a tile of 16, then over the tiles.
__global__ void tiles(Job job) {
  __shared__ int partial[kThreads / 16];
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int sum = block.thread_rank();
  for (int distance = 8; distance > 0; distance /= 2) sum += tile.shfl_down(sum, distance);
  if (tile.thread_rank() == 0) partial[block.thread_rank() / 16] = sum;  // bug of: tiles
  if (job.bug) tile.sync();
  else block.sync();
  int all = 0;
  for (int part : partial) all += part;  // bug of: tiles
  row(job, 0)[block.thread_rank()] = all;
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), job.comm, ncclTeamTagLsa(), 0);
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// The block with the last ticket sends what all have written.
__global__ void ticket(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  __shared__ bool isLast;
  row(job, blockIdx.x)[threadIdx.x] = blockIdx.x;  // bug of: ticket
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> tickets(job.local[0]);
    isLast = tickets.fetch_add(1, job.bug ? cuda::memory_order_acquire : cuda::memory_order_acq_rel) == int(gridDim.x) - 1;  // bug of: ticket
  }
  __syncthreads();
  if (!isLast) return;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, gridDim.x * kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: ticket
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
}

// A small message says that the large one is there: it orders nothing but itself.
__global__ void small(Job job) {
  ncclCoopCta cta;
  ncclTeam lsa = ncclTeamLsa(job.comm);
  ncclLLA2ASession<ncclCoopCta> a2a(cta, job.comm, lsa, job.ll, 0, lsa.nRanks);
  int const i = threadIdx.x;
  for (int peer = 0; peer < lsa.nRanks; peer++) rowOf(job, peer, lsa.rank)[i] = peer;  // bug of: small
  if (!job.bug) __threadfence_system();
  __syncthreads();
  if (i < lsa.nRanks) a2a.send(i, lsa.rank, kRow);
  int bytes = i < lsa.nRanks ? a2a.recv<int>(i) : kRow;
  if (!job.bug) __threadfence_system();
  __syncthreads();
  for (int peer = 0; peer < lsa.nRanks; peer++) job.out[i] += row(job, peer)[i % bytes];  // bug of: small
  a2a.endEpoch(cta);
}

// Work between the two halves of a barrier: what is written there is written too late.
__global__ void halves(Job job) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  int const i = threadIdx.x;
  if (!job.bug) row(job, 0)[i] = job.comm.rank;
  bar.arrive(cta, cuda::memory_order_release);
  if (job.bug) row(job, 0)[i] = job.comm.rank;  // bug of: halves
  bar.wait(cta, cuda::memory_order_acquire);
  job.out[i] = rowOf(job, next(job), 0)[i];  // bug of: halves
  bar.sync(cta, cuda::memory_order_acq_rel);
}

// Regions cut from one window: the second begins behind so many elements, in place of bytes.
__global__ void regions(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  size_t const dispatched = 8 * kRow, combined = dispatched + (job.bug ? kThreads : kRow);
  row(job, 0)[i] = row(job, 1)[i] = i;
  gin.put(world, next(job), job.window, dispatched, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: regions
  gin.put(world, before(job), job.window, combined, job.window, kRow, kRow, ncclGin_SignalInc{1}, ncclGin_None{}, cta);  // bug of: regions
  gin.waitSignal(cta, 0, 1);
  job.out[i] = job.memory[dispatched / sizeof(int) + i];  // bug of: regions
  gin.waitSignal(cta, 1, 1);
  gin.flush(cta);
}

// One block puts, another waits until the source is free: for nothing, if nobody has told it that the put was called.
__global__ void quiet(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> posted(job.local[0]);
  if (blockIdx.x == 0) {
    for (int work = 0; work < 200; work++) __nanosleep(20);
    gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: quiet
    if (i == 0) posted.store(1, cuda::memory_order_release);
    gin.waitSignal(cta, 0, 1);
  } else {
    if (job.bug) gin.flush(cta);
    while (i == 0 && posted.load(cuda::memory_order_acquire) == 0) __nanosleep(20);
    __syncthreads();
    if (!job.bug) gin.flush(cta);
    row(job, 0)[i] = 7;  // bug of: quiet
  }
}

// A message more is expected: by each thread.
__global__ void shadows(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  if (job.bug || threadIdx.x == 0) gin.increaseSignalShadow(0, 1);
  __syncthreads();
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
  gin.waitSignalMeetShadow(cta, 0);  // bug of: shadows
  gin.flush(cta);
}

// One message more than before, each time: the shadow is not moved by the wait.
__global__ void follow(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const i = threadIdx.x;
  for (int step = 0; step < 3; step++) {
    gin.put(world, next(job), job.window, (8 + step) * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: follow
    uint64_t was, more;
    gin.waitSignalFollowShadow(cta, 0, uint64_t(1), &was, &more);
    if (!job.bug && i == 0) gin.increaseSignalShadow(0, 1);
    __syncthreads();
    job.out[i] = row(job, 8 + step)[i];  // bug of: follow
  }
  gin.flush(cta);
}

// Each launch begins with signals at zero: what the other has sent by then is lost.
__global__ void zero(Job job) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  if (job.bug && threadIdx.x == 0) gin.resetSignal(0);  // bug of: zero
  __syncthreads();
  gin.put(world, next(job), job.window, 8 * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: zero
  gin.waitSignal(cta, 0, 1);  // bug of: zero
  gin.flush(cta);
  if (job.bug) return;
  if (threadIdx.x == 0) gin.resetSignal(0);
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), 0);
  bar.sync(cta, cuda::memory_order_acq_rel);
}

// Tokens take the next free slot at the expert's; how many there are is counted when the slot is taken, before it is filled.
__global__ void slots(Job job) {
  int const i = threadIdx.x, expert = 0, n = job.comm.nRanks;
  int* count = rowOf(job, expert, 20);
  int const slot = atomicAdd_system(count, 1);
  rowOf(job, expert, 0)[slot] = job.comm.rank;  // bug of: slots
  if (!job.bug) __threadfence_system(), atomicAdd_system(count + 1, 1);
  if (job.comm.rank != expert) return;
  while (atomicAdd_system(job.bug ? count : count + 1, 0) < n * kThreads) __nanosleep(20);
  __threadfence_system();
  for (int from = 0; from < n; from++) job.out[i] += row(job, from)[i];  // bug of: slots
}

static const struct { const char* name; void (*kernel)(Job); int blocks, ranks; const char* nodes; } cases[] = {
  {"hierarchy", hierarchy, 1, 4, "0,0,1,1"}, {"phases", phases, 1, 3, nullptr}, {"gemm", gemm, 2, 3, nullptr}, {"attention", attention, 1, 3, nullptr},
  {"migrate", migrate, 1, 3, nullptr}, {"histogram", histogram, 1, 3, nullptr}, {"streams", nullptr, 1, 3, nullptr}, {"contexts", contexts, 5, 3, nullptr},
  {"warps", warps, 1, 3, nullptr}, {"tiles", tiles, 1, 3, nullptr}, {"ticket", ticket, 3, 3, nullptr}, {"small", small, 1, 3, nullptr},
  {"halves", halves, 1, 3, nullptr}, {"regions", regions, 1, 3, nullptr}, {"quiet", quiet, 2, 3, nullptr}, {"shadows", shadows, 1, 3, nullptr},
  {"follow", follow, 1, 3, nullptr}, {"zero", zero, 1, 3, nullptr}, {"slots", slots, 1, 3, nullptr},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(4, 2);
  ncclDevResourceRequirements list = {};
  CHECK(ncclLLA2ACreateRequirement(1, ranks, &job.ll, &list));
  needs.resourceRequirementsList = &list;
  needs.ginContextCount = 4;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  needs.resourceRequirementsList = nullptr;
  CHECK(ncclDevCommCreate(comm, &needs, &job.another));
  cudaStream_t streams_[2];
  for (auto& stream : streams_) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (it.kernel == nullptr) {
    for (int part = 0; part < 2; part++) streams<<<1, kThreads, 0, streams_[part]>>>(job, part);
  } else {
    int const launches = it.kernel == zero ? 2 : 1;
    for (int k = 0; k < launches; k++) it.kernel<<<it.blocks, kThreads>>>(job);
  }
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.another));
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  which = caseOf(cases, argc, argv);
  if (which == sizeof cases / sizeof *cases) return 2;
  mended = argc > 2;
  if (cases[which].nodes) setenv("GINRS_FAKE_NODES", cases[which].nodes, 1);
  return runRanks(cases[which].ranks, runRank);
}
