/* What kernels reach through thread-local variables and at every basic block. Everything else is Rust. */
#include "ginrs_cpu/runtime.h"

__thread const ginrsCpuThread* ginrs_cpu_self;
__thread int32_t ginrs_cpu_budget;
/* The lowest byte that the running CUDA thread may use of its stack; 0 elsewhere. */
static __thread uintptr_t ginrs_cpu_stack_end;
__thread ginrsCpuUint3 ginrs_cpu_threadIdx, ginrs_cpu_blockIdx, ginrs_cpu_blockDim, ginrs_cpu_gridDim;

/* Rust, cpu-device/src/exports.rs: gives the core away on a CUDA thread, refills the budget elsewhere. `behind` is where its code goes on. */
void ginrs_shim_budget_spent(uintptr_t behind);

/* Below the stack lies a red zone of a page (cpu-device/src/stack.rs), whose last bytes the next switch of fibers looks at. A
 * frame that begins below that page stands in another thread's stack: the process cannot go on. It ends as of a fault, whose handler
 * has a stack of its own and says why (cpu-device/src/fault.rs). */
static __attribute__((noinline, cold)) void stack_used_up(uintptr_t at) {
  *(volatile uint64_t*)(ginrs_cpu_stack_end - 8) = at;
  if (at >= ginrs_cpu_stack_end - 4096) return;
  ginrs_cpu_stack_end = 1;
  volatile char* volatile nowhere = (volatile char*)1; /* an address in a variable: the compiler warns of a plain one */
  (void)*nowhere;
}

static inline uintptr_t stack_pointer(void) {
  uintptr_t at;
#if defined(__x86_64__)
  __asm__ volatile("mov %%rsp, %0" : "=r"(at));
#elif defined(__aarch64__)
  __asm__ volatile("mov %0, sp" : "=r"(at));
#else
  at = (uintptr_t)__builtin_frame_address(0);
#endif
  return at;
}

void __sanitizer_cov_trace_pc(void) {
  const uintptr_t at = stack_pointer();
  if (__builtin_expect(at < ginrs_cpu_stack_end, 0)) stack_used_up(at);
  if (__builtin_expect(--ginrs_cpu_budget <= 0, 0)) ginrs_shim_budget_spent((uintptr_t)__builtin_return_address(0));
}

void ginrs_cpu_spend(int32_t basicBlocks) {
  if (!ginrs_cpu_self) return;
  ginrs_cpu_budget -= basicBlocks;
  if (ginrs_cpu_budget <= 0) ginrs_shim_budget_spent((uintptr_t)__builtin_return_address(0));
}

/* Where this OS thread keeps them: Rust asks once per thread (cpu-device/src/thread.rs has the same struct). */
typedef struct ginrsShimThread {
  const ginrsCpuThread** self;
  int32_t* budget;
  uintptr_t* stackEnd;
  ginrsCpuUint3 *threadIdx, *blockIdx, *blockDim, *gridDim;
} ginrsShimThread;
void ginrs_shim_thread(ginrsShimThread* thread) {
  thread->self = &ginrs_cpu_self;
  thread->budget = &ginrs_cpu_budget;
  thread->stackEnd = &ginrs_cpu_stack_end;
  thread->threadIdx = &ginrs_cpu_threadIdx;
  thread->blockIdx = &ginrs_cpu_blockIdx;
  thread->blockDim = &ginrs_cpu_blockDim;
  thread->gridDim = &ginrs_cpu_gridDim;
}

/* Tells valgrind that a stack lies from `low` up to `high`, so that a switch to it is none of its "client switching stacks" and a frame on it none
 * of its "invalid write". Elsewhere the instructions of such a request do nothing. */
void ginrs_shim_valgrind_stack(uintptr_t low, uintptr_t high) {
#if defined(__x86_64__)
  enum { STACK_REGISTER = 0x1501 };
  volatile uint64_t request[6] = {STACK_REGISTER, low, high, 0, 0, 0};
  uint64_t answer = 0;
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(&request[0])
      : "cc", "memory");
#else
  (void)low, (void)high;
#endif
}
