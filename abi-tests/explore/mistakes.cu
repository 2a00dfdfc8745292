// Mistakes that the usual order of threads and blocks forgives: each of a few kernels leaves words that the host checks.
//   MISTAKE=sync ./mistakes                        "ok", as on most machines on most days
//   GINRS_SCHEDULE=1 MISTAKE=sync ./mistakes       "WRONG" under few seeds
//   GINRS_SCHEDULE=1 MISTAKE=sync MENDED=1 ./mistakes   its mended twin: "ok" under every seed
// One process is one rank; `put` and `lost` need two (ginrs-run -n 2, or --threads 2). tests/explore.rs runs them under seeds.
#include "../../examples-c/common/example.h"

enum Mistake { SYNC, WARP, LOCK, BLOCKS, PUT, HANG, LOST, MISTAKES };
static const char* const names[MISTAKES] = {"sync", "warp", "lock", "blocks", "put", "hang", "lost"};

constexpr int kThreads = 96, kBlocks = 80, kRounds = 4;

// Each thread reads what one of the warp below has written.
__global__ void __launch_bounds__(kThreads) sync(bool mended, int* wrong) {
  __shared__ volatile int words[kThreads];
  int me = threadIdx.x;
  words[me] = me + 1;
  if (mended) __syncthreads();
  if (me >= 32 && words[me - 32] != me - 31) atomicAdd(wrong, 1);
}

// The same within a warp, which runs in lockstep nowhere since Volta.
__global__ void __launch_bounds__(kThreads) warp(bool mended, int* wrong) {
  __shared__ volatile int words[kThreads];
  int me = threadIdx.x;
  words[me] = me + 1;
  if (mended) __syncwarp();
  if (me % 32 > 0 && words[me - 1] != me) atomicAdd(wrong, 1);
}

// One thread of each warp adds to a sum under a lock that is looked at and then taken.
__global__ void __launch_bounds__(kThreads) lock(bool mended, int* wrong) {
  __shared__ volatile int sum;
  __shared__ int taken;
  if (threadIdx.x == 0) sum = taken = 0;
  __syncthreads();
  for (int round = 0; threadIdx.x % 32 == 0 && round < 20; round++) {
    if (mended) {
      while (atomicCAS(&taken, 0, 1) != 0) {}
    } else {
      while (*(volatile int*)&taken != 0) {}
      *(volatile int*)&taken = 1;
    }
    int was = sum;
    for (volatile int i = 0; i < 10; i = i + 1) {}
    sum = was + 1;
    atomicExch(&taken, 0);
  }
  __syncthreads();
  if (threadIdx.x == 0 && sum != 20 * kThreads / 32) atomicAdd(wrong, 1);
}

// Block 0 prepares what the last blocks use: it has begun long before them.
__global__ void blocks(bool mended, volatile int* prepared, int* wrong) {
  if (blockIdx.x == 0) {
    *prepared = 1;
    __threadfence();
  }
  for (volatile int i = 0; i < 20000; i = i + 1) {}
  if (blockIdx.x < gridDim.x / 2) return;
  while (mended && *prepared == 0) __nanosleep(100);
  if (*prepared == 0) atomicAdd(wrong, 1);
}

// The last thread of the block puts what all have written.
__global__ void __launch_bounds__(kThreads) put(ncclDevComm comm, ncclWindow_t window, int round, bool mended, int* wrong) {
  ncclGin gin(comm, 0);
  int me = threadIdx.x, next = (comm.rank + 1) % comm.nRanks, previous = (comm.rank + comm.nRanks - 1) % comm.nRanks;
  size_t row = kThreads * sizeof(int), from = round * row, to = (kRounds + round) * row;
  volatile int* send = (volatile int*)ncclGetLocalPointer(window, from);
  volatile int* recv = (volatile int*)ncclGetLocalPointer(window, to);
  send[me] = comm.rank * 1000 + me + 1;
  if (mended) __syncthreads();
  if (me == kThreads - 1) {
    gin.put(ncclTeamWorld(comm), next, window, to, window, from, row, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopThread());
  }
  gin.waitSignal(ncclCoopCta(), 0, round + 1);
  if (recv[me] != previous * 1000 + me + 1) atomicAdd(wrong, 1);
  gin.flush(ncclCoopCta());
}

// Two warps: the first says that it is there only if it finds that the other is not, which waits for it.
__global__ void __launch_bounds__(64) hang(bool mended) {
  __shared__ volatile int here[2];
  if (threadIdx.x == 0) here[0] = here[1] = 0;
  __syncthreads();
  if (threadIdx.x == 0 && (mended || here[1] == 0)) here[0] = 1;
  if (threadIdx.x == 32) here[1] = 1;
  while (threadIdx.x == 32 && here[0] == 0) __nanosleep(100);
}

// The second warp sends as many signals as the first one has said.
__global__ void __launch_bounds__(64) lost(ncclDevComm comm, int round, bool mended) {
  __shared__ volatile int parts;
  if (threadIdx.x == 0) parts = 1;
  __syncthreads();
  if (threadIdx.x == 0) parts = 2;
  if (mended) __syncthreads();
  ncclGin gin(comm, 0);
  if (threadIdx.x == 32) {
    gin.signal(ncclTeamWorld(comm), (comm.rank + 1) % comm.nRanks, ncclGin_SignalAdd{0, uint64_t(parts)});
  }
  gin.waitSignal(ncclCoopCta(), 0, 2 * (round + 1));  // wait of: lost
}

int runRank(Example& ex) {
  const char* name = getenv("MISTAKE");
  int mistake = 0;
  while (mistake < MISTAKES && (!name || strcmp(name, names[mistake]) != 0)) mistake++;
  if (mistake == MISTAKES) return fprintf(stderr, "MISTAKE is none: %s\n", name ? name : "unset"), 1;
  bool mended = getenv("MENDED") != NULL;
  int* words;
  CUDACHECK(cudaMallocHost(&words, 2 * sizeof *words));
  words[0] = 0;
  ncclWindow_t window = NULL;
  void* memory = NULL;
  ncclDevComm comm;
  bool communicates = mistake == PUT || mistake == LOST;
  if (communicates) {
    memory = ex.allocWindow(2 * kRounds * kThreads * sizeof(int), &window);
    ncclDevCommRequirements needs;
    memset(&needs, 0, sizeof needs);
    needs.ginForceEnable = true;
    needs.ginSignalCount = 1;
    NCCLCHECK(ncclDevCommCreate(ex.comm, &needs, &comm));
  }
  for (int round = 0; round < kRounds; round++) {
    words[1] = 0;
    switch (mistake) {
      case SYNC: sync<<<1, kThreads, 0, ex.stream>>>(mended, words); break;
      case WARP: warp<<<1, kThreads, 0, ex.stream>>>(mended, words); break;
      case LOCK: lock<<<1, kThreads, 0, ex.stream>>>(mended, words); break;
      case BLOCKS: blocks<<<kBlocks, 1, 0, ex.stream>>>(mended, words + 1, words); break;
      case PUT: put<<<1, kThreads, 0, ex.stream>>>(comm, window, round, mended, words); break;
      case HANG: hang<<<1, 64, 0, ex.stream>>>(mended); break;
      case LOST: lost<<<1, 64, 0, ex.stream>>>(comm, round, mended); break;
    }
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  int failed = words[0] != 0;
  ex.elementsChecked = kRounds;
  CUDACHECK(cudaFreeHost(words));
  if (communicates) {
    NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
    ex.freeWindow(memory, window);
  }
  return failed;
}
