/* What the parts of a device communicator's resource window are for, as its requirements said: a handle itself does not tell how many
 * barriers or blocks it was made for. On the CPU device; nothing is known where the library did not leave it. */
#ifndef GINRS_DEVICE_RESOURCES_CUH_
#define GINRS_DEVICE_RESOURCES_CUH_
#include "window.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
#ifdef __GINRS_CPU__

struct Resources {
  ginrsResource const* at = nullptr;
  uint64_t n = 0;

  NCCL_DEVICE_INLINE explicit Resources(ncclDevComm const& comm) {
    using nccl::utility::loadConst;
    if (comm.resourceWindow == nullptr || loadConst(&comm.resourceWindow->ginrsMark) != GINRS_MARK_WINDOW_CPU) return;
    at = loadConst(&extensionOf(comm.resourceWindow)->resources);
    n = at == nullptr ? 0 : loadConst(&extensionOf(comm.resourceWindow)->nResources);
  }
};

/* Is there a barrier `index` of the GIN barriers with this handle? Of handles that the program has put together itself nobody knows. */
NCCL_DEVICE_INLINE bool isBarrier(ncclDevComm const& comm, uint32_t bufHandle, uint32_t signal0, uint32_t index) {
  Resources const all(comm);
  bool isKnown = false, isThere = false;
  for (uint64_t i = 0; i < all.n; i++) {
    if (all.at[i].bufHandle != bufHandle || all.at[i].signal0 != signal0) continue;
    isKnown = true;
    isThere = isThere || index < all.at[i].signals;
  }
  return isThere || !isKnown;
}

/* Do `bytes` behind this handle lie in the part that it is of? Another device communicator's handle is of none. */
NCCL_DEVICE_INLINE bool isWithinResource(ncclDevComm const& comm, uint32_t bufHandle, uint64_t bytes) {
  Resources const all(comm);
  for (uint64_t i = 0; i < all.n; i++) {
    uint64_t const offset = (uint64_t(bufHandle) - all.at[i].bufHandle) * 128;
    if (bufHandle >= all.at[i].bufHandle && offset <= all.at[i].bytes && bytes <= all.at[i].bytes - offset) return true;
  }
  return all.at == nullptr;
}

#else
NCCL_DEVICE_INLINE bool isBarrier(ncclDevComm const&, uint32_t, uint32_t, uint32_t) {
  return true;
}
NCCL_DEVICE_INLINE bool isWithinResource(ncclDevComm const&, uint32_t, uint64_t) {
  return true;
}
#endif
}  // namespace ginrs
#endif
#endif
