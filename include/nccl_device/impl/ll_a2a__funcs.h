/* Bodies of ../ll_a2a.h; the line format is in ginrs_device/ll/a2a.cuh. */
#ifndef _NCCL_DEVICE_LL_A2A__FUNCS_H_
#define _NCCL_DEVICE_LL_A2A__FUNCS_H_
#include "../utility.h"
#include "comm__types.h"
#include "ll_a2a__types.h"

#if defined(__cplusplus) && NCCL_CHECK_CUDACC
#include "../../ginrs_device/gin/abort.cuh"
#include "../../ginrs_device/ll/a2a.cuh"
#include "../../ginrs_device/lsa/barrier.cuh"
#include "../../ginrs_device/resources.cuh"
#include "../../ginrs_device/window.cuh"
#include "core__funcs.h"

namespace ginrs {
namespace ll {
template <typename Coop>
NCCL_DEVICE_INLINE Line* localLines(ncclLLA2ASession_internal<Coop> const& a2a) {
  return reinterpret_cast<Line*>(a2a.lines);
}
template <typename Coop>
NCCL_DEVICE_INLINE Line* peerLines(ncclLLA2ASession_internal<Coop> const& a2a, int peer) {
  return reinterpret_cast<Line*>(nccl::utility::add4G(a2a.lines, a2a.first4G + peer * a2a.hop4G));
}
/* The word that keeps epoch - 2 between sessions. */
template <typename Coop>
NCCL_DEVICE_INLINE uint32_t* epochWord(ncclLLA2ASession_internal<Coop> const& a2a) {
  return reinterpret_cast<uint32_t*>(localLines(a2a) + uint32_t(a2a.block) * (1 + 2 * a2a.handle.nSlots));
}
/* What a slot past the end would hit is the next parity's or the next block's. */
template <typename T, typename Coop>
NCCL_DEVICE_INLINE void checkSlot(ncclLLA2ASession_internal<Coop> const& a2a, int slot) {
  GINRS_CHECK(slot >= 0 && slot + int64_t(Pieces<T>::n - 1) * a2a.pitch < int64_t(a2a.handle.nSlots),
              "ncclLLA2ASession: the element's last line (slot + maxElts * (8-byte pieces - 1)) is not below nSlots");
  (void)a2a, (void)slot;
}
/* Who receives may have either of two elements of one epoch. */
template <typename Coop>
NCCL_DEVICE_INLINE void checkIsFirst(ncclLLA2ASession_internal<Coop> const& a2a, Line* line, int peer, int slot) {
#ifdef __GINRS_CPU__
  /* One look at a half's flag, which is no poll: it costs the thread none of its turn. */
  if (uint32_t(__atomic_load_n(&line->low, __ATOMIC_RELAXED) >> 32) == a2a.epoch) {
    tellRefusal("ncclLLA2ASession: slot %d of team rank %d was sent to in this epoch already; fix: endEpoch() between, or another slot", slot, peer);
  }
#endif
  (void)a2a, (void)line, (void)peer, (void)slot;
}
}  // namespace ll
}  // namespace ginrs

template <typename Coop>
NCCL_DEVICE_INLINE uint32_t ncclLLA2ASession_internal<Coop>::calcSlotOffset() const {
  return ginrs::ll::slotsOffset(uint32_t(block), handle.nSlots, epoch);
}

