/* Bodies of ../core.h: arithmetic of teams, and pointers into windows. */
#ifndef _NCCL_DEVICE_CORE__FUNCS_H_
#define _NCCL_DEVICE_CORE__FUNCS_H_
#include "../../ginrs_device/window.cuh"
#include "comm__types.h"
#include "core__types.h"
#include "ptr__types.h"

/* ---- Teams. C, too. ---- */

NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int bPeer) {
  int distance = (bPeer - b.rank) * b.stride; /* in world ranks, from the caller */
  if (distance == 0) return true;             /* the caller is in every team, also in those of stride 0 */
  if (a.stride == 0 || distance % a.stride != 0) return false;
  int rank = a.rank + distance / a.stride;
  return 0 <= rank && rank < a.nRanks;
}
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int bPeer) {
  int distance = (bPeer - b.rank) * b.stride;
  return distance == 0 ? a.rank : a.rank + distance / a.stride;
}
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamInnerFactor(ncclTeam_t parent, int innerSize) {
  ncclTeam_t team = {innerSize, parent.rank % innerSize, parent.stride};
  return team;
}
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamOuterFactor(ncclTeam_t parent, int innerSize) {
  ncclTeam_t team = {parent.nRanks / innerSize, parent.rank / innerSize, parent.stride * innerSize};
  return team;
}
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE int ncclTeamRankInDifference(ncclTeam_t parent, ncclTeam_t subset, int index) {
  /* In parent ranks, subset is first, first + step, ..., ascending. */
  int step = subset.nRanks < 2 ? 1 : subset.stride / parent.stride;
  int first = parent.rank - subset.rank * step;
  if (step < 0) {
    first += (subset.nRanks - 1) * step;
    step = -step;
  }
  if (index < first) return index; /* below subset */
  /* Each of subset's nRanks - 1 gaps has step - 1 ranks; what is left over lies above it. */
  int inGaps = (subset.nRanks - 1) * (step - 1);
  int i = index - first;
  if (i >= inGaps) return index + subset.nRanks;
  return index + 1 + i / (step - 1);
}
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t handle) {
  return (size_t)handle * 128;
}

#ifdef __cplusplus
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamWorld(ncclDevComm const& comm) {
  return ncclTeam{comm.nRanks, comm.rank, 1};
}
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamLsa(ncclDevComm const& comm) {
  return ncclTeam{comm.lsaSize, comm.lsaRank, 1};
}
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamRail(ncclDevComm const& comm) {
  using nccl::utility::idivFast32;
  uint32_t size = uint32_t(comm.lsaSize), rcp = comm.lsaSize_rcp32;
  return ncclTeam{int(idivFast32(uint32_t(comm.nRanks), size, rcp)), int(idivFast32(uint32_t(comm.rank), size, rcp)),
                  comm.lsaSize};
}
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToWorld(ncclDevComm const& comm, ncclTeam team, int rank) {
  return comm.rank + (rank - team.rank) * team.stride;
}
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToLsa(ncclDevComm const& comm, ncclTeam team, int rank) {
  return comm.lsaRank + (rank - team.rank) * team.stride;
}

#if NCCL_CHECK_CUDACC
/* ---- Windows. Their fields are constant while a kernel runs. ---- */

namespace ginrs {
/* The address of `offset` in the memory of LSA rank `lsaPeer`. */
NCCL_DEVICE_INLINE char* flatAddress(ncclWindow_t window, int lsaPeer, size_t offset) {
  using nccl::utility::loadConst;
  return nccl::utility::add4G(loadConst(&window->lsaFlatBase), lsaPeer * int(loadConst(&window->stride4G))) + offset;
}
NCCL_DEVICE_INLINE char* resourceAddress(ncclDevComm const& comm, int lsaPeer, ncclDevResourceHandle handle) {
  ncclWindow_vidmem const& window = comm.resourceWindow_inlined;
  return nccl::utility::add4G(window.lsaFlatBase, lsaPeer * int(window.stride4G)) + ncclGetResourceBufferOffset(handle);
}
}  // namespace ginrs

