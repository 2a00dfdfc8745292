/* Handle and state of the LL all-to-all. C-safe. */
#ifndef _NCCL_DEVICE_LL_A2A__TYPES_H_
#define _NCCL_DEVICE_LL_A2A__TYPES_H_
#include "../ll_a2a.h"
#include "core__types.h"

struct ncclLLA2AHandle {
  ncclDevResourceHandle_t bufHandle;
  uint32_t nSlots; /* lines of 16 bytes per block and parity */
};

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
struct ncclLLA2ASession_internal {
  Coop coop;
  ncclDevComm const& comm;
  ncclTeam team;
  ncclLLA2AHandle handle;
  int block;
  int pitch; /* lines between the pieces of an element: maxElts */
  bool multimem;
  ncclMultimemHandle mmHandle;
  uint32_t epoch;
  uint32_t slotsOffset; /* the line where this epoch's slots begin */
  uint32_t otherOffset; /* and the next one's: they take turns */
  char* lines;          /* the own buffer; team rank p's lies first4G + p * hop4G times 4 GiB behind it */
  int hop4G, first4G;

  NCCL_DEVICE_INLINE uint32_t calcSlotOffset() const;
};
#endif
#endif
