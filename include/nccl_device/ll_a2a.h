/* Low-latency exchange of small elements among ranks that share memory: every datum travels with a flag, so that the
 * receiver polls the datum itself and no barrier is needed. */
#ifndef _NCCL_DEVICE_LL_A2A_H_
#define _NCCL_DEVICE_LL_A2A_H_
#include "../ginrs_device/call.cuh"
#include "impl/core__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
template <typename Coop>
struct ncclLLA2ASession_internal;

/* A group's use of block `block` of a handle. Communication goes in epochs: in each, every rank sends at least one
 * element to every peer and receives at least one from every peer, then all threads call endEpoch. Ranks agree on
 * maxElts (elements in flight per epoch, and the distance between the 8-byte pieces of an element), on the types, and on
 * the sequence of epochs. Per rank at most one session with a block lives at a time. The destructor, which all threads
 * of coop run, stores the epoch.
 *
 * Elements are trivially copyable, of any size; slots go from 0 to maxElts - 1. Receiving orders nothing but the element
 * itself. When the communicator is aborted, receives return without their elements. */
template <typename Coop>
struct ncclLLA2ASession : ncclLLA2ASession_internal<Coop> {
  NCCL_DEVICE_INLINE ncclLLA2ASession(Coop coop, ncclDevComm const& comm, ncclTeam team, ncclLLA2AHandle handle,
                                      uint32_t block, int maxElts, bool multimem = false,
                                      ncclMultimemHandle mmHandle = {} GINRS_CALLER_DEFAULT);
  NCCL_DEVICE_INLINE ~ncclLLA2ASession();
  ncclLLA2ASession(ncclLLA2ASession const&) = delete;

  /* To the slot of one rank of the team, or of all of them, the caller included. By the calling thread alone. */
  template <typename T>
  NCCL_DEVICE_INLINE void send(int peer, int slot, T data GINRS_CALLER_DEFAULT);
  template <typename T>
  NCCL_DEVICE_INLINE void bcast(int slot, T data GINRS_CALLER_DEFAULT);

  /* What arrives in the caller's slot. */
  template <typename T>
  NCCL_DEVICE_INLINE T recv(int slot GINRS_CALLER_DEFAULT);
  /* Slots eltStart, eltStart + eltStride, ..., eltCount of them, polled together. MinEltCount <= eltCount <=
   * MaxEltCount; the more is known at compile time, the fewer branches. */
  template <int MinEltCount, int MaxEltCount, typename T>
  NCCL_DEVICE_INLINE void recvUnrolled(int eltStart, int eltCount, int eltStride, T (&vals)[MaxEltCount] GINRS_CALLER_DEFAULT);
  /* reduce(...reduce(eltToAcc(e0), eltToAcc(e1))..., eltToAcc(eN)) in order of slots, Unroll of them polled together. Of
   * no elements: a value-initialised accumulator. */
  template <int Unroll, typename Elt, typename EltToAcc, typename Reduce>
  NCCL_DEVICE_INLINE auto recvReduce(int eltStart, int eltCount, int eltStride, EltToAcc eltToAcc,
                                     Reduce reduce GINRS_CALLER_DEFAULT)
      -> decltype(eltToAcc(nccl::utility::declval<Elt>()));

  NCCL_DEVICE_INLINE void endEpoch(Coop coop);
};
#endif
#endif
