// Device memory that is touched when it was freed: `freed CASE` and `freed CASE mended`. tests/races.rs compiles it with --check=race and finds the
// marked lines by their marks.
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <vector>

#define CHECK(call)                                                             \
  do {                                                                          \
    cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) return printf("%s: %d\n", #call, int(error)), 2; \
  } while (0)

__global__ void fill(int* to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = i;  // touched
}

int main(int argc, char** argv) {
  bool const mended = argc > 2, isCopy = argc > 1 && strcmp(argv[1], "copy") == 0, isLarge = argc > 1 && strcmp(argv[1], "large") == 0;
  int const n = isLarge ? 1 << 20 : 700;
  int* memory;
  CHECK(cudaMalloc(&memory, n * sizeof(int)));
  if (!mended) CHECK(cudaFree(memory));  // freed
  // Others come and go: none of them gets these addresses, and the kernel touches none of theirs.
  std::vector<int> host(n);
  for (int i = 0; i < 8; i++) {
    int* other;
    CHECK(cudaMalloc(&other, n * sizeof(int)));
    if (other == memory) return printf("the same address\n"), 2;
    CHECK(cudaFree(other));
  }
  if (isCopy) {
    CHECK(cudaMemcpy(memory, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  } else {
    fill<<<1, 64>>>(memory, n);
    CHECK(cudaDeviceSynchronize());
  }
  if (mended) CHECK(cudaFree(memory));
  printf("ok\n");
}
