/* Collectives of one group side by side in one launch: a block makes out which of them is its own, and goes on as if that were alone. Blocks that share a call
 * have the channels, boards and barriers of their numbers in the launch (move.cuh). */
#ifndef GINRS_COLLECTIVES_SEVERAL_CUH_
#define GINRS_COLLECTIVES_SEVERAL_CUH_
#include "ll.cuh"
#include "sums.cuh"

namespace ginrs {
namespace coll {

/* A call, as a launch of it alone would have it, to where no thread reads. */
__device__ __forceinline__ void take(ginrsSeveralWork const& several, uint32_t number, ginrsMappedWork& own) {
  static_assert(sizeof own.coll % sizeof(uint64_t) == 0, "copied by words");
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
}

/* The block's own. */
__device__ __forceinline__ void takeOwn(ginrsSeveralWork const& several, ginrsMappedWork& own) {
  uint32_t number = 0;
  while (number + 1 < several.nItems && blockIdx.x >= several.items[number + 1].first) number++;
  take(several, number, own);
}

/* Reductions, one for each rank as root, are a reduce-scatter of uneven parts: all blocks make this rank's own. Side by side, half of a pair's blocks have
 * nothing to do, for they are the other root's. Returns which call it is. */
__device__ __forceinline__ uint64_t takeForEach(ginrsSeveralWork const& several, ginrsMappedWork& own) {
  int const n = several.common.comm.lsaSize, self = several.common.comm.lsaRank;
  uint32_t number = 0;
  uint64_t bytes = 0; /* also of whose part they are: counts that were swapped are other calls */
  for (uint32_t i = 0; i < several.nItems; i++) {
    ginrsSeveralItem const& item = several.items[i];
    if (item.root == uint32_t(self)) number = i;
    bytes += item.count * item.eltBytes * (item.root + 1);
  }
  take(several, number, own);
  for (uint32_t i = threadIdx.x; i < several.nItems; i += blockDim.x) {
    uint32_t const root = several.items[i].root;
    own.send[root] = several.places[uint64_t(2) * n * i + root];
  }
  if (threadIdx.x == 0) {
    own.coll.kind = GINRS_COLL_REDUCE_FOR_EACH;
    own.coll.first = 0;
    own.coll.blocks = gridDim.x;
  }
  __syncthreads();
  return headerOf(GINRS_COLL_REDUCE_FOR_EACH, bytes);
}

__device__ __forceinline__ void copyingSeveral(ginrsSeveralWork const& several) {
  __shared__ ginrsMappedWork own;
  takeOwn(several, own);
  copying(own);
}

template <typename T>
__device__ __forceinline__ void reducingSeveral(ginrsSeveralWork const& several) {
  __shared__ ginrsMappedWork own;
  uint64_t call;
  if (several.isForEach) {
    call = takeForEach(several, own);
  } else {
    takeOwn(several, own);
    call = callOf(own.coll);
  }
  reducing<T>(own, call, [&] {
    if (several.isForEach) takeOwn(several, own);
  });
}

__device__ __forceinline__ void copyingSeveralLL(ginrsSeveralWork const& several) {
  __shared__ ginrsMappedWork own;
  takeOwn(several, own);
  copyingLL(own.coll);
}

template <typename T>
__device__ __forceinline__ void reducingSeveralLL(ginrsSeveralWork const& several) {
  __shared__ ginrsMappedWork own;
  takeOwn(several, own);
  reducingLL<T>(own.coll);
}

}  // namespace coll
}  // namespace ginrs
#endif
