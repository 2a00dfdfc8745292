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
