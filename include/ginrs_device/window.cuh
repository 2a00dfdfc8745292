/* What stands behind a window (marker.h), and what is told of one that only pointers are taken of. A pointer one past the end is lawful, so
 * is one into another communicator's window; a NULL window has none, nor one that was deregistered. One for a rank that the LSA team does not have is told when it is touched. On a GPU nobody looks. */
#ifndef GINRS_DEVICE_WINDOW_CUH_
#define GINRS_DEVICE_WINDOW_CUH_
#include "../nccl_device/impl/comm__types.h"
#include "call.cuh"
#include "gin/abort.cuh"
#include "marker.h"
#include "trap.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {

NCCL_DEVICE_INLINE ginrsWindowExt const* extensionOf(ncclWindow_t window) {
  return reinterpret_cast<ginrsWindowExt const*>(reinterpret_cast<char const*>(window) + GINRS_WINDOW_EXT_OFFSET);
}

#ifdef __GINRS_CPU__
/* Prints once for each kernel, with the line of the call. */
template <typename... Args>
NCCL_DEVICE_INLINE void tellRefusal(char const* format, Args... args) {
  char text[192];
  __builtin_snprintf(text, sizeof text, format, args...);
  ginrs_cpu_refused(text);
}
/* " (the 2nd that was registered)", or nothing of a window that the library has made. */
struct WindowName {
  char text[64];
  NCCL_DEVICE_INLINE explicit WindowName(ncclWindow_t window) : text{} {
    uint64_t const number = nccl::utility::loadConst(&extensionOf(window)->number);
    char const* const ends[] = {"th", "st", "nd", "rd"};
    bool const isTeen = number / 10 % 10 == 1;
    char const* const end = number % 10 < 4 && !isTeen ? ends[number % 10] : ends[0];
    if (number != 0) __builtin_snprintf(text, sizeof text, " (the %llu%s that was registered)", (unsigned long long)number, end);
  }
};
#define GINRS_WINDOW_POINTER(what, window, offset) ::ginrs::checkPointer(what, window, offset GINRS_CALLER_PASSED)
#define GINRS_LSA_POINTER(what, peer, window, lsaPeer, address) ::ginrs::checkRank(what, peer, window, lsaPeer, address GINRS_CALLER_PASSED)
__attribute__((noinline, cold, unused)) static void tellPointer(char const* what, ncclWindow_t window, size_t offset GINRS_CALLER) {
  GINRS_CALL(WINDOW, 0, 0);
  if (window == nullptr) GINRS_TRAP("a pointer into a window: the window is NULL | fix: register it");
  if (nccl::utility::loadConst(&window->lsaFlatBase) == nullptr) {
    GINRS_TRAP("a pointer into a window: the window was deregistered | fix: deregister it when no kernel uses it any more");
  }
  tellRefusal("%s: offset %zd, but the window has %zu bytes%s", what, offset, size_t(extensionOf(window)->bytes), WindowName(window).text);
}
NCCL_DEVICE_INLINE void checkPointer(char const* what, ncclWindow_t window, size_t offset GINRS_CALLER) {
  using nccl::utility::loadConst;
  if (window != nullptr && loadConst(&window->lsaFlatBase) != nullptr) {
    if (loadConst(&window->ginrsMark) != GINRS_MARK_WINDOW_CPU || offset <= loadConst(&extensionOf(window)->bytes)) return;
  }
  tellPointer(what, window, offset GINRS_CALLER_PASSED);
}
/* `address` is in what LSA rank `lsaPeer` has of the window, or would have: `peer`, as the program calls it. */
NCCL_DEVICE_INLINE char* checkRank(char const* what, int peer, ncclWindow_t window, int lsaPeer, char* address GINRS_CALLER) {
  using nccl::utility::loadConst;
  ginrsWindowExt const* const ext = extensionOf(window);
  if (loadConst(&window->ginrsMark) != GINRS_MARK_WINDOW_CPU || loadConst(&ext->table) == nullptr) return address;
  auto const* comm = reinterpret_cast<ginrsCommExt const*>(static_cast<char const*>(loadConst(&ext->table)) + GINRS_COMM_EXT_OFFSET);
  if (loadConst(&comm->version) < 4 || uint32_t(lsaPeer) < loadConst(&comm->lsaSize)) return address;
  int64_t const stride = int64_t(loadConst(&window->stride4G)) << 32;
  char* const begin = loadConst(&window->lsaFlatBase) + lsaPeer * stride;
  ginrs_cpu_no_rank(what, peer, int(loadConst(&comm->lsaSize)), begin, size_t(loadConst(&ext->bytes)), ginrsFile, ginrsLine);
  return address;
}
/* Of a devcomm that was destroyed the memory is another's, or nobody's; its resource window's struct stays, zeroed, or is another one's:
 * no two have one winHost. */
NCCL_DEVICE_INLINE bool isDestroyed(ncclDevComm const& comm) {
  using nccl::utility::loadConst;
  return comm.resourceWindow != nullptr && loadConst(&comm.resourceWindow->winHost) != comm.resourceWindow_inlined.winHost;
}
#define GINRS_DESTROYED "the device communicator was destroyed | fix: destroy it when no kernel uses it any more"
/* Does the kernel run on another device than the communicator's? A GPU has no access to the memory behind it then. */
NCCL_DEVICE_INLINE bool isElsewhere(ncclDevComm const& comm) {
  ginrsCommExt const* const ext = extensionOf(comm);
  uint32_t const device = ext == nullptr ? 0 : nccl::utility::loadConst(&ext->device);
  return device != 0 && device - 1 != uint32_t(ginrs_cpu_self->device);
}
#define GINRS_DEVCOMM_STANDS(comm) \
  (::ginrs::isDestroyed(comm) || ::ginrs::isElsewhere(comm) ? ::ginrs::endUnusable(comm, ginrsFile, ginrsLine) : (void)0)
__attribute__((noinline, cold, unused)) static void endUnusable(ncclDevComm const& comm GINRS_CALLER) {
  GINRS_CALL(WINDOW, 0, 0);
  if (isDestroyed(comm)) GINRS_TRAP(GINRS_DESTROYED);
  char text[192];
  __builtin_snprintf(text, sizeof text,
                     "the device communicator is of device %d, and the kernel runs on device %d | fix: cudaSetDevice before the launch, and a stream of that device",
                     int(extensionOf(comm)->device) - 1, int(ginrs_cpu_self->device));
  GINRS_TRAP(text);
}
#else
#define GINRS_DEVCOMM_STANDS(comm) ((void)0)
#define GINRS_WINDOW_POINTER(what, window, offset) ((void)0)
#define GINRS_LSA_POINTER(what, peer, window, lsaPeer, address) (address)
#endif

}  // namespace ginrs
#endif
#endif
