/* A barrier among the ranks of a team that can load and store each other's memory. */
#ifndef _NCCL_DEVICE_MEM_BARRIER_H_
#define _NCCL_DEVICE_MEM_BARRIER_H_
#include "../ginrs_device/call.cuh"
#include "impl/core__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
struct ncclLsaBarrierSession_internal;

/* A group's use of barrier `index` of a handle. Every rank of the team needs a group with the same index, mode
 * (multimem or not) and sequence of calls; per rank at most one session with an index and mode lives at a time. The
 * session ends with its destructor, which all threads of coop run: it stores the barrier's state for the next session.
 *
 * Memory order, at system scope, over all threads of the groups: what a rank wrote before arrive(release) is visible to
 * what another does after wait(acquire) of the same phase. acq_rel does both, relaxed neither.
 *
 * When the communicator is aborted, wait and sync return without having met the others. */
template <typename Coop>
struct ncclLsaBarrierSession : ncclLsaBarrierSession_internal<Coop> {
  NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const& comm, ncclTeam team,
                                           ncclLsaBarrierHandle handle, uint32_t index, bool multimem = false,
                                           ncclMultimemHandle mmHandle = {} GINRS_CALLER_DEFAULT);
  /* The LSA team, with the devcomm's own barriers. */
  NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const& comm, ncclTeamTagLsa, uint32_t index,
                                           bool multimem = false GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ~ncclLsaBarrierSession();
  ncclLsaBarrierSession(ncclLsaBarrierSession const&) = delete;

  /* Two halves, which alternate: tell the others, wait for them. The session's own group is used, not the argument. */
  NCCL_DEVICE_INLINE void arrive(Coop coop, cuda::memory_order order);
  NCCL_DEVICE_INLINE void wait(Coop coop, cuda::memory_order order GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order GINRS_CALLER_DEFAULT);
};
#endif
#endif
