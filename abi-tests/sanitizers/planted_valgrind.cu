// A kernel writes behind memory of malloc, on a stack that it has switched to before: valgrind has to say so with the line (tests/valgrind.rs).
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

__global__ void overrun(int* out, int n) {
  __syncthreads();
  if (threadIdx.x == 3 && blockIdx.x == 0) {
    out[n] = 1;
  }
}

int main() {
  int* out = static_cast<int*>(malloc(4 * sizeof *out));
  overrun<<<2, 64>>>(out, 4);
  cudaDeviceSynchronize();
  free(out);
  return 0;
}
