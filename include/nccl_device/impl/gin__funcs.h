/* Bodies of ../gin.h: from the user's terms (teams, windows, relative ids, groups) to the backend's. */
#ifndef _NCCL_DEVICE_GIN_SESSION__FUNCS_H_
#define _NCCL_DEVICE_GIN_SESSION__FUNCS_H_
#include "comm__types.h"
#include "core__funcs.h"
#include "gin__actions.h"
#include "gin__types.h"
#include "ptr__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include "../../ginrs_device/gin/direct.cuh"
#include "../../ginrs_device/gin/signal.cuh"
#include "../gin/gin_device_api.h"
#include "coop__groups.h"

#define GINRS_GIN(result)         \
  template <unsigned backendMask> \
  NCCL_DEVICE_INLINE result ncclGin_BackendMask<backendMask>

template <unsigned backendMask>
NCCL_DEVICE_INLINE ncclGin_BackendMask<backendMask>::ncclGin_BackendMask(ncclDevComm const& comm, int contextIndex)
    : comm(comm), nContexts(comm.ginContextCount) {
  uint32_t count = comm.ginContextCount, index = uint32_t(contextIndex);
  contextId = count == 3 ? index % 3 : count == 0 ? 0 : index & (count - 1);
  /* Without contexts the type stays HOST, which the dispatcher refuses by name. */
  _ginBackend = count == 0 ? uint32_t(NCCL_NET_DEVICE_HOST) : comm.ginTypes[contextId];
  _ginHandle = count == 0 ? nullptr : comm.ginHandles[contextId];
  _signalShadows = comm.ginSignalShadows + size_t(contextId) * comm.ginSignalCount;
  bool const isProxy = _ginBackend == NCCL_NET_DEVICE_GIN_PROXY && (backendMask & 1u << NCCL_NET_DEVICE_GIN_PROXY) != 0;
  _ginrsFlags = isProxy ? ginrs::probe(comm, _ginHandle) : 0;
}

template <unsigned backendMask>
NCCL_DEVICE_INLINE ncclGinCtx_M<backendMask> ncclGin_BackendMask<backendMask>::_makeCtx() const {
  ncclGinCtx_M<backendMask> ctx;
  ctx.backend = ncclNetDeviceType(_ginBackend);
  ctx.rank = comm.rank;
  ctx.ginrs.nRanks = comm.nRanks;
  ctx.ginrs.mark = _ginrsFlags != 0 ? GINRS_MARK_CTX | _ginrsFlags : 0;
  ctx.handle = _ginHandle;
  return ctx;
}

namespace ginrs {
namespace gin {
/* A window as the context's backend knows it. */
struct Registration {
  ncclGinWindow_t window;
  size_t start; /* of the window in the registered memory, bytes */
};
NCCL_DEVICE_INLINE Registration registrationOf(ncclWindow_t window, uint32_t contextId) {
  using nccl::utility::loadConst;
  return {loadConst(&window->ginWins[contextId]), size_t(loadConst(&window->ginOffset4K)) * 4096};
}
/* What an operation does besides moving bytes. */
template <unsigned mask, typename RemoteAction, typename LocalAction>
NCCL_DEVICE_INLINE Operation actionsOf(ncclGin_BackendMask<mask> const& gin, RemoteAction remote, LocalAction local) {
  Operation op;
  op.hasSignal = ncclGin_isSignal(remote);
  op.signalId = ncclGin_getSignalId(gin, remote);
  op.signalOp = ncclGin_getSignalOp(remote);
  op.signalArg = ncclGin_getSignalOpArg(remote);
  op.hasCounter = ncclGin_isCounter(local);
  op.counterId = ncclGin_getCounterId(gin, local);
  return op;
}

template <unsigned mask>
NCCL_DEVICE_INLINE bool hasSignal(ncclGin_BackendMask<mask> const& gin, ncclGinSignal_t signal) {
  return isGiven<GINRS_REFUSED_SIGNAL>(signal, gin.comm.ginSignalCount, gin._ginHandle, gin._ginrsFlags);
}
template <unsigned mask>
NCCL_DEVICE_INLINE bool hasCounter(ncclGin_BackendMask<mask> const& gin, ncclGinCounter_t counter) {
  return isGiven<GINRS_REFUSED_COUNTER>(counter, gin.comm.ginCounterCount, gin._ginHandle, gin._ginrsFlags);
}
/* Is there such a peer, and may the operation's actions take place? */
template <unsigned mask, typename RemoteAction, typename LocalAction>
NCCL_DEVICE_INLINE bool isAllowed(ncclGin_BackendMask<mask> const& gin, int worldPeer, RemoteAction remote,
                                  LocalAction local) {
  ncclGinSignal_t const signal = ncclGin_getSignalId(gin, remote) - gin.comm.ginSignalBase;
  ncclGinCounter_t const counter = ncclGin_getCounterId(gin, local) - gin.comm.ginCounterBase;
  return isGiven<GINRS_REFUSED_PEER>(uint32_t(worldPeer), gin.comm.nRanks, gin._ginHandle, gin._ginrsFlags) &&
         (!ncclGin_isSignal(remote) || hasSignal(gin, signal)) && (!ncclGin_isCounter(local) || hasCounter(gin, counter));
}
}  // namespace gin
}  // namespace ginrs