NCCL_DEVICE_INLINE void* ncclGetLocalPointer(ncclWindow_t window, size_t offset GINRS_CALLER) {
  GINRS_WINDOW_POINTER("ncclGetLocalPointer", window, offset);
  return ginrs::flatAddress(window, nccl::utility::loadConst(&window->lsaRank), offset);
}
NCCL_DEVICE_INLINE void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int lsaPeer GINRS_CALLER) {
  GINRS_WINDOW_POINTER("ncclGetLsaPointer", window, offset);
  return GINRS_LSA_POINTER("ncclGetLsaPointer", lsaPeer, window, lsaPeer, ginrs::flatAddress(window, lsaPeer, offset));
}
NCCL_DEVICE_INLINE void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int worldPeer GINRS_CALLER) {
  GINRS_WINDOW_POINTER("ncclGetPeerPointer", window, offset);
  using nccl::utility::loadConst;
  int lsaPeer = loadConst(&window->lsaRank) + (worldPeer - loadConst(&window->worldRank));
  return GINRS_LSA_POINTER("ncclGetPeerPointer", worldPeer, window, lsaPeer, ginrs::flatAddress(window, lsaPeer, offset));
}
NCCL_DEVICE_INLINE void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, ncclTeam team, int peer GINRS_CALLER) {
  GINRS_WINDOW_POINTER("ncclGetPeerPointer", window, offset);
  int lsaPeer = nccl::utility::loadConst(&window->lsaRank) + (peer - team.rank) * team.stride;
  return GINRS_LSA_POINTER("ncclGetPeerPointer", peer, window, lsaPeer, ginrs::flatAddress(window, lsaPeer, offset));
}
NCCL_DEVICE_INLINE void* ncclGetMultimemPointer(ncclWindow_t window, size_t offset, ncclMultimemHandle multimem) {
  size_t start = size_t(nccl::utility::loadConst(&window->mcOffset4K)) * 4096;
  return static_cast<char*>(multimem.mcBasePtr) + start + offset;
}
NCCL_DEVICE_INLINE void* ncclGetLsaMultimemPointer(ncclWindow_t window, size_t offset, ncclDevComm const& comm) {
  return ncclGetMultimemPointer(window, offset, comm.lsaMultimem);
}

/* Every thread walks the whole table: the loads are the same across a warp, and no lane waits for another, so groups of
 * any shape may call. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclWindow_t ncclFindWindow(Coop, ncclDevComm const& comm, void const* ptr) {
  uintptr_t address = reinterpret_cast<uintptr_t>(ptr);
  ncclDevCommWindowTable const* page = comm.windowTable;
  while (page != nullptr) {
    for (int i = 0; i < 32; i++) {
      ncclDevCommWindowTable::Entry entry = nccl::utility::loadConst(&page->entries[i]);
      if (entry.base != 0 && entry.window != nullptr && address - entry.base < entry.size) return entry.window;
    }
    page = nccl::utility::loadConst(&page->next);
  }
  return nullptr;
}

NCCL_DEVICE_INLINE void* ncclGetResourceBufferLocalPointer(ncclDevComm const& comm, ncclDevResourceHandle handle) {
  return ginrs::resourceAddress(comm, comm.lsaRank, handle);
}
NCCL_DEVICE_INLINE void* ncclGetResourceBufferLsaPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                         int lsaPeer) {
  return ginrs::resourceAddress(comm, lsaPeer, handle);
}
NCCL_DEVICE_INLINE void* ncclGetResourceBufferPeerPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                          ncclTeam team, int peer) {
  return ginrs::resourceAddress(comm, ncclTeamRankToLsa(comm, team, peer), handle);
}
NCCL_DEVICE_INLINE void* ncclGetResourceBufferMultimemPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                              ncclMultimemHandle multimem) {
  size_t start = size_t(comm.resourceWindow_inlined.mcOffset4K) * 4096;
  return static_cast<char*>(multimem.mcBasePtr) + start + ncclGetResourceBufferOffset(handle);
}
NCCL_DEVICE_INLINE void* ncclGetResourceBufferLsaMultimemPointer(ncclDevComm const& comm,
                                                                 ncclDevResourceHandle handle) {
  return ncclGetResourceBufferMultimemPointer(comm, handle, comm.lsaMultimem);
}
NCCL_DEVICE_INLINE ncclSymPtr<char> ncclGetResourceBuffer(ncclDevComm const& comm, ncclDevResourceHandle handle) {
  return ncclSymPtr<char>(comm.resourceWindow, ncclGetResourceBufferOffset(handle));
}
#endif
#endif
#endif
