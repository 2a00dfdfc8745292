/* Collectives of one group side by side in one launch: a block makes out which of them is its own, and goes on as if that were alone. Blocks that share a call
 * have the channels, boards and barriers of their numbers in the launch (move.cuh). */
#ifndef GINRS_COLLECTIVES_SEVERAL_CUH_
#define GINRS_COLLECTIVES_SEVERAL_CUH_
#include "ll.cuh"
#include "mapped.cuh"

namespace ginrs {
namespace coll {

/* Calls run(work) with the block's own call, as a launch of it alone would have it. */
template <typename Run>
__device__ __forceinline__ void ownOf(ginrsSeveralWork const& several, Run const& run) {
  __shared__ ginrsMappedWork own;
  static_assert(sizeof own.coll % sizeof(uint64_t) == 0, "copied by words");
  uint32_t number = 0;
  while (number + 1 < several.nItems && blockIdx.x >= several.items[number + 1].first) number++;
  ginrsSeveralItem const& item = several.items[number];
  uint64_t const* const common = reinterpret_cast<uint64_t const*>(&several.common);
  for (uint32_t i = threadIdx.x; i < sizeof own.coll / sizeof *common; i += blockDim.x) reinterpret_cast<uint64_t*>(&own.coll)[i] = common[i];
  __syncthreads();
  ginrsCollWork& coll = own.coll;
  if (threadIdx.x == 0) {
    coll.send.at = item.send;
    coll.recv.at = item.recv;
    coll.count = item.count;
    coll.scalar = item.scalar;
    coll.scalarAt = item.scalarAt;
    coll.eltBytes = item.eltBytes;
    coll.kind = item.kind;
    coll.how = item.how;
    coll.op = item.op;
    coll.root = item.root;
    coll.blocks = item.blocks;
    coll.first = item.first;
    own.board = several.board;
  }
  int const n = several.common.comm.lsaSize;
  if (item.how == GINRS_COLL_MAPPED) {
    uint64_t const* const places = several.places + uint64_t(2) * n * number;
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
      own.send[k] = places[k];
      own.recv[k] = places[n + k];
    }
  }
  __syncthreads();
  run(own);
}

__device__ __forceinline__ void copyingSeveral(ginrsSeveralWork const& several) {
  ownOf(several, [](ginrsMappedWork const& work) { work.coll.how == GINRS_COLL_MAPPED ? copyingMapped(work) : copyingStaged(work.coll); });
}

template <typename T>
__device__ __forceinline__ void reducingSeveral(ginrsSeveralWork const& several) {
  ownOf(several, [](ginrsMappedWork const& work) { work.coll.how == GINRS_COLL_MAPPED ? reducingMapped<T>(work) : reducingByMessages<T>(work.coll); });
}

__device__ __forceinline__ void copyingSeveralLL(ginrsSeveralWork const& several) {
  ownOf(several, [](ginrsMappedWork const& work) { copyingLL(work.coll); });
}

template <typename T>
__device__ __forceinline__ void reducingSeveralLL(ginrsSeveralWork const& several) {
  ownOf(several, [](ginrsMappedWork const& work) { reducingLL<T>(work.coll); });
}

}  // namespace coll
}  // namespace ginrs
#endif
