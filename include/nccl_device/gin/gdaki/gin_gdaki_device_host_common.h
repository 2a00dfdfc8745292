/* GDAKI contexts: layouts only. The queue pairs that they point to are described by DOCA's device verbs. */
#ifndef _NCCL_DEVICE_GIN_GDAKI_DEVICE_HOST_COMMON_H_
#define _NCCL_DEVICE_GIN_GDAKI_DEVICE_HOST_COMMON_H_
#include <stdint.h>
#if defined(__has_include)
#if __has_include(<linux/types.h>)
#include <linux/types.h>
#define GINRS_HAS_BE32 1
#endif
#endif
#ifndef GINRS_HAS_BE32
typedef uint32_t __be32;
#endif

#define NCCL_GIN_GDAKI_VERSION 100

struct doca_gpu_dev_verbs_qp;

/* Keys are big-endian, as work requests carry them. Remote keys are indexed by world rank. */
#ifdef __cplusplus
template <typename T>
struct ncclGinGdakiGlobalGPUBufferTable {
  T* buffer; /* the local copy */
  __be32* rkeys;
  __be32 lkey;
};

struct ncclGinGdakiGPUContext {
  struct doca_gpu_dev_verbs_qp* gdqp;           /* by world rank, 280 bytes each */
  struct doca_gpu_dev_verbs_qp* companion_gdqp; /* for counters */
  ncclGinGdakiGlobalGPUBufferTable<uint64_t> counters_table;
  ncclGinGdakiGlobalGPUBufferTable<uint64_t> signals_table;
  __be32 sink_buffer_lkey; /* where answers of atomics go */
};
static_assert(sizeof(ncclGinGdakiGPUContext) == 72, "layout of NCCL 2.28.9");
#endif

struct ncclGinGdakiMemHandle {
  __be32* rkeys;
  __be32 lkey;
};
#endif
