// A benchmark of all-reduce kernels in three files, as such suites are built: an engine that a weak alias names, kernels
// chosen by type at run time, inputs and checks launched through pointers to kernels.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define GUARD(call)                                                                                          \
  do {                                                                                                       \
    int code_ = (int)(call);                                                                                 \
    if (code_ != 0) printf("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, code_, ncclGetLastError(NULL)), exit(2); \
  } while (0)

struct Engine {
  const char name[16];
  int variants;
  bool (*run)(int variant, ncclDataType_t type, ncclWindow_t from, ncclWindow_t to, size_t count, const void* devComm, int blocks,
              cudaStream_t stream);
};
extern struct Engine benchEngine; // defined by the file with the kernels

cudaError_t benchFill(void* data, size_t count, ncclDataType_t type, int rank, uint64_t seed, cudaStream_t stream);
cudaError_t benchCheck(const void* data, size_t count, ncclDataType_t type, int ranks, uint64_t seed, int64_t* wrong, cudaStream_t stream);
