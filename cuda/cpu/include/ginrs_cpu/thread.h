/* What a CUDA thread reads about itself, its fences, clocks and ways to stop. */
#ifndef GINRS_CPU_THREAD_H_
#define GINRS_CPU_THREAD_H_
#include <assert.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../vector_types.h"
#include "race.h"
#include "runtime.h"

/* Where a CUDA function was called: the deadlock report prints it. Functions that wait end with these parameters. */
#define GINRS_CPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* The CPU device writes these at each switch of fibers; initial-exec, so that a read is two instructions. */
#define GINRS_CPU_INDEX(type, name) \
  extern __thread type name __asm__("ginrs_cpu_" #name) __attribute__((tls_model("initial-exec")));
GINRS_CPU_INDEX(uint3, threadIdx)
GINRS_CPU_INDEX(uint3, blockIdx)
GINRS_CPU_INDEX(dim3, blockDim)
GINRS_CPU_INDEX(dim3, gridDim)
#undef GINRS_CPU_INDEX
static_assert(sizeof(uint3) == sizeof(ginrsCpuUint3) && sizeof(dim3) == sizeof(ginrsCpuUint3), "index layout");
static constexpr int warpSize = 32;

namespace ginrs_cpu {
/* The running CUDA thread; on a host thread an error that says what was called there. */
inline const ginrsCpuThread* self(const char* what, const char* file, int line) {
  const ginrsCpuThread* thread = ginrs_cpu_self;
  if (__builtin_expect(thread == nullptr, 0)) ginrs_cpu_trap(what, file, line);
  return thread;
}
inline unsigned lane(GINRS_CPU_SITE) { return self("lane id read outside a kernel", file, line)->lane; }
inline unsigned warp(GINRS_CPU_SITE) { return self("warp id read outside a kernel", file, line)->warp; }

inline unsigned long long nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

/* Same bytes as another type. */
template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits_as between sizes");
  To to;
  __builtin_memcpy((void*)&to, &from, sizeof to);
  return to;
}

/* How far an atomic load or a failed compare-and-swap brings the thread to its next preemption, in basic blocks:
 * loops of such accesses are spins far more often than not. */
constexpr int kPollCost = 16;
inline void poll() { ginrs_cpu_spend(kPollCost); }
}  // namespace ginrs_cpu

