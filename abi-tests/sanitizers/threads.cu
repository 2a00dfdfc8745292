// Host code that races, one for each mistake, and mended (MENDED=1): ThreadSanitizer reports the first and not the second, nor anything of the
// libraries (ginrs-cc -fsanitize=thread). CASE= names it; two ranks as threads do all that a program does besides. tests/threads.rs runs it, and
// finds the marked lines ("race of: ...") by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
};

__global__ void kernel(Job job, int* sums) {
  ncclGin gin(job.comm, blockIdx.x);
  ncclCoopCta cta;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, threadIdx.x);
  __syncthreads();
  gin.put(ncclTeamWorld(job.comm), 1 - job.comm.rank, job.window, 4096, job.window, 0, 4096, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
  gin.waitSignal(cta, 0, 1);
  gin.flush(cta);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static bool is(const char* name) {
  return strcmp(getenv("CASE") ? getenv("CASE") : "", name) == 0;
}

static bool isMended;
static int done, results[2], noted[2];
static std::mutex lock;
// No order between the two: only that the one does not come so early that the other finds it done and in order.
static std::atomic<bool> isHere[2];

static void runRank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(rank));
  CHECK(ncclCommInitRank(&comm, 2, id, rank));
  void* memory;
  Job job;
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  int* sums;
  CHECK(cudaMallocManaged(&sums, 2 * sizeof *sums));
  sums[0] = sums[1] = 0;
  std::vector<int> host(1024, rank);
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaMemcpyAsync(memory, host.data(), 4096, cudaMemcpyHostToDevice, stream));
  kernel<<<2, 64, 0, stream>>>(job, sums);
  results[rank] = 1;
  auto note = [](void* result) {
    auto& flag = isHere[static_cast<int*>(result) - results];
    for (int i = 0; is("early") && i < 2000 && !flag.load(std::memory_order_relaxed); i++) usleep(1000);
    *static_cast<int*>(result) += 1;
  };
  CHECK(cudaLaunchHostFunc(stream, note, &results[rank]));
  CHECK(cudaMemcpyAsync(host.data(), static_cast<char*>(memory) + 4096, 4096, cudaMemcpyDeviceToHost, stream));
  if (is("other")) CHECK(cudaStreamSynchronize(isMended ? stream : other));
  isHere[rank].store(true, std::memory_order_relaxed);
  if (is("early") && !isMended) noted[rank] = results[rank];  // race of: early
  if (!is("other")) CHECK(cudaStreamSynchronize(stream));
  noted[rank] = results[rank];  // race of: other
  CHECK(cudaStreamSynchronize(stream));
  bool isRight = noted[rank] > 0 && host[0] == 1 - rank && sums[0] == 2016 && sums[1] == 2016;
  if (is("count") && !isMended) {
    done++;  // race of: count
  } else {
    std::lock_guard<std::mutex> guard(lock);
    done++;
  }
  CHECK(ncclAllReduce(memory, memory, 1024, ncclInt, ncclSum, comm, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("rank %d: %s\n", rank, isRight ? "ok" : "WRONG");
  CHECK(cudaFree(sums));
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommWindowDeregister(comm, job.window));
  CHECK(ncclCommDestroy(comm));
  CHECK(ncclMemFree(memory));
}

int main() {
  isMended = getenv("MENDED") != nullptr;
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  std::thread other(runRank, 1, id);
  runRank(0, id);
  other.join();
  return 0;
}
