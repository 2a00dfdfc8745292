// A kernel writes behind an array of its own stack: AddressSanitizer has to say so and end the program.
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void overrun(int* out, int n) {
  int local[8];
  for (int i = 0; i < n; i++) local[i] = i;
  out[0] = local[n / 2];
}

int main() {
  int* out;
  cudaMallocManaged(&out, sizeof *out);
  overrun<<<1, 32>>>(out, 9);
  cudaDeviceSynchronize();
  printf("%d\n", out[0]);
  return 0;
}
