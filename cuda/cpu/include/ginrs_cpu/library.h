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

/* A wait of a CUDA thread (waits.h). Strings live as long as the call that shows them. */
typedef struct ginrsCpuWaitSeen {
  const void* owner;
  const char* file; /* of the user's call, or the host's of a collective; null where nobody has said */
  int32_t line;
  uint32_t outer;              /* GINRS_CPU_CALL_ of that call; 0: not known */
  uint32_t kind, context, id;  /* the same, but for a hybrid barrier of the barrier that it is made of */
  uint32_t note;
  uint32_t block[3], thread[3];
  uint64_t wants, has; /* of `bits` bits; bits is 0 where there is no word */
  uint32_t bits;
  uint32_t bytes;       /* sizeof of this struct in the CPU device; 0: without what stands behind nanoseconds */
  uint64_t nanoseconds; /* that it has lasted */
  const void* word;     /* that has to reach `wants`; null where there is none */
  const char* name;     /* of a collective: the function that the host has called; null elsewhere */
  uint64_t launch;      /* of such a one: which of its communicator's, from 1; 0: not known */
} ginrsCpuWaitSeen;

typedef struct ginrsCpuStillness {
  uint32_t blocks; /* that run */
  uint32_t others; /* of these, that do not only wait; and kernels of which blocks have not begun */
  uint64_t changes; /* another number: a block began, ended, or went on behind a wait */
  uint64_t mark;    /* of this look */
  uint64_t passed;  /* every waiting thread has looked in vain since the look with this mark */
} ginrsCpuStillness;

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
  /* Shows each wait that lasts. Called under locks that waiting blocks take: `see` must not block. */
  void (*eachWait)(void (*see)(void* context, const ginrsCpuWaitSeen* wait), void* context);
  /* Whether all blocks of the process only wait. `see` is given the OS thread (gettid) of each block that runs. */
  void (*stillness)(ginrsCpuStillness* still, void (*see)(void* context, int thread), void* context);
  /* An eventfd that is written to when a kernel of `device` has posted something (ginrs_cpu_posted), or one is launched, and
   * *asleep is not 0: who sets it and then finds nothing posted may sleep on the descriptor. Where it is 2, a block that goes on
   * with something else than waiting, naps or ends rings, too. Who rings zeroes it. Both stay as long as the process. -1: there is none. */
  int (*bell)(int device, uint32_t** asleep);
  /* Shows what lasts and is no wait: words that threads read over and over, and code (GINRS_WAITS_READS, GINRS_WAITS_CODE). Looks lines up, which takes
   * long, reads files, and goes another way each time: for who was asked. `see` as of eachWait. */
  void (*eachLasting)(void (*see)(void* context, const ginrsCpuWaitSeen* wait), void* context);
} ginrsCpuRuntimeV1;

const ginrsCpuRuntimeV1* ginrs_cpu_runtime_v1(void);

/* Found by name, for programs with AddressSanitizer: of the mapping of `bytes` at `at` the program has the bytes from `begin` to `end`, as
 * memory of ncclMemAlloc (with addresses on both sides that are nobody's) or as a window (of several, from the first to the last), or has freed it. */
enum { GINRS_CPU_BOUNDS_ALLOCATION = 0, GINRS_CPU_BOUNDS_WINDOW = 1, GINRS_CPU_BOUNDS_FREED = 2 };
void ginrs_cpu_bounded(uintptr_t at, size_t bytes, size_t begin, size_t end, int what);
/* What is mapped there next is another memory. */
void ginrs_cpu_unmapped(uintptr_t at, size_t bytes);

/* Found by name: 1 where `bytes` from `at` on begin in an allocation of *size bytes at *base and run over its end, and no other one can lie
 * behind it that is a part of the same buffer. Else 0. */
int ginrs_cpu_overrun(uint64_t at, uint64_t bytes, uint64_t* base, uint64_t* size);
/* Found by name: 1 where the calling thread is in a function of cudaLaunchHostFunc or cudaStreamAddCallback. */
int ginrs_cpu_in_host_function(void);
#ifdef __cplusplus
}
#endif
#endif
