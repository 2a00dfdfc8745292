// More programs of the field, each with one mistake and mended: `around CASE`, `around CASE mended`; ranks as threads of one process, or as
// processes of ginrs-run. tests/field.rs runs them under `ginrs-run --check` and finds the lines that have to be named ("bug of: CASE"; of
// messages that are received in another order none is).
#include <nccl.h>
#include <nccl_device.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vector>
#include "../common/ranks.h"

enum Case {
  ALIAS, VALUE, SELF, COUNTER, SHADOW, BITS, CONTEXT, SHARED_COUNTER, LSA_FLAG, REUSE, IN_PLACE,  // in one kernel
  RECEIVED, EVENT, UNWRITTEN,                                                                           // streams
  COMMS, GONE, MEMSET, ORDER, COPY, MISSING, SENDS, SIZES, ROOTS, COUNTS,                                                       // what the host does
  CASES
};
static const char* const names[CASES] = {"alias", "value", "self", "counter", "shadow", "bits", "context", "shared-counter",
                                         "lsa-flag", "reuse", "in-place", "received", "event", "unwritten", "comms",
                                         "gone", "memset", "order", "copy", "missing", "sends", "sizes", "roots", "counts"};
static const int kThreads = 64;
static const size_t kRow = kThreads * sizeof(int), kBytes = 1 << 16;

struct Job {
  ncclDevComm comm;
  ncclWindow_t window, second;
  int *memory, *out, *wrong, *local;
};

__device__ void expect(Job const& job, int got, int wanted) {
  if (got != wanted) atomicAdd(job.wrong, 1);
}
__device__ void meet(Job const& job, cuda::memory_order order) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), blockIdx.x);
  bar.sync(cta, order);
}