template <typename Coop>
NCCL_DEVICE_INLINE ncclLLA2ASession<Coop>::ncclLLA2ASession(Coop coop, ncclDevComm const& comm, ncclTeam team,
                                                            ncclLLA2AHandle handle, uint32_t block, int maxElts,
                                                            bool multimem, ncclMultimemHandle mmHandle GINRS_CALLER)
    : ncclLLA2ASession_internal<Coop>{
          coop, comm, team, handle, int(block), maxElts, ginrs::lsa::multimemMode(multimem), mmHandle, 0u, 0u, 0u,
          nullptr, 0, 0} {
  GINRS_CALL(LLA2A, 0, 0);
  GINRS_DEVCOMM_STANDS(comm);
  GINRS_CHECK(ginrs::isWithinResource(comm, handle.bufHandle, (uint64_t(block) + 1) * (1 + 2 * uint64_t(handle.nSlots)) * 16),
              "ncclLLA2ASession: block is not below the number of blocks that the handle was made for");
  this->lines = static_cast<char*>(ncclGetResourceBufferLocalPointer(comm, handle.bufHandle));
  this->hop4G = team.stride * int(comm.resourceWindow_inlined.stride4G);
  this->first4G = -team.rank * this->hop4G;
  GINRS_SESSION(begin, team.nRanks, coop, ginrs::ll::epochWord(*this));
  this->epoch = *ginrs::ll::epochWord(*this) + 2;
  this->slotsOffset = this->calcSlotOffset();
  this->otherOffset = ginrs::ll::slotsOffset(block, handle.nSlots, this->epoch + 1);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  /* To be kept in registers: the compiler would rather reckon them again in every epoch, while the peers wait. */
  asm volatile("" : "+l"(this->lines), "+r"(this->hop4G), "+r"(this->first4G), "+r"(this->slotsOffset), "+r"(this->otherOffset));
#endif
}
template <typename Coop>
NCCL_DEVICE_INLINE ncclLLA2ASession<Coop>::~ncclLLA2ASession() {
  this->coop.sync(); /* every thread has read the word */
  if (this->coop.thread_rank() == 0) *ginrs::ll::epochWord(*this) = this->epoch - 2;
  GINRS_SESSION(end, this->team.nRanks, this->coop, ginrs::ll::epochWord(*this));
  this->coop.sync();
}

template <typename Coop>
template <typename T>
NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::send(int peer, int slot, T data GINRS_CALLER) {
  GINRS_CALL(LLA2A, 0, slot);
  constexpr int n = ginrs::ll::Pieces<T>::n;
  ginrs::ll::checkSlot<T>(*this, slot);
  ginrs::ll::Pieces<T> pieces = ginrs::ll::cut(data);
  ginrs::ll::Line* lines = ginrs::ll::peerLines(*this, peer) + this->slotsOffset + slot;
  ginrs::ll::checkIsFirst(*this, lines, peer, slot);
#pragma unroll
  for (int u = 0; u < n; u++) {
    ginrs::ll::storeLine(lines + u * this->pitch, ginrs::ll::packLine(pieces.data[u], this->epoch));
  }
}

template <typename Coop>
template <typename T>
NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::bcast(int slot, T data GINRS_CALLER) {
  GINRS_CALL(LLA2A, 0, slot);
  if (this->multimem) {
    constexpr int n = ginrs::ll::Pieces<T>::n;
    ginrs::ll::checkSlot<T>(*this, slot);
    ginrs::ll::Pieces<T> pieces = ginrs::ll::cut(data);
    void* buffer = ncclGetResourceBufferMultimemPointer(this->comm, this->handle.bufHandle, this->mmHandle);
    ginrs::ll::Line* lines = static_cast<ginrs::ll::Line*>(buffer) + this->slotsOffset + slot;
#pragma unroll
    for (int u = 0; u < n; u++) {
      ginrs::ll::multicastLine(lines + u * this->pitch, ginrs::ll::packLine(pieces.data[u], this->epoch));
    }
    return;
  }
  /* From the own rank upwards, so that not all ranks store to one at a time. */
  for (int i = 0, peer = this->team.rank; i < this->team.nRanks; i++) {
    this->send(peer, slot, data GINRS_CALLER_PASSED);
    peer = peer + 1 == this->team.nRanks ? 0 : peer + 1;
  }
}

