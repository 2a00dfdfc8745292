// Calls of the device API that only a part of their group makes, one for each mistake, and mended: `group CASE`, `group CASE mended`. Two
// ranks as threads, blocks of 64 threads; rank 0 has the mistake. tests/contracts.rs finds the marked lines ("call of: ...") by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

enum Case { ENDED, CTA, GIN, HYBRID, WARP, LANES, WAIT, FLUSH, SPAN, SPANS, ASSERT, STACK, CASES };
static const char* const names[CASES] = {"ended", "cta", "gin", "hybrid", "warp", "lanes", "wait", "flush", "span", "spans", "assert", "stack"};
static const auto order = cuda::memory_order_acq_rel;
static const auto fence = ncclGinFenceLevel::Relaxed;

struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
};

template <int n>
__device__ __noinline__ int sumOf() {
  volatile char frame[n];
  frame[0] = 1, frame[n - 1] = 2;
  return frame[0] + frame[n - 1];
}

// `comes`: how many threads of the block make the call; all of the group in the mended ones.
__global__ void kernel(Job job, int which, int comes) {
  ncclDevComm const& comm = job.comm;
  ncclGin gin(comm, 0);
  ncclTeam world = ncclTeamWorld(comm);
  int peer = 1 - comm.rank;
  ncclCoopCta cta;
  bool const here = int(threadIdx.x) < comes;
  switch (which) {
    case ENDED:
      if (!here) return;
      [[fallthrough]];
    case CTA:
      if (here) {
        ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
        bar.sync(cta, order);  // call of: cta
      }
      __syncthreads();
      break;
    case GIN:
      if (here) {
        ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamTagRail(), 0);
        bar.sync(cta, order, fence);  // call of: gin
      }
      __syncthreads();
      break;
    case HYBRID: {
      ncclBarrierSession<ncclCoopCta> bar(cta, ncclTeamTagWorld(), gin, here ? 0 : 1);
      bar.sync(cta, order, fence);  // call of: hybrid
      break;
    }
    case WARP:
      if (threadIdx.x < 32 && here) gin.put(world, peer, job.window, 0, job.window, 64, 8, ncclGin_None{}, ncclGin_None{}, ncclCoopWarp());  // call of: warp
      break;
    case LANES:
      if (here) gin.signal(world, peer, ncclGin_SignalInc{0}, ncclCoopWarp());  // call of: lanes
      __syncwarp();
      break;
    case WAIT:
      if (threadIdx.x == 0) gin.signal(world, peer, ncclGin_SignalInc{0});
      if (here) gin.waitSignal(cta, 0, 1);  // call of: wait
      __syncthreads();
      break;
    case FLUSH:
      if (here) gin.flush(cta);  // call of: flush
      __syncthreads();
      break;
    case SPAN:
      if (here) gin.signal(world, peer, ncclGin_SignalInc{0}, ncclCoopWarpSpan(0, 2, 3));  // call of: span
      break;
    case SPANS: {  // of one warp each; the id is the hardware's barrier
      int const warp = threadIdx.x / 32;
      gin.signal(world, peer, ncclGin_SignalInc{0}, ncclCoopWarpSpan(0, 2, 5));
      ncclCoopWarpSpan span(warp, 1, comes < 64 ? 3 : 3 + warp);
      if (threadIdx.x % 32 >= 16) __nanosleep(1000);
      __syncwarp(threadIdx.x % 32 < 16 ? 0xffff : 0xffff0000);
      gin.signal(world, peer, ncclGin_SignalInc{0}, span);  // call of: spans
      break;
    }
    case ASSERT:
      printf("thread %d of rank %d\n", int(threadIdx.x), comm.rank);
      assert(here);  // call of: assert
      break;
    case STACK:
      if (comes < 64 ? sumOf<400000>() : sumOf<4000>()) __syncthreads();
      break;
  }
}

static int which, mended;

static void runRank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(rank));
  CHECK(ncclCommInitRank(&comm, 2, id, rank));
  void* memory;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, 4096));
  CHECK(ncclCommWindowRegister(comm, memory, 4096, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1, needs.barrierCount = 2, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  kernel<<<1, 64>>>(job, which, rank == 0 && !mended ? which == WARP || which == LANES || which == WAIT ? 1 : 32 : 64);
  cudaError_t error = cudaStreamSynchronize(0);
  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(comm, &state));
  printf("rank %d: %s\n", rank, error ? cudaGetErrorName(error) : state ? "ended" : "ok"), fflush(stdout);
  if (error || state) CHECK(ncclCommAbort(comm));
  else CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  for (which = 0; which < CASES && (argc < 2 || strcmp(argv[1], names[which]) != 0);) which++;
  if (which == CASES) return fprintf(stderr, "group CASE [mended]\n"), 2;
  mended = argc > 2;
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  std::thread other(runRank, 1, id);
  runRank(0, id);
  other.join();
}
