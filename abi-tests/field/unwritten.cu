// Reads of what nobody has written: a wrong offset, a wrong count, a buffer that was not zeroed, each with one mistake and mended: `unwritten CASE`,
// `unwritten CASE mended`; ranks as threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines that have to
// be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <string.h>
#include "job.cuh"

struct Job : Buffers {
  ncclWindow_t fresh;  // of `memory` here, which nobody has zeroed
  int* scratch;        // nor this
  ncclComm_t host;
};

__device__ ncclGin_SignalInc inc(int signal) { return ncclGin_SignalInc{ncclGinSignal_t(signal)}; }

// Each rank sends a row, which lies in row 1 + its rank of the next one's.
__global__ void offset(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  gin.put(ncclTeamWorld(job.comm), next(job), job.fresh, (1 + job.comm.rank) * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);
  gin.waitSignal(cta, 0, 1);
  int from = job.bug ? job.comm.rank : before(job);
  job.out[threadIdx.x] = row(job, 1 + from)[threadIdx.x];  // bug of: offset
  gin.flush(cta);
}

// Of numbers the put has a quarter, for their count is not their bytes.
__global__ void count(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  gin.put(ncclTeamWorld(job.comm), next(job), job.fresh, 0, job.window, 0, job.bug ? kThreads : kRow, inc(0), ncclGin_None{}, cta);
  gin.waitSignal(cta, 0, 1);
  job.out[threadIdx.x] = job.memory[threadIdx.x];  // bug of: count
  gin.flush(cta);
}

// A word of 8 bytes for each rank, read where words of 4 would lie.
__global__ void value(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  if (threadIdx.x == 0) {
    for (int peer = 0; peer < job.comm.nRanks; peer++) {
      gin.putValue(ncclTeamWorld(job.comm), peer, job.fresh, 16 * job.comm.rank, (long long)(job.comm.rank), inc(0));
    }
  }
  gin.waitSignal(cta, 0, job.comm.nRanks);
  if (int(threadIdx.x) < job.comm.nRanks) {
    long long const* words = reinterpret_cast<long long*>(job.memory);
    job.out[threadIdx.x] = int(words[threadIdx.x * (job.bug ? 1 : 2)]);  // bug of: value
  }
  gin.flush(cta);
}

// What a rank has stored for itself is read at its peer's.
__global__ void peers(Job job) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> barrier(cta, job.comm, ncclTeamTagLsa(), 0);
  row(job, job.comm.rank)[threadIdx.x] = threadIdx.x;
  barrier.sync(cta, cuda::memory_order_acq_rel);
  int peer = next(job);
  int* its = static_cast<int*>(ncclGetLsaPointer(job.fresh, (job.bug ? job.comm.rank : peer) * kRow, peer));
  job.out[threadIdx.x] = its[threadIdx.x];  // bug of: peers
  barrier.sync(cta, cuda::memory_order_acq_rel);
}

// A counter that is not zeroed.
__global__ void counts(Job job) {
  atomicAdd(job.scratch, 1);  // bug of: counter
}
static void counter(Job const& job) {
  if (!job.bug) CHECK(cudaMemset(job.scratch, 0, sizeof(int)));
  counts<<<1, kThreads>>>(job);
}

// An epoch that is kept from launch to launch, in a window that is not.
__global__ void epochs(Job job) {
  volatile int* epoch = row(job, 4);
  *epoch = *epoch + 1;  // bug of: epoch
}
static void epoch(Job const& job) {
  if (!job.bug) CHECK(cudaMemset(job.memory + 4 * kThreads, 0, sizeof(int)));
  epochs<<<1, 1>>>(job);
  epochs<<<1, 1>>>(job);
}

__global__ void sums(Job job, int const* from, int count) {
  int sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += from[i];  // bug of: bytes, gather, message, rows, again
  job.out[threadIdx.x] = sum;
}

// Bytes where numbers are meant.
static void bytes(Job const& job) {
  CHECK(cudaMemset(job.scratch, 0, job.bug ? kThreads : kRow));
  sums<<<1, kThreads>>>(job, job.scratch, kThreads);
}

// Half of what is read.
static void gather(Job const& job) {
  CHECK(ncclAllGather(job.local, job.scratch, job.bug ? kThreads / 2 : kThreads, ncclInt, job.host, nullptr));
  sums<<<1, kThreads>>>(job, job.scratch, job.comm.nRanks * kThreads);
}

// It is received, and another buffer read.
static void message(Job const& job) {
  CHECK(ncclGroupStart());
  CHECK(ncclSend(job.local, kThreads, ncclInt, (job.comm.rank + 1) % job.comm.nRanks, job.host, nullptr));
  CHECK(ncclRecv(job.scratch, kThreads, ncclInt, (job.comm.rank + job.comm.nRanks - 1) % job.comm.nRanks, job.host, nullptr));
  CHECK(ncclGroupEnd());
  sums<<<1, kThreads>>>(job, job.bug ? job.scratch + kThreads : job.scratch, kThreads);
}

// Half of each row is copied: the pitch for the width.
static void rows(Job const& job) {
  int host[8 * kThreads] = {};
  CHECK(cudaMemcpy2D(job.scratch, kRow, host, kRow, job.bug ? kRow / 2 : kRow, 8, cudaMemcpyHostToDevice));
  sums<<<1, kThreads>>>(job, job.scratch, 8 * kThreads);
}

// Memory that was freed is new when it is allocated again.
static void again(Job const& job) {
  int* first;
  CHECK(cudaMalloc(&first, kRow));
  CHECK(cudaMemset(first, 0, kRow));
  sums<<<1, kThreads>>>(job, first, kThreads);
  CHECK(cudaFree(first));
  CHECK(cudaMalloc(&first, kRow));
  if (!job.bug) CHECK(cudaMemcpy(first, job.local, kRow, cudaMemcpyDeviceToDevice));
  sums<<<1, kThreads>>>(job, first, kThreads);
  CHECK(cudaFree(first));
}

static const struct Case { const char* name; int ranks; void (*kernel)(Job); void (*host)(Job const&); } cases[] = {
  {"offset", 3, offset, nullptr}, {"count", 2, count, nullptr}, {"value", 2, value, nullptr}, {"peers", 2, peers, nullptr},
  {"counter", 1, nullptr, counter}, {"epoch", 1, nullptr, epoch}, {"bytes", 1, nullptr, bytes}, {"gather", 2, nullptr, gather},
  {"message", 2, nullptr, message}, {"rows", 1, nullptr, rows}, {"again", 1, nullptr, again},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = job.host = join(job, rank, device, ranks, id);
  void* memory;
  CHECK(ncclMemAlloc(&memory, kBytes));
  CHECK(ncclCommWindowRegister(comm, memory, kBytes, &job.fresh, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(cudaMalloc(&job.scratch, kBytes));
  job.memory = static_cast<int*>(memory);
  ncclDevCommRequirements needs = requirements(2, 1);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  if (it.kernel != nullptr) it.kernel<<<1, kThreads>>>(job);
  else it.host(job);
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
