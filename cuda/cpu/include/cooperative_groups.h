/* cooperative_groups for the CPU device: block, grid, tiles of a warp, coalesced threads and their collectives. */
#ifndef GINRS_CPU_COOPERATIVE_GROUPS_H_
#define GINRS_CPU_COOPERATIVE_GROUPS_H_
#ifdef __CUDACC__
#include "cuda_runtime.h"
#include "cuda/std/ginrs_std.h"
#include "ginrs_cpu/groups_collectives.h"
#endif
#endif
