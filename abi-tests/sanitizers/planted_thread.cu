// Eight blocks (OS threads) write one word without order: ThreadSanitizer has to say so, then the program fails.
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void race(int* word, int* arrived) {
  // All blocks are there before one writes, else a quick block's thread may take the next block too.
  atomicAdd(arrived, 1);
  while (atomicAdd(arrived, 0) < int(gridDim.x)) {
  }
  for (int i = 0; i < 1000; i++) *word += 1 + blockIdx.x;
}

int main() {
  int* words;
  cudaMallocManaged(&words, 2 * sizeof *words);
  words[0] = words[1] = 0;
  race<<<8, 1>>>(words, words + 1);
  cudaDeviceSynchronize();
  printf("%d\n", words[0]);
  return 0;
}
