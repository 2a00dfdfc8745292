/* Macros that every device-API header uses, and namespace nccl::utility: index arithmetic that device code shares with
 * the host, atomics with a scope chosen at run time, and an in-place optional.
 *
 * A TU is a "CUDA TU" when NCCL_CHECK_CUDACC is 1: nvcc, clang's CUDA mode, and ginrs-cc, which also defines
 * __GINRS_CPU__. Elsewhere (plain C and C++) the device-only names do not exist. */
#ifndef _NCCL_DEVICE_UTILITY_H_
#define _NCCL_DEVICE_UTILITY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef NCCL_CHECK_CUDACC
#ifdef __CUDACC__ /* clang defines it without a value */
#define NCCL_CHECK_CUDACC 1
#else
#define NCCL_CHECK_CUDACC 0
#endif
#endif

#if NCCL_CHECK_CUDACC
#define NCCL_DEVICE_INLINE __device__ __forceinline__
#define NCCL_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#else
#define NCCL_DEVICE_INLINE
#define NCCL_HOST_DEVICE_INLINE inline __attribute__((always_inline))
#ifndef __host__
#define __host__
#endif
#endif

#ifdef __cplusplus
#define NCCL_EXTERN_C extern "C"
#else
#define NCCL_EXTERN_C
#endif

#ifndef NCCL_IF_CONSTEXPR
#if defined(__cpp_if_constexpr)
#define NCCL_IF_CONSTEXPR if constexpr
#else
#define NCCL_IF_CONSTEXPR if
#endif
#endif

#ifdef __cplusplus
#include "impl/utility__math.h"
#if NCCL_CHECK_CUDACC
#include <cuda/atomic>
#include <cuda_runtime.h> /* which nvcc includes by itself */
#include "impl/utility__device.h"
#endif
#include "impl/utility__optional.h"
#endif

#endif
