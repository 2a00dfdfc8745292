/* CUDA's qualifiers. Under ginrs-cc they name themselves: `#ifdef __device__` is true, and the word survives the
 * preprocessor for ginrs-cc, which gives it its meaning. In host-only C and C++ they are nothing. */
#ifndef GINRS_CPU_HOST_DEFINES_H_
#define GINRS_CPU_HOST_DEFINES_H_
#if defined(__clang__) && defined(__CUDA__) /* clangd: only kernels are told from other functions (ginrs_cpu/clangd.h) */
#define __host__
#define __device__
#define __global__ __attribute__((global))
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __grid_constant__
#define __noinline__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#elif defined(__CUDACC__)
#define __host__ __host__
#define __device__ __device__
#define __global__ __global__
#define __shared__ __shared__
#define __constant__ __constant__
#define __managed__ __managed__
#define __forceinline__ __forceinline__
#define __grid_constant__ __grid_constant__
#define __noinline__ __noinline__
#define __launch_bounds__(...) __launch_bounds__(__VA_ARGS__)
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__ /* empty, not an attribute: libstdc++ writes __attribute__((__noinline__)) */
#endif
#define __inline_hint__
#define __maxnreg__(...)
#define __nv_pure__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __no_return__ __attribute__((noreturn))
#define CUDARTAPI
#define CUDAAPI
#define CUDART_CB
#endif
