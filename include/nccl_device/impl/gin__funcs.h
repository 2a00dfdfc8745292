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
#include "../../ginrs_device/race.cuh"
#include "../gin/gin_device_api.h"
#include "coop__groups.h"

#define GINRS_GIN(result)         \
  template <unsigned backendMask> \
  NCCL_DEVICE_INLINE result ncclGin_BackendMask<backendMask>

template <unsigned backendMask>
NCCL_DEVICE_INLINE ncclGin_BackendMask<backendMask>::ncclGin_BackendMask(ncclDevComm const& comm, int contextIndex GINRS_CALLER)
    : comm(comm), nContexts(comm.ginContextCount) {
  GINRS_DEVCOMM_STANDS(comm);
  uint32_t count = comm.ginContextCount, index = uint32_t(contextIndex);
  contextId = count == 3 ? index % 3 : count == 0 ? 0 : index & (count - 1);
  /* Without contexts the type stays HOST, which the dispatcher refuses by name. */
  uint32_t backend = count == 0 ? uint32_t(NCCL_NET_DEVICE_HOST) : comm.ginTypes[contextId];
  _ginHandle = count == 0 ? nullptr : comm.ginHandles[contextId];
  _signalShadows = comm.ginSignalShadows + size_t(contextId) * comm.ginSignalCount;
  bool const isOne = (backend == NCCL_NET_DEVICE_GIN_PROXY || backend == NCCL_NET_DEVICE_GIN_GDAKI) && (backendMask & 1u << backend) != 0;
  uint32_t flags = isOne ? ginrs::probe(comm, _ginHandle, backend) : 0;
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  /* To be kept in registers: the compiler would rather find them out again in every put. */
  if ((backendMask & 1u << NCCL_NET_DEVICE_GIN_PROXY) != 0) asm("" : "+r"(backend), "+r"(flags));
#endif
  _ginBackend = backend;
  _ginrsFlags = flags;
  GINRS_RACE(ginrs::race::know(comm));
  GINRS_RACE(ginrs_cpu_race_context(comm.windowTable, comm.rank, contextId, _ginHandle));
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
  return Operation(ncclGin_isSignal(remote), ncclGin_getSignalId(gin, remote), ncclGin_getSignalOp(remote),
                   ncclGin_getSignalOpArg(remote), ncclGin_isCounter(local), ncclGin_getCounterId(gin, local));
}

template <unsigned mask>
NCCL_DEVICE_INLINE bool hasSignal(ncclGin_BackendMask<mask> const& gin, ncclGinSignal_t signal) {
  int const count = isBarriers(gin.comm, signal, gin._ginrsFlags) ? int(gin.comm.railGinBarrier.signal0) : gin.comm.ginSignalCount;
  return isGiven<GINRS_REFUSED_SIGNAL>(signal, count, gin._ginHandle, gin._ginBackend, gin._ginrsFlags);
}
template <unsigned mask>
NCCL_DEVICE_INLINE bool hasCounter(ncclGin_BackendMask<mask> const& gin, ncclGinCounter_t counter) {
  return isGiven<GINRS_REFUSED_COUNTER>(counter, gin.comm.ginCounterCount, gin._ginHandle, gin._ginBackend, gin._ginrsFlags);
}
/* Is there such a peer, and may the operation's actions take place? If not, the host is told. */
template <unsigned mask>
NCCL_DEVICE_INLINE bool isAllowed(ncclGin_BackendMask<mask> const& gin, int worldPeer, Operation const& op) {
  checkStands(gin.comm);
  if (areGiven(gin.comm, worldPeer, op, gin._ginrsFlags)) return true;
  return isGiven<GINRS_REFUSED_PEER>(uint32_t(worldPeer), gin.comm.nRanks, gin._ginHandle, gin._ginBackend, gin._ginrsFlags) &&
         (!op.hasSignal || hasSignal(gin, op.signalId - gin.comm.ginSignalBase)) &&
         (!op.hasCounter || hasCounter(gin, op.counterId - gin.comm.ginCounterBase));
}

