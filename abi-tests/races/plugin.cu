// A library with a kernel, which races if RACES is 1. See ends.cu.
#include <cuda_runtime.h>

__device__ int words[128];

__global__ void kernel() {
  words[threadIdx.x] = threadIdx.x;
  if (!RACES) __syncthreads();
  words[64 + threadIdx.x] = words[63 - threadIdx.x];  // race of: plugin
}

extern "C" int go() {
  kernel<<<1, 64>>>();
  return cudaDeviceSynchronize() != cudaSuccess;
}
