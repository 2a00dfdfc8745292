/* What kernels reach through thread-local variables and at every basic block. Everything else is Rust. */
#include "ginrs_cpu/runtime.h"

__thread const ginrsCpuThread* ginrs_cpu_self;
__thread ginrsCpuUint3 ginrs_cpu_threadIdx, ginrs_cpu_blockIdx, ginrs_cpu_blockDim, ginrs_cpu_gridDim;
__thread int32_t ginrs_cpu_budget;

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

/* At each switch: the thread that runs now, NULL for none. */
void ginrs_shim_enter(const ginrsCpuThread* thread) {
  static const ginrsCpuThread none;
  const ginrsCpuThread* now = thread ? thread : &none;
  ginrs_cpu_self = thread;
  ginrs_cpu_threadIdx = now->threadIdx;
  ginrs_cpu_blockIdx = now->blockIdx;
  ginrs_cpu_blockDim = now->blockDim;
  ginrs_cpu_gridDim = now->gridDim;
}

/* Where this OS thread keeps it: Rust asks once per thread. */
int32_t* ginrs_shim_budget(void) { return &ginrs_cpu_budget; }
