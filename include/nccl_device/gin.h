/* GIN: one-sided puts, signals and counters, started by a kernel and carried by the network.
 *
 *   ncclGin gin(devComm, 0);
 *   gin.put(ncclTeamWorld(devComm), peer, dst, 0, src, 0, bytes, ncclGin_SignalInc{0}); // on the sender
 *   gin.waitSignal(ncclCoopCta(), 0, 1);                                               // on the receiver
 *
 * What is promised:
 *   - A signal is visible at the peer only after the payload of its own put and the payloads of all earlier puts on this
 *     context to that peer. Nothing is promised between different peers or different contexts.
 *   - A put without an action tells nobody that it has arrived.
 *   - The source may be reused after flush(), or when the put's counter has moved. That says nothing of the peer.
 *   - When the communicator is aborted, waits return without their condition, and puts are dropped.
 *
 * Device only. */
#ifndef _NCCL_DEVICE_GIN_SESSION_H_
#define _NCCL_DEVICE_GIN_SESSION_H_
#include "core.h"
#include "gin/gin_device_common.h"
#include "ptr.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include <type_traits>
#include "../ginrs_device/call.cuh"

/* ---- What a put may do besides moving bytes. Remote actions take place at the peer, local ones here. Between two
 * resets a signal is used either with SignalInc only, or never with it. ---- */

struct ncclGin_None {};
struct ncclGin_SignalAdd {
  ncclGinSignal_t signal;
  uint64_t value;
};
struct ncclGin_SignalInc { /* + 1 */
  ncclGinSignal_t signal;
};
struct ncclGin_CounterInc { /* local: + 1 once the source may be reused */
  ncclGinCounter_t counter;
};
struct ncclGin_DescriptorSmem { /* shared memory that the backend may build its descriptor in */
  ncclGinDescriptorSmem* descriptor;
};
/* Names of later versions for the same actions. */
using ncclGin_StrongSignalInc = ncclGin_SignalInc;
using ncclGin_StrongSignalAdd = ncclGin_SignalAdd;
using ncclGin_WeakSignalInc = ncclGin_SignalInc;
using ncclGin_WeakSignalAdd = ncclGin_SignalAdd;

namespace ginrs {
/* Keeps putValue<int>(team, peer, window, 0, 7) from being read as "at ncclSymPtr<int>(window), value 0, action 7". */
template <typename Action>
using IfAction = typename std::enable_if<std::is_class<Action>::value>::type;
}  // namespace ginrs

template <unsigned backendMask>
struct ncclGin_BackendMask;
template <ncclNetDeviceType backend>
using ncclGin_BackendOne = ncclGin_BackendMask<(1u << int(backend))>;
using ncclGin = ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL>;

/* One GIN context of a device communicator: connections to every peer, and tables of signals and counters of its own. A
 * signal sent on a context arrives in the peer's context of the same number. Keeps a reference to the devcomm.
 *
 * Common parameters:
 *   team, peer       the destination, as a rank of the team; it may be the caller
 *   offsets, bytes   in bytes; zero bytes are allowed, the actions still take place
 *   coop             all its threads call; it syncs before and after; one operation is started
 *   alreadyReleased  the widest scope to which the caller has released the source data: thread_scope_system spares the
 *                    fence that a put otherwise pays for
 *   expected_scope   the scope at which the source must be readable; the proxy always needs the system's
 *   order            of the load that ends a wait: relaxed, acquire or seq_cst (a releasing order counts without its
 *                    release)
 *   bits             1..64, how many low bits of a word count; compares are rolling within them */
template <unsigned backendMask>
struct ncclGin_BackendMask {
  ncclDevComm const& comm;
  uint32_t nContexts : 8, contextId : 8, _ginBackend : 8, _ginrsFlags : 8; /* GINRS_FLAG_ (ginrs_device/marker.h) */
  void* _ginHandle;
  uint64_t* _signalShadows; /* of this context, by signal */

  /* Context contextIndex modulo the devcomm's count. With a count of 0 the object may be built but not used. */
  NCCL_DEVICE_INLINE ncclGin_BackendMask(ncclDevComm const& comm, int contextIndex GINRS_CALLER_DEFAULT);

  template <typename RemoteAction = ncclGin_None, typename LocalAction = ncclGin_None, typename Coop = ncclCoopThread,
            typename DescriptorSmem = ncclGin_None>
  NCCL_DEVICE_INLINE void put(ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset, ncclWindow_t srcWnd,
                              size_t srcOffset, size_t bytes, RemoteAction remoteAction = ncclGin_None{},
                              LocalAction localAction = ncclGin_None{}, Coop coop = ncclCoopThread{},
                              DescriptorSmem descriptor = ncclGin_None{},
                              cuda::thread_scope alreadyReleased = cuda::thread_scope_thread,
                              cuda::thread_scope expected_scope = cuda::thread_scope_device GINRS_CALLER_DEFAULT) const;
  template <typename T, typename RemoteAction = ncclGin_None, typename LocalAction = ncclGin_None,
            typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None>
  NCCL_DEVICE_INLINE void put(ncclTeam team, int peer, ncclSymPtr<T> dst, ncclSymPtr<T> src, size_t nElts,
                              RemoteAction remoteAction = ncclGin_None{}, LocalAction localAction = ncclGin_None{},
                              Coop coop = ncclCoopThread{}, DescriptorSmem descriptor = ncclGin_None{},
                              cuda::thread_scope alreadyReleased = cuda::thread_scope_thread,
                              cuda::thread_scope expected_scope = cuda::thread_scope_device GINRS_CALLER_DEFAULT) const;