/* What a caller says of fences and of memory to build a descriptor in. */
struct Terms {
  cuda::thread_scope alreadyReleased, expected;
  bool hasDescriptor;
  ncclGinDescriptorSmem* descriptor;
};
/* Gives an operation of ncclGin to the backend of its context, which is not direct; `value` is the operation's, or none.
 * By one thread. Third parties' backends get it in the pieces of NCCL's contract, ours as it is. */
template <ncclNetDeviceType backend>
struct Start {
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, uint32_t, int peer, Operation const& op, ncclGin_None, Terms terms) {
    ncclGinApi_Put<backend>::call(ctx, ncclCoopThread(), peer, op.hasPayload, op.dstWin, size_t(op.dstOff), op.srcWin,
                                  size_t(op.srcOff), size_t(op.bytes), op.hasSignal, op.signalId, op.signalOp, op.signalArg,
                                  op.hasCounter, op.counterId, terms.hasDescriptor, terms.descriptor,
                                  terms.alreadyReleased, terms.expected);
  }
  template <typename T>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, uint32_t, int peer, Operation const& op, T value, Terms terms) {
    ncclGinApi_PutValue<backend>::call(ctx, ncclCoopThread(), peer, op.dstWin, size_t(op.dstOff), value, op.hasSignal,
                                       op.signalId, op.signalOp, op.signalArg, terms.hasDescriptor, terms.descriptor,
                                       terms.alreadyReleased, terms.expected);
  }
};
#if NCCL_GIN_PROXY_ENABLE
template <>
struct Start<NCCL_NET_DEVICE_GIN_PROXY> {
  template <typename Value>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, uint32_t flags, int peer, Operation const& op, Value, Terms terms) {
    /* Apart, so that all of a known context is asked for at once: after a fence each wait for it is a trip to the L2. */
    if ((flags & GINRS_FLAG_KNOWN) != 0) {
      submit(ctx, Queue(ctx.handle, flags, false), peer, op, terms.alreadyReleased);
    } else {
      submit(ctx, Queue(ctx.handle, 0, false), peer, op, terms.alreadyReleased);
    }
  }
};
#endif
#if NCCL_GIN_GDAKI_ENABLE
template <>
struct Start<NCCL_NET_DEVICE_GIN_GDAKI> {
  template <typename Value>
  NCCL_DEVICE_INLINE static void call(ncclGinCtx ctx, uint32_t, int peer, Operation const& op, Value, Terms terms) {
    gdaki::start(ctx, peer, op, terms.alreadyReleased, terms.expected);
  }
};
#endif
/* An operation that is allowed, whatever the context, but not by this thread's own stores. */
template <unsigned mask, typename Value>
NCCL_DEVICE_INLINE void startOn(ncclGin_BackendMask<mask> const& gin, bool isDirect, int worldPeer, Operation const& op,
                                Value value, Terms terms) {
  if (isDirect) {
    putByQueue(gin._makeCtx(), worldPeer, op, terms.alreadyReleased);
  } else {
    ncclGinCall<Start>(gin._makeCtx(), gin._ginrsFlags, worldPeer, op, value, terms);
  }
}
}  // namespace gin
}  // namespace ginrs

/* ---- Starting operations. The backend gets a group of one thread: the syncs around it are the user group's. ---- */

