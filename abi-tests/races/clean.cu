// Order that comes by other ways than the API's: volatile flags, words that host code or a copy hands on, memory that changes hands, references of
// the compiler's. Nothing here races. tests/races.rs compiles it with --check=race.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t result = (call);                                                                   \
    if (result != cudaSuccess) fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result)), exit(2); \
  } while (0)

__constant__ int sizes[] = {3, 4};
extern __shared__ int dynamic[];
__device__ int total;

// Each block hands what it wrote to the next one, by a volatile flag between fences.
__global__ void chain(int* data, volatile int* flags) {
  if (blockIdx.x > 0) {
    if (threadIdx.x == 0) {
      while (flags[blockIdx.x - 1] == 0) {}
      __threadfence();
    }
    __syncthreads();
    data[threadIdx.x] += 1;
  } else {
    data[threadIdx.x] = sizes[threadIdx.x % 2];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    flags[blockIdx.x] = 1;
  }
}

// Two kernels that run at one time: the first one tells the host, and the host tells the second one.
__global__ void asks(int* data, volatile int* toHost) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  __threadfence_system();
  if (threadIdx.x == 0) *toHost = 1;
}
__global__ void answers(int* data, volatile int* fromHost, int* out) {
  if (threadIdx.x == 0)
    while (*fromHost == 0) {}
  __syncthreads();
  __threadfence_system();
  out[threadIdx.x] = data[threadIdx.x];
}

// Tells the host what it has written, and waits for what the host copies; in managed memory, where a copy may tell it so.
__global__ void served(int* data, volatile int* progress, volatile int* go, int* out) {
  data[threadIdx.x] = 5;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *progress = 1;
    while (*go == 0) {}
    __threadfence_system();
  }
  __syncthreads();
  out[threadIdx.x] = data[64 + threadIdx.x];
}

// Words that are atomic to some and plain to others: what CUDA's own samples read before they compare and swap, the last block's counter, a barrier of the
// program's that the last one sets back.
__global__ void seen(int* local, int* out) {
  unsigned long long* sum = reinterpret_cast<unsigned long long*>(local + 128);
  for (unsigned long long old = *sum, assumed = ~old; assumed != old;) {
    assumed = old;
    old = atomicCAS(sum, assumed, assumed + 1);
  }
  int* arrived = local + 256;
  volatile int* generation = local + 320;
  for (int round = 0; round < 3; round++) {
    out[(round * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = round;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      if (atomicAdd(arrived, 1) == int(gridDim.x) - 1) {
        *arrived = 0;
        __threadfence();
        *generation = round + 1;
      } else {
        while (*generation <= round) __nanosleep(20);
        __threadfence();
      }
    }
    __syncthreads();
    local[512 + blockIdx.x * blockDim.x + threadIdx.x] += out[(round * gridDim.x + (blockIdx.x + 1) % gridDim.x) * blockDim.x + threadIdx.x];
  }
  __shared__ bool isLast;
  int* tickets = local + 384;
  if (threadIdx.x == 0) isLast = atomicInc(reinterpret_cast<unsigned*>(tickets), gridDim.x) == gridDim.x - 1;
  __syncthreads();
  if (isLast && threadIdx.x == 0) *tickets = 0;
}

// Blocks that share nothing but an allocator, their OS threads' shared memory and references, and one counter.
__global__ void alone(int rounds) {
  auto block = cooperative_groups::this_thread_block();
  for (int round = 0; round < rounds; round++) {
    int* mine = static_cast<int*>(malloc(64));
    mine[round % 16] = round;
    dynamic[threadIdx.x] = mine[round % 16];
    free(mine);
    block.barrier_wait(block.barrier_arrive());
    if (dynamic[(threadIdx.x + 1) % blockDim.x] == round) atomicAdd(&total, sizes[0]);
    __syncthreads();
  }
}

// Order within a block: a fence and an atomic of block scope are enough.
__global__ void within(int* data, volatile int* flag, int* words) {
  int const warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    data[0] = 1;
    __threadfence_block();
    *flag = 1;
  } else if (threadIdx.x == 32) {
    while (*flag == 0) {}
    __threadfence_block();
    data[1] = data[0] + 1;
    cuda::atomic_ref<int, cuda::thread_scope_block>(words[warp]).store(1, cuda::memory_order_release);
  } else if (threadIdx.x == 64) {
    while (cuda::atomic_ref<int, cuda::thread_scope_block>(words[warp - 1]).load(cuda::memory_order_acquire) == 0) {}
    data[2] = data[1] + data[0];
  }
}