template <typename Coop>
template <int MinEltCount, int MaxEltCount, typename T>
NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::recvUnrolled(int eltStart, int eltCount, int eltStride,
                                                             T (&vals)[MaxEltCount] GINRS_CALLER) {
  GINRS_CALL(LLA2A, 0, eltStart);
  constexpr int n = ginrs::ll::Pieces<T>::n;
  ginrs::ll::Pieces<T> pieces[MaxEltCount];
  ginrs::ll::Line* lines = ginrs::ll::localLines(*this) + this->slotsOffset + eltStart;
  int const nElts = eltCount > MinEltCount ? eltCount : MinEltCount;
  if (nElts > 0) {
    ginrs::ll::checkSlot<T>(*this, eltStart);
    ginrs::ll::checkSlot<T>(*this, eltStart + (nElts - 1) * eltStride);
  }
  ginrs::until(this->comm, [&] {
    bool all = true;
#pragma unroll
    for (int e = 0; e < MaxEltCount; e++) {
      if (e < MinEltCount || e < eltCount) {
#pragma unroll
        for (int u = 0; u < n; u++) {
          ginrs::ll::Line line = ginrs::ll::loadLine(lines + e * eltStride + u * this->pitch);
          all &= ginrs::ll::isOf(line, this->epoch);
          pieces[e].data[u] = ginrs::ll::dataOf(line);
        }
      }
    }
    return all;
  }, [] { return ginrs::waitsFor(GINRS_WAITS_LL); });
#pragma unroll
  for (int e = 0; e < MaxEltCount; e++) {
    if (e < MinEltCount || e < eltCount) ginrs::ll::join(vals[e], pieces[e]);
  }
}

template <typename Coop>
template <typename T>
NCCL_DEVICE_INLINE T ncclLLA2ASession<Coop>::recv(int slot GINRS_CALLER) {
  T vals[1];
  this->template recvUnrolled<1, 1>(slot, 1, 0, vals GINRS_CALLER_PASSED);
  return vals[0];
}

template <typename Coop>
template <int Unroll, typename Elt, typename EltToAcc, typename Reduce>
NCCL_DEVICE_INLINE auto ncclLLA2ASession<Coop>::recvReduce(int eltStart, int eltCount, int eltStride,
                                                           EltToAcc eltToAcc, Reduce reduce
                                                           GINRS_CALLER)
    -> decltype(eltToAcc(nccl::utility::declval<Elt>())) {
  using Acc = decltype(eltToAcc(nccl::utility::declval<Elt>()));
  Acc acc{};
  int done = 0;
#pragma unroll 1
  for (; done + Unroll <= eltCount; done += Unroll) {
    Elt vals[Unroll];
    this->template recvUnrolled<Unroll, Unroll>(eltStart + done * eltStride, Unroll, eltStride, vals GINRS_CALLER_PASSED);
#pragma unroll
    for (int e = 0; e < Unroll; e++) acc = done + e == 0 ? eltToAcc(vals[e]) : reduce(acc, eltToAcc(vals[e]));
  }
  int rest = eltCount - done;
  if (rest > 0) {
    Elt vals[Unroll];
    this->template recvUnrolled<1, Unroll>(eltStart + done * eltStride, rest, eltStride, vals GINRS_CALLER_PASSED);
#pragma unroll
    for (int e = 0; e < Unroll; e++) {
      if (e < rest) acc = done + e == 0 ? eltToAcc(vals[e]) : reduce(acc, eltToAcc(vals[e]));
    }
  }
  return acc;
}

template <typename Coop>
NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::endEpoch(Coop) {
  if (this->epoch >= 0xfffffffe) {
    /* Flags start again at 2: clear what earlier rounds left in these slots. The next writer of them waits for what this
     * rank sends in the next epoch, so the zeros must be visible before that. */
    this->coop.sync();
    ginrs::ll::Line* slots = ginrs::ll::localLines(*this) + this->slotsOffset;
    int step = int(this->coop.size());
    for (int i = int(this->coop.thread_rank()); i < int(this->handle.nSlots); i += step) {
      ginrs::ll::storeLine(slots + i, ginrs::ll::Line{0, 0});
    }
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
  }
  this->coop.sync();
  this->epoch = ginrs::ll::nextEpoch(this->epoch); /* of the other parity, also across the wrap */
  uint32_t last = this->slotsOffset;
  this->slotsOffset = this->otherOffset;
  this->otherOffset = last;
}
#endif
#endif
