/* The LSA barrier's data path. Its words, from the start of the handle's buffer in each rank, nB barriers, n ranks:
 *
 *   [0, nB)            epoch between sessions, multimem mode; the owner's alone
 *   [nB, 2nB)          the same, unicast mode
 *   [2nB, 3nB)         multimem inbox: arrivals counted, by multicast additions
 *   [3nB, 3nB + nB*n)  unicast inbox: word index*n + p holds the epoch at which team rank p has arrived
 *
 * Ranks may be compiled with NVIDIA's headers: these words, and what is added or stored, are protocol. Epochs wrap; a
 * rank is at most one phase ahead, so a rolling compare decides. */
#ifndef GINRS_DEVICE_LSA_BARRIER_CUH_
#define GINRS_DEVICE_LSA_BARRIER_CUH_
#include "../../nccl_device/impl/core__funcs.h"
#include "../../nccl_device/impl/lsa_barrier__types.h"
#include "../gin/abort.cuh"
#include "../order.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace lsa {

GINRS_DEVICE_FUNCTION void tell(uint32_t* word, uint32_t value, cuda::memory_order order) {
  if (order == cuda::memory_order_relaxed) {
    storeRelaxed(word, value);
  } else {
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).store(value, order);
  }
}

/* The mode that this build can run. Ranks built with CUDA before 12.6 use unicast when asked for multimem; ranks that
 * disagree would wait for each other for ever, so the rule is part of the protocol. */
GINRS_DEVICE_FUNCTION bool multimemMode(bool asked) {
#if CUDART_VERSION < 12060
  return false;
#else
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  if (asked) GINRS_TRAP("multimem asked for, but this kernel was compiled for a GPU older than sm_90");
#endif
  return asked;
#endif
}

/* One addition of 1 to the word on every rank of the multicast team, the caller's included. */
GINRS_DEVICE_FUNCTION void multicastIncrement(uint32_t* word, cuda::memory_order order) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  size_t address = __cvta_generic_to_global(word);
  if (order == cuda::memory_order_relaxed) {
    asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(address) : "memory");
  } else {
    asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(address) : "memory");
  }
#else
  (void)word, (void)order;
#endif
}

template <typename Coop>
GINRS_DEVICE_FUNCTION uint32_t* epochWord(ncclLsaBarrierSession_internal<Coop> const& bar) {
  uint32_t* words = static_cast<uint32_t*>(ncclGetResourceBufferLocalPointer(bar.comm, bar.handle.bufHandle));
  return words + (bar.multimem ? 0 : bar.handle.nBarriers) + bar.index;
}

/* Thread t of the group looks after the team's ranks t, t + size, ... other than the own. */
template <typename Coop>
GINRS_DEVICE_FUNCTION int peerOf(ncclLsaBarrierSession_internal<Coop> const& bar, int i) {
  return i + (bar.team.rank <= i ? 1 : 0);
}
template <typename Coop>
GINRS_DEVICE_FUNCTION uint32_t* outbox(ncclLsaBarrierSession_internal<Coop>& bar, int i) {
  return bar.ucInbox(peerOf(bar, i), bar.team.rank);
}
template <typename Coop>
GINRS_DEVICE_FUNCTION uint32_t* inbox(ncclLsaBarrierSession_internal<Coop>& bar, int i) {
  return bar.ucInbox(bar.team.rank, peerOf(bar, i));
}
/* Addresses are reckoned here, once: between the others' arrival and the next one of this rank every instruction is
 * time that all ranks wait. The compiler would rather reckon them again. */
template <typename Coop>
GINRS_DEVICE_FUNCTION void findFirstPeer(ncclLsaBarrierSession_internal<Coop>& bar) {
  int i = bar.coop.thread_rank();
  if (bar.multimem || i >= bar.team.nRanks - 1) return;
  bar.firstOut = outbox(bar, i);
  bar.firstIn = inbox(bar, i);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("" : "+l"(bar.firstOut), "+l"(bar.firstIn));
#endif
}

template <typename Coop>
GINRS_DEVICE_FUNCTION void arrive(ncclLsaBarrierSession_internal<Coop>& bar, cuda::memory_order order) {
  bar.coop.sync(); /* the group's writes come before its thread's release */
  order = nccl::utility::releaseOrderOf(order);
  if (bar.multimem) {
    if (bar.coop.thread_rank() == 0) multicastIncrement(bar.mcInbox(true), order);
    return;
  }
  if (bar.firstOut == nullptr) return;
  tell(bar.firstOut, bar.epoch + 1, order);
#pragma unroll 1
  for (int i = bar.coop.thread_rank() + bar.coop.size(); i < bar.team.nRanks - 1; i += bar.coop.size()) {
    tell(outbox(bar, i), bar.epoch + 1, order);
  }
}

/* Until the word has reached `least`, or the communicator is aborted. `rank()`: whose word it is. */
template <typename Rank>
GINRS_DEVICE_FUNCTION void waitWord(ncclDevComm const& comm, uint32_t* word, uint32_t least, cuda::memory_order order, Rank&& rank) {
  until(
      comm, [&] { return nccl::utility::rollingLessEq(least, look(word, order)); },
      [&] { return waitsFor(GINRS_WAITS_LSA, rank(), word, least, 32); });
}
/* World rank of the `i`th peer. */
template <typename Coop>
GINRS_DEVICE_FUNCTION uint32_t worldOf(ncclLsaBarrierSession_internal<Coop> const& bar, int i) {
  return uint32_t(bar.comm.rank + (peerOf(bar, i) - bar.team.rank) * bar.team.stride);
}

template <typename Coop>
GINRS_DEVICE_FUNCTION void wait(ncclLsaBarrierSession_internal<Coop>& bar, cuda::memory_order order) {
  order = nccl::utility::acquireOrderOf(order);
  if (bar.multimem) {
    bar.epoch += uint32_t(bar.team.nRanks);
    if (bar.coop.thread_rank() == 0) waitWord(bar.comm, bar.mcInbox(false), bar.epoch, order, [] { return 0xffffffu; });
  } else {
    bar.epoch += 1;
    if (bar.firstIn != nullptr) {
      waitWord(bar.comm, bar.firstIn, bar.epoch, order, [&] { return worldOf(bar, bar.coop.thread_rank()); });
#pragma unroll 1
      for (int i = bar.coop.thread_rank() + bar.coop.size(); i < bar.team.nRanks - 1; i += bar.coop.size()) {
        waitWord(bar.comm, inbox(bar, i), bar.epoch, order, [&] { return worldOf(bar, i); });
      }
    }
  }
  settle(order); /* by all threads: one instruction of the warp, outside of what lanes do apart */
  bar.coop.sync(); /* what one thread acquired, all have */
}

}  // namespace lsa
}  // namespace ginrs
#endif
#endif
