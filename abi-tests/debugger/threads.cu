// Threads of a kernel in each kind of wait, for a debugger to look at: tests/debugger.rs does, and finds the marked lines ("at: ...") by their
// marks. Prints "ready" once they wait, and goes on once there is something to read on stdin, or nothing more.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    int result = int(call);                                                            \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exit(2); \
  } while (0)

struct Job {
  ncclDevComm comm;
  volatile int* go;
  int* waiting;
};

__device__ int exchange(int value) {
  int tenfold = 10 * value;
  return __shfl_sync(0xffffffff, tenfold, 0);  // at: shuffle
}

__device__ void spin(volatile int* go) {
  while (*go == 0) {  // at: spin
  }
}

__global__ void kernel(Job job) {
  ncclGin gin(job.comm, 0);
  int mine = 1000 * int(blockIdx.x) + int(threadIdx.x + threadIdx.y * blockDim.x);
  atomicAdd(job.waiting, 1);
  switch (blockIdx.x) {
    case 0:  // the last lane of the first warp keeps the others
      if (mine == 31) spin(job.go);
      if (mine < 32) mine += exchange(mine);
      __syncthreads();  // at: barrier
      break;
    case 1:  // one thread waits
      if (mine == 1000) gin.waitSignal(ncclCoopThread(), 1, 1);  // at: signal
      __syncthreads();  // at: others
      break;
    case 2:  // all wait together
      gin.waitSignal(ncclCoopCta(), 2, 3);  // at: group
      break;
  }
  atomicAdd(job.waiting, mine >= 0 ? 1 : 2);
}

int main() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // a debugger that is no parent may attach
  ncclUniqueId id;
  ncclComm_t comm;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 4;
  Job job;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  int* words;
  CHECK(cudaMallocManaged(&words, 2 * sizeof(int)));
  words[0] = words[1] = 0;
  job.go = words;
  job.waiting = words + 1;
  kernel<<<3, dim3(32, 2)>>>(job);  // at: launch
  while (__atomic_load_n(job.waiting, __ATOMIC_ACQUIRE) < 3 * 64) usleep(1000);
  usleep(200000);
  printf("ready\n");
  fflush(stdout);
  char byte;
  if (read(0, &byte, 1) < 0) return 2;
  job.go[0] = 1;
  ncclCommAbort(comm);
  cudaDeviceSynchronize();
  printf("done\n");
  return 0;
}
