// __device__, __constant__ and __managed__ variables: initial values, copies both ways, addresses, one copy per device.
#include "check.h"
#include <cstring>

__device__ int counter = 7;
__device__ float table[4] = {1, 2, 3, 4};
__constant__ int limits[3] = {10, 20, 30};
__constant__ struct Settings { int a; double b; } settings;
__device__ int* pointer;
static __device__ unsigned long long hidden;
__managed__ int shared_with_host = 3;
__device__ const int fixed = 42;
namespace inner {
__device__ volatile int flag;
}
template <class T>
struct Of {
  static __device__ T twice(T v) { return v * 2; }
};

__global__ void look(int expected) {
  CHECK(counter == expected && table[3] == 4 && limits[1] == 20 && fixed == 42);
}
__global__ void use() {
  atomicAdd(&counter, 1);
  table[threadIdx.x % 4] += 0; // written by many, changed by none
  shared_with_host = 9;
  if (threadIdx.x == 0) {
    *pointer = settings.a + (int)settings.b;
    hidden = 1ull << 40;
    inner::flag = Of<int>::twice(limits[2]);
  }
}

int main() {
  look<<<1, 2>>>(7);
  int value = 100, *memory;
  CUDA(cudaMalloc(&memory, 4));
  CUDA(cudaMemcpyToSymbol(counter, &value, sizeof value));
  CUDA(cudaMemcpyToSymbol(pointer, &memory, sizeof memory));
  Settings s = {5, 6.5};
  CUDA(cudaMemcpyToSymbol(settings, &s, sizeof s, 0, cudaMemcpyHostToDevice));
  value = 33;
  CUDA(cudaMemcpyToSymbol(limits, &value, 4, 8)); // the third element
  use<<<2, 8>>>();
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  CHECK(value == 116);
  CUDA(cudaMemcpy(&value, memory, 4, cudaMemcpyDefault));
  CHECK(value == 11);
  unsigned long long big;
  CUDA(cudaMemcpyFromSymbol(&big, hidden, sizeof big));
  CHECK(big == 1ull << 40);
  CUDA(cudaMemcpyFromSymbol(&value, inner::flag, sizeof value));
  CHECK(value == 66);
  CHECK(shared_with_host == 9);
  float back[4];
  CUDA(cudaMemcpyFromSymbolAsync(back, table, sizeof back, 0, cudaMemcpyDeviceToHost, 0));
  CUDA(cudaStreamSynchronize(0));
  CHECK(back[0] == 1 && back[3] == 4);

  float* address;
  size_t size;
  CUDA(cudaGetSymbolAddress((void**)&address, table));
  CUDA(cudaGetSymbolSize(&size, table));
  CHECK(size == 16);
  CUDA(cudaMemset(address, 0, 8));
  CUDA(cudaMemcpyFromSymbol(back, table, sizeof back));
  CHECK(back[1] == 0 && back[2] == 3);
  CHECK(cudaMemcpyFromSymbol(back, table, 17) != cudaSuccess); // beyond its end
  cudaGetLastError();

  int devices;
  CUDA(cudaGetDeviceCount(&devices));
  if (devices > 1) { // untouched there
    CUDA(cudaSetDevice(1));
    look<<<1, 2>>>(7);
    CUDA(cudaDeviceSynchronize());
    float* other;
    CUDA(cudaGetSymbolAddress((void**)&other, table));
    CHECK(other != address);
    CUDA(cudaSetDevice(0));
  }
  return finish("symbols");
}
