// Where a rank's part of a window begins, in 32 bits that it does not fit in, and mended: `overflow` and `overflow mended`. It wraps and stays in the
// window, so that only the arithmetic is wrong. tests/field.rs compiles it with -fsanitize=undefined.
#include <cuda_runtime.h>
#include <stdio.h>

template <typename Offset>
__global__ void kernel(unsigned char* memory, size_t bytes, int rank, int count) {
  Offset const begin = Offset(rank) * count * int(sizeof(float));  // bug of: overflow
  memory[size_t(begin) % bytes + threadIdx.x] = 1;
}

int main(int argc, char**) {
  unsigned char* memory;
  if (cudaMalloc(&memory, 4096 + 32)) return 2;
  if (argc > 1) kernel<size_t><<<1, 32>>>(memory, 4096, 7, 1 << 28);
  else kernel<int><<<1, 32>>>(memory, 4096, 7, 1 << 28);
  return cudaDeviceSynchronize();
}