/* ---- Starting operations. The backend gets a group of one thread: the syncs around it are the user group's. ---- */

template <unsigned backendMask>
template <typename RemoteAction, typename LocalAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::put(
    ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset, ncclWindow_t srcWnd, size_t srcOffset, size_t bytes,
    RemoteAction remoteAction, LocalAction localAction, Coop coop, DescriptorSmem descriptor,
    cuda::thread_scope alreadyReleased, cuda::thread_scope expected_scope) const {
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  coop.sync();
  if ((_ginrsFlags & GINRS_FLAG_DIRECT) != 0) {
    /* All that stands with the windows is asked for before the first branch on any of it: one trip to the L2, not three. */
    char* to = static_cast<char*>(ncclGetPeerPointer(dstWnd, dstOffset, worldPeer));
    char const* from = static_cast<char const*>(ncclGetLocalPointer(srcWnd, srcOffset));
    bool const isWithin = int(ginrs::gin::isWithin(dstWnd, dstOffset, bytes)) & int(ginrs::gin::isWithin(srcWnd, srcOffset, bytes));
    if (isWithin) {
      ginrs::gin::Operation op = ginrs::gin::actionsOf(*this, remoteAction, localAction);
      op.bytes = bytes;
      bool const isDropped = !ginrs::gin::isAllowed(*this, worldPeer, remoteAction, localAction);
      if (ginrs::gin::putDirectly(_makeCtx(), coop, worldPeer, to, from, op, isDropped)) return;
    }
  }
  if (coop.thread_rank() == 0 && ginrs::gin::isAllowed(*this, worldPeer, remoteAction, localAction)) {
    ginrs::gin::Registration dst = ginrs::gin::registrationOf(dstWnd, contextId);
    ginrs::gin::Registration src = ginrs::gin::registrationOf(srcWnd, contextId);
    bool const hasSignal = ncclGin_isSignal(remoteAction);
    alreadyReleased = ginrs::gin::releaseLeft(_ginrsFlags, srcWnd, hasSignal, alreadyReleased);
    ncclGinCall<ncclGinApi_Put>(_makeCtx(), ncclCoopThread(), worldPeer, true, dst.window, dst.start + dstOffset,
                                src.window, src.start + srcOffset, bytes, ncclGin_isSignal(remoteAction),
                                ncclGin_getSignalId(*this, remoteAction), ncclGin_getSignalOp(remoteAction),
                                ncclGin_getSignalOpArg(remoteAction), ncclGin_isCounter(localAction),
                                ncclGin_getCounterId(*this, localAction), ncclGin_isDescriptor(descriptor),
                                ncclGin_getDescriptor(descriptor), alreadyReleased, expected_scope);
  }
  coop.sync();
}
template <unsigned backendMask>
template <typename T, typename RemoteAction, typename LocalAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::put(ncclTeam team, int peer, ncclSymPtr<T> dst,
                                                              ncclSymPtr<T> src, size_t nElts,
                                                              RemoteAction remoteAction, LocalAction localAction,
                                                              Coop coop, DescriptorSmem descriptor,
                                                              cuda::thread_scope alreadyReleased,
                                                              cuda::thread_scope expected_scope) const {
  this->put(team, peer, dst.window, dst.offset, src.window, src.offset, nElts * sizeof(T), remoteAction, localAction,
            coop, descriptor, alreadyReleased, expected_scope);
}