__global__ void kernel(Job job, int which, bool bug) {
  ncclGin gin(job.comm, 0), other(job.comm, 1);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const rank = job.comm.rank, n = job.comm.nRanks, next = (rank + 1) % n, before = (rank + n - 1) % n, i = threadIdx.x;
  int* mine = job.memory;
  int const row = kThreads;
  ncclGin_None const none{};
  meet(job, cuda::memory_order_acq_rel);
  switch (which) {
    case ALIAS:  // a ring step in one row: it is sent and received into
      mine[i] = rank;
      if (!bug) meet(job, cuda::memory_order_acq_rel);
      gin.put(world, next, job.window, bug ? 0 : kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);  // bug of: alias
      gin.waitSignal(cta, 0, 1);
      gin.flush(cta);
      expect(job, mine[(bug ? 0 : row) + i], before);
      break;
    case VALUE:  // everybody tells rank 0 how many it has, in one word
      if (rank != 0 && i == 0) gin.putValue(world, 0, job.window, bug ? 0 : rank * sizeof(int), rank, ncclGin_SignalInc{0});  // bug of: value
      if (rank == 0) gin.waitSignal(cta, 0, n - 1);
      break;
    case SELF:  // also a put to oneself takes its time
      mine[i] = i;
      gin.put(world, rank, job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);
      if (!bug) gin.waitSignal(cta, 0, 1);
      expect(job, mine[row + i], i);  // bug of: self
      if (bug) gin.waitSignal(cta, 0, 1);
      break;
    case COUNTER: {  // a counter says that the source is free, not that the payload is there
      mine[i] = i;
      gin.put(world, next, job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);
      gin.waitCounter(cta, 0, 1);
      meet(job, cuda::memory_order_acq_rel);
      if (!bug) gin.waitSignal(cta, 0, 1);
      expect(job, mine[row + i], i);  // bug of: counter
      break;
    }
    case SHADOW:  // two are awaited, one comes
      if (i == 0) gin.increaseSignalShadow(0, bug ? 2 : 1);
      __syncthreads();
      gin.signal(world, next, ncclGin_SignalInc{0}, cta);
      gin.waitSignalMeetShadow(cta, 0);  // bug of: shadow
      break;
    case BITS:  // 256 is 0 of 8 bits
      if (rank == 0) {
        for (int k = 0; k < 256; k++) gin.signal(world, 1, ncclGin_SignalInc{0}, cta);
        mine[i] = i;
        gin.put(world, 1, job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);
        gin.flush(cta);
      } else if (rank == 1) {
        gin.waitSignal(cta, 0, bug ? 256 : 257, bug ? 8 : 32);
        expect(job, mine[row + i], i);  // bug of: bits
        if (bug) gin.waitSignal(cta, 0, 257);
      }
      break;
    case CONTEXT:  // a flush is of its context alone
      mine[i] = i;
      gin.put(world, next, job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);
      if (bug) other.flush(cta); else gin.flush(cta);
      mine[i] = 7;  // bug of: context
      gin.waitSignal(cta, 0, 1);
      break;
    case SHARED_COUNTER: {  // two warps, one counter: 1 may be the other's
      ncclCoopWarp warp;
      int const w = i / 32;
      mine[i] = i;
      __syncwarp();
      gin.put(world, next, job.window, kRow + w * kRow / 2, job.window, w * kRow / 2, kRow / 2, ncclGin_SignalInc{0}, ncclGin_CounterInc{ncclGinCounter_t(bug ? 0 : w)}, warp);
      gin.waitCounter(warp, bug ? 0 : w, 1);
      mine[i] = 7;  // bug of: shared-counter
      gin.waitSignal(cta, 0, 2);
      break;
    }
    case LSA_FLAG: {  // data and flag by plain stores to a peer
      int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, 0, next));
      if (i != 0) break;
      theirs[0] = rank;
      if (!bug) __threadfence_system();
      *static_cast<volatile int*>(theirs + row) = 1;
      while (static_cast<volatile int*>(mine)[row] == 0) __nanosleep(20);
      __threadfence_system();
      expect(job, mine[0], before);  // bug of: lsa-flag
      break;
    }
    case REUSE: {  // a tile that is filled again while others read it
      __shared__ int tile[kThreads];
      for (int k = 0; k < 4; k++) {
        tile[i] = k + i;  // bug of: reuse
        __syncthreads();
        expect(job, tile[row - 1 - i], k + row - 1 - i);
        if (!bug) __syncthreads();
      }
      break;
    }
    case IN_PLACE: {  // an all-reduce whose sums go where the others read
      mine[i] = rank + 1;
      meet(job, cuda::memory_order_acq_rel);
      int all = 0;
      for (int peer = 0; peer < n; peer++) all += static_cast<int*>(ncclGetLsaPointer(job.window, 0, peer))[i];
      if (!bug) meet(job, cuda::memory_order_acq_rel);
      mine[i] = all;  // bug of: in-place
      expect(job, all, n * (n + 1) / 2);
      break;
    }
    case ORDER: case MISSING: case COPY: case SENDS: case SIZES: case ROOTS: case COUNTS:
      break;
    default:  // a put to the next one, and the wait for the one before
      gin.put(world, next, which == GONE ? job.second : job.window, kRow, job.window, 0, kRow, ncclGin_SignalInc{0}, none, cta);  // bug of: unwritten, gone
      gin.waitSignal(cta, 0, 1);
      gin.flush(cta);
  }
}
__global__ void fill(int* to, int value) { to[threadIdx.x] = value; }  // bug of: unwritten
__global__ void sums(Job job, int from) { job.out[threadIdx.x] = job.memory[from + threadIdx.x]; }  // bug of: received, event
__global__ void meets(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);  // bug of: comms
}