template <unsigned backendMask>
template <typename RemoteAction, typename LocalAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::put(
    ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset, ncclWindow_t srcWnd, size_t srcOffset, size_t bytes,
    RemoteAction remoteAction, LocalAction localAction, Coop coop, DescriptorSmem descriptor,
    cuda::thread_scope alreadyReleased, cuda::thread_scope expected_scope GINRS_CALLER) const {
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  GINRS_CALL(PUT, contextId, worldPeer);
  bool const isDirect = (_ginrsFlags & GINRS_FLAG_DIRECT) != 0;
  ginrs::gin::Operation op = ginrs::gin::actionsOf(*this, remoteAction, localAction);
  op.bytes = bytes;
  GINRS_CHECK(dstWnd != nullptr && srcWnd != nullptr, "ncclGin::put: a window is NULL | fix: register it with ncclCommWindowRegister on all ranks");
  coop.sync();
  GINRS_RACE(if (coop.thread_rank() == 0 &&
                 ginrs::gin::isTaken(comm, worldPeer, op, dstWnd, dstOffset, srcWnd, srcOffset, bytes, _ginrsFlags)) ginrs::race::post(
      comm, contextId, worldPeer, ginrs::race::sourceOf(comm, srcWnd, srcOffset, bytes),
      ginrs::race::targetOf(comm, contextId, worldPeer, dstWnd, dstOffset, bytes), bytes, op, ginrsFile, ginrsLine));
  if (coop.thread_rank() == 0) ginrs::gin::checkThere(comm, "ncclGin::put", dstWnd, worldPeer, bytes, _ginrsFlags);
  bool isStored = false;
  if (ginrs::gin::isStoring(_ginrsFlags)) {
    int const lsaPeer = comm.lsaRank + (worldPeer - comm.rank);
    bool const isWithin = int(uint32_t(lsaPeer) < uint32_t(comm.lsaSize)) & int(ginrs::gin::isWithin(comm, dstWnd, dstOffset, bytes)) &
                          int(ginrs::gin::isWithin(comm, srcWnd, srcOffset, bytes)) & int(bytes <= ginrs::gin::largestOf(_ginHandle, int(coop.size())));
    isStored = ginrs::gin::putDirectly(*this, coop, worldPeer, ginrs::flatAddress(dstWnd, lsaPeer, dstOffset),
                                       ginrs::flatAddress(srcWnd, comm.lsaRank, srcOffset), isWithin, op);
    if (isStored && (isDirect || !(op.hasSignal || op.hasCounter))) return;
  }
  if (coop.thread_rank() == 0 && ginrs::gin::isAllowed(*this, worldPeer, op)) {
    if (isStored) {
      op.bytes = 0;
    } else {
      ginrs::gin::checkRange(comm, "ncclGin::put, target", dstWnd, dstOffset, bytes, _ginrsFlags);
      ginrs::gin::checkRange(comm, "ncclGin::put, source", srcWnd, srcOffset, bytes, _ginrsFlags);
      ginrs::gin::Registration const dst = ginrs::gin::registrationOf(dstWnd, contextId);
      ginrs::gin::Registration const src = ginrs::gin::registrationOf(srcWnd, contextId);
      op.move(dst.window, dst.start + dstOffset, src.window, src.start + srcOffset, bytes);
      alreadyReleased = ginrs::gin::releaseLeft(_ginrsFlags, srcWnd, op.hasSignal, alreadyReleased);
    }
    ginrs::gin::startOn(*this, isDirect, worldPeer, op, ncclGin_None{},
                        {alreadyReleased, expected_scope, ncclGin_isDescriptor(descriptor), ncclGin_getDescriptor(descriptor)});
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
                                                              cuda::thread_scope expected_scope GINRS_CALLER) const {
  this->put(team, peer, dst.window, dst.offset, src.window, src.offset, nElts * sizeof(T), remoteAction, localAction,
            coop, descriptor, alreadyReleased, expected_scope GINRS_CALLER_PASSED);
}

template <unsigned backendMask>
template <typename T, typename RemoteAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::putValue(ncclTeam team, int peer, ncclWindow_t dstWnd,
                                                                   size_t dstOffset, T value,
                                                                   RemoteAction remoteAction, Coop coop,
                                                                   DescriptorSmem descriptor,
                                                                   cuda::thread_scope alreadyReleased,
                                                                   cuda::thread_scope expected_scope GINRS_CALLER) const {
  static_assert(sizeof(T) <= 8, "putValue: the value has more than 8 bytes");
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  GINRS_CALL(PUT, contextId, worldPeer);
  bool const isDirect = (_ginrsFlags & GINRS_FLAG_DIRECT) != 0;
  ginrs::gin::Operation op = ginrs::gin::actionsOf(*this, remoteAction, ncclGin_None{});
  GINRS_CHECK(dstWnd != nullptr, "ncclGin::putValue: the window is NULL | fix: register it with ncclCommWindowRegister on all ranks");
  coop.sync();
  bool isDone = coop.thread_rank() != 0; /* one thread has the value */
  GINRS_RACE(if (!isDone && ginrs::gin::isTaken(comm, worldPeer, op, dstWnd, dstOffset, nullptr, 0, sizeof(T), _ginrsFlags)) ginrs::race::post(
      comm, contextId, worldPeer, nullptr, ginrs::race::targetOf(comm, contextId, worldPeer, dstWnd, dstOffset, sizeof(T)), sizeof(T), op, ginrsFile,
      ginrsLine));
  if (!isDone) ginrs::gin::checkThere(comm, "ncclGin::putValue", dstWnd, worldPeer, sizeof(T), _ginrsFlags);
  bool isStored = false;
  if (ginrs::gin::isStoring(_ginrsFlags) && !isDone) {
    int const lsaPeer = comm.lsaRank + (worldPeer - comm.rank);
    op.moveValue(nullptr, 0, ginrs::gin::bitsOf(value), sizeof(T));
    isStored = ginrs::gin::putDirectly(*this, ncclCoopThread(), worldPeer, ginrs::flatAddress(dstWnd, lsaPeer, dstOffset), nullptr,
                                       int(uint32_t(lsaPeer) < uint32_t(comm.lsaSize)) & int(ginrs::gin::isWithin(comm, dstWnd, dstOffset, sizeof(T))), op);
    isDone = isStored && (isDirect || !op.hasSignal);
  }
  if (!isDone && ginrs::gin::isAllowed(*this, worldPeer, op)) {
    if (isStored) {
      op = ginrs::gin::actionsOf(*this, remoteAction, ncclGin_None{});
    } else {
      ginrs::gin::checkRange(comm, "ncclGin::putValue", dstWnd, dstOffset, sizeof(T), _ginrsFlags);
      ginrs::gin::Registration const dst = ginrs::gin::registrationOf(dstWnd, contextId);
      op.moveValue(dst.window, dst.start + dstOffset, ginrs::gin::bitsOf(value), sizeof(T));
    }
    ginrs::gin::startOn(*this, isDirect, worldPeer, op, value,
                        {alreadyReleased, expected_scope, ncclGin_isDescriptor(descriptor), ncclGin_getDescriptor(descriptor)});
  }
  coop.sync();
}
template <unsigned backendMask>
template <typename T, typename RemoteAction, typename Coop, typename DescriptorSmem, typename>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::putValue(ncclTeam team, int peer, ncclSymPtr<T> dst, T value,
                                                                   RemoteAction remoteAction, Coop coop,
                                                                   DescriptorSmem descriptor,
                                                                   cuda::thread_scope alreadyReleased,
                                                                   cuda::thread_scope expected_scope GINRS_CALLER) const {
  this->putValue(team, peer, dst.window, dst.offset, value, remoteAction, coop, descriptor, alreadyReleased,
                 expected_scope GINRS_CALLER_PASSED);
}

template <unsigned backendMask>
template <typename RemoteAction, typename Coop, typename DescriptorSmem>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::signal(ncclTeam team, int peer, RemoteAction remoteAction,
                                                                 Coop coop, DescriptorSmem descriptor,
                                                                 cuda::thread_scope alreadyReleased,
                                                                 cuda::thread_scope expected_scope GINRS_CALLER) const {
  static_assert(ncclGin_isSignal(RemoteAction{}), "ncclGin::signal: the action must be a SignalInc or a SignalAdd");
  int const worldPeer = ncclTeamRankToWorld(comm, team, peer);
  GINRS_CALL(PUT, contextId, worldPeer);
  bool const isDirect = (_ginrsFlags & GINRS_FLAG_DIRECT) != 0;
  ginrs::gin::Operation const op = ginrs::gin::actionsOf(*this, remoteAction, ncclGin_None{});
  coop.sync();
  bool isDone = coop.thread_rank() != 0; /* one thread is enough */
  GINRS_RACE(if (!isDone) ginrs::race::post(comm, contextId, worldPeer, nullptr, {}, 0, op, ginrsFile, ginrsLine));
  if (isDirect && !isDone) isDone = ginrs::gin::putDirectly(*this, ncclCoopThread(), worldPeer, nullptr, nullptr, true, op);
  if (!isDone && ginrs::gin::isAllowed(*this, worldPeer, op)) {
    ginrs::gin::startOn(*this, isDirect, worldPeer, op, ncclGin_None{},
                        {alreadyReleased, expected_scope, ncclGin_isDescriptor(descriptor), ncclGin_getDescriptor(descriptor)});
  }
  coop.sync();
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::flush(Coop coop, cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(FLUSH, contextId, 0);
  coop.sync();
  ncclGinCall<ncclGinApi_Flush>(_makeCtx(), coop, order);
  coop.sync();
  GINRS_RACE(ginrs_cpu_race_flushed(comm.windowTable, comm.rank, contextId));
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
/* On the CPU device: what is waited for of a signal, or was read; of threads that differ, one's. The host finds so what nobody waits for. */
template <unsigned mask>
NCCL_DEVICE_INLINE void noteAwaited(ncclGin_BackendMask<mask> const& gin, ncclGinSignal_t signal, uint64_t value) {
#ifdef __GINRS_CPU__
  if ((gin._ginrsFlags & GINRS_FLAG_AWAITED) == 0 || signal >= uint32_t(gin.comm.ginSignalCount)) return;
  ginrsGinExt const* ext = extensionAt(gin._ginHandle, gin._ginBackend);
  storeRelaxed(nccl::utility::loadConst(&ext->awaited) + gin.comm.ginSignalBase + signal, uint64_t(value | GINRS_AWAITED));
#else
  (void)gin, (void)signal, (void)value;
#endif
}
/* The CPU device hears what a thread reads by itself: one that does so over and over waits. */
template <unsigned mask>
NCCL_DEVICE_INLINE void noteRead(ncclGin_BackendMask<mask> const& gin, uint64_t value) {
#if defined(__GINRS_CPU__) && !defined(GINRS_OWN_KERNELS)
  if (ginrs_cpu_self == nullptr || (gin._ginrsFlags & GINRS_FLAG_KNOWN) == 0) return;
  ginrs_cpu_polled(nccl::utility::loadConst(&extensionAt(gin._ginHandle, gin._ginBackend)->abortHost), value);
#else
  (void)gin, (void)value;
#endif
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

GINRS_GIN(uint64_t)::readCounter(ncclGinCounter_t counter, int bits, cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(COUNTER, contextId, counter);
  uint64_t value = ginrs::gin::readWord(ginrs::gin::counterWord(*this, counter), order);
  ginrs::gin::noteRead(*this, value);
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_COUNTER, contextId, comm.ginCounterBase + counter, value, bits % 64, order));
  return value & nccl::utility::lowBits<uint64_t>(bits);
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitCounter(Coop coop, ncclGinCounter_t counter,
                                                                      uint64_t least, int bits,
                                                                      cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(COUNTER, contextId, counter);
  ginrs::gin::waitTogether(coop, _makeCtx(), ginrs::gin::counterWord(*this, counter), least, bits, order);
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_COUNTER, contextId, comm.ginCounterBase + counter, least, bits % 64, order));
}

GINRS_GIN(uint64_t*)::getSignalShadowPtr(ncclGinSignal_t signal) const {
  return _signalShadows + signal;
}
GINRS_GIN(void)::increaseSignalShadow(ncclGinSignal_t signal, uint64_t delta GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  if (!ginrs::gin::hasSignal(*this, signal)) return;
  cuda::atomic_ref<uint64_t, cuda::thread_scope_device>(_signalShadows[signal]).fetch_add(delta,
                                                                                          cuda::memory_order_relaxed);
}

GINRS_GIN(uint64_t)::readSignal(ncclGinSignal_t signal, int bits, cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  uint64_t value = ginrs::gin::readWord(ginrs::gin::signalWord(*this, signal), order);
  ginrs::gin::noteAwaited(*this, signal, value);
  ginrs::gin::noteRead(*this, value);
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_SIGNAL, contextId, comm.ginSignalBase + signal, value, bits, order));
  return value & nccl::utility::lowBits<uint64_t>(bits);
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least,
                                                                     int bits, cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  if (coop.thread_rank() == 0) ginrs::gin::noteAwaited(*this, signal, least);
  ginrs::gin::waitTogether(coop, _makeCtx(), ginrs::gin::signalWord(*this, signal), least, bits, order);
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_SIGNAL, contextId, comm.ginSignalBase + signal, least, bits, order));
}
template <unsigned backendMask>
template <typename Coop>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal,
                                                                               int bits,
                                                                               cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  coop.sync();
  if (coop.thread_rank() == 0) {
    uint64_t* word = ginrs::gin::signalWord(*this, signal);
    if (word != nullptr) ginrs::gin::noteAwaited(*this, signal, _signalShadows[signal]);
    if (word != nullptr) ginrs::gin::waitAlone(_makeCtx(), word, _signalShadows[signal], bits, order);
  }
  coop.sync();
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_SIGNAL, contextId, comm.ginSignalBase + signal, _signalShadows[signal], bits, order));
}
template <unsigned backendMask>
template <typename Coop, typename Uint>
NCCL_DEVICE_INLINE void ncclGin_BackendMask<backendMask>::waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal,
                                                                                 Uint leastDelta, Uint* before,
                                                                                 Uint* delta, int bits,
                                                                                 cuda::memory_order order GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  coop.sync();
  bool const isGiven = ginrs::gin::hasSignal(*this, signal);
  uint64_t shadow = isGiven ? _signalShadows[signal] : 0, value = 0;
  if (coop.thread_rank() == 0) {
    ginrs::gin::noteAwaited(*this, signal, shadow + leastDelta);
    value = ginrs::gin::waitAlone(_makeCtx(), ginrs::gin::signalWord(*this, signal), shadow + leastDelta, bits, order);
  }
  value = ncclCoopBcast(coop, value, 0); /* its entry sync: every thread has read the shadow */
