/* What compiled kernels call in the CPU device (libginrs_cpu.so). C ABI; implemented in cpu-device/.
 * A block is one OS thread for its whole life, a CUDA thread is a stackful fiber on it: so a block's
 * fibers never run at the same time, thread_local storage is per-block storage, and every blocking call
 * below gives the OS thread to the next fiber of the block. None of these may be called on a host thread
 * unless it says so; ginrs_cpu_self is NULL there. */
#ifndef GINRS_CPU_RUNTIME_H_
#define GINRS_CPU_RUNTIME_H_
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ginrsCpuUint3 { unsigned int x, y, z; } ginrsCpuUint3; /* layout of uint3 and dim3 */

/* What a running CUDA thread knows of itself. The pointer changes at every switch of fibers: read it anew. */
typedef struct ginrsCpuThread {
  ginrsCpuUint3 threadIdx, blockIdx, blockDim, gridDim;
  uint32_t linear;             /* number of the thread in its block, x fastest */
  uint32_t lane, warp;         /* linear % 32, linear / 32 */
  uint32_t dynamicSharedBytes; /* third launch parameter */
  int32_t device;
  uint32_t clusters; /* 1: launched in clusters of more than one block, which run as blocks of their own */
  const struct ginrsCpuCall* call; /* the innermost call of the device API that it is in (waits.h), or NULL; the headers write it */
} ginrsCpuThread;
extern __thread const ginrsCpuThread* ginrs_cpu_self;

/* The same four indices once more, by value: written at every switch (threadIdx) and when a block starts (the rest);
 * all zero on host threads. C++ names them threadIdx, blockIdx, blockDim and gridDim. They must be objects, not macros
 * over ginrs_cpu_self: `dim3 gridDim(n)` and `config.blockDim` are everyday host code. */
extern __thread ginrsCpuUint3 ginrs_cpu_threadIdx, ginrs_cpu_blockIdx, ginrs_cpu_blockDim, ginrs_cpu_gridDim;

/* Countdown of basic blocks until the next preemption; __sanitizer_cov_trace_pc takes one off, an atomic access
 * may take more (ginrs_cpu_spend). */
extern __thread int32_t ginrs_cpu_budget;
void ginrs_cpu_spend(int32_t basicBlocks); /* host threads: returns at once */

enum {
  GINRS_CPU_PREEMPTED = 0, /* the thread could go on */
  GINRS_CPU_WAITING = 1    /* the thread polls a word and found nothing; when all threads of a block say so in a row,
                              the block runs its device's progress steps and then gives the core away */
};
void ginrs_cpu_yield(int why); /* host threads: sched_yield */
/* The calling CUDA thread has stored something for the host to find: who sleeps there is woken, unless the block waits and sees to it. */
void ginrs_cpu_posted(void);

/* What multimem instructions at an address reach: `count` places, `step` bytes apart. */
typedef struct ginrsCpuTargets {
  char* first;
  size_t step;
  uint32_t count;
} ginrsCpuTargets;
extern uint32_t ginrs_cpu_multicast_ranges; /* how many there are; atomic */
/* 1, and *targets is filled in; 0: not all of the bytes from there are multicast memory. */
int ginrs_cpu_multicast_targets(const void* address, size_t bytes, ginrsCpuTargets* targets);

/* Counted rendezvous. `what` names the CUDA function, file:line the caller; both go into the deadlock report.
 * id 0 with count 0 is the whole block (exited threads count as arrived); ids 1..15 are bar.sync id, count. */
void ginrs_cpu_barrier(uint32_t id, uint32_t count, const char* what, const char* file, int line);
/* bar.arrive id, count: counts without waiting. */
void ginrs_cpu_barrier_arrive(uint32_t id, uint32_t count, const char* what, const char* file, int line);
enum { GINRS_CPU_REDUCE_COUNT = 0, GINRS_CPU_REDUCE_AND = 1, GINRS_CPU_REDUCE_OR = 2 };
/* __syncthreads_count / _and / _or */
int ginrs_cpu_barrier_reduce(int predicate, int op, const char* what, const char* file, int line);
/* __syncwarp(mask). Lanes that do not exist in the block or have exited count as arrived. */
void ginrs_cpu_warp_sync(uint32_t mask, const char* what, const char* file, int line);
/* Every lane of mask deposits value; when all have, each gets everybody's in out[lane] (0 for lanes that gave none).
 * Returns the mask of lanes that did deposit. All warp primitives (shuffle, ballot, match, reduce) are built on it. */
uint32_t ginrs_cpu_warp_exchange(uint32_t mask, uint64_t value, uint64_t out[32], const char* what, const char* file,
                                 int line);
