// Programs as one writes them from the API's documentation alone, each with one mistake and mended: `more CASE`, `more CASE mended`; ranks as
// threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include "job.cuh"

enum Case {
  MOE_COUNT, MOE_OFFSET, HALO_CORNER, RING_STAGE, KV_BLOCKS, KV_LAYER, PIPE_RELAXED, PIPE_COUNTER,
  A2A_CREDIT, A2A_START, TREE_FLAG, TREE_DOWN, LAST_PUT, HAND_ON, PARITY, ROOT,
  CASES
};
static const char* const names[CASES] = {"moe-count", "moe-offset", "halo-corner", "ring-stage", "kv-blocks", "kv-layer", "pipe-relaxed",
                                         "pipe-counter", "a2a-credit", "a2a-start", "tree-flag", "tree-down", "last-put", "hand-on",
                                         "parity", "root"};

typedef Buffers Job;

__device__ void sendRow(ncclGin const& gin, Job const& job, int peer, int to, int from, ncclGinSignal_t signal) {
  gin.put(ncclTeamWorld(job.comm), peer, job.window, to * kRow, job.window, from * kRow, kRow, ncclGin_SignalInc{signal}, ncclGin_None{}, ncclCoopCta());  // bug of: moe-offset, halo-corner, ring-stage, kv-layer, pipe-relaxed, a2a-credit, parity
}

