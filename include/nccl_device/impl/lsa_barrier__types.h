/* Handle and state of the LSA barrier. C-safe. */
#ifndef _NCCL_DEVICE_MEM_BARRIER__TYPES_H_
#define _NCCL_DEVICE_MEM_BARRIER__TYPES_H_
#include "../lsa_barrier.h"
#include "core__types.h"

struct ncclLsaBarrierHandle {
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
};

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
struct ncclLsaBarrierSession_internal {
  Coop coop;
  ncclDevComm const& comm;
  ncclTeam team;
  ncclLsaBarrierHandle handle;
  int index;
  bool multimem;
  ncclMultimemHandle mmHandle;
  uint32_t epoch;
  /* Of the first peer that the calling thread looks after, or null: where it tells it, and where it hears of it. */
  uint32_t *firstOut, *firstIn;

  /* The words where arrivals are counted (multimem: as all ranks see it, or as this one does), and where `peer` tells
   * `owner` its epoch. */
  NCCL_DEVICE_INLINE uint32_t* mcInbox(bool multimem);
  NCCL_DEVICE_INLINE uint32_t* ucInbox(int owner, int peer);
};
#endif
#endif
