/* The types and constants that the device-API headers need. Placeholder until the generated header replaces it. */
#ifndef NCCL_H_
#define NCCL_H_
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#define GINRS_HAS_CUDA_RUNTIME 1
#endif
#endif
#ifndef GINRS_HAS_CUDA_RUNTIME
typedef struct CUstream_st* cudaStream_t;
#endif
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;
#ifdef __cplusplus
}
#endif
#endif
