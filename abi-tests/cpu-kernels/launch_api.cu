// Kernels through the runtime API: cudaLaunchKernel and its kin, attributes, occupancy, events, allocation overloads.
#include "check.h"

__global__ void add(int* out, int value, char tag) { out[blockIdx.x] = value + tag + blockDim.x; }
template <class T, int N>
__global__ void scale(T* data, T by) {
  if (threadIdx.x < N) data[threadIdx.x] *= by;
}
__global__ void big(char* out) {
  extern __shared__ char shared[];
  if (threadIdx.x == 0) shared[99999] = 5;
  __syncthreads();
  if (threadIdx.x == 1) *out = shared[99999];
}
struct Op {
  int k;
  __host__ __device__ int operator()(int x) const { return x * k; }
};
template <class F>
__global__ void apply(int* data, F f) { data[threadIdx.x] = f(data[threadIdx.x]); }

constexpr int kMost = 33;
__global__ void __launch_bounds__(kMost) bounded(int* data) { data[threadIdx.x] = 1; }
template <int N>
__global__ void __launch_bounds__(2 * N, 1) doubled(int* data) { data[threadIdx.x] = N; }

// What a GPU says of launches with more threads than __launch_bounds__ allow (H200: the driver's CUDA_ERROR_INVALID_VALUE for 101 of 100).
static void bounds(int* out) {
  bounded<<<1, kMost>>>(out);
  CUDA(cudaGetLastError());
  bounded<<<1, kMost + 1>>>(out);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  bounded<<<1, dim3(17, 2)>>>(out);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  void* args[] = {&out};
  CHECK(cudaLaunchKernel((void*)bounded, 1, 64, args, 0, 0) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  doubled<8><<<1, 16>>>(out);
  CUDA(cudaGetLastError());
  doubled<8><<<1, 17>>>(out);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  doubled<16><<<1, 32>>>(out);
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, doubled<8>));
  CHECK(attributes.maxThreadsPerBlock == 16);
  int grid, block;
  CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded));
  CHECK(block <= kMost);
}

int main() {
  int* out;
  CUDA(cudaMallocManaged(&out, 64 * sizeof(int)));
  int value = 5;
  char tag = 2;
  void* args[] = {&out, &value, &tag};
  CUDA(cudaLaunchKernel((void*)add, dim3(3), dim3(10), args, 0, 0));
  CUDA(cudaDeviceSynchronize());
  CHECK(out[0] == 17 && out[2] == 17);
  value = 6;
  CUDA(cudaLaunchKernel(add, dim3(1), dim3(1), args));
  CUDA(cudaDeviceSynchronize());
  CHECK(out[0] == 9 && out[1] == 17);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaLaunchConfig_t config = {};
  config.gridDim = 2;
  config.blockDim = dim3(4, 1, 1);
  config.stream = stream;
  CUDA(cudaLaunchKernelEx(&config, add, out, 1u, 1)); // arguments convert as in a call
  CUDA(cudaStreamSynchronize(stream));
  CHECK(out[1] == 6);

  float* f;
  CUDA(cudaMallocAsync(&f, 16, stream));
  float host[4] = {1, 2, 3, 4};
  CUDA(cudaMemcpyAsync(f, host, 16, cudaMemcpyHostToDevice, stream));
  scale<float, 3><<<1, 4, 0, stream>>>(f, 2.f);
  CUDA(cudaMemcpyAsync(host, f, 16, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaFreeAsync(f, stream));
  CUDA(cudaStreamSynchronize(stream));
  CHECK(host[2] == 6 && host[3] == 4);

  CUDA(cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
  char *mapped, *device;
  CUDA(cudaHostAlloc(&mapped, 1, cudaHostAllocMapped));
  CUDA(cudaHostGetDevicePointer(&device, mapped, 0));
  big<<<1, 2, 100000>>>(device);
  CUDA(cudaDeviceSynchronize());
  CHECK(*mapped == 5);
  CUDA(cudaFreeHost(mapped));
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, scale<float, 3>));
  CHECK(attributes.maxThreadsPerBlock == 1024);
  int blocks, grid, block;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
  CHECK(blocks > 0);
  CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale<float, 3>, 0, 256));
  CHECK(grid > 0 && block > 0 && block <= 256);
  CUDA(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, add, [](int n) -> size_t { return n * 4; }));
  CHECK(block > 0);

  for (int i = 0; i < 8; i++) out[i] = i;
  apply<<<1, 8>>>(out, Op{3});
  int captured = 10;
  apply<<<1, 8>>>(out, [=] __device__(int x) { return x + captured; });
  CUDA(cudaDeviceSynchronize());
  CHECK(out[0] == 10 && out[7] == 31);

  cudaEvent_t a, b;
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventCreate(&b, cudaEventBlockingSync));
  CUDA(cudaEventRecord(a));
  CUDA(cudaEventRecord(b, stream));
  CUDA(cudaEventSynchronize(b));
  CUDA(cudaEventSynchronize(a));
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, a, b));
  CHECK(ms >= 0);
  CUDA(cudaEventDestroy(a));
  CUDA(cudaStreamDestroy(stream));

  add<<<1, 2000>>>(out, 1, 1); // too many threads
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  bounds(out);
  return finish("launch_api");
}
