/* A barrier among the ranks of a team that reach each other by GIN. */
#ifndef _NCCL_DEVICE_GIN_BARRIER_H_
#define _NCCL_DEVICE_GIN_BARRIER_H_
#include "core.h"
#include "gin.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
/* How far the barrier also completes puts: not at all. With two ranks a put is complete at the peer when the peer has left
 * the barrier, as the barrier's signal follows it. With more it need not be: arrivals are counted in one word, where the
 * second arrival of a fast rank may stand for the first of the one whose put is still on its way. Use a signal. */
enum class ncclGinFenceLevel { Relaxed = 0, None = Relaxed };

template <typename Coop>
struct ncclGinBarrierSession_internal;

/* A group's use of barrier `index` of a handle, over one GIN context. All members use the same index, context and
 * sequence of calls, and per rank at most one session with an index and context lives at a time. The destructor, which
 * all threads of coop run, stores the barrier's state. Released by an abort like every wait. */
template <typename Coop>
struct ncclGinBarrierSession : ncclGinBarrierSession_internal<Coop> {
  NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeam team, ncclGinBarrierHandle handle,
                                           uint32_t index GINRS_CALLER_DEFAULT);
  /* The rail team, or the world, with the devcomm's own barriers. */
  NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeamTagRail, uint32_t index GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeamTagWorld, uint32_t index GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ~ncclGinBarrierSession();
  ncclGinBarrierSession(ncclGinBarrierSession const&) = delete;

  NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order,
                               ncclGinFenceLevel fence = ncclGinFenceLevel::Relaxed GINRS_CALLER_DEFAULT);
};
#endif
#endif
