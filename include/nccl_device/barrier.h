/* A barrier over a team that is the product of an inner team, which shares memory, and an outer one, which has GIN: the
 * world is LSA times rail. */
#ifndef _NCCL_DEVICE_BARRIER_H_
#define _NCCL_DEVICE_BARRIER_H_
#include "../ginrs_device/call.cuh"
#include "impl/core__types.h"
#include "impl/gin_barrier__types.h"
#include "impl/lsa_barrier__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
struct ncclBarrierSession_internal;

/* An LSA barrier followed by a GIN barrier, each under its own rules (lsa_barrier.h, gin_barrier.h). Both run with the
 * whole memory order that is asked for. */
template <typename Coop>
struct ncclBarrierSession : ncclBarrierSession_internal<Coop> {
  NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeam innerTeam, ncclTeam outerTeam, ncclGin net,
                                        ncclLsaBarrierHandle innerBarHandle, ncclGinBarrierHandle outerBarHandle,
                                        uint32_t index, bool multimem = false,
                                        ncclMultimemHandle innerMmHandle = {} GINRS_CALLER_DEFAULT);
  /* With the devcomm's own barriers: the world, the LSA team alone, the rail team alone. */
  NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin net, uint32_t index,
                                        bool multimem = false GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagLsa, ncclDevComm const& comm, uint32_t index,
                                        bool multimem = false GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagRail, ncclGin net, uint32_t index GINRS_CALLER_DEFAULT);
  ncclBarrierSession(ncclBarrierSession const&) = delete;

  /* The halves. The one that the constructor left out does not exist. */
  NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop>& lsaBarrier();
  NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>& ginBarrier();

  NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order,
                               ncclGinFenceLevel fence = ncclGinFenceLevel::Relaxed GINRS_CALLER_DEFAULT);
};
#endif
#endif
