// What the host does with pinned memory while a copy of it is queued, and addresses that a type cannot have, each with one mistake and mended:
// `pinned CASE`, `pinned CASE mended`; ranks as threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines
// that have to be named ("bug of: CASE").
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <string.h>
#include "job.cuh"

struct Job : Buffers {
  cudaStream_t stream;
  int* pinned;  // of the host
};

__device__ ncclGin_SignalInc inc(int signal) { return ncclGin_SignalInc{ncclGinSignal_t(signal)}; }

__global__ void exchange(Job job) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, kRow, inc(0), ncclGin_None{}, cta);
  gin.waitSignal(cta, 0, 1);
  job.out[threadIdx.x] = row(job, 8)[threadIdx.x];
  gin.flush(cta);
}

// What came is looked at before the stream is done.
static void received(Job const& job) {
  exchange<<<1, kThreads, 0, job.stream>>>(job);
  CHECK(cudaMemcpyAsync(job.pinned, job.out, kRow, cudaMemcpyDeviceToHost, job.stream));  // bug of: received-early
  if (!job.bug) CHECK(cudaStreamSynchronize(job.stream));
  int sum = 0;
  for (int i = 0; i < kThreads; i++) sum += job.pinned[i];  // bug of: received-early
  if (sum != 0) exitOnce(3);
}

// A loss of one number: the copy is smaller than any that races with kernels.
static void loss(Job const& job) {
  exchange<<<1, kThreads, 0, job.stream>>>(job);
  CHECK(cudaMemcpyAsync(job.pinned, job.out, sizeof(int), cudaMemcpyDeviceToHost, job.stream));  // bug of: loss
  if (!job.bug) CHECK(cudaStreamSynchronize(job.stream));
  if (job.pinned[0] != 0) exitOnce(3);  // bug of: loss
}

// The next batch is made in the buffer of this one.
static void batches(Job const& job) {
  cudaEvent_t copied;
  CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  exchange<<<1, kThreads, 0, job.stream>>>(job);
  for (int batch = 0; batch < 2; batch++) {
    if (batch > 0 && !job.bug) CHECK(cudaEventSynchronize(copied));
    memset(job.pinned, batch + 1, kRow);  // bug of: batches
    CHECK(cudaMemcpyAsync(job.local + batch * kThreads, job.pinned, kRow, cudaMemcpyHostToDevice, job.stream));  // bug of: batches
    CHECK(cudaEventRecord(copied, job.stream));
  }
}

// A host function that fills the buffer in front of its copy is not early.
static void turns(Job const& job) {
  exchange<<<1, kThreads, 0, job.stream>>>(job);
  CHECK(cudaMemcpyAsync(job.local, job.pinned, kRow, cudaMemcpyHostToDevice, job.stream));  // bug of: turns
  job.pinned[job.bug ? 0 : kThreads] = 5;  // bug of: turns
  CHECK(cudaStreamSynchronize(job.stream));
  auto fills = [](void* at) { memset(at, 7, kRow); };
  CHECK(cudaLaunchHostFunc(job.stream, fills, job.pinned));
  CHECK(cudaMemcpyAsync(job.local, job.pinned, kRow, cudaMemcpyHostToDevice, job.stream));
}

// A word of 8 bytes behind one of 4, polled.
__global__ void flag(Job job) {
  volatile long long* flag = reinterpret_cast<volatile long long*>(job.local + (job.bug ? 1 : 2));
  job.out[threadIdx.x] = int(*flag);  // bug of: flag
}

// Behind a header of 12 bytes stand words of 8.
struct Packed { int header; long long value; } __attribute__((packed));
__global__ void header(Job job) {
  char* message = reinterpret_cast<char*>(job.memory);
  long long* words = reinterpret_cast<long long*>(message + (job.bug ? 12 : 16));
  words[threadIdx.x] = threadIdx.x;  // bug of: header
  // The compiler knows of this one.
  reinterpret_cast<Packed*>(job.local)[threadIdx.x].value = 3;
}

static const struct Case { const char* name; int ranks; void (*kernel)(Job); void (*host)(Job const&); } cases[] = {
  {"received-early", 2, nullptr, received}, {"loss", 2, nullptr, loss}, {"batches", 2, nullptr, batches}, {"turns", 2, nullptr, turns},
  {"flag", 1, flag, nullptr}, {"header", 1, header, nullptr},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  auto const& it = cases[which];
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  CHECK(cudaMallocHost(&job.pinned, kBytes));
  memset(job.pinned, 0, kBytes);
  CHECK(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking));
  ncclDevCommRequirements needs = requirements(2, 1);
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  if (it.kernel != nullptr) it.kernel<<<1, kThreads, 0, job.stream>>>(job);
  else it.host(job);
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
