// Programs that race, one for each mistake, and their mended twins: `race CASE` and `race CASE mended`, 2 ranks as threads of one
// process, or processes of `ginrs-run -n 2`. tests/races.rs compiles it with --check=race and finds the marked lines by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common/ranks.h"

enum Case { FLUSH, COUNTER, SIGNAL, SYNC, PRESSURE, LSA, SHARED, GLOBAL, WARP, FORWARD, RESET, RECOUNT, FENCE, SCOPE, AGAIN, NONE, OTHER, PEEK, POLL, EARLY, POINTER, ELEMENT, MIXED, RELEASED, WAITED, RELAXED, LAST, CASES };
static const char* const names[CASES] = {"flush", "counter", "signal", "sync", "pressure", "lsa", "shared", "global", "warp", "forward", "reset", "recount", "fence", "scope", "again", "none", "other", "peek", "poll", "early", "pointer", "element", "mixed", "released", "waited", "relaxed", "last"};

struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
  int* memory; // the window's, as the program knows it
  int* other;  // of the device alone
};

__device__ int sum(volatile int* words, int n) {
  int all = 0;
  for (int i = 0; i < n; i++) all += words[i];
  return all;
}

__global__ void kernel(Job job, int which, bool mended, int* out) {
  ncclDevComm const& comm = job.comm;
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  ncclTeam world = ncclTeamWorld(comm);
  int const rank = comm.rank, next = (rank + 1) % comm.nRanks, me = threadIdx.x, n = blockDim.x;
  bool const isFirst = rank == 0;
  int* mine = job.memory;
  size_t const half = 4096;
  {  // Both run from here on: what had ended before the other began would be ordered.
    ncclLsaBarrierSession<ncclCoopCta> both(cta, comm, ncclTeamTagLsa(), 1 + blockIdx.x);
    both.sync(cta, cuda::memory_order_acq_rel);
  }
  switch (which) {
    case FLUSH:  // the source changes while the put may still read it
      if (isFirst) {
        mine[me] = me;
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: flush
        if (mended) gin.flush(cta);
        mine[me] = 7;  // race of: flush
      }
      break;
    case COUNTER:  // the same, with a counter
      if (isFirst) {
        mine[me] = me;
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);  // put of: counter
        if (mended) gin.waitCounter(cta, 0, 1);
        mine[me] = 7;  // race of: counter
      }
      break;
    case AGAIN:  // the counter still holds what an earlier put has added
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);
        gin.waitCounter(cta, 0, 1);
        gin.put(world, next, job.window, 2 * half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);  // put of: again
        gin.waitCounter(cta, 0, mended ? 2 : 1);
        mine[me] = 7;  // race of: again
      }
      break;
    case NONE:  // who has waited for no message knows of none
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);  // put of: none
        gin.waitCounter(cta, 0, mended ? 1 : 0, 64);
        mine[me] = 7;  // race of: none
      }
      break;
    case OTHER:  // the counter of a later put says nothing of an earlier one
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);  // put of: other
        gin.put(world, next, job.window, 2 * half, job.window, 3 * half, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_CounterInc{1}, cta);
        gin.waitCounter(cta, mended ? 0 : 1, 1);
        mine[me] = 7;  // race of: other
      }
      break;
    case PEEK:  // that the last word is there says nothing of the others
      if (isFirst) {
        mine[me] = me + 1;
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: peek
        gin.flush(cta);
      } else {
        cuda::atomic_ref<int, cuda::thread_scope_system> last(mine[half / sizeof(int) + n - 1]);
        while (last.load() == 0) __nanosleep(20);
        if (mended) gin.waitSignal(cta, 0, 1);
        out[me] = mine[half / sizeof(int) + me];  // race of: peek
      }
      break;
    case POLL:  // a volatile read waits for nothing
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: poll
        gin.flush(cta);
      } else {
        if (mended) gin.waitSignal(cta, 0, 1);
        out[me] = *reinterpret_cast<volatile int*>(mine + half / sizeof(int));  // race of: poll
        if (!mended) gin.waitSignal(cta, 0, 1);
      }
      break;
    case EARLY: {  // the same, and the put comes for sure behind the read
      ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
      for (int round = 0; round < 2; round++) {
        if (round == 1) {
          bar.sync(cta, cuda::memory_order_relaxed);
          if (isFirst) gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: early
          else gin.waitSignal(cta, 0, 1);
        }
        if (!isFirst && round == mended) out[me] = mine[half / sizeof(int) + me];  // race of: early
      }
      gin.flush(cta);
      break;
    }
    case SIGNAL:  // the target is read and the signal is awaited behind that
      if (isFirst) {
        mine[me] = me;
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: signal
        gin.flush(cta);
      } else {
        if (mended) gin.waitSignal(cta, 0, 1);
        out[me] = mine[half / sizeof(int) + me];  // race of: signal
        if (!mended) gin.waitSignal(cta, 0, 1);
      }
      break;
    case SYNC:  // one thread puts what others write
      if (isFirst) {
        mine[me] = me;  // race of: sync
        if (mended) __syncthreads();
        if (me == 0) gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0});  // put of: sync
        __syncthreads();
        gin.flush(cta);
      }
      break;
    case PRESSURE:  // two messages through one buffer, and nobody says that the first has been read
      for (int message = 0; message < 2; message++) {
        if (isFirst) {
          if (mended && message > 0) gin.waitSignal(cta, 1, message);
          gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: pressure
        } else {
          gin.waitSignal(cta, 0, message + 1);
          out[me] = mine[half / sizeof(int) + me];  // race of: pressure
          gin.signal(world, next, ncclGin_SignalInc{1}, cta);
        }
      }
      break;
    case LSA: {  // a store to a peer's memory, which reads it
      ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
      int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, 0, next));
      if (isFirst) theirs[me] = me + 1;  // put of: lsa
      bar.sync(cta, mended ? cuda::memory_order_acq_rel : cuda::memory_order_relaxed);  // wait of: lsa
      if (!isFirst) out[me] = mine[me];  // race of: lsa
      break;
    }
    case SHARED: {
      __shared__ int words[64];
      words[me] = me;  // put of: shared
      if (mended) __syncthreads();
      out[me] = words[n - 1 - me];  // race of: shared
      break;
    }
    case GLOBAL:  // blocks
      if (blockIdx.x == 0) {
        if (me == 0) job.other[0] = 5;  // put of: global
        __threadfence();
        if (me == 0) atomicExch(&job.other[64], 1);
      } else if (me == 0) {
        if (mended) {
          while (atomicAdd(&job.other[64], 0) == 0) {}
        }
        out[0] = job.other[0];  // race of: global
      }
      break;
    case WARP: {
      __shared__ int lanes[32];
      if (me < 32) {
        lanes[me] = me;  // put of: warp
        if (mended) __syncwarp();
        out[me] = lanes[me ^ 1];  // race of: warp
      }
      break;
    }
    case FORWARD:  // what has landed is put on, by a block that has not waited for it
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: forward
        gin.waitSignal(cta, 2, 1);
      } else {
        if (mended) gin.waitSignal(cta, 0, 1);
        gin.put(world, next, job.window, 2 * half, job.window, half, n * sizeof(int), ncclGin_SignalInc{2}, ncclGin_None{}, cta);  // race of: forward
        gin.flush(cta);
      }
      break;
    case RESET:  // a signal starts anew, and who raises it does not know
      for (int message = 0; message < 2; message++) {
        if (isFirst) {
          if (mended && message > 0) gin.waitSignal(cta, 1, 1);
          gin.signal(world, next, ncclGin_SignalInc{0}, cta);  // put of: reset
        } else if (message == 0) {
          gin.waitSignal(cta, 0, 1);
          if (me == 0) gin.resetSignal(0);  // race of: reset
          gin.signal(world, next, ncclGin_SignalInc{1}, cta);
        }
      }
      break;
    case RECOUNT:  // a counter does, and the put that raises it may not be done
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_None{}, ncclGin_CounterInc{1}, cta);  // put of: recount
        if (mended) gin.waitCounter(cta, 1, 1);
        if (me == 0) gin.resetCounter(1);  // race of: recount
        gin.flush(cta);
      }
      break;
    case MIXED:  // one signal is raised in two ways
      if (isFirst) {
        gin.signal(world, next, ncclGin_SignalInc{2}, cta);  // put of: mixed
        if (mended) gin.waitSignal(cta, 1, 1);
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalAdd{2, 1}, ncclGin_None{}, cta);  // race of: mixed
        gin.flush(cta);
      } else {
        gin.waitSignal(cta, 2, mended ? 1 : 2);
        if (!mended) break;
        if (me == 0) gin.resetSignal(2);
        gin.signal(world, next, ncclGin_SignalInc{1}, cta);
        gin.waitSignal(cta, 2, 1);
      }
      break;
    case RELEASED: {  // a barrier that releases, and does not acquire
      ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
      if (isFirst) static_cast<int*>(ncclGetLsaPointer(job.window, 0, next))[me] = me + 1;  // put of: released
      bar.sync(cta, cuda::memory_order_release);  // wait of: released
      if (mended) cuda::atomic_thread_fence(cuda::memory_order_acquire);
      if (!isFirst) out[me] = mine[me];  // race of: released
      break;
    }
    case WAITED:  // the signal is seen, and what it covers is not acquired
      if (isFirst) {
        gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: waited
        gin.flush(cta);
        gin.waitSignal(cta, 1, 1);  // a rank that leaves has done all that it has posted
      } else {
        gin.waitSignal(cta, 0, 1, 64, cuda::memory_order_relaxed);  // wait of: waited
        if (mended && me == 0) __threadfence_system();
        __syncthreads();
        out[me] = mine[half / sizeof(int) + me];  // race of: waited
        gin.signal(world, next, ncclGin_SignalInc{1}, cta);
      }
      break;
    case RELAXED: {  // the same of a GIN barrier
      ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamTagWorld(), 0);
      if (isFirst) gin.put(world, next, job.window, half, job.window, 0, n * sizeof(int), ncclGin_None{}, ncclGin_None{}, cta);  // put of: relaxed
      bar.sync(cta, mended ? cuda::memory_order_acq_rel : cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);  // wait of: relaxed
      if (!isFirst) out[me] = mine[half / sizeof(int) + me];  // race of: relaxed
      gin.flush(cta);
      bar.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
      break;
    }
    case LAST: {  // the block that comes last adds up what all have written
      __shared__ bool isLast;
      job.other[blockIdx.x * n + me] = me;  // put of: last
      if (mended) __threadfence();
      __syncthreads();
      if (me == 0) isLast = atomicAdd(&job.other[512], 1) == int(gridDim.x) - 1;  // wait of: last
      __syncthreads();
      if (isLast) out[me] = job.other[me] + job.other[n + me];  // race of: last
      break;
    }
    case FENCE: {  // a flag for another rank, behind a fence for the block
      int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, 0, next));
      if (me != 0) break;
      if (isFirst) {
        theirs[1] = 5;  // put of: fence
        if (mended) __threadfence_system(); else __threadfence_block();
        *static_cast<volatile int*>(theirs + 64) = 1;
      } else {
        while (static_cast<volatile int*>(mine)[64] == 0) {}
        __threadfence_system();
        out[0] = mine[1];  // race of: fence
      }
      break;
    }
    case SCOPE:  // an atomic of a block, for another one
      if (me != 0) break;
      if (blockIdx.x == 0) {
        job.other[0] = 5;  // put of: scope
        if (mended) {
          cuda::atomic_ref<int, cuda::thread_scope_device>(job.other[64]).store(1, cuda::memory_order_release);
        } else {
          cuda::atomic_ref<int, cuda::thread_scope_block>(job.other[64]).store(1, cuda::memory_order_release);
        }
      } else {
        while (cuda::atomic_ref<int, cuda::thread_scope_device>(job.other[64]).load(cuda::memory_order_acquire) == 0) {}
        out[0] = job.other[0];  // race of: scope
      }
      break;
  }
}

