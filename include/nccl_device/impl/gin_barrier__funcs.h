/* Bodies of ../gin_barrier.h. The protocol, which ranks compiled with NVIDIA's headers share: barrier `index` is signal
 * signal0 + index of the context. Each phase every member adds 1 at every other, and leaves when its own signal has
 * grown by n - 1. What the signal was last is kept between sessions in word index * 4 + context of the buffer. */
#ifndef _NCCL_DEVICE_GIN_BARRIER__FUNCS_H_
#define _NCCL_DEVICE_GIN_BARRIER__FUNCS_H_
#include "comm__types.h"
#include "gin_barrier__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include "core__funcs.h"
#include "../../ginrs_device/resources.cuh"
#include "gin__funcs.h"

namespace ginrs {
namespace gin {
template <typename Coop>
NCCL_DEVICE_INLINE uint32_t* barrierEpochWord(ncclGinBarrierSession_internal<Coop> const& bar) {
  void* words = ncclGetResourceBufferLocalPointer(bar.net.comm, bar.handle.bufHandle);
  return static_cast<uint32_t*>(words) + bar.index * NCCL_GIN_MAX_CONTEXTS + bar.net.contextId;
}
}  // namespace gin
}  // namespace ginrs

/* A team of one has no barrier state to touch: its devcomm may have neither GIN nor a buffer. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>::ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeam team,
                                                                      ncclGinBarrierHandle handle,
                                                                      uint32_t index GINRS_CALLER)
    : ncclGinBarrierSession_internal<Coop>{coop, net, team, handle, int(index), 0u, handle.signal0 + index} {
  GINRS_CALL(GIN_BARRIER, net.contextId, index);
  if (team.nRanks > 1) {
    GINRS_CHECK(ginrs::isBarrier(net.comm, handle.bufHandle, handle.signal0, index),
                "ncclGinBarrierSession: index is not below the number of barriers that the handle was made for");
  }
  GINRS_SESSION(begin, team.nRanks, coop, ginrs::gin::barrierEpochWord(*this));
  if (team.nRanks > 1) this->epoch = *ginrs::gin::barrierEpochWord(*this);
}
template <typename Coop>
NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>::ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeamTagRail,
                                                                      uint32_t index GINRS_CALLER)
    : ncclGinBarrierSession(coop, net, ncclTeamRail(net.comm), net.comm.railGinBarrier, index GINRS_CALLER_PASSED) {}
template <typename Coop>
NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>::ncclGinBarrierSession(Coop coop, ncclGin net, ncclTeamTagWorld,
                                                                      uint32_t index GINRS_CALLER)
    : ncclGinBarrierSession(coop, net, ncclTeamWorld(net.comm), net.comm.railGinBarrier, index GINRS_CALLER_PASSED) {}

template <typename Coop>
NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop>::~ncclGinBarrierSession() {
  this->coop.sync(); /* every thread has read the word */
  if (this->team.nRanks > 1 && this->coop.thread_rank() == 0) *ginrs::gin::barrierEpochWord(*this) = this->epoch;
  GINRS_SESSION(end, this->team.nRanks, this->coop, ginrs::gin::barrierEpochWord(*this));
  this->coop.sync();
}

template <typename Coop>
NCCL_DEVICE_INLINE void ncclGinBarrierSession<Coop>::sync(Coop, cuda::memory_order order, ncclGinFenceLevel GINRS_CALLER) {
  GINRS_CALL(GIN_BARRIER, this->net.contextId, this->index);
  int n = this->team.nRanks;
  this->coop.sync(); /* the group's writes come before its threads' release */
  bool releases = nccl::utility::releaseOrderOf(order) != cuda::memory_order_relaxed;
  int step = int(this->coop.size());
  for (int i = 1 + int(this->coop.thread_rank()); i < n; i += step) {
    int peer = this->team.rank + i;
    if (peer >= n) peer -= n;
    GINRS_RACE(if (!releases) ginrs_cpu_race_relaxed());
    /* The system's scope is what a releasing barrier promises; the network card's own path asks for less. */
    this->net.signal(this->team, peer, ncclGin_SignalInc{this->signal}, ncclCoopThread(), ncclGin_None(),
                     releases ? cuda::thread_scope_thread : cuda::thread_scope_system,
                     releases ? cuda::thread_scope_system : cuda::thread_scope_device);
  }
  this->epoch += uint32_t(n - 1);
  if (n > 1) this->net.waitSignal(this->coop, this->signal, this->epoch, 32, nccl::utility::acquireOrderOf(order));
}
#endif
#endif
