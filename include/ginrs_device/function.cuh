/* How a function of ginrs's own namespace is made. On a GPU it is inlined, as all of the device API: a call costs more registers
 * than it saves. On the CPU device it is a function of the translation unit's own, which the compiler may call: with all inlined
 * abi-tests/twice/suite.cu took 99 s to compile and had 2.0 MB of code (g++ -O2), so it takes 30 s and has 1.0 MB. Static, so that units
 * compiled otherwise, by other versions of these headers or for another check, keep each their own. What each put goes through
 * (gin/queue.cuh) is inlined there, too: 110 ns a put against 222 (ginrs-perf put_cost), mostly for orders that are no constants then. */
#ifndef GINRS_DEVICE_FUNCTION_CUH_
#define GINRS_DEVICE_FUNCTION_CUH_
#include "../nccl_device/utility.h"

#if NCCL_CHECK_CUDACC
#ifdef __GINRS_CPU__
#define GINRS_DEVICE_FUNCTION static inline __device__
#else
#define GINRS_DEVICE_FUNCTION NCCL_DEVICE_INLINE
#endif
#endif

#endif
