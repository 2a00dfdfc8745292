/* Who called. On the CPU device each function of the device API that may wait knows the line of the user's that called it: its last
 * two parameters are defaulted to the caller's file and line, which the compiler fills in where the call stands. So it is the line of
 * the call itself, in whatever function of the user's, with any debug level and both C++17 and 20; what is deduced from the other
 * parameters stays as it is, and no call has to change. (Return addresses would need debug lines, which programs are compiled
 * without, and everything here is inlined into the kernel.) On a GPU neither parameters nor calls exist. */
#ifndef GINRS_DEVICE_CALL_CUH_
#define GINRS_DEVICE_CALL_CUH_
#include "../nccl_device/utility.h"

#if NCCL_CHECK_CUDACC
#ifdef __GINRS_CPU__
#include <ginrs_cpu/runtime.h>
#include <ginrs_cpu/waits.h>

/* At the end of a declaration's parameters, of a definition's, and of the arguments of a function that passes its caller on. */
#define GINRS_CALLER_DEFAULT , const char *ginrsFile = __builtin_FILE(), int ginrsLine = __builtin_LINE()
#define GINRS_CALLER , const char *ginrsFile, int ginrsLine
/* The same where there are no other parameters. */
#define GINRS_CALLER_ALONE_DEFAULT const char *ginrsFile = __builtin_FILE(), int ginrsLine = __builtin_LINE()
#define GINRS_CALLER_ALONE const char *ginrsFile, int ginrsLine
#define GINRS_CALLER_PASSED , ginrsFile, ginrsLine
/* For the rest of the block. */
#define GINRS_CALL(kind, context, id) \
  ::ginrs::Call ginrsCall(GINRS_CPU_CALL_##kind, uint32_t(context), uint32_t(id), ginrsFile, ginrsLine)

/* A session of `coop`, which keeps its epoch in `word`; of one rank alone nothing can go wrong. */
#ifdef GINRS_OWN_KERNELS
#define GINRS_SESSION(step, ranks, coop, word) ((void)0)
#else
#define GINRS_SESSION(step, ranks, coop, word) \
  ((ranks) > 1 && (coop).thread_rank() == 0 && ginrs_cpu_self != nullptr ? ginrs_cpu_session_##step(word) : (void)0)
#endif

/* What the race detector is told (ginrs-cc --check=race, race.cuh). */
#ifdef __GINRS_RACE__
#define GINRS_RACE(statement) statement
#else
#define GINRS_RACE(statement) ((void)0)
#endif

namespace ginrs {
/* Stands on the thread's stack as long as the call lasts, where a wait that lasts finds it. */
struct Call {
  ginrsCpuCall call;
  ginrsCpuThread* thread; /* the pointer is the thread's for life, the variable it comes from is not */

  NCCL_DEVICE_INLINE Call(uint32_t kind, uint32_t context, uint32_t id, const char* file, int line)
      : call{nullptr, file, line, kind, context, id}, thread(const_cast<ginrsCpuThread*>(ginrs_cpu_self)) {
    if (thread == nullptr) return;
    call.outer = thread->call;
    thread->call = &call;
  }
  NCCL_DEVICE_INLINE ~Call() {
    if (thread != nullptr) thread->call = call.outer;
  }
  Call(Call const&) = delete;
};

/* Whether the running CUDA thread is in a call of this kind, however deep. */
NCCL_DEVICE_INLINE bool isCalledBy(uint32_t kind) {
  for (ginrsCpuCall const* call = ginrs_cpu_self == nullptr ? nullptr : ginrs_cpu_self->call; call != nullptr; call = call->outer) {
    if (call->kind == kind) return true;
  }
  return false;
}

/* Whether a timeline is written. */
NCCL_DEVICE_INLINE bool isWrittenDown() {
  return __builtin_expect(__atomic_load_n(&ginrs_cpu_timeline, __ATOMIC_RELAXED) != 0, 0) && ginrs_cpu_self != nullptr;
}

/* A wait, told once it has lasted. */
struct Told {
  bool isTold = false;

  NCCL_DEVICE_INLINE Told() {}
  NCCL_DEVICE_INLINE void tell(ginrsCpuWait const& wait) {
    ginrs_cpu_wait_begin(&wait);
    isTold = true;
  }
  NCCL_DEVICE_INLINE ~Told() {
    if (isTold) ginrs_cpu_wait_end();
  }
  Told(Told const&) = delete;
};
}  // namespace ginrs
#else
#define GINRS_CALLER_DEFAULT
#define GINRS_CALLER
#define GINRS_CALLER_ALONE_DEFAULT
#define GINRS_CALLER_ALONE
#define GINRS_CALLER_PASSED
#define GINRS_CALL(kind, context, id) ((void)0)
#define GINRS_SESSION(step, ranks, coop, word) ((void)0)
#define GINRS_RACE(statement) ((void)0)
#endif
#endif
#endif
