/* All-reduce in one LSA team on buffers that are in no window: what direct.cuh does, slice by slice on symmetric scratch. Each block has
 * scratch of its own and goes its own way through its slices:
 *
 *   copy the slice in | barrier | reduce the own part of it from all, write it to all | barrier | copy the results out
 *
 * The input's scratch is free again at the second barrier, the results' when this rank arrives at the next first one. */
#ifndef GINRS_COLLECTIVES_BUFFERED_CUH_
#define GINRS_COLLECTIVES_BUFFERED_CUH_
#include "direct.cuh"
#include "staged.cuh"

namespace ginrs {
namespace coll {

/* A place of a resource buffer in every rank of the LSA team. */
__device__ __forceinline__ Places resourcePlaces(ncclDevComm const& comm, ncclDevResourceHandle handle, uint64_t offset) {
  char* first = static_cast<char*>(ncclGetResourceBufferLsaPointer(comm, handle, 0)) + offset;
  if (comm.lsaSize == 1) return {first, 0};
  return {first, static_cast<char*>(ncclGetResourceBufferLsaPointer(comm, handle, 1)) + offset - first};
}

template <typename T>
__device__ __forceinline__ void allReduceBuffered(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t const total = work.count * sizeof(typename T::Stored);
  /* Parts of whole lines: whatever the caller's buffers are, all the scratch is aligned. */
  uint64_t const part = work.scratchBytes / n / 128 * 128, slice = part * n;
  Places const input = resourcePlaces(work.comm, work.scratch, uint64_t(blockIdx.x) * 2 * work.scratchBytes);
  Places const result = {input.first + work.scratchBytes, input.stride};
  char const* const from = static_cast<char const*>(work.send.at);
  char* const to = static_cast<char*>(work.recv.at);
  Operation<T> const op = Operation<T>::of(work);
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  for (uint64_t at = blockIdx.x * slice; at < total; at += gridDim.x * slice) {
    uint64_t const bytes = min(slice, total - at), first = min(self * part, bytes), own = min(part, bytes - first);
    if (op.isScaled()) {
      scale<T>(op, input.at(self), from + at, uint32_t(bytes));
    } else {
      copy(Crew::block(), input.at(self), from + at, bytes);
    }
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    reduceTo<T>(op, Crew::block(), own / sizeof(typename T::Stored), true, Sources{{input.first + first, input.stride}, self, n, nullptr},
                Places{result.first + first, result.stride}, self, n);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    copy(Crew::block(), to + at, result.at(self), bytes);
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