static int which, mended;

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  bool const bug = !mended;
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void *memory, *more;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, kBytes));
  CHECK(ncclMemAlloc(&more, kBytes));
  CHECK(cudaMemset(memory, 0, kBytes));
  job.memory = static_cast<int*>(memory);
  CHECK(cudaMallocManaged(&job.wrong, sizeof(int)));
  *job.wrong = 0;
  CHECK(cudaMalloc(&job.out, kRow));
  CHECK(cudaMalloc(&job.local, 1 << 23));
  CHECK(cudaMemset(job.local, 0, 1 << 23));
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclCommWindowRegister(comm, memory, kBytes, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(ncclCommWindowRegister(comm, more, kBytes, &job.second, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 4, needs.ginCounterCount = 2, needs.lsaBarrierCount = 4, needs.railGinBarrierCount = 1, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  cudaStream_t first, second;
  cudaEvent_t event;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&event));
  auto const after = [&](bool is) {
    if (!is) return;
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
  };
  bool isLeft = false;
  if (which == RECEIVED || which == EVENT) {
    after(which == EVENT && bug);
    if (rank == 1) usleep(200000);
    kernel<<<1, kThreads, 0, first>>>(job, which, bug);
    after(!bug);
    sums<<<1, kThreads, 0, second>>>(job, kThreads);
  } else if (which == UNWRITTEN) {
    fill<<<1, kThreads, 0, first>>>(job.memory, rank);
    after(!bug);
    kernel<<<1, kThreads, 0, bug ? first : second>>>(job, which, bug);
    if (bug) fill<<<1, kThreads, 0, second>>>(job.memory, rank);
  } else if (which == COMMS) {  // two communicators' kernels on one stream, in two orders
    ncclComm_t another;
    ncclDevComm dev;
    CHECK(ncclCommSplit(comm, 0, rank, &another, nullptr));
    CHECK(ncclDevCommCreate(another, &needs, &dev));
    bool const isSwapped = bug && rank == 1;
    meets<<<1, kThreads, 0, first>>>(isSwapped ? dev : job.comm);
    meets<<<1, kThreads, 0, first>>>(isSwapped ? job.comm : dev);
    CHECK(cudaStreamSynchronize(first));
    ncclResult_t state;
    CHECK(ncclCommGetAsyncError(another, &state));
    if (!state) CHECK(ncclDevCommDestroy(another, &dev));
    CHECK(state ? ncclCommAbort(another) : ncclCommDestroy(another));
  } else if (which == GONE) {
    isLeft = bug && rank == 1;
    if (isLeft) CHECK(ncclCommWindowDeregister(comm, job.second));
    // Rank 1 has deregistered its window before the kernel of rank 0 begins.
    if (bug) CHECK(ncclAllReduce(job.local, job.local, 1, ncclInt, ncclSum, comm, first));
    if (bug) CHECK(cudaStreamSynchronize(first));
    kernel<<<1, kThreads, 0, first>>>(job, which, bug);
  } else if (which == MEMSET) {  // what comes is wiped
    kernel<<<1, kThreads, 0, first>>>(job, which, bug);
    if (!bug) CHECK(cudaStreamSynchronize(first));
    CHECK(cudaMemsetAsync(job.memory + kThreads, 0, kRow, second));  // bug of: memset
  } else if (which == ORDER) {
    for (int k = 0; k < 2; k++) {
      bool const isSum = (bug && rank == 1) != (k == 0);
      if (isSum) CHECK(ncclAllReduce(job.local, job.local, 64, ncclInt, ncclSum, comm, first));  // bug of: order
      else CHECK(ncclBroadcast(job.local, job.local, 64, ncclInt, 0, comm, first));  // bug of: order
    }
  } else if (which == COPY) {
    std::vector<int> to(kThreads);
    if (rank == 1) usleep(200000);
    CHECK(ncclAllReduce(job.local, job.memory, kThreads, ncclInt, ncclSum, comm, first));  // bug of: copy
    if (!bug) CHECK(cudaStreamSynchronize(first));
    CHECK(cudaMemcpyAsync(to.data(), job.memory, kRow, cudaMemcpyDeviceToHost, second));  // bug of: copy
    CHECK(cudaDeviceSynchronize());
  } else if (which == MISSING) {
    if (!bug || rank != 1) CHECK(ncclAllReduce(job.local, job.local, 64, ncclInt, ncclSum, comm, first));  // bug of: missing
  } else if (which == SENDS) {  // a ring in which all send first, in no group
    int const n = 1 << 20;
    if (!bug) CHECK(ncclGroupStart());
    CHECK(ncclSend(job.local, n, ncclInt, (rank + 1) % ranks, comm, first));  // bug of: sends
    CHECK(ncclRecv(job.local + n, n, ncclInt, (rank + ranks - 1) % ranks, comm, first));
    if (!bug) CHECK(ncclGroupEnd());
  } else if (which == ROOTS) {  // everybody is the root
    CHECK(ncclBroadcast(job.local, job.local, 1 << 20, ncclInt, bug ? rank : 0, comm, first));  // bug of: roots
  } else if (which == COUNTS) {  // one rank has less to give
    CHECK(ncclAllReduce(job.local, job.local, bug && rank == 1 ? 32 : 64, ncclInt, ncclSum, comm, first));  // bug of: counts
  } else if (which == SIZES) {  // two messages of one pair are received in the other order
    for (int k = 0; k < 2; k++) {
      int const count = 64 << k, wanted = bug ? 128 >> k : count;
      if (rank == 0) CHECK(ncclSend(job.local, count, ncclInt, 1, comm, first));
      if (rank == 1) CHECK(ncclRecv(job.local, wanted, ncclInt, 0, comm, first));
    }
  } else {
    kernel<<<1, kThreads, 0, first>>>(job, which, bug);
  }
  awaitKernels(comm, rank, job.wrong);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  if (!isLeft) CHECK(ncclCommWindowDeregister(comm, job.second));
  CHECK(ncclCommDestroy(comm));
  if (*job.wrong) exitOnce(1);
}

int main(int argc, char** argv) {
  which = whichOf(names, argc, argv);
  if (which == CASES) return 2;
  mended = argc > 2;
  return runRanks(3, runRank);
}
