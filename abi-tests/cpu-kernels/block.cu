// A block as a whole: indices, shared memory of both kinds, barriers and their reductions, early exits, clocks.
#include "check.h"
#include <cuda_pipeline.h>
#include <vector>

__global__ void indices(unsigned* seen) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(&seen[block * blockDim.x * blockDim.y * blockDim.z + thread], 1u);
  CHECK(warpSize == 32);
  dim3 b = blockIdx; // both ways between dim3 and uint3
  uint3 d = blockDim;
  CHECK(b.x < gridDim.x && d.y == 3);
}

__global__ void reverse(int* data) {
  extern __shared__ int scratch[];
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  scratch[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  atomicAdd(&total, scratch[threadIdx.x]);
  data[blockIdx.x * blockDim.x + threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  int first = blockIdx.x * blockDim.x, n = blockDim.x;
  CHECK(total == first * n + n * (n - 1) / 2);
}

template <class T>
__device__ T* typed_shared() {
  extern __shared__ double2 storage[]; // one memory under two types, in templates
  return reinterpret_cast<T*>(storage);
}
__global__ void aligned(int bytes) {
  CHECK((size_t)typed_shared<char>() % 16 == 0);
  CHECK((void*)typed_shared<float>() == (void*)typed_shared<char>());
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) typed_shared<char>()[i] = (char)i;
  __syncthreads();
  CHECK(typed_shared<char>()[bytes - 1] == (char)(bytes - 1));
  CHECK(__isShared(typed_shared<char>()) && !__isGlobal(typed_shared<char>()));
  __shared__ int fixed[4];
  CHECK(__isShared(&fixed[threadIdx.x % 4]));
}

__global__ void reductions() {
  int n = blockDim.x, t = threadIdx.x;
  CHECK(__syncthreads_count(t % 3 == 0) == (n + 2) / 3);
  CHECK(__syncthreads_and(t < n) && !__syncthreads_and(t != 5));
  CHECK(__syncthreads_or(t == n - 1) && !__syncthreads_or(t == n));
}

// Threads that are gone count as arrived.
__global__ void leavers(int* out) {
  __shared__ int stayed;
  if (threadIdx.x == 0) stayed = 0;
  __syncthreads();
  if (threadIdx.x % 2) return;
  atomicAdd(&stayed, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = stayed;
}

// Copies in the background, as kernels that stream tiles write them.
__global__ void pipelined(const int4* in, int* out) {
  __shared__ int4 stage[2][32];
  __builtin_assume(blockDim.x == 32);
  cudaGridDependencySynchronize();
  int sum = 0;
  __pipeline_memcpy_async(&stage[0][threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  for (int i = 0; i < 4; i++) {
    if (i < 3) __pipeline_memcpy_async(&stage[(i + 1) % 2][threadIdx.x], &in[(i + 1) * 32 + threadIdx.x], 16, i == 2 ? 12 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    int4 v = stage[i % 2][31 - threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  atomicAdd(out, sum);
  cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void clocks(long long* out) {
  long long a = clock64();
  clock_t c = clock();
  __nanosleep(1000);
  out[0] = clock64() - a;
  out[1] = clock() - c;
}

int main() {
  dim3 gridDim(2, 3, 2), blockDim(4, 3, 5); // names that a macro would break
  unsigned* seen;
  size_t n = 12 * 60;
  CUDA(cudaMallocManaged(&seen, n * 4));
  CUDA(cudaMemset(seen, 0, n * 4));
  indices<<<gridDim, blockDim>>>(seen);
  CUDA(cudaDeviceSynchronize());
  for (size_t i = 0; i < n; i++) CHECK_AT(seen[i] == 1, i);

  std::vector<int> host(4096);
  for (int i = 0; i < 4096; i++) host[i] = i;
  int* data;
  CUDA(cudaMalloc(&data, 4096 * 4));
  CUDA(cudaMemcpy(data, host.data(), 4096 * 4, cudaMemcpyHostToDevice));
  reverse<<<4, 1024, 1024 * 4>>>(data);
  CUDA(cudaMemcpy(host.data(), data, 4096 * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4096; i++) CHECK_AT(host[i] == i / 1024 * 1024 + 1023 - i % 1024, i);
  aligned<<<2, 64, 3000>>>(3000);
  for (int threads : {1, 31, 33, 200}) reductions<<<2, threads < 6 ? 6 : threads>>>();
  leavers<<<3, 100>>>(data);
  CUDA(cudaMemcpy(host.data(), data, 12, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 3; i++) CHECK(host[i] == 50);

  for (int i = 0; i < 512; i++) host[i] = 1;
  CUDA(cudaMemcpy(data, host.data(), 2048, cudaMemcpyHostToDevice));
  CUDA(cudaMemset(data + 1024, 0, 4));
  pipelined<<<1, 32>>>((const int4*)data, data + 1024);
  CUDA(cudaMemcpy(host.data(), data + 1024, 4, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 3 * 128 + 32);

  long long* times;
  CUDA(cudaMallocManaged(&times, 16));
  clocks<<<1, 1>>>(times);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 2; i++) CHECK(times[i] > 0 && times[i] < 10000000000ll);
  CHECK(clock() != (clock_t)-1); // libc's, on a host thread
  return finish("block");
}