#if defined(NCCL_GIN_FOLLOW_SHADOW_UPDATES) && NCCL_GIN_FOLLOW_SHADOW_UPDATES
  if (coop.thread_rank() == 0 && isGiven) _signalShadows[signal] = value;
#endif
  coop.sync();
  GINRS_RACE(ginrs::race::seen(comm, GINRS_CPU_RACE_SIGNAL, contextId, comm.ginSignalBase + signal, value, bits, order));
  uint64_t mask = nccl::utility::lowBits<uint64_t>(bits);
  *before = Uint(shadow & mask);
  *delta = Uint((value - shadow) & mask);
}

GINRS_GIN(void)::resetCounter(ncclGinCounter_t counter GINRS_CALLER) const {
  GINRS_CALL(COUNTER, contextId, counter);
  if (!ginrs::gin::hasCounter(*this, counter)) return;
  ncclGinCall<ncclGinApi_ResetCounter>(_makeCtx(), comm.ginCounterBase + counter);
  GINRS_RACE(ginrs::race::reset(comm, GINRS_CPU_RACE_COUNTER, contextId, comm.ginCounterBase + counter, counter, ginrsFile, ginrsLine));
}
GINRS_GIN(void)::resetSignal(ncclGinSignal_t signal GINRS_CALLER) const {
  GINRS_CALL(SIGNAL, contextId, signal);
  if (!ginrs::gin::hasSignal(*this, signal)) return;
  ncclGinCall<ncclGinApi_ResetSignal>(_makeCtx(), comm.ginSignalBase + signal);
  _signalShadows[signal] = 0;
  ginrs::gin::noteAwaited(*this, signal, 0);
  GINRS_RACE(ginrs::race::reset(comm, GINRS_CPU_RACE_SIGNAL, contextId, comm.ginSignalBase + signal, signal, ginrsFile, ginrsLine));
}
#undef GINRS_GIN
#endif
#endif
