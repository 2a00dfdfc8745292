/* What GIN's host and device halves share. C-safe. */
#ifndef _NCCL_GIN_DEVICE_HOST_COMMON_H_
#define _NCCL_GIN_DEVICE_HOST_COMMON_H_
#if defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h> /* CUDA_VERSION */
#endif
#endif
#include "../core.h"
#include "../net_device.h"

#define NCCL_GIN_MAX_CONTEXTS 4

/* A backend's context in device memory, and its registration of one window's memory. */
typedef struct ncclGinGpuCtx* ncclGinGpuCtx_t;
typedef void* ncclGinWindow_t;

typedef enum ncclGinSignalOp_t { ncclGinSignalInc = 0, ncclGinSignalAdd } ncclGinSignalOp_t;
#endif