// The block that comes last sees what all have written: each thread fences before the barrier, one behind it, or the atomic releases and acquires.
__global__ void last(int* parts, int* count, int way, int* out) {
  __shared__ bool isLast;
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  if (way == 0) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> counted(*count);
    if (way == 1) __threadfence();
    int const before = way == 2 ? counted.fetch_add(1, cuda::memory_order_acq_rel) : atomicAdd(count, 1);
    isLast = before == int(gridDim.x) - 1;
  }
  __syncthreads();
  if (!isLast) return;
  int all = 0;
  for (int block = 0; block < gridDim.x; block++) all += parts[block * blockDim.x + threadIdx.x];
  out[threadIdx.x] = all;
}

// A lock of CUDA's atomics between fences, and a barrier of all blocks made of them.
__global__ void locked(int* data, int* lock, int* come) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    data[0] += 1;
    __threadfence();
    atomicExch(lock, 0);
  }
  data[1 + blockIdx.x * blockDim.x + threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(come, 1);
    while (atomicAdd(come, 0) < int(gridDim.x)) {}
    __threadfence();
  }
  __syncthreads();
  int const next = (blockIdx.x + 1) % gridDim.x;
  if (data[1 + next * blockDim.x + threadIdx.x] == 0) atomicAdd(&total, 1);
}

int main() {
  int *data, *flags, *out, *host;
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMalloc(&flags, 4096));
  CHECK(cudaMalloc(&out, 4096));
  CHECK(cudaMallocHost(&host, 4096));
  CHECK(cudaMemset(flags, 0, 4096));
  chain<<<4, 64>>>(data, flags);
  CHECK(cudaDeviceSynchronize());

  CHECK(cudaMemset(flags, 0, 4096));
  within<<<1, 96>>>(data, flags, flags + 64);
  CHECK(cudaDeviceSynchronize());

  for (int way = 0; way < 3; way++) {
    CHECK(cudaMemset(flags, 0, 4096));
    last<<<4, 64>>>(data, flags, way, out);
    locked<<<4, 64>>>(data, flags + 1, flags + 2);
    CHECK(cudaDeviceSynchronize());
  }

  int *local, *rounds;
  CHECK(cudaMalloc(&local, 8192));
  CHECK(cudaMemset(local, 0, 8192));
  CHECK(cudaMalloc(&rounds, 4096));
  seen<<<3, 64>>>(local, rounds);
  CHECK(cudaDeviceSynchronize());

  cudaStream_t first, second;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  volatile int* words = host;
  words[0] = words[1] = 0;
  answers<<<1, 64, 0, second>>>(data, host + 1, out);
  asks<<<1, 64, 0, first>>>(data, host);
  while (words[0] == 0) {}
  words[1] = 1;
  CHECK(cudaDeviceSynchronize());
  int last;
  CHECK(cudaMemcpy(&last, out + 63, sizeof last, cudaMemcpyDeviceToHost));
  if (last != 63) return printf("wrong\n"), 1;

  int *go, news[64], told = 1;
  CHECK(cudaMallocManaged(&go, sizeof(int)));
  words[0] = *go = 0;
  served<<<1, 64, 0, first>>>(data, words, go, out);
  while (words[0] == 0) {}
  CHECK(cudaMemcpyAsync(news, data, sizeof news, cudaMemcpyDeviceToHost, second));
  CHECK(cudaMemcpyAsync(data + 64, news, sizeof news, cudaMemcpyHostToDevice, second));
  CHECK(cudaMemcpyAsync(go, &told, sizeof told, cudaMemcpyHostToDevice, second));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&last, out + 63, sizeof last, cudaMemcpyDeviceToHost));
  if (last != 5) return printf("wrong\n"), 1;

  alone<<<6, 64, 4096, first>>>(20);
  alone<<<6, 64, 4096, second>>>(20);
  for (int i = 0; i < 50; i++) {  // memory changes hands while they run
    int* memory;
    CHECK(cudaMalloc(&memory, 100));
    CHECK(cudaFree(memory));
  }
  CHECK(cudaDeviceSynchronize());
  printf("ok\n");
}