template <unsigned backendMask>
template <typename T, typename RemoteAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::putValue(ncclTeam team, int peer, ncclWindow_t dstWnd,
                                                                   size_t dstOffset, T value,
                                                                   RemoteAction remoteAction, Coop coop,
                                                                   DescriptorSmem descriptor,
                                                                   cuda::thread_scope alreadyReleased,
                                                                   cuda::thread_scope expected_scope) const {
  static_assert(sizeof(T) <= 8, "putValue: the value has more than 8 bytes");
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  coop.sync();
  if (coop.thread_rank() != 0) {
    /* one thread has the value */
  } else if (!ginrs::gin::isAllowed(*this, worldPeer, remoteAction, ncclGin_None{})) {
    /* the host has been told */
  } else if ((_ginrsFlags & GINRS_FLAG_DIRECT) != 0 && ginrs::gin::isWithin(dstWnd, dstOffset, sizeof(T))) {
    ginrs::gin::Operation op = ginrs::gin::actionsOf(*this, remoteAction, ncclGin_None{});
    op.bytes = sizeof(T);
    op.value = ginrs::gin::bitsOf(value);
    char* to = static_cast<char*>(ncclGetPeerPointer(dstWnd, dstOffset, worldPeer));
    ginrs::gin::putValueDirectly(_makeCtx(), worldPeer, to, op);
  } else {
    ginrs::gin::Registration dst = ginrs::gin::registrationOf(dstWnd, contextId);
    ncclGinCall<ncclGinApi_PutValue>(
        _makeCtx(), ncclCoopThread(), worldPeer, dst.window, dst.start + dstOffset, value,
        ncclGin_isSignal(remoteAction), ncclGin_getSignalId(*this, remoteAction), ncclGin_getSignalOp(remoteAction),
        ncclGin_getSignalOpArg(remoteAction), ncclGin_isDescriptor(descriptor), ncclGin_getDescriptor(descriptor),
        alreadyReleased, expected_scope);
  }
  coop.sync();
}
template <unsigned backendMask>
template <typename T, typename RemoteAction, typename Coop, typename DescriptorSmem, typename>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::putValue(ncclTeam team, int peer, ncclSymPtr<T> dst, T value,
                                                                   RemoteAction remoteAction, Coop coop,
                                                                   DescriptorSmem descriptor,
                                                                   cuda::thread_scope alreadyReleased,
                                                                   cuda::thread_scope expected_scope) const {
  this->putValue(team, peer, dst.window, dst.offset, value, remoteAction, coop, descriptor, alreadyReleased,
                 expected_scope);
}

template <unsigned backendMask>
template <typename RemoteAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::signal(ncclTeam team, int peer, RemoteAction remoteAction,
                                                                 Coop coop, DescriptorSmem descriptor,
                                                                 cuda::thread_scope alreadyReleased,
                                                                 cuda::thread_scope expected_scope) const {
  static_assert(ncclGin_isSignal(RemoteAction{}), "ncclGin::signal: the action must be a SignalInc or a SignalAdd");
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  coop.sync();
  if (coop.thread_rank() != 0) {
    /* one thread is enough */
  } else if (!ginrs::gin::isAllowed(*this, worldPeer, remoteAction, ncclGin_None{})) {
    /* the host has been told */
  } else if ((_ginrsFlags & GINRS_FLAG_DIRECT) != 0) {
    ginrs::gin::Operation op = ginrs::gin::actionsOf(*this, remoteAction, ncclGin_None{});
    ginrs::gin::putDirectly(_makeCtx(), ncclCoopThread(), worldPeer, nullptr, nullptr, op, false);
  } else {
    ncclGinCall<ncclGinApi_Put>(_makeCtx(), ncclCoopThread(), worldPeer, false,
                                ncclGinWindow_t(nullptr), size_t(0), ncclGinWindow_t(nullptr), size_t(0), size_t(0),
                                true, ncclGin_getSignalId(*this, remoteAction), ncclGin_getSignalOp(remoteAction),
                                ncclGin_getSignalOpArg(remoteAction), false, ncclGinCounter_t(0),
                                ncclGin_isDescriptor(descriptor), ncclGin_getDescriptor(descriptor), alreadyReleased,
                                expected_scope);
  }
  coop.sync();
}

template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::flush(Coop coop, cuda::memory_order order) const {
  coop.sync();
  ncclGinCall<ncclGinApi_Flush>(_makeCtx(), coop, order);
  coop.sync();
}

/* ---- Words: counters, signals, shadows. ---- */

namespace ginrs {
namespace gin {
/* Null: the devcomm has no such word. */
template <unsigned mask>
NCCL_DEVICE_INLINE uint64_t* signalWord(ncclGin_BackendMask<mask> const& gin, ncclGinSignal_t signal) {
  if (!hasSignal(gin, signal)) return nullptr;
  return ncclGinCall<ncclGinApi_GetSignalPtr>(gin._makeCtx(), gin.comm.ginSignalBase + signal);
}
template <unsigned mask>
NCCL_DEVICE_INLINE uint64_t* counterWord(ncclGin_BackendMask<mask> const& gin, ncclGinCounter_t counter) {
  if (!hasCounter(gin, counter)) return nullptr;
  return ncclGinCall<ncclGinApi_GetCounterPtr>(gin._makeCtx(), gin.comm.ginCounterBase + counter);
}
/* The value seen last; see waitWord. */
NCCL_DEVICE_INLINE uint64_t waitAlone(ncclGinCtx const& ctx, uint64_t* word, uint64_t least, int bits,
                                      cuda::memory_order order) {
  return waitWord(ctx, word, least, bits, order, [&] {
#if NCCL_GIN_GDAKI_ENABLE
    if (ctx.backend == NCCL_NET_DEVICE_GIN_GDAKI) gdaki::endIfFailed(ctx);
#endif
  });
}
/* One thread looks, the group learns of it by the sync. */
template <typename Coop>
NCCL_DEVICE_INLINE void waitTogether(Coop coop, ncclGinCtx const& ctx, uint64_t* word, uint64_t least, int bits,
                                     cuda::memory_order order) {
  coop.sync();
  if (coop.thread_rank() == 0) waitAlone(ctx, word, least, bits, order);
  coop.sync();
}
}  // namespace gin
}  // namespace ginrs

