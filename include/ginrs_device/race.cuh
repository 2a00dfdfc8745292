/* What the race detector of the CPU device is told of GIN (ginrs-cc --check=race): who posts what, who has seen a word or a flush. Empty
 * without it. */
#ifndef GINRS_DEVICE_RACE_CUH_
#define GINRS_DEVICE_RACE_CUH_
#include "../nccl_device/impl/core__funcs.h"
#include "call.cuh"
#include "gin/descriptor.cuh"
#include "marker.h"
#if NCCL_CHECK_CUDACC && defined(__GINRS_RACE__)
#include <ginrs_cpu/race.h>

namespace ginrs {
namespace race {
/* The windows that a kernel may name, once for each of its threads that makes a session. */
NCCL_DEVICE_INLINE void know(ncclDevComm const& comm) {
  for (ncclDevCommWindowTable const* page = comm.windowTable; page != nullptr; page = page->next) {
    for (int i = 0; i < 32; i++) {
      ncclDevCommWindowTable::Entry const& entry = page->entries[i];
      if (entry.base == 0 || entry.window == nullptr) continue;
      ncclWindow_vidmem const& window = *entry.window;
      ginrsCpuRaceWindow const told = {entry.base, entry.size, reinterpret_cast<uintptr_t>(window.lsaFlatBase),
                                       uint64_t(window.stride4G) << 32, comm.rank, comm.lsaRank, comm.lsaSize};
      ginrs_cpu_race_window(&told);
    }
  }
}

NCCL_DEVICE_INLINE void const* sourceOf(ncclDevComm const& comm, ncclWindow_t window, size_t offset, size_t bytes) {
  return bytes == 0 ? nullptr : flatAddress(window, comm.lsaRank, offset);
}
/* Where a put lands. Beyond the LSA team memory has no address here; the detector may know it. */
struct Target {
  void const* at;
  uint64_t window, offset;
};
NCCL_DEVICE_INLINE Target targetOf(ncclDevComm const& comm, uint32_t context, int worldPeer, ncclWindow_t window, size_t offset, size_t bytes) {
  int const lsaPeer = comm.lsaRank + (worldPeer - comm.rank);
  if (bytes == 0) return {nullptr, 0, 0};
  if (lsaPeer >= 0 && lsaPeer < comm.lsaSize) return {flatAddress(window, lsaPeer, offset), 0, 0};
  return {nullptr, reinterpret_cast<uint64_t>(nccl::utility::loadConst(&window->ginWins[context])), offset};
}

/* Which signal is raised, and how. */
NCCL_DEVICE_INLINE int64_t signalOf(ncclDevComm const& comm, gin::Operation const& op) {
  if (!op.hasSignal) return -1;
  uint64_t const how = op.signalOp == ncclGinSignalAdd ? GINRS_CPU_RACE_ADD : GINRS_CPU_RACE_INC;
  return int64_t(uint64_t((op.signalId - comm.ginSignalBase) & 0xffff) << 34 | how << 32 | op.signalId);
}
/* By the thread that posts, before it does. */
NCCL_DEVICE_INLINE void post(ncclDevComm const& comm, uint32_t context, int worldPeer, void const* source, Target target,
                             size_t bytes, gin::Operation const& op, const char* file, int line) {
  ginrsCpuRacePut const put = {file, line, comm.rank, worldPeer, context, comm.windowTable, source, target.at, target.window, target.offset, bytes,
                               signalOf(comm, op), op.hasCounter ? int64_t(op.counterId) : -1,
                               op.addend()};
  ginrs_cpu_race_put(&put);
}
/* By each thread behind a wait, or a read. */
NCCL_DEVICE_INLINE void seen(ncclDevComm const& comm, int kind, uint32_t context, uint32_t id, uint64_t value, int bits, cuda::memory_order order) {
  if (nccl::utility::acquireOrderOf(order) == cuda::memory_order_relaxed) ginrs_cpu_race_relaxed();
  ginrs_cpu_race_seen(kind, comm.windowTable, comm.rank, context, id, value, bits);
}
/* By the thread that has made it zero. */
NCCL_DEVICE_INLINE void reset(ncclDevComm const& comm, int kind, uint32_t context, uint32_t id, uint32_t number, const char* file, int line) {
  ginrsCpuRaceReset const reset = {file, line, kind, comm.rank, context, id, number, comm.windowTable};
  ginrs_cpu_race_reset(&reset);
}
}  // namespace race
}  // namespace ginrs
#endif
#endif
