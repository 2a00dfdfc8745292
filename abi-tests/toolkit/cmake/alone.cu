#include <cstdio>

__global__ void answer(int* out) { *out = 42; }

int main() {
  int* at;
  if (cudaMallocManaged(&at, sizeof *at) != cudaSuccess) return 1;
  answer<<<1, 1>>>(at);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  printf("alone: %d\n", *at);
  return 0;
}
