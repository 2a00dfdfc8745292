/* Every wait ends: how device code learns that its communicator was aborted.
 *
 * The words are the library's, found through the marker (../marker.h). Where there is no marker, because the library is
 * NVIDIA's or the context was built by hand, waits last until their condition holds. */
#ifndef GINRS_DEVICE_GIN_ABORT_CUH_
#define GINRS_DEVICE_GIN_ABORT_CUH_
#include "../../nccl_device/gin/gin_device_common.h"
#include "../../nccl_device/impl/comm__types.h"
#include "../marker.h"
#include "../trap.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {

NCCL_DEVICE_INLINE bool isMarked(ncclDevComm const& comm) {
  return comm.ginrsMark[0] == GINRS_MARK_BYTE0 && comm.ginrsMark[1] == GINRS_MARK_BYTE1 &&
         comm.ginrsMark[2] == GINRS_MARK_BYTE2 && comm.resourceWindow_inlined.ginrsMark == GINRS_MARK_WORD;
}

/* The block behind the first page of the window table, or null. */
NCCL_DEVICE_INLINE ginrsCommExt const* extensionOf(ncclDevComm const& comm) {
  if (!isMarked(comm) || comm.windowTable == nullptr) return nullptr;
  char const* page = reinterpret_cast<char const*>(comm.windowTable);
  ginrsCommExt const* ext = reinterpret_cast<ginrsCommExt const*>(page + GINRS_COMM_EXT_OFFSET);
  return nccl::utility::loadConst(&ext->magic) == GINRS_COMM_EXT_MAGIC ? ext : nullptr;
}
/* The block behind a GIN context, or null. */
NCCL_DEVICE_INLINE ginrsGinExt const* extensionOf(ncclGinCtx const& ctx) {
  if (ctx.ginrs.mark != GINRS_MARK_WORD) return nullptr;
  char const* context = static_cast<char const*>(ctx.handle);
  ginrsGinExt const* ext = reinterpret_cast<ginrsGinExt const*>(context + GINRS_GIN_EXT_OFFSET);
  return nccl::utility::loadConst(&ext->magic) == GINRS_GIN_EXT_MAGIC ? ext : nullptr;
}

NCCL_DEVICE_INLINE bool isRaised(uint32_t* word) {
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).load(cuda::memory_order_relaxed) != 0;
}

/* Where: ncclDevComm or ncclGinCtx. The near word costs a look into the GPU's L2, the host's a PCIe round trip. */
template <typename Where>
NCCL_DEVICE_INLINE bool isAborted(Where const& where, bool lookAtHost = false) {
  auto const* ext = extensionOf(where);
  if (ext == nullptr) return false;
  if (isRaised(nccl::utility::loadConst(&ext->abortWord))) return true;
  return lookAtHost && nccl::utility::loadConst(&ext->version) >= 2 && isRaised(nccl::utility::loadConst(&ext->abortHost));
}

/* Calls done() until it is true; false if the communicator was aborted instead. Between two looks of a burst stands
 * nothing but done()'s own code and a count: a wait that ends within its first burst, some 10 us, touches no memory but
 * its own. The loop has one way out, so that lanes that end at different times meet again at once. */
template <typename Where, typename Done>
NCCL_DEVICE_INLINE bool until(Where const& where, Done&& done) {
#ifdef __GINRS_CPU__
  while (!done()) {
    ginrs_cpu_yield(GINRS_CPU_WAITING);
    if (isAborted(where)) return false;
  }
  return true;
#else
  constexpr int burst = 32;            /* looks between two at the near abort word */
  constexpr unsigned hostMask = 0x3f;  /* bursts, less one, between two at the host's: about a millisecond */
  bool isDone;
  for (unsigned bursts = 1;; bursts++) {
    int left = burst;
#pragma unroll 1
    do {
      isDone = done();
    } while (!isDone && --left != 0);
    if (isDone || isAborted(where, (bursts & hostMask) == 0)) return isDone;
  }
#endif
}

}  // namespace ginrs
#endif
#endif
