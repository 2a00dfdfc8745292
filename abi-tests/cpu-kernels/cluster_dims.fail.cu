// expect: cluster_dims.fail.cu:6: error: `__cluster_dims__(2, 1, 1)`: clusters of blocks are not available on the CPU device
#include <cuda_runtime.h>

__global__ void __cluster_dims__(1, 1, 1) alone(int* out) { *out = 1; }

__global__ void __cluster_dims__(2, 1, 1) paired(int* out) { *out = 2; }

int main() {
  alone<<<1, 1>>>(nullptr);
  paired<<<2, 1>>>(nullptr);
  return 0;
}
