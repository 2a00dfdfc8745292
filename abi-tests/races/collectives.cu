// Kernels that race with collectives, and ones that do not: `collectives CASE` and `collectives CASE mended`, 2 ranks as threads of one
// process, or processes of `ginrs-run -n 2`. tests/races.rs compiles it with --check=race and finds the marked lines by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <atomic>
#include "../common/ranks.h"

static const int kCount = 4096;
static const char* which;
static bool mended;

// Words of the host's and a kernel that races: the kernel has done it, and stays until the collective is done.
struct Meeting {
  volatile int here, over;
};
__device__ void meet(Meeting* meeting) {
  if (meeting == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  meeting->here = 1;
  while (meeting->over == 0) __nanosleep(100);
}

__global__ void fills(int* to, Meeting* meeting = nullptr) {
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) to[i] = i;  // write of: send, message
  meet(meeting);
}
__global__ void sums(int const* from, int* out, Meeting* meeting = nullptr) {
  int all = 0;
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) all += from[i];  // read of: recv, root
  out[threadIdx.x] = all;
  meet(meeting);
}
__global__ void puts(ncclDevComm comm, ncclWindow_t window, Meeting* meeting) {
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  int const bytes = kCount * sizeof(int);
  gin.put(ncclTeamWorld(comm), 1 - comm.rank, window, 2 * bytes, window, bytes, bytes, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // put of: source
  gin.flush(cta);
  meet(meeting);
}
// Until the flag is there, then reads.
__global__ void follows(volatile int* flag, int wanted, int const* from, int* out) {
  while (*flag != wanted) __nanosleep(100);
  __syncthreads();
  int all = 0;
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) all += from[i];
  out[threadIdx.x] = all;
}
// To the other rank's send buffer, which it has given already.
__global__ void stores(ncclWindow_t window, int peer) {
  int* theirs = static_cast<int*>(ncclGetPeerPointer(window, 0, peer));
  for (int i = threadIdx.x; i < kCount; i += blockDim.x) theirs[i] = i;
}

struct Rank {
  ncclComm_t comm;
  ncclDevComm dev;
  ncclWindow_t window;
  int rank, *send, *recv, *out; // send and recv are the first two parts of the window
  cudaStream_t first, second;
  cudaEvent_t event;
};

// The other rank's word that it has come so far, whether it is a thread of this process or another one.
static void comesAfterTheKernel(Rank& r) {
  static std::atomic<int> threads{0};
  int word = 1;
  if (launched.nRanks > 1) {
    CHECK(ginrsBootstrapBroadcast(&launched, &word, sizeof word));
  } else if (r.rank == 0) {
    threads.store(word);
  } else {
    while (threads.load() == 0) usleep(1000);
  }
}

// What races with rank 0's collective, on the first stream, runs on the second, unless that waits. The collective is not done before the
// kernel has raced, for rank 1 comes then, and the kernel ends behind it: so neither is ever over when the other begins.
static void races(Rank& r) {
  bool const isRoot = strcmp(which, "root") == 0;
  Meeting* meeting = nullptr;
  if (r.rank == 1 && !mended) comesAfterTheKernel(r);
  if (strcmp(which, "message") == 0) {
    CHECK(ncclGroupStart());
    CHECK(ncclSend(r.send, kCount, ncclInt, 1 - r.rank, r.comm, r.first));
    CHECK(ncclRecv(r.recv, kCount, ncclInt, 1 - r.rank, r.comm, r.first));
    CHECK(ncclGroupEnd());  // call of: message
  } else if (isRoot) {
    CHECK(ncclBroadcast(r.send, r.recv, kCount, ncclInt, 1, r.comm, r.first));  // call of: root
  } else {
    CHECK(ncclAllReduce(r.send, r.recv, kCount, ncclInt, ncclSum, r.comm, r.first));  // call of: send, recv, source
  }
  if (r.rank == 1) return;
  if (mended) {
    CHECK(cudaEventRecord(r.event, r.first));
    CHECK(cudaStreamWaitEvent(r.second, r.event, 0));
  } else {
    CHECK(cudaMallocHost(&meeting, sizeof *meeting));
    meeting->here = meeting->over = 0;
  }
  if (isRoot || strcmp(which, "recv") == 0) sums<<<1, 64, 0, r.second>>>(r.recv, r.out, meeting);
  else if (strcmp(which, "source") == 0) puts<<<1, 64, 0, r.second>>>(r.dev, r.window, meeting);
  else fills<<<1, 64, 0, r.second>>>(r.send, meeting);
  if (mended) return;
  while (meeting->here == 0) usleep(1000);
  comesAfterTheKernel(r);
  CHECK(cudaStreamSynchronize(r.first));
  meeting->over = 1;
}