/* __activemask(): waits until each other lane of the warp has reached the same call site, is blocked elsewhere or has
 * exited; returns the lanes at this site. */
uint32_t ginrs_cpu_active_mask(const char* file, int line);
/* cooperative_groups::this_grid().sync(); needs a cooperative launch, else the kernel fails with a message. */
void ginrs_cpu_grid_sync(const char* file, int line);
int ginrs_cpu_launch_is_cooperative(void);
/* __trap(), assert(): prints message and place, ends the kernel with an error that stays until cudaDeviceReset. Does not
 * return on a CUDA thread; aborts the process on a host thread. */
void ginrs_cpu_trap(const char* message, const char* file, int line) __attribute__((noreturn));

/* Dynamic shared memory of the block on this OS thread: 1024-aligned and at a constant address for the thread's life
 * (so `static thread_local T (&s)[]` may bind to it once). On a host thread: an error message and abort. */
void* ginrs_cpu_dynamic_shared(void);

/* Shared memory as PTX names it: 32 bits, which stand for a place on this block's OS thread only. An address that was not
 * given out ends the kernel with a message. */
uint32_t ginrs_cpu_shared_address(const void* p, const char* file, int line);
void* ginrs_cpu_shared_pointer(uint32_t address, const char* file, int line);

/* mbarrier objects, 8 aligned bytes each. What the object does not allow (it was not initialised, it counts no further) ends
 * the kernel with a message. */
void ginrs_cpu_mbarrier_init(void* at, uint32_t count, const char* file, int line);
void ginrs_cpu_mbarrier_inval(void* at, const char* file, int line);
enum { GINRS_CPU_ARRIVE = 0, GINRS_CPU_ARRIVE_DROP = 1, GINRS_CPU_ARRIVE_NO_COMPLETE = 2 };
/* Announces `bytes`, then arrives. The state of the phase: its number in the high half, the arrivals it lacked in the low. */
uint64_t ginrs_cpu_mbarrier_arrive(void* at, uint32_t count, int64_t bytes, int how, const char* file, int line);
/* Bytes are announced (above 0) or have come (below 0). */
void ginrs_cpu_mbarrier_bytes(void* at, int64_t bytes, const char* what, const char* file, int line);
/* 1 once the phase of `state` (a parity of 0 or 1 if byParity) has ended. Waits for it, but not for long: 0 is "not yet",
 * unless forEver says that the caller would only ask again. */
int ginrs_cpu_mbarrier_wait(void* at, uint64_t state, int byParity, int forEver, const char* what, const char* file, int line);

/* The copy of a __device__ / __constant__ variable that belongs to the device of this block thread. On a host thread:
 * `master` itself, whose address names the variable in cudaMemcpyToSymbol and its kin. Registers the variable; the first
 * use on a device copies the bytes of master as they were at registration. Every block thread serves one device for its
 * life, so the result may be kept in a thread_local reference. */
void* ginrs_cpu_device_variable(void* master, size_t bytes, const char* name);

/* A kernel as the launcher sees it. */
typedef struct ginrsCpuKernel {
  const void* entry;                /* the address of the __global__ function: its identity */
  const char* name;
  void* (*pack)(void** arguments);  /* cudaLaunchKernel: heap copy of the arguments, or NULL if not known */
  void (*invoke)(void* packed);     /* called once per CUDA thread; packed is shared by all of them and const */
  void (*destroy)(void* packed);    /* called once, after the last thread */
} ginrsCpuKernel;
void ginrs_cpu_register_kernel(const ginrsCpuKernel* kernel); /* any thread; copies; same entry again replaces */
void ginrs_cpu_bound_kernel(const void* entry, uint32_t threads); /* its blocks have at most so many (__launch_bounds__) */

enum { GINRS_CPU_LAUNCH_COOPERATIVE = 1, GINRS_CPU_LAUNCH_CLUSTERS = 2 };
typedef struct ginrsCpuLaunch {
  ginrsCpuKernel kernel;  /* entry may be NULL for a lambda */
  void* packed;           /* owned by the runtime from here on, also on error */
  ginrsCpuUint3 grid, block;
  size_t sharedBytes;
  void* stream;           /* cudaStream_t */
  uint32_t flags;
  const char* file;
  int line;
} ginrsCpuLaunch;
/* Host threads. Queues the launch on its stream; returns a cudaError_t and also sets cudaGetLastError. */
int ginrs_cpu_launch(const ginrsCpuLaunch* launch);

#ifdef __cplusplus
}
#endif
#endif
