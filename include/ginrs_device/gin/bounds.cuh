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
#include "../window.cuh"
#include "descriptor.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* Is the window one of this communicator's, not yet deregistered? On a GPU the host says so, of what goes through the queue.
 * The word behind a window names its table; where it does not (an older library, or no window at all) the table decides. */
GINRS_DEVICE_FUNCTION bool isOwn(ncclDevComm const& comm, ncclWindow_t window) {
#ifdef __GINRS_CPU__
  ncclDevCommWindowTable const* page = comm.windowTable;
  if (nccl::utility::loadConst(&extensionOf(window)->table) == page) return true;
  for (; page != nullptr; page = nccl::utility::loadConst(&page->next)) {
    for (auto const& entry : page->entries) {
      if (nccl::utility::loadConst(&entry.window) == window) return true;
    }
  }
  return false;
#else
  (void)comm, (void)window;
  return true;
#endif
}
/* Of a context with GINRS_FLAG_BOUNDS. An offset before the window wraps, and is then behind its end. */
GINRS_DEVICE_FUNCTION bool isWithin(ncclDevComm const& comm, ncclWindow_t window, size_t offset, size_t bytes) {
  uint64_t const size = nccl::utility::loadConst(&extensionOf(window)->bytes);
  return int(bytes <= size) & int(offset <= size - bytes) & int(isOwn(comm, window));
}

/* On the CPU device what is refused is told with the line of the call; the host, which ends the communicator, has none. */
#ifdef __GINRS_CPU__
/* Is nothing of a put refused? What is refused moves nothing, and nobody can race with it. */
GINRS_DEVICE_FUNCTION bool areGiven(ncclDevComm const& comm, int worldPeer, Operation const& op, uint32_t flags);
GINRS_DEVICE_FUNCTION bool isTaken(ncclDevComm const& comm, int worldPeer, Operation const& op, ncclWindow_t dst, size_t dstOffset, ncclWindow_t src,
                                   size_t srcOffset, size_t bytes, uint32_t flags) {
  if ((flags & GINRS_FLAG_BOUNDS) == 0) return true;
  return areGiven(comm, worldPeer, op, flags) && isWithin(comm, dst, dstOffset, bytes) && (src == nullptr || isWithin(comm, src, srcOffset, bytes));
}
/* Tells if a range that goes to the host will be refused there. `flags` are of the context. */
GINRS_DEVICE_FUNCTION void checkRange(ncclDevComm const& comm, char const* what, ncclWindow_t window, size_t offset, size_t bytes, uint32_t flags) {
  if ((flags & GINRS_FLAG_BOUNDS) == 0 || isWithin(comm, window, offset, bytes)) return;
  if (isOwn(comm, window)) {
    tellRefusal("%s: %zu bytes at offset %zd, but the window has %zu%s", what, bytes, offset, size_t(extensionOf(window)->bytes),
                WindowName(window).text);
  } else {
    tellRefusal("%s: the window is not registered with this communicator: it is another one's, or was deregistered", what);
  }
}
/* Tells if the target has deregistered the window: the payload lands in memory that nobody looks at, or that is another's by then. */
GINRS_DEVICE_FUNCTION void checkThere(ncclDevComm const& comm, char const* what, ncclWindow_t window, int worldPeer, size_t bytes, uint32_t flags) {
  using nccl::utility::loadConst;
  if ((flags & GINRS_FLAG_BOUNDS) == 0 || bytes == 0 || uint32_t(worldPeer) >= uint32_t(comm.nRanks)) return;
  ginrsWindowExt const* const known = extensionOf(window);
  uint32_t const place = loadConst(&known->place);
  uint8_t const* const* const gone = loadConst(&known->gone);
  if (place == 0 || gone == nullptr || loadConst(&known->table) != comm.windowTable || gone[worldPeer] == nullptr) return;
  if (__atomic_load_n(gone[worldPeer] + place, __ATOMIC_ACQUIRE) == 0) return;
  tellRefusal("%s: rank %d has deregistered the window%s | fix: deregister it behind all puts into it", what, worldPeer, WindowName(window).text);
}
/* Tells if the host will refuse all that this devcomm's kernels still post. */
GINRS_DEVICE_FUNCTION void checkStands(ncclDevComm const& comm) {
  if (isDestroyed(comm)) tellRefusal("%s", GINRS_DESTROYED);
}
#else
GINRS_DEVICE_FUNCTION void checkStands(ncclDevComm const&) {}
GINRS_DEVICE_FUNCTION void checkThere(ncclDevComm const&, char const*, ncclWindow_t, int, size_t, uint32_t) {}
GINRS_DEVICE_FUNCTION void tellRefusal(char const*, int, int) {}
GINRS_DEVICE_FUNCTION void checkRange(ncclDevComm const&, char const*, ncclWindow_t, size_t, size_t, uint32_t) {}
#endif

/* Is the signal one of the GIN barriers that this devcomm was made with, and the call none of theirs? They follow the caller's, so that
 * an id one too large would raise a barrier's signal. On a GPU nobody looks. */
GINRS_DEVICE_FUNCTION bool isBarriers(ncclDevComm const& comm, uint32_t signal, uint32_t flags) {
#ifdef __GINRS_CPU__
  if ((flags & GINRS_FLAG_BOUNDS) == 0 || comm.resourceWindow == nullptr) return false;
  if (signal - comm.railGinBarrier.signal0 >= nccl::utility::loadConst(&extensionOf(comm.resourceWindow)->barrierSignals)) return false;
  return !isCalledBy(GINRS_CPU_CALL_GIN_BARRIER);
#else
  (void)comm, (void)signal, (void)flags;
  return false;
#endif
}

/* Is the id among the devcomm's `count`? If not, the host is told. `flags` are of the context. */
template <int kind>
GINRS_DEVICE_FUNCTION bool isGiven(uint32_t id, int count, void const* handle, uint32_t backend, uint32_t flags) {
  if (id < uint32_t(count) || (flags & GINRS_FLAG_BOUNDS) == 0) return true;
  tellRefusal(kind == GINRS_REFUSED_SIGNAL    ? "signal %d: the device communicator was given %d (ginSignalCount)"
              : kind == GINRS_REFUSED_COUNTER ? "counter %d: the device communicator was given %d (ginCounterCount)"
                                              : "world rank %d: the communicator has %d",
              int(id), count);
  storeRelaxed(nccl::utility::loadConst(&extensionAt(handle, backend)->refusal), uint64_t(GINRS_REFUSAL(kind, id, count)));
  return false;
}
/* Are peer and ids the devcomm's? Without a branch; nobody is told. */
GINRS_DEVICE_FUNCTION bool areGiven(ncclDevComm const& comm, int worldPeer, Operation const& op, uint32_t flags) {
  return int(uint32_t(worldPeer) < uint32_t(comm.nRanks)) &
         (int(!op.hasSignal) | (int(op.signalId - comm.ginSignalBase < uint32_t(comm.ginSignalCount)) &
                                int(!isBarriers(comm, op.signalId - comm.ginSignalBase, flags)))) &
         (int(!op.hasCounter) | int(op.counterId - comm.ginCounterBase < uint32_t(comm.ginCounterCount)));
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
