/* C++ overloads of the runtime API that allocate memory, and that name __device__ variables by themselves. */
#ifndef GINRS_CPU_API_MEMORY_H_
#define GINRS_CPU_API_MEMORY_H_
#include "../cuda_runtime_api.h"

namespace ginrs_cpu {
/* T** as the void** of the C functions; void** itself takes those. */
template <class T>
inline void** untyped(T** p) { return reinterpret_cast<void**>(p); }
/* The address that names a variable: that of its master, on a host thread (runtime.h). */
template <class T>
inline const void* symbol_name(const T& symbol) {
  return (const void*)&reinterpret_cast<const volatile char&>(symbol);
}
}  // namespace ginrs_cpu

template <class T>
inline cudaError_t cudaMalloc(T** devPtr, size_t size) { return cudaMalloc(ginrs_cpu::untyped(devPtr), size); }
template <class T>
inline cudaError_t cudaMallocPitch(T** devPtr, size_t* pitch, size_t width, size_t height) {
  return cudaMallocPitch(ginrs_cpu::untyped(devPtr), pitch, width, height);
}
template <class T>
inline cudaError_t cudaMallocManaged(T** devPtr, size_t size, unsigned int flags = cudaMemAttachGlobal) {
  return cudaMallocManaged(ginrs_cpu::untyped(devPtr), size, flags);
}
inline cudaError_t cudaMallocHost(void** ptr, size_t size, unsigned int flags) { return cudaHostAlloc(ptr, size, flags); }
template <class T>
inline cudaError_t cudaMallocHost(T** ptr, size_t size, unsigned int flags = 0) {
  return cudaHostAlloc(ginrs_cpu::untyped(ptr), size, flags);
}
template <class T>
inline cudaError_t cudaHostAlloc(T** ptr, size_t size, unsigned int flags) {
  return cudaHostAlloc(ginrs_cpu::untyped(ptr), size, flags);
}
template <class T>
inline cudaError_t cudaHostGetDevicePointer(T** pDevice, void* pHost, unsigned int flags) {
  return cudaHostGetDevicePointer(ginrs_cpu::untyped(pDevice), pHost, flags);
}
template <class T>
inline cudaError_t cudaMallocAsync(T** devPtr, size_t size, cudaStream_t stream) {
  return cudaMallocAsync(ginrs_cpu::untyped(devPtr), size, stream);
}
inline cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(devPtr, size, pool, stream);
}
template <class T>
inline cudaError_t cudaMallocAsync(T** devPtr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(ginrs_cpu::untyped(devPtr), size, pool, stream);
}
template <class T>
inline cudaError_t cudaMallocFromPoolAsync(T** devPtr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(ginrs_cpu::untyped(devPtr), size, pool, stream);
}
template <class T>
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T* devPtr, size_t length = 0,
                                            unsigned int flags = cudaMemAttachSingle) {
  return cudaStreamAttachMemAsync(stream, (void*)devPtr, length, flags);
}

/* The forms of CUDA 12, which name the device by its number; cudaCpuDeviceId is the host. */
namespace ginrs_cpu {
inline cudaMemLocation location(int device) {
  cudaMemLocation where = {};
  where.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  where.id = device == cudaCpuDeviceId ? 0 : device;
  return where;
}
}  // namespace ginrs_cpu
inline cudaError_t cudaMemPrefetchAsync(const void* devPtr, size_t count, int device, cudaStream_t stream = 0) {
  return cudaMemPrefetchAsync(devPtr, count, ginrs_cpu::location(device), 0u, stream);
}
inline cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise(devPtr, count, advice, ginrs_cpu::location(device));
}

template <class T>
inline cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* src, size_t count, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpyToSymbol(ginrs_cpu::symbol_name(symbol), src, count, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* src, size_t count, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) {
  return cudaMemcpyToSymbolAsync(ginrs_cpu::symbol_name(symbol), src, count, offset, kind, stream);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void* dst, const T& symbol, size_t count, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpyFromSymbol(dst, ginrs_cpu::symbol_name(symbol), count, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const T& symbol, size_t count, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) {
  return cudaMemcpyFromSymbolAsync(dst, ginrs_cpu::symbol_name(symbol), count, offset, kind, stream);
}
template <class T>
inline cudaError_t cudaGetSymbolAddress(void** devPtr, const T& symbol) {
  return cudaGetSymbolAddress(devPtr, ginrs_cpu::symbol_name(symbol));
}
template <class T, class U>
inline cudaError_t cudaGetSymbolAddress(T** devPtr, const U& symbol) {
  return cudaGetSymbolAddress(ginrs_cpu::untyped(devPtr), ginrs_cpu::symbol_name(symbol));
}
template <class T>
inline cudaError_t cudaGetSymbolSize(size_t* size, const T& symbol) {
  return cudaGetSymbolSize(size, ginrs_cpu::symbol_name(symbol));
}

inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
  return cudaEventCreateWithFlags(event, flags);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t* errorNode, char* log,
                                        size_t logBytes) {
  if (errorNode) *errorNode = nullptr;
  if (log && logBytes) *log = 0;
  return cudaGraphInstantiate(exec, graph, 0ull);
}
#endif
