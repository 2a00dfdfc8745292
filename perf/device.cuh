// Small device pieces: the clock, flags between GPUs and hosts, patterns.
#pragma once
#include "measure.h"

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
__device__ __forceinline__ void storeRelease(uint64_t* at, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t loadAcquire(const uint64_t* at) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
// Until the flag has reached the value. Bounded: a floor kernel has no communicator that would release it.
__device__ __forceinline__ bool awaitFlag(const uint64_t* at, uint64_t value) {
  for (uint32_t polls = 0; polls < 1u << 27; polls++)
    if (loadAcquire(at) >= value) return true;
  return false;
}

// Where each rank sees the others' memory of a window at `offset`.
__global__ void lsaAddresses(ncclDevComm devComm, ncclWindow_t window, size_t offset, uint64_t* out) {
  for (int p = 0; p < devComm.lsaSize; p++) out[p] = (uint64_t)ncclGetLsaPointer(window, offset, p);
}
static std::vector<char*> peerAddresses(Rank& rk, const Window& w, size_t offset) {
  lsaAddresses<<<1, 1, 0, rk.stream>>>(*rk.lsa(), w.window, offset, rk.out);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
  return std::vector<char*>((char**)rk.out, (char**)rk.out + rk.nRanks);
}

// Every 8-byte word of a buffer is a function of its place and the seed.
__host__ __device__ inline uint64_t pattern(uint64_t seed, size_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd6e8feb86659fd93ull;
  return x ^ x >> 29;
}
__global__ void fillPattern(uint64_t* words, size_t n, uint64_t seed) {
  for (size_t i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x) words[i] = pattern(seed, i);
}
__global__ void comparePattern(const uint64_t* words, size_t n, uint64_t seed, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (size_t i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x) mine += words[i] != pattern(seed, i);
  if (mine) atomicAdd(wrong, mine);
}
static void fill(Rank& rk, void* memory, size_t bytes, uint64_t seed) {
  fillPattern<<<32, 256, 0, rk.stream>>>((uint64_t*)memory, bytes / 8, seed);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
}
// Words that are not what `fill` wrote with this seed.
static long compare(Rank& rk, const void* memory, size_t bytes, uint64_t seed) {
  unsigned long long *wrong, found;
  CUDACHECK(cudaMalloc(&wrong, sizeof *wrong));
  CUDACHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, rk.stream));
  comparePattern<<<32, 256, 0, rk.stream>>>((const uint64_t*)memory, bytes / 8, seed, wrong);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
  CUDACHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(wrong));
  return (long)found;
}

// Clocks rise to their full speed only under load.
__global__ void spinFor(uint64_t ns) {
  for (uint64_t start = nanoseconds(); nanoseconds() - start < ns;) {
  }
}
static void wakeClocks(Rank& rk) {
#ifndef __GINRS_CPU__
  spinFor<<<64, 256, 0, rk.stream>>>(200000000);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
#endif
  (void)rk;
}
