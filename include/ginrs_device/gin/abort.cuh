/* Every wait ends: how device code learns that its communicator was aborted.
 *
 * The word is the library's, found through the marker (../marker.h). Where there is no marker, because the library is
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

/* Where: ncclDevComm or ncclGinCtx. */
template <typename Where>
NCCL_DEVICE_INLINE bool isAborted(Where const& where) {
  auto const* ext = extensionOf(where);
  if (ext == nullptr) return false;
  uint32_t* word = nccl::utility::loadConst(&ext->abortWord);
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).load(cuda::memory_order_relaxed) != 0;
}

/* Polls between fruitless looks of a wait:
 *
 *   for (Spin<ncclGinCtx> spin{ctx}; !condition();) if (spin.aborted()) return;
 */
template <typename Where>
struct Spin {
  Where const& where;
  unsigned looks = 0;

  NCCL_DEVICE_INLINE explicit Spin(Where const& where) : where(where) {}

  NCCL_DEVICE_INLINE bool aborted() {
#ifdef __GINRS_CPU__
    ginrs_cpu_yield(GINRS_CPU_WAITING);
    return isAborted(where);
#else
    /* The word is in host memory as a rule: a load of it costs a wait more than several looks at what it waits for. */
    looks += 1;
    return looks % 128 == 0 && isAborted(where);
#endif
  }
};

}  // namespace ginrs
#endif
#endif