GINRS_GIN(uint64_t)::readCounter(ncclGinCounter_t counter, int bits, cuda::memory_order order) const {
  uint64_t value = ginrs::gin::readWord(ginrs::gin::counterWord(*this, counter), order);
  return value & nccl::utility::lowBits<uint64_t>(bits);
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitCounter(Coop coop, ncclGinCounter_t counter,
                                                                      uint64_t least, int bits,
                                                                      cuda::memory_order order) const {
  ginrs::gin::waitTogether(coop, _makeCtx(), ginrs::gin::counterWord(*this, counter), least, bits, order);
}

GINRS_GIN(uint64_t*)::getSignalShadowPtr(ncclGinSignal_t signal) const {
  return _signalShadows + signal;
}
GINRS_GIN(void)::increaseSignalShadow(ncclGinSignal_t signal, uint64_t delta) const {
  if (!ginrs::gin::hasSignal(*this, signal)) return;
  cuda::atomic_ref<uint64_t, cuda::thread_scope_device>(_signalShadows[signal]).fetch_add(delta,
                                                                                          cuda::memory_order_relaxed);
}

GINRS_GIN(uint64_t)::readSignal(ncclGinSignal_t signal, int bits, cuda::memory_order order) const {
  uint64_t value = ginrs::gin::readWord(ginrs::gin::signalWord(*this, signal), order);
  return value & nccl::utility::lowBits<uint64_t>(bits);
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least,
                                                                     int bits, cuda::memory_order order) const {
  ginrs::gin::waitTogether(coop, _makeCtx(), ginrs::gin::signalWord(*this, signal), least, bits, order);
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal,
                                                                               int bits,
                                                                               cuda::memory_order order) const {
  coop.sync();
  if (coop.thread_rank() == 0) {
    uint64_t* word = ginrs::gin::signalWord(*this, signal);
    if (word != nullptr) ginrs::gin::waitAlone(_makeCtx(), word, _signalShadows[signal], bits, order);
  }
  coop.sync();
}
template <unsigned backendMask>
template <typename Coop, typename Uint>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal,
                                                                                 Uint leastDelta, Uint* before,
                                                                                 Uint* delta, int bits,
                                                                                 cuda::memory_order order) const {
  coop.sync();
  bool const isGiven = ginrs::gin::hasSignal(*this, signal);
  uint64_t shadow = isGiven ? _signalShadows[signal] : 0, value = 0;
  if (coop.thread_rank() == 0) {
    value = ginrs::gin::waitAlone(_makeCtx(), ginrs::gin::signalWord(*this, signal), shadow + leastDelta, bits, order);
  }
  value = ncclCoopBcast(coop, value, 0); /* its entry sync: every thread has read the shadow */
#if defined(NCCL_GIN_FOLLOW_SHADOW_UPDATES) && NCCL_GIN_FOLLOW_SHADOW_UPDATES
  if (coop.thread_rank() == 0 && isGiven) _signalShadows[signal] = value;
#endif
  coop.sync();
  uint64_t mask = nccl::utility::lowBits<uint64_t>(bits);
  *before = Uint(shadow & mask);
  *delta = Uint((value - shadow) & mask);
}

GINRS_GIN(void)::resetCounter(ncclGinCounter_t counter) const {
  if (!ginrs::gin::hasCounter(*this, counter)) return;
  ncclGinCall<ncclGinApi_ResetCounter>(_makeCtx(), comm.ginCounterBase + counter);
}
GINRS_GIN(void)::resetSignal(ncclGinSignal_t signal) const {
  if (!ginrs::gin::hasSignal(*this, signal)) return;
  ncclGinCall<ncclGinApi_ResetSignal>(_makeCtx(), comm.ginSignalBase + signal);
  _signalShadows[signal] = 0;
}
#undef GINRS_GIN
#endif
#endif
