/* The umbrella: the runtime API, its C++ overloads and, in .cu files, everything that a kernel may call. */
#ifndef GINRS_CPU_CUDA_RUNTIME_H_
#define GINRS_CPU_CUDA_RUNTIME_H_
#define __CUDA_RUNTIME_H__
#include "host_defines.h"
#include "vector_types.h"
#include "cuda_runtime_api.h"
#include "library_types.h"
#include "vector_functions.h"
#ifdef __cplusplus
#include "ginrs_cpu/api_memory.h"
#include "ginrs_cpu/api_kernel.h"
#ifdef __CUDACC__
#include "ginrs_cpu/atomic.h"
#include "ginrs_cpu/bits.h"
#include "ginrs_cpu/block.h"
#include "ginrs_cpu/math.h"
#include "ginrs_cpu/memory.h"
#include "ginrs_cpu/thread.h"
#include "ginrs_cpu/warp.h"
#if __has_include("ginrs_cpu/launch.h")
#include "ginrs_cpu/launch.h"
#endif
#endif
#endif
#endif