/* All scopes are the CPU's one fence. */
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {
  GINRS_CPU_NARROW(true);
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* The thread says that it polls: no time is promised, as on a GPU (0 up to twice the argument). */
inline void __nanosleep(unsigned int) { ginrs_cpu_yield(GINRS_CPU_WAITING); }

/* Device clocks count nanoseconds, as if the device ran at 1 GHz. clock() has libc's name: the declaration below sends
 * calls of either kind here, and host threads still get libc's processor time. */
inline long long clock64() { return (long long)ginrs_cpu::nanoseconds(CLOCK_MONOTONIC); }
extern "C" __attribute__((used)) inline clock_t ginrs_cpu_clock() {
  return ginrs_cpu_self ? (clock_t)clock64() : (clock_t)(ginrs_cpu::nanoseconds(CLOCK_PROCESS_CPUTIME_ID) / 1000);
}
extern "C" clock_t clock(void) noexcept(true) __asm__("ginrs_cpu_clock");
inline unsigned long long __globaltimer() { return ginrs_cpu::nanoseconds(CLOCK_REALTIME); }

/* Ends the kernel with cudaErrorLaunchFailure. */
[[noreturn]] inline void __trap(GINRS_CPU_SITE) { ginrs_cpu_trap("__trap()", file, line); }

/* What assert() calls, taken over as clock() is: a CUDA thread ends its kernel with cudaErrorAssert; on a host thread the
 * process ends, by libc. */
extern "C" [[noreturn]] void ginrs_cpu_libc_assert_fail(const char* claim, const char* file, unsigned line,
                                                        const char* function) noexcept(true) __asm__("__assert_fail");
extern "C" [[noreturn]] __attribute__((used)) inline void ginrs_cpu_assert_fail(const char* claim, const char* file, unsigned line,
                                                                               const char* function) {
  if (!ginrs_cpu_self) ginrs_cpu_libc_assert_fail(claim, file, line, function);
  char message[512];
  const char* lambda = strstr(function, "::<lambda"); /* g++: a kernel's body is in one */
  snprintf(message, sizeof message, "assertion `%s' failed in %.*s", claim, int(lambda ? lambda - function : strlen(function)), function);
  ginrs_cpu_trap(message, file, (int)line);
}
extern "C" void __assert_fail(const char* claim, const char* file, unsigned line, const char* function) noexcept(true)
    __asm__("ginrs_cpu_assert_fail");
#ifndef __clang__ /* which has it built in */
inline void __builtin_assume(bool condition) {
  if (!condition) __builtin_unreachable();
}
#endif
inline void __brkpt() {}
inline void __prof_trigger(int) {}

/* Programmatic dependent launch: a kernel here starts when the one before it in its stream has ended, so there is nothing
 * to wait for and nothing to hurry. */
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

/* The CPU has one address space; shared memory has addresses of 32 bits besides, as on a GPU. */
inline size_t __cvta_generic_to_shared(const void* p, GINRS_CPU_SITE) { return ginrs_cpu_shared_address(p, file, line); }
inline size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
inline size_t __cvta_generic_to_local(const void* p) { return (size_t)p; }
inline size_t __cvta_generic_to_constant(const void* p) { return (size_t)p; }
inline size_t __cvta_generic_to_grid_constant(const void* p) { return (size_t)p; }
inline void* __cvta_shared_to_generic(size_t p, GINRS_CPU_SITE) {
  return p >> 32 != 0 ? (void*)p : ginrs_cpu_shared_pointer((uint32_t)p, file, line);
}
inline void* __cvta_global_to_generic(size_t p) { return (void*)p; }
inline void* __cvta_local_to_generic(size_t p) { return (void*)p; }
inline void* __cvta_constant_to_generic(size_t p) { return (void*)p; }

namespace ginrs_cpu {
struct TlsQuery {
  const char* address;
  bool found;
};
/* Static __shared__ variables lie in the thread-local blocks of the loaded objects. */
inline int tls_holds(struct dl_phdr_info* object, size_t, void* argument) {
  TlsQuery* query = static_cast<TlsQuery*>(argument);
  for (int i = 0; i < object->dlpi_phnum; i++) {
    if (object->dlpi_phdr[i].p_type != PT_TLS || object->dlpi_tls_data == nullptr) continue;
    size_t offset = (size_t)(query->address - (const char*)object->dlpi_tls_data);
    if (offset < object->dlpi_phdr[i].p_memsz) query->found = true;
  }
  return query->found;
}
}  // namespace ginrs_cpu
namespace ginrs_cpu {
/* Every block is a cluster of its own. A launch may ask for larger ones, which it often does to have its blocks beside each
 * other; whoever then looks at its cluster would be told wrong numbers. */
template <class T>
T of_cluster(T lone, const char* what, GINRS_CPU_SITE) {
  if (ginrs_cpu_self != nullptr && ginrs_cpu_self->clusters != 0) {
    char message[200];
    snprintf(message, sizeof message, "%s: the launch asks for clusters of several blocks, the CPU device runs each block by itself", what);
    ginrs_cpu_trap(message, file, line);
  }
  return lone;
}
}  // namespace ginrs_cpu
inline unsigned __isShared(const void* p, GINRS_CPU_SITE) {
  size_t offset = (size_t)((const char*)p - (const char*)ginrs_cpu_dynamic_shared());
  if (offset < ginrs_cpu::self("__isShared() outside a kernel", file, line)->dynamicSharedBytes) return 1;
  ginrs_cpu::TlsQuery query = {(const char*)p, false};
  dl_iterate_phdr(ginrs_cpu::tls_holds, &query);
  return query.found;
}
/* Anything but shared memory: a stack is not told from global memory. */
inline unsigned __isGlobal(const void* p, GINRS_CPU_SITE) { return !__isShared(p, file, line); }
#endif
