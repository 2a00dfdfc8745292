/* Declarations in the place of a CUDA toolkit, for a clang that knows none as new as ours: T013 asks whether clang's rules
 * for host and device code take the headers, not what becomes of them. */
#ifndef MATRIX_CLANG_CUDA_RUNTIME_H_
#define MATRIX_CLANG_CUDA_RUNTIME_H_
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __CUDACC__ /* as clang's own wrapper has it: without a value */
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __grid_constant__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

typedef struct CUstream_st* cudaStream_t;
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
extern const __device__ uint3 threadIdx, blockIdx, blockDim, gridDim;

__device__ unsigned long long __umul64hi(unsigned long long, unsigned long long);
__device__ unsigned __byte_perm(unsigned, unsigned, unsigned);
__device__ void __syncthreads();
__device__ void __syncwarp(unsigned = 0xffffffffu);
__device__ unsigned __activemask();
__device__ int __popc(unsigned);
__device__ int __ffs(int);
__device__ void __trap();
__device__ size_t __cvta_generic_to_global(void const*);
__device__ void* memcpy(void*, void const*, size_t);
__device__ void __assert_fail(char const*, char const*, unsigned, char const*);
template <typename T>
__device__ T __shfl_sync(unsigned, T, int, int = 32);
template <typename T>
__device__ T __ldg(T const*);
#endif
