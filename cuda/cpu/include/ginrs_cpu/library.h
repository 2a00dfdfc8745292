/* What libginrs and the CPU device (libginrs_cpu.so) know of each other. libginrs finds ginrs_cpu_runtime_v1 with
 * dlsym(RTLD_DEFAULT); when it is there, libginrs uses the CPU device. Versioned: a later version appends. */
#ifndef GINRS_CPU_LIBRARY_H_
#define GINRS_CPU_LIBRARY_H_
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define GINRS_CPU_RUNTIME_VERSION 1u

typedef struct ginrsCpuRuntimeV1 {
  uint32_t version; /* GINRS_CPU_RUNTIME_VERSION */
  uint32_t bytes;   /* sizeof of this struct in the CPU device */
  int (*deviceCount)(void);
  int (*currentDevice)(void);     /* of the calling thread */
  int (*setDevice)(int device);   /* 0 or a cudaError_t */
  int (*kernelsRunning)(int device); /* kernels launched and not finished */
  /* Waiting blocks of `device` call step(context) between polls: it must not block, may be called by several threads at
   * once, and returns nonzero when it moved something. */
  void (*addProgress)(int device, int (*step)(void* context), void* context);
  /* Returns when no thread is inside step with this context. */
  void (*removeProgress)(int device, int (*step)(void* context), void* context);
  /* ncclMemAlloc memory, so that cudaPointerGetAttributes and cudaFree know it. */
  void (*noteAllocation)(void* base, size_t bytes, int device);
  void (*forgetAllocation)(void* base);
  /* 1 if p is memory of cudaMalloc (kind 2), cudaMallocHost (1) or cudaMallocManaged (3), else 0. */
  int (*findAllocation)(const void* p, void** base, size_t* bytes, int* kind);
  /* The cudaError_t of a kernel that failed, until cudaDeviceReset; 0 for none. */
  int (*failure)(int device);
  /* From now on, and until the range is removed, multimem instructions at base + b (b < bytes) reach the bytes
   * first + i * step + b, i < count. Nothing is mapped at the range itself. */
  void (*addMulticast)(uintptr_t base, size_t bytes, uintptr_t first, size_t step, uint32_t count);
  void (*removeMulticast)(uintptr_t base);
  /* Waiting blocks of `device` look again at once: what they wait for may have come. */
  void (*wake)(int device);
} ginrsCpuRuntimeV1;

const ginrsCpuRuntimeV1* ginrs_cpu_runtime_v1(void);
#ifdef __cplusplus
}
#endif
#endif