__global__ void kernel(Job job, int which, bool bug) {
  ncclGin gin(job.comm, 0), own(job.comm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(job.comm), lsa = ncclTeamLsa(job.comm);
  ncclCoopCta cta;
  ncclGin_None const none{};
  auto const both = cuda::memory_order_acq_rel;
  int const rank = job.comm.rank, n = job.comm.nRanks, next = (rank + 1) % n, before = (rank + n - 1) % n, i = threadIdx.x;
  int* mine = job.memory;
  auto row = [&](int r) { return mine + r * kThreads; };
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), blockIdx.x);
  bar.sync(cta, both);
  switch (which) {
    case MOE_COUNT:  // how many tokens there are, in a word behind the tokens
      row(0)[i] = i;
      if (!bug && i == 0) gin.putValue(world, next, job.window, 8 * kRow, kThreads);
      __syncthreads();
      sendRow(gin, job, next, 1, 0, 0);
      if (bug && i == 0) gin.putValue(world, next, job.window, 8 * kRow, kThreads);  // bug of: moe-count
      gin.waitSignal(cta, 0, 1);
      if (i < row(8)[0]) job.out[i] = row(1)[i];  // bug of: moe-count
      break;
    case MOE_OFFSET:  // each source has a row of its own at the expert's
      row(0)[i] = rank;
      if (rank != 0) gin.put(world, 0, job.window, kRow + rank * (bug ? kRow / 2 : kRow), job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);  // bug of: moe-offset
      if (rank == 0) gin.waitSignal(cta, 0, n - 1);
      break;
    case HALO_CORNER:  // the column that came is sent on as a part of the row
      row(0)[i] = rank;
      sendRow(gin, job, next, 1, 0, 0);
      if (!bug) gin.waitSignal(cta, 0, 1);
      sendRow(gin, job, next, 2, 1, 1);
      gin.waitSignal(cta, 1, 1);
      job.out[i] = row(2)[i];
      if (bug) gin.waitSignal(cta, 0, 1);
      break;
    case RING_STAGE:  // reduce-scatter around a ring, through one row of staging
      row(0)[i] = rank;
      for (int step = 0; step < n; step++) {
        if (step > 0) gin.flush(cta);
        if (!bug && step > 0) gin.waitSignal(cta, 1, step);
        sendRow(gin, job, next, 1, 0, 0);
        gin.waitSignal(cta, 0, step + 1);
        int const sum = row(1)[i] + 1;  // bug of: ring-stage
        gin.flush(cta);
        row(0)[i] = sum;
        __syncthreads();
        gin.signal(world, before, ncclGin_SignalInc{1}, cta);
      }
      break;
    case KV_BLOCKS:  // two blocks send the pages of a layer, each on its context
      row(2 * blockIdx.x)[i] = i;
      if (bug && blockIdx.x == 1) {
        own.put(world, next, job.window, 9 * kRow, job.window, 2 * kRow, kRow, none, none, cta);  // bug of: kv-blocks
        own.flush(cta);
      } else {
        own.put(world, next, job.window, (8 + blockIdx.x) * kRow, job.window, 2 * blockIdx.x * kRow, kRow, ncclGin_SignalInc{0}, none, cta);
      }
      if (blockIdx.x == 0) {
        gin.waitSignal(cta, 0, 1);
        if (!bug) ncclGin(job.comm, 1).waitSignal(cta, 0, 1);
        job.out[i] = row(8)[i] + row(9)[i];  // bug of: kv-blocks
      }
      break;
    case KV_LAYER:  // layers come one behind the other
      for (int layer = 0; layer < 3; layer++) {
        row(layer)[i] = layer;
        sendRow(gin, job, next, 8 + layer, layer, 0);
      }
      for (int layer = 0; layer < 3; layer++) {
        gin.waitSignal(cta, 0, bug ? layer : layer + 1);
        job.out[i] = row(8 + layer)[i];  // bug of: kv-layer
      }
      break;
    case PIPE_RELAXED:
      row(0)[i] = rank;
      sendRow(gin, job, next, 1, 0, 0);
      gin.waitSignal(cta, 0, 1, 64, bug ? cuda::memory_order_relaxed : cuda::memory_order_acquire);  // bug of: pipe-relaxed
      job.out[i] = row(1)[i];
      break;
    case PIPE_COUNTER:  // the counter of the message before
      for (int m = 0; m < 2; m++) {
        row(0)[i] = m;  // bug of: pipe-counter
        gin.put(world, next, job.window, (8 + m) * kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);
        gin.waitCounter(cta, 0, bug ? m : m + 1);
      }
      gin.waitSignal(cta, 0, 2);
      break;
    case A2A_CREDIT:  // the credit goes back when one warp has read
      for (int m = 0; m < 2; m++) {
        gin.flush(cta);
        row(0)[i] = m;
        if (m > 0) gin.waitSignal(cta, 1, m);
        sendRow(gin, job, next, 1, 0, 0);
        gin.waitSignal(cta, 0, m + 1);
        if (bug && i == 0) gin.signal(world, before, ncclGin_SignalInc{1});
        job.out[i] = row(1)[i];  // bug of: a2a-credit
        __syncthreads();
        if (!bug && i == 0) gin.signal(world, before, ncclGin_SignalInc{1});
      }
      break;
    case A2A_START:  // nobody has a credit to begin with
      if (bug) gin.waitSignal(cta, 1, 1);  // bug of: a2a-start
      sendRow(gin, job, next, 1, 0, 0);
      gin.waitSignal(cta, 0, 1);
      gin.signal(world, before, ncclGin_SignalInc{1}, cta);
      break;
    case TREE_FLAG:  // a tree by flags: rank 0 tells its children, by one thread for all that the block has stored
      if (rank == 0) {
        for (int child = 1; child < n; child++) static_cast<int*>(ncclGetLsaPointer(job.window, 0, child))[i] = child;  // bug of: tree-flag
        __syncthreads();
        if (i == 0) {
          if (!bug) __threadfence_system();
          for (int child = 1; child < n; child++) atomicExch_system(static_cast<int*>(ncclGetLsaPointer(job.window, kRow, child)), 1);
        }
      } else {
        while (i == 0 && atomicAdd_system(row(1), 0) == 0) __nanosleep(20);
        __syncthreads();
        job.out[i] = row(0)[i];  // bug of: tree-flag
      }
      break;
    case TREE_DOWN: {  // what is stored at the children is read behind a barrier that releases alone
      ncclLsaBarrierSession<ncclCoopCta> down(cta, job.comm, ncclTeamTagLsa(), 2);
      if (lsa.rank == 0)
        for (int child = 1; child < n; child++) static_cast<int*>(ncclGetLsaPointer(job.window, 0, child))[i] = child;
      down.sync(cta, bug ? cuda::memory_order_release : both);  // bug of: tree-down
      job.out[i] = row(0)[i];
      break;
    }
    case LAST_PUT: {  // the block that comes last sends what both have made
      __shared__ bool isLast;
      row(blockIdx.x)[i] = i;  // bug of: last-put
      if (!bug) __threadfence();
      __syncthreads();
      if (i == 0) isLast = atomicAdd(job.local, 1) == 1;
      __syncthreads();
      if (!isLast) break;
      gin.put(world, next, job.window, 8 * kRow, job.window, 0, 2 * kRow, ncclGin_SignalInc{0}, none, cta);  // bug of: last-put
      gin.waitSignal(cta, 0, 1);
      break;
    }
    case HAND_ON:  // one block waits for the message, and tells the other
      if (blockIdx.x == 0) {
        row(0)[i] = rank;
        sendRow(gin, job, next, 8, 0, 0);
        gin.waitSignal(cta, 0, 1);
        if (!bug) __threadfence();
        if (i == 0) atomicExch(job.local, 1);  // bug of: hand-on
      } else {
        while (i == 0 && atomicAdd(job.local, 0) == 0) __nanosleep(20);
        __syncthreads();
        job.out[i] = row(8)[i];  // bug of: hand-on
      }
      break;
    case PARITY:  // two rows in turn, by the wrong bit of the step
      for (int step = 0; step < 4; step++) {
        int const at = bug ? step / 2 : step % 2;
        if (step >= 2) gin.waitSignal(cta, 1, step - 1);
        if (step >= 2) gin.flush(cta);
        row(at)[i] = step;  // bug of: parity
        sendRow(gin, job, next, 8 + step % 2, at, 0);
        gin.waitSignal(cta, 0, step + 1);
        job.out[i] = row(8 + step % 2)[i];
        gin.signal(world, before, ncclGin_SignalInc{1}, cta);
      }
      break;
  }
  gin.flush(cta);
  bar.sync(cta, both);
}

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  bool const bug = !mended;
  Job job = {};
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(4, 3);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  bool const hasTwo = which == KV_BLOCKS || which == LAST_PUT || which == HAND_ON;
  if (which == ROOT) CHECK(ncclReduce(job.local, job.out, 256, ncclInt, ncclSum, bug && rank == 1 ? 1 : 0, comm, nullptr));  // bug of: root
  else kernel<<<hasTwo ? 2 : 1, kThreads>>>(job, which, bug);
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  which = whichOf(names, argc, argv);
  if (which == CASES) return 2;
  mended = argc > 2;
  return runRanks(3, runRank);
}
