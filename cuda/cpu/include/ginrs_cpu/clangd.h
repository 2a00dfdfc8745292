/* What clangd includes first of all (ginrs-cc --clangd). Clang reads CUDA itself there, as host code, and nothing rewrites it: all functions are for
 * both sides, and variables of kernels are as those of the host. Nothing else includes this. */
#ifndef GINRS_CPU_CLANGD_H_
#define GINRS_CPU_CLANGD_H_
#pragma clang force_cuda_host_device begin
/* Clang has a <new> of its own in front of the library's, with operators for devices: not that one. */
#define __CLANG_CUDA_WRAPPERS_NEW
#include <ext/../new>
#include "../cuda_runtime.h"
#include "launch.h"
#include "multimem.h"
/* What clang looks for at `<<<`, by the version of CUDA that it believes in. */
int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, struct CUstream_st* stream = nullptr);
#endif