// Each is lawful.
static void order(Rank& r) {
  int* flag;
  CHECK(cudaMallocHost(&flag, 2 * sizeof(int)));
  flag[0] = flag[1] = 0;
  // One stream; in place; nothing; a root's buffers alone; a read beside a read.
  fills<<<1, 64, 0, r.first>>>(r.send);
  CHECK(ncclAllReduce(r.send, r.send, kCount, ncclInt, ncclSum, r.comm, r.first));
  CHECK(ncclAllGather(r.recv + r.rank * (kCount / 2), r.recv, kCount / 2, ncclInt, r.comm, r.first));
  CHECK(ncclReduceScatter(r.recv, r.recv + r.rank * (kCount / 2), kCount / 2, ncclInt, ncclSum, r.comm, r.first));
  CHECK(ncclAllReduce(r.send, r.recv, 0, ncclInt, ncclSum, r.comm, r.first));
  sums<<<1, 64, 0, r.first>>>(r.recv, r.out);
  CHECK(cudaStreamSynchronize(r.first));
  CHECK(ncclReduce(r.send, r.recv, kCount, ncclInt, ncclSum, 0, r.comm, r.first));
  sums<<<1, 64, 0, r.second>>>(r.send, r.out);
  if (r.rank != 0) fills<<<1, 64, 0, r.second>>>(r.recv);
  CHECK(cudaDeviceSynchronize());
  // Beside its buffers; a group; the host between.
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(r.send, r.recv, kCount / 2, ncclInt, ncclSum, r.comm, r.first));
  CHECK(ncclGroupEnd());
  sums<<<1, 1, 0, r.second>>>(r.out + 1024, r.out);
  CHECK(cudaStreamSynchronize(r.first));
  fills<<<1, 64, 0, r.second>>>(r.recv);
  CHECK(cudaDeviceSynchronize());
  // What is sent in place is not changed.
  if (r.rank == 1) usleep(100000);
  CHECK(ncclBroadcast(r.send, r.send, kCount, ncclInt, 0, r.comm, r.first));
  if (r.rank == 0) sums<<<1, 64, 0, r.second>>>(r.send, r.out);
  CHECK(cudaDeviceSynchronize());
  if (r.rank == 1) usleep(100000);
  CHECK(ncclAllGather(r.send + r.rank * kCount, r.send, kCount, ncclInt, r.comm, r.first));
  sums<<<1, 64, 0, r.second>>>(r.send + r.rank * kCount, r.out);
  CHECK(cudaDeviceSynchronize());
  // A kernel that runs already learns of the end from the host, and from a copy.
  follows<<<1, 64, 0, r.second>>>(flag, 1, r.recv, r.out);
  CHECK(ncclAllReduce(r.send, r.recv, kCount, ncclInt, ncclSum, r.comm, r.first));
  CHECK(cudaStreamSynchronize(r.first));
  *static_cast<volatile int*>(flag) = 1;
  CHECK(cudaDeviceSynchronize());
  int one = 1;
  follows<<<1, 64, 0, r.second>>>(flag + 1, 1, r.recv, r.out);
  CHECK(ncclAllReduce(r.send, r.recv, kCount, ncclInt, ncclSum, r.comm, r.first));
  CHECK(cudaMemcpyAsync(flag + 1, &one, sizeof one, cudaMemcpyHostToHost, r.first));
  CHECK(cudaDeviceSynchronize());
  // Whoever has the sum knows that all have given theirs.
  CHECK(ncclAllReduce(r.send, r.recv, kCount, ncclInt, ncclSum, r.comm, r.first));
  stores<<<1, 64, 0, r.first>>>(r.window, 1 - r.rank);
  CHECK(cudaDeviceSynchronize());
  // A graph, twice.
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(r.first, cudaStreamCaptureModeGlobal));
  fills<<<1, 64, 0, r.first>>>(r.send + 2 * kCount);
  CHECK(ncclAllReduce(r.send + 2 * kCount, r.recv, kCount, ncclInt, ncclSum, r.comm, r.first));
  sums<<<1, 64, 0, r.first>>>(r.recv, r.out);
  CHECK(cudaStreamEndCapture(r.first, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) CHECK(cudaGraphLaunch(exec, r.first));
  CHECK(cudaDeviceSynchronize());
}

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  Rank r = {};
  r.rank = rank;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&r.comm, ranks, id, rank));
  void* memory;
  size_t const bytes = 4 * kCount * sizeof(int);
  CHECK(ncclMemAlloc(&memory, bytes));
  CHECK(cudaMemset(memory, 0, bytes));
  CHECK(ncclCommWindowRegister(r.comm, memory, bytes, &r.window, NCCL_WIN_COLL_SYMMETRIC));
  r.send = static_cast<int*>(memory), r.recv = r.send + kCount;
  CHECK(cudaMalloc(&r.out, 2 * kCount * sizeof(int)));
  CHECK(cudaMemset(r.out, 0, 2 * kCount * sizeof(int)));
  // Also memory that is in no window.
  if (strcmp(which, "message") == 0) CHECK(cudaMalloc(&r.send, bytes));
  CHECK(cudaStreamCreateWithFlags(&r.first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&r.second, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&r.event));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(r.comm, &needs, &r.dev));
  CHECK(cudaDeviceSynchronize());
  if (strcmp(which, "order") == 0) order(r);
  else races(r);
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclDevCommDestroy(r.comm, &r.dev));
  CHECK(ncclCommDestroy(r.comm));
  printf("rank %d: ok\n", rank), fflush(stdout);
}

int main(int argc, char** argv) {
  which = argc > 1 ? argv[1] : "order", mended = argc > 2;
  return runRanks(2, runRank);
}
