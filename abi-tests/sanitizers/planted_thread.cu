// Two blocks (two OS threads) write one word without order: ThreadSanitizer has to say so, then the program fails.
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void race(int* word) { *word += 1 + blockIdx.x; }

int main() {
  int* word;
  cudaMallocManaged(&word, sizeof *word);
  race<<<8, 64>>>(word);
  cudaDeviceSynchronize();
  printf("%d\n", *word);
  return 0;
}
