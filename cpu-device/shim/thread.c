/* What kernels reach through thread-local variables and at every basic block. Everything else is Rust. */
#include "ginrs_cpu/runtime.h"

__thread const ginrsCpuThread* ginrs_cpu_self;
__thread int32_t ginrs_cpu_budget;
__thread ginrsCpuUint3 ginrs_cpu_threadIdx, ginrs_cpu_blockIdx, ginrs_cpu_blockDim, ginrs_cpu_gridDim;

/* Rust, cpu-device/src/exports.rs: gives the core away on a CUDA thread, refills the budget elsewhere. */
void ginrs_shim_budget_spent(void);

void __sanitizer_cov_trace_pc(void) {
  if (__builtin_expect(--ginrs_cpu_budget <= 0, 0)) ginrs_shim_budget_spent();
}

void ginrs_cpu_spend(int32_t basicBlocks) {
  if (!ginrs_cpu_self) return;
  ginrs_cpu_budget -= basicBlocks;
  if (ginrs_cpu_budget <= 0) ginrs_shim_budget_spent();
}

/* Where this OS thread keeps them: Rust asks once per thread (cpu-device/src/thread.rs has the same struct). */
typedef struct ginrsShimThread {
  const ginrsCpuThread** self;
  int32_t* budget;
  ginrsCpuUint3 *threadIdx, *blockIdx, *blockDim, *gridDim;
} ginrsShimThread;
void ginrs_shim_thread(ginrsShimThread* thread) {
  thread->self = &ginrs_cpu_self;
  thread->budget = &ginrs_cpu_budget;
  thread->threadIdx = &ginrs_cpu_threadIdx;
  thread->blockIdx = &ginrs_cpu_blockIdx;
  thread->blockDim = &ginrs_cpu_blockDim;
  thread->gridDim = &ginrs_cpu_gridDim;
}
