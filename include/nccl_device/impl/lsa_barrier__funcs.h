/* Bodies of ../lsa_barrier.h; the protocol is in ginrs_device/lsa/barrier.cuh. */
#ifndef _NCCL_DEVICE_MEM_BARRIER__FUNCS_H_
#define _NCCL_DEVICE_MEM_BARRIER__FUNCS_H_
#include "comm__types.h"
#include "lsa_barrier__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include "../../ginrs_device/lsa/barrier.cuh"
#include "../../ginrs_device/race.cuh"

template <typename Coop>
NCCL_DEVICE_INLINE uint32_t* ncclLsaBarrierSession_internal<Coop>::mcInbox(bool multimem) {
  void* words = multimem ? ncclGetResourceBufferMultimemPointer(comm, handle.bufHandle, mmHandle)
                         : ncclGetResourceBufferLocalPointer(comm, handle.bufHandle);
  return static_cast<uint32_t*>(words) + 2 * handle.nBarriers + index;
}
template <typename Coop>
NCCL_DEVICE_INLINE uint32_t* ncclLsaBarrierSession_internal<Coop>::ucInbox(int owner, int peer) {
  void* words = ncclGetResourceBufferPeerPointer(comm, handle.bufHandle, team, owner);
  return static_cast<uint32_t*>(words) + 3 * handle.nBarriers + index * team.nRanks + peer;
}

template <typename Coop>
NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop>::ncclLsaBarrierSession(Coop coop, ncclDevComm const& comm, ncclTeam team,
                                                                      ncclLsaBarrierHandle handle, uint32_t index,
                                                                      bool multimem, ncclMultimemHandle mmHandle GINRS_CALLER)
    : ncclLsaBarrierSession_internal<Coop>{
          coop, comm, team, handle, int(index), ginrs::lsa::multimemMode(multimem), mmHandle, 0u, nullptr, nullptr} {
  GINRS_CALL(LSA_BARRIER, 0, index);
  GINRS_DEVCOMM_STANDS(comm);
  GINRS_CHECK(index < uint32_t(handle.nBarriers), "ncclLsaBarrierSession: index is not below the handle's nBarriers");
  GINRS_RACE(ginrs::race::know(comm));
  GINRS_SESSION(begin, team.nRanks, coop, ginrs::lsa::epochWord(*this));
  this->epoch = *ginrs::lsa::epochWord(*this);
  ginrs::lsa::findFirstPeer(*this);
}
template <typename Coop>
NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop>::ncclLsaBarrierSession(Coop coop, ncclDevComm const& comm,
                                                                      ncclTeamTagLsa, uint32_t index,
                                                                      bool multimem GINRS_CALLER)
    : ncclLsaBarrierSession(coop, comm, ncclTeamLsa(comm), comm.lsaBarrier, index, multimem,
                            comm.lsaMultimem GINRS_CALLER_PASSED) {}

template <typename Coop>
NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop>::~ncclLsaBarrierSession() {
  /* Every thread read the word in the constructor, perhaps without a sync since: none may still be about to. */
  this->coop.sync();
  if (this->coop.thread_rank() == 0) *ginrs::lsa::epochWord(*this) = this->epoch;
  GINRS_SESSION(end, this->team.nRanks, this->coop, ginrs::lsa::epochWord(*this));
  this->coop.sync();
}

template <typename Coop>
NCCL_DEVICE_INLINE void ncclLsaBarrierSession<Coop>::arrive(Coop, cuda::memory_order order) {
  ginrs::lsa::arrive(*this, order);
}
template <typename Coop>
NCCL_DEVICE_INLINE void ncclLsaBarrierSession<Coop>::wait(Coop, cuda::memory_order order GINRS_CALLER) {
  GINRS_CALL(LSA_BARRIER, 0, this->index);
  ginrs::lsa::wait(*this, order);
}
template <typename Coop>
NCCL_DEVICE_INLINE void ncclLsaBarrierSession<Coop>::sync(Coop, cuda::memory_order order GINRS_CALLER) {
  GINRS_CALL(LSA_BARRIER, 0, this->index);
  ginrs::lsa::arrive(*this, order);
  ginrs::lsa::wait(*this, order);
}
#endif
#endif
