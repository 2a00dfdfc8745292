/* C++ overloads of the runtime API that take a kernel by its type: launches, attributes, occupancy. */
#ifndef GINRS_CPU_API_KERNEL_H_
#define GINRS_CPU_API_KERNEL_H_
#include <type_traits>
#include <utility>
#include "../cuda_runtime_api.h"

/* Where this host thread calls cudaLaunchKernel or its kin next. */
extern "C" void ginrs_cpu_launched_at(const char* file, int line);

template <class T>
inline cudaError_t cudaLaunchKernel(T* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem = 0,
                                    cudaStream_t stream = 0, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ginrs_cpu_launched_at(file, line);
  return cudaLaunchKernel((const void*)func, gridDim, blockDim, args, sharedMem, stream);
}
template <class T>
inline cudaError_t cudaLaunchCooperativeKernel(T* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem = 0,
                                               cudaStream_t stream = 0, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ginrs_cpu_launched_at(file, line);
  return cudaLaunchCooperativeKernel((const void*)func, gridDim, blockDim, args, sharedMem, stream);
}
template <class T>
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, T* func, void** args, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ginrs_cpu_launched_at(file, line);
  return cudaLaunchKernelExC(config, (const void*)func, args);
}

namespace ginrs_cpu {
/* A configuration, and where the call is that it is given to. */
struct Configured {
  const cudaLaunchConfig_t* config;
  Configured(const cudaLaunchConfig_t* config, const char* file = __builtin_FILE(), int line = __builtin_LINE()) : config(config) { ginrs_cpu_launched_at(file, line); }
};
/* Called with the parameters already converted: takes their addresses. */
template <class... P>
inline cudaError_t launch_ex(const cudaLaunchConfig_t* config, void (*kernel)(P...), std::remove_reference_t<P>... values) {
  void* args[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const volatile void*>(&values))..., nullptr};
  return cudaLaunchKernelExC(config, (const void*)kernel, args);
}
}  // namespace ginrs_cpu
template <class... P, class... A>
inline cudaError_t cudaLaunchKernelEx(ginrs_cpu::Configured config, void (*kernel)(P...), A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "cudaLaunchKernelEx: one argument for each parameter of the kernel");
  return ginrs_cpu::launch_ex<P...>(config.config, kernel, std::forward<A>(args)...);
}

template <class T>
inline cudaError_t cudaFuncSetAttribute(T* func, cudaFuncAttribute attr, int value) {
  return cudaFuncSetAttribute((const void*)func, attr, value);
}
template <class T>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, T* func) {
  return cudaFuncGetAttributes(attr, (const void*)func);
}
template <class T>
inline cudaError_t cudaFuncGetName(const char** name, T* func) {
  return cudaFuncGetName(name, (const void*)func);
}
template <class T>
inline cudaError_t cudaFuncSetCacheConfig(T* func, cudaFuncCache config) {
  return cudaFuncSetCacheConfig((const void*)func, config);
}
template <class T>
inline cudaError_t cudaFuncSetSharedMemConfig(T* func, cudaSharedMemConfig config) {
  return cudaFuncSetSharedMemConfig((const void*)func, config);
}

template <class T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T func, int blockSize, size_t sharedMem) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)func, blockSize, sharedMem);
}
template <class T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T func, int blockSize,
                                                                          size_t sharedMem, unsigned int flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void*)func, blockSize, sharedMem, flags);
}
template <class T>
inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* sharedMem, T* func, int blocks, int blockSize) {
  return cudaOccupancyAvailableDynamicSMemPerBlock(sharedMem, (const void*)func, blocks, blockSize);
}

/* The block size that keeps most threads resident, the largest of those; and how many such blocks fill the device.
 * sharedMemOf(blockSize) is the dynamic shared memory of a block of that size. */
template <class SharedMemOf, class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int* minGridSize, int* blockSize, T func,
                                                                           SharedMemOf sharedMemOf, int blockSizeLimit = 0,
                                                                           unsigned int flags = 0) {
  if (!minGridSize || !blockSize || !func) return cudaErrorInvalidValue;
  int device, processors;
  cudaFuncAttributes attributes;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, (const void*)func);
  if (error != cudaSuccess) return error;
  int limit = attributes.maxThreadsPerBlock;
  if (blockSizeLimit > 0 && blockSizeLimit < limit) limit = blockSizeLimit;
  int most = 0;
  *minGridSize = *blockSize = 0;
  /* Down by whole warps, the first one perhaps cut by the limit. */
  for (int size = limit; size > 0; size = (size - 1) / 32 * 32) {
    int blocks = 0;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void*)func, size, sharedMemOf(size), flags);
    if (error != cudaSuccess) return error;
    if (blocks * size > most) {
      most = blocks * size;
      *blockSize = size;
      *minGridSize = blocks * processors;
    }
  }
  return cudaSuccess;
}
template <class SharedMemOf, class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* minGridSize, int* blockSize, T func,
                                                                  SharedMemOf sharedMemOf, int blockSizeLimit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, func, sharedMemOf, blockSizeLimit);
}
template <class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, T func,
                                                               size_t sharedMem = 0, int blockSizeLimit = 0,
                                                               unsigned int flags = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
      minGridSize, blockSize, func, [=](int) { return sharedMem; }, blockSizeLimit, flags);
}
template <class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, T func, size_t sharedMem = 0,
                                                      int blockSizeLimit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, sharedMem, blockSizeLimit);
}
#endif
