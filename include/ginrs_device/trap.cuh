/* How device code of ginrs fails: a message with its place, then the kernel ends with an error. Never silence. */
#ifndef GINRS_DEVICE_TRAP_CUH_
#define GINRS_DEVICE_TRAP_CUH_
#include "../nccl_device/utility.h"

#if NCCL_CHECK_CUDACC
#ifdef __GINRS_CPU__
#include <ginrs_cpu/runtime.h>
#define GINRS_TRAP(message) ::ginrs_cpu_trap(message, __FILE__, __LINE__)
#elif defined(__CUDA_ARCH__)
/* What assert() calls: unlike printf and __trap, its text reaches the user although the kernel dies. */
#define GINRS_TRAP(message) (::__assert_fail(message, __FILE__, __LINE__, __func__), ::__trap())
#else
#define GINRS_TRAP(message) ((void)(message)) /* host pass: device code is parsed, never run */
#endif

/* Checks of what the caller passed: a rank that is none, an index beyond its barrier. They cost registers and, in a wait or a
 * put, time: on the CPU device they are on, on a GPU -DGINRS_DEVICE_CHECKS=1 turns them on. */
#ifndef GINRS_DEVICE_CHECKS
#ifdef __GINRS_CPU__
#define GINRS_DEVICE_CHECKS 1
#else
#define GINRS_DEVICE_CHECKS 0
#endif
#endif
#if GINRS_DEVICE_CHECKS
#define GINRS_CHECK(condition, message) \
  do {                                  \
    if (!(condition)) GINRS_TRAP(message); \
  } while (0)
#else
#define GINRS_CHECK(condition, message) ((void)0)
#endif
#endif
#endif
