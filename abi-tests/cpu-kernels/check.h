// What every program here shares: CHECK in host and device code, and the closing line.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__managed__ int failures;

// nvcc compiles these programs too: its intrinsics exist on the device only, ours on host threads as well.
#ifdef __GINRS_CPU__
#define ANYWHERE __host__ __device__
#else
#define ANYWHERE __device__
#endif

// Counts one more; how many there were.
__host__ __device__ inline int failed() {
#ifdef __CUDA_ARCH__
  return atomicAdd(&failures, 1);
#else
  return failures++;
#endif
}

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      failed();                                                                \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);           \
    }                                                                          \
  } while (0)

// For loops over all codes: says which one, and stops talking after ten.
#define CHECK_AT(condition, at)                                                                         \
  do {                                                                                                  \
    if (!(condition) && failed() < 10)                                                   \
      printf("%s:%d: not so at %lld: %s\n", __FILE__, __LINE__, (long long)(at), #condition);           \
  } while (0)

#define CUDA(call)                                                                                  \
  do {                                                                                              \
    cudaError_t error_ = (call);                                                                    \
    if (error_ != cudaSuccess) {                                                                    \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));             \
      exit(2);                                                                                      \
    }                                                                                               \
  } while (0)

inline int finish(const char* name) {
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  if (failures) printf("%s: %d failures\n", name, failures);
  else printf("%s: ok\n", name);
  return failures != 0;
}
