/* Bodies of ../barrier.h. */
#ifndef _NCCL_DEVICE_BARRIER__FUNCS_H_
#define _NCCL_DEVICE_BARRIER__FUNCS_H_
#include "../utility.h"
#include "barrier__types.h"
#include "gin_barrier__funcs.h"
#include "lsa_barrier__funcs.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
NCCL_DEVICE_INLINE ncclBarrierSession<Coop>::ncclBarrierSession(Coop coop, ncclTeam innerTeam, ncclTeam outerTeam,
                                                                ncclGin net, ncclLsaBarrierHandle innerBarHandle,
                                                                ncclGinBarrierHandle outerBarHandle, uint32_t index,
                                                                bool multimem,
                                                                ncclMultimemHandle innerMmHandle GINRS_CALLER)
    : ncclBarrierSession_internal<Coop>{
          coop, nccl::utility::present(net),
          nccl::utility::present(coop, net.comm, innerTeam, innerBarHandle, index, multimem,
                                 innerMmHandle GINRS_CALLER_PASSED),
          nccl::utility::present(coop, net, outerTeam, outerBarHandle, index GINRS_CALLER_PASSED)} {}
template <typename Coop>
NCCL_DEVICE_INLINE ncclBarrierSession<Coop>::ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin net,
                                                                uint32_t index, bool multimem GINRS_CALLER)
    : ncclBarrierSession(coop, ncclTeamLsa(net.comm), ncclTeamRail(net.comm), net, net.comm.lsaBarrier,
                         net.comm.railGinBarrier, index, multimem, net.comm.lsaMultimem GINRS_CALLER_PASSED) {}
template <typename Coop>
NCCL_DEVICE_INLINE ncclBarrierSession<Coop>::ncclBarrierSession(Coop coop, ncclTeamTagLsa team,
                                                                ncclDevComm const& comm, uint32_t index,
                                                                bool multimem GINRS_CALLER)
    : ncclBarrierSession_internal<Coop>{coop, nccl::utility::Absent(),
                                        nccl::utility::present(coop, comm, team, index, multimem GINRS_CALLER_PASSED),
                                        nccl::utility::Absent()} {}
template <typename Coop>
NCCL_DEVICE_INLINE ncclBarrierSession<Coop>::ncclBarrierSession(Coop coop, ncclTeamTagRail team, ncclGin net,
                                                                uint32_t index GINRS_CALLER)
    : ncclBarrierSession_internal<Coop>{coop, nccl::utility::present(net), nccl::utility::Absent(),
                                        nccl::utility::present(coop, net, team, index GINRS_CALLER_PASSED)} {}

template <typename Coop>
NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop>& ncclBarrierSession<Coop>::lsaBarrier() {
  return this->innerLsaBar.thing;
}
template <typename Coop>
NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>& ncclBarrierSession<Coop>::ginBarrier() {
  return this->outerGinBar.thing;
}

/* Splitting acq_rel into a releasing inner and an acquiring outer half would let an LSA peer's writes be seen late: the
 * load that acquires the rail's signal does not pair with that peer's store. */
template <typename Coop>
NCCL_DEVICE_INLINE void ncclBarrierSession<Coop>::sync(Coop, cuda::memory_order order, ncclGinFenceLevel fence GINRS_CALLER) {
  GINRS_CALL(BARRIER, 0, 0);
  if (this->innerLsaBar.present) this->innerLsaBar.thing.sync(this->coop, order);
  if (this->outerGinBar.present) this->outerGinBar.thing.sync(this->coop, order, fence);
}
#endif
#endif