// No session tells of the window: pointers into it alone, and elements that say nothing of other memory.
__global__ void bare(Job job, ncclLLA2AHandle elements, int which, bool mended, int* out) {
  ncclTeam const lsa = ncclTeamLsa(job.comm);
  int const me = threadIdx.x, next = 1 - lsa.rank;
  int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, 0, next));
  if (lsa.rank == 0) theirs[me] = me;  // put of: pointer, element
  __syncthreads();
  if (which == ELEMENT && !mended) {
    ncclLLA2ASession<ncclCoopCta> session(ncclCoopCta(), job.comm, lsa, elements, 0, 2);
    if (me == 0) session.send(next, lsa.rank, 1);
    if (me == 0) session.recv<int>(next);
    __syncthreads();
  } else if (me == 0) {
    if (mended) __threadfence_system();
    *reinterpret_cast<volatile int*>(theirs + 1024) = 1;
    while (reinterpret_cast<volatile int*>(job.memory)[1024] == 0) {}
    if (mended) __threadfence_system();
  }
  __syncthreads();
  if (lsa.rank == 1) out[me] = job.memory[me];  // race of: pointer, element
}

static int which;
static bool mended;

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(cudaMemset(memory, 0, 1 << 16));
  CHECK(cudaDeviceSynchronize());
  job.memory = static_cast<int*>(memory);
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  int* out;
  CHECK(cudaMalloc(&job.other, 4096));
  CHECK(cudaMalloc(&out, 4096));
  CHECK(cudaMemset(job.other, 0, 4096));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  ncclLLA2AHandle elements;
  ncclDevResourceRequirements list = {};
  CHECK(ncclLLA2ACreateRequirement(1, 2, &elements, &list));
  needs.resourceRequirementsList = &list;
  needs.ginSignalCount = 4, needs.ginCounterCount = 2, needs.lsaBarrierCount = 3, needs.railGinBarrierCount = 1, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  if (which == POINTER || which == ELEMENT) bare<<<1, 64>>>(job, elements, which, mended, out);
  else kernel<<<which == GLOBAL || which == SCOPE || which == LAST ? 2 : 1, 64>>>(job, which, mended, out);
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: ok\n", rank), fflush(stdout);
}

int main(int argc, char** argv) {
  which = whichOf(names, argc, argv);
  if (which == CASES) return 2;
  mended = argc > 2;
  return runRanks(2, runRank);
}