  /* The value itself, up to 8 bytes of any type; its bits arrive as they are. */
  template <typename T, typename RemoteAction = ncclGin_None, typename Coop = ncclCoopThread,
            typename DescriptorSmem = ncclGin_None>
  NCCL_DEVICE_INLINE void putValue(ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset, T value,
                                   RemoteAction remoteAction = ncclGin_None{}, Coop coop = ncclCoopThread{},
                                   DescriptorSmem descriptor = ncclGin_None{},
                                   cuda::thread_scope alreadyReleased = cuda::thread_scope_thread,
                                   cuda::thread_scope expected_scope = cuda::thread_scope_device GINRS_CALLER_DEFAULT) const;
  template <typename T, typename RemoteAction = ncclGin_None, typename Coop = ncclCoopThread,
            typename DescriptorSmem = ncclGin_None, typename = ginrs::IfAction<RemoteAction>>
  NCCL_DEVICE_INLINE void putValue(ncclTeam team, int peer, ncclSymPtr<T> dst, T value,
                                   RemoteAction remoteAction = ncclGin_None{}, Coop coop = ncclCoopThread{},
                                   DescriptorSmem descriptor = ncclGin_None{},
                                   cuda::thread_scope alreadyReleased = cuda::thread_scope_thread,
                                   cuda::thread_scope expected_scope = cuda::thread_scope_device GINRS_CALLER_DEFAULT) const;

  /* Only the action. */
  template <typename RemoteAction, typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None>
  NCCL_DEVICE_INLINE void signal(ncclTeam team, int peer, RemoteAction remoteAction, Coop coop = ncclCoopThread{},
                                 DescriptorSmem descriptor = ncclGin_None{},
                                 cuda::thread_scope alreadyReleased = cuda::thread_scope_thread,
                                 cuda::thread_scope expected_scope = cuda::thread_scope_device GINRS_CALLER_DEFAULT) const;

  /* Until the source of every operation that any thread started on this context before the call may be reused. */
  template <typename Coop>
  NCCL_DEVICE_INLINE void flush(Coop coop, cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;

  /* Counters carry at least 56 bits. waitCounter: until the counter has reached `least`. */
  NCCL_DEVICE_INLINE uint64_t readCounter(ncclGinCounter_t counter, int bits = 56,
                                          cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;
  template <typename Coop>
  NCCL_DEVICE_INLINE void waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least, int bits = 56,
                                      cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;

  /* A shadow is a word of the caller's own beside each signal, to keep the value that it expects next. */
  NCCL_DEVICE_INLINE uint64_t* getSignalShadowPtr(ncclGinSignal_t signal) const;
  NCCL_DEVICE_INLINE void increaseSignalShadow(ncclGinSignal_t signal, uint64_t delta GINRS_CALLER_DEFAULT) const;

  NCCL_DEVICE_INLINE uint64_t readSignal(ncclGinSignal_t signal, int bits = 64,
                                         cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;
  /* Until the signal has reached `least`. */
  template <typename Coop>
  NCCL_DEVICE_INLINE void waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least, int bits = 64,
                                     cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;
  /* Until the signal has reached its shadow. */
  template <typename Coop>
  NCCL_DEVICE_INLINE void waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal, int bits = 64,
                                               cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;
  /* Until the signal is leastDelta past its shadow. In every thread: *before is the shadow and *delta how far past it
   * the signal is, both of `bits` bits. The shadow stays as it is (NCCL 2.28; 2.29 moves it): add *delta with
   * increaseSignalShadow, or define NCCL_GIN_FOLLOW_SHADOW_UPDATES=1 to have it moved. */
  template <typename Coop, typename Uint>
  NCCL_DEVICE_INLINE void waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal, Uint leastDelta, Uint* before,
                                                 Uint* delta, int bits = 64,
                                                 cuda::memory_order order = cuda::memory_order_acquire GINRS_CALLER_DEFAULT) const;

  /* To zero, the signal's shadow too. Nobody may be adding at the time. */
  NCCL_DEVICE_INLINE void resetCounter(ncclGinCounter_t counter GINRS_CALLER_DEFAULT) const;
  NCCL_DEVICE_INLINE void resetSignal(ncclGinSignal_t signal GINRS_CALLER_DEFAULT) const;

  NCCL_DEVICE_INLINE ncclGinCtx_M<backendMask> _makeCtx() const;
};
#endif
#endif
