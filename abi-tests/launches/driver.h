/* What these programs ask of the driver, and of calls that have to succeed. */
#pragma once
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void* Context;
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(Context* context, int device);
int cuCtxSetCurrent(Context context);
int cuCtxSynchronize(void);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamSynchronize(void* stream);
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes);
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes);
int cuMemAlloc_v2(uint64_t* at, size_t bytes);
int cuMemFree_v2(uint64_t at);

#define OK(call)                                                                          \
  do {                                                                                    \
    int result_ = (int)(call);                                                            \
    if (result_ != 0) {                                                                   \
      printf("%s: %d: %s\n", #call, result_, ncclGetLastError(NULL));                     \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)
