/* What an operation may name: bytes inside its windows, ids that the device communicator was given, and ranks that it has. All
 * come out of users' kernels, so nothing beyond moves: neither bytes beside a window nor another's word.
 *
 *   range of a proxied put       checked by the host, which knows every window by its handle
 *   range of a direct put        checked here; what leaves its windows goes through the queue, where the host refuses it by name
 *   peers                        checked here, for they choose the queue that the host sees
 *   signals, counters, resets    checked here, for the host sees absolute ids only; a refused one is left where the host looks
 *
 * Either way the host ends the communicator with GINRS-E051, and what was refused is dropped. */
#ifndef GINRS_DEVICE_GIN_BOUNDS_CUH_
#define GINRS_DEVICE_GIN_BOUNDS_CUH_
#include "../order.cuh"
#include "abort.cuh"
#include "descriptor.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* Of a context with GINRS_FLAG_BOUNDS. An offset before the window wraps, and is then behind its end. */
NCCL_DEVICE_INLINE bool isWithin(ncclWindow_t window, size_t offset, size_t bytes) {
  char const* end = reinterpret_cast<char const*>(window) + GINRS_WINDOW_EXT_OFFSET;
  auto const* ext = reinterpret_cast<ginrsWindowExt const*>(end);
  uint64_t const size = nccl::utility::loadConst(&ext->bytes);
  return int(bytes <= size) & int(offset <= size - bytes);
}

/* Is the id among the devcomm's `count`? If not, the host is told. `flags` are of the context. */
template <int kind>
NCCL_DEVICE_INLINE bool isGiven(uint32_t id, int count, void const* handle, uint32_t backend, uint32_t flags) {
  if (id < uint32_t(count) || (flags & GINRS_FLAG_BOUNDS) == 0) return true;
  storeRelaxed(nccl::utility::loadConst(&extensionAt(handle, backend)->refusal), uint64_t(GINRS_REFUSAL(kind, id, count)));
  return false;
}
/* Are peer and ids the devcomm's? Without a branch; nobody is told. */
NCCL_DEVICE_INLINE bool areGiven(ncclDevComm const& comm, int worldPeer, Operation const& op) {
  return int(uint32_t(worldPeer) < uint32_t(comm.nRanks)) &
         (int(!op.hasSignal) | int(op.signalId - comm.ginSignalBase < uint32_t(comm.ginSignalCount))) &
         (int(!op.hasCounter) | int(op.counterId - comm.ginCounterBase < uint32_t(comm.ginCounterCount)));
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
