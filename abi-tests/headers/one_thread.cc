/* A stand-in for libginrs_cpu.so that can run the device code of the headers on plain threads: a block is one CUDA
 * thread. Enough for ncclCoopThread, ncclCoopCta and ncclCoopWarp of size one. */
#include "one_thread.h"

#include <ginrs_cpu/waits.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

__thread const ginrsCpuThread* ginrs_cpu_self;
__thread int32_t ginrs_cpu_budget;
#define INDEX(name) __thread ginrsCpuUint3 name##_ __asm__("ginrs_cpu_" #name)
INDEX(threadIdx);
INDEX(blockIdx);
INDEX(blockDim);
INDEX(gridDim);

static __thread ginrsCpuThread thisThread;
void becomeBlock(unsigned block) {
  thisThread.blockIdx.x = block;
  thisThread.blockDim = thisThread.gridDim = {1, 1, 1};
  blockIdx_ = thisThread.blockIdx;
  threadIdx_ = thisThread.threadIdx;
  blockDim_ = gridDim_ = {1, 1, 1};
  ginrs_cpu_self = &thisThread;
}

unsigned long yields = 0;
void ginrs_cpu_yield(int) {
  __atomic_add_fetch(&yields, 1, __ATOMIC_RELAXED);
  sched_yield();
}
void ginrs_cpu_posted(void) {}
void ginrs_cpu_spend(int32_t) {}
void ginrs_cpu_wait_begin(const ginrsCpuWait*) {}
void ginrs_cpu_wait_end(void) {}
void ginrs_cpu_refused(const char*) {}
void ginrs_cpu_polled(const void*, uint64_t) {}
void ginrs_cpu_no_rank(const char*, int32_t, int32_t, const void*, size_t, const char*, int32_t) {}
void ginrs_cpu_session_begin(const void*) {}
void ginrs_cpu_session_end(const void*) {}
void ginrs_cpu_aborted(void) {}
uint32_t ginrs_cpu_timeline = 0;
uint64_t ginrs_cpu_timeline_now(void) { return 0; }
void ginrs_cpu_timeline_post(uint64_t, const void*, uint32_t) {}
void ginrs_cpu_timeline_direct(uint64_t, uint64_t, uint64_t, uint64_t) {}
void ginrs_cpu_timeline_wait(const ginrsCpuWait*) {}
void ginrs_cpu_timeline_wait_end(void) {}
void ginrs_cpu_barrier(uint32_t, uint32_t, const char*, const char*, int) {}
void ginrs_cpu_barrier_arrive(uint32_t, uint32_t, const char*, const char*, int) {}
void ginrs_cpu_warp_sync(uint32_t, const char*, const char*, int) {}
uint32_t ginrs_cpu_warp_exchange(uint32_t, uint64_t value, uint64_t out[32], const char*, const char*, int) {
  out[0] = value;
  return 1;
}
uint32_t ginrs_cpu_active_mask(const char*, int) {
  return 1;
}
int ginrs_cpu_barrier_reduce(int predicate, int, const char*, const char*, int) {
  return predicate;
}
void ginrs_cpu_grid_sync(const char*, int) {}
int ginrs_cpu_launch_is_cooperative(void) {
  return 0;
}
void* ginrs_cpu_dynamic_shared(void) {
  return nullptr;
}
void ginrs_cpu_trap(const char* message, const char* file, int line) {
  fprintf(stderr, "trap: %s (%s:%d)\n", message, file, line);
  _Exit(3);
}
