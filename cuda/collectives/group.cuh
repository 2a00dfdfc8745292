/* Who moves messages: half of a block's threads send and half receive, or all do what there is to do; in a grid of two rows a row each. A
 * multiprocessor stores no more than some 15 GB/s over NVLink (docs/measured/collectives.md), so all of them send. */
#ifndef GINRS_COLLECTIVES_GROUP_CUH_
#define GINRS_COLLECTIVES_GROUP_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

/* Threads of a block that send, or receive, on channel blockIdx.x; a Coop (nccl_device/coop.h). */
struct Group {
  bool sends, alone; /* alone: nobody does the other */
  uint32_t threads;

  /* In a launch that has something to send, to receive, or both. */
  static __device__ __forceinline__ Group own(bool sends, bool receives) {
    if (gridDim.y == 2) return {blockIdx.y == 0, false, blockDim.x};
    if (!sends || !receives) return {sends, true, blockDim.x};
    return {threadIdx.x < blockDim.x / 2, false, blockDim.x / 2};
  }
  __device__ __forceinline__ uint32_t size() const { return threads; }
  __device__ __forceinline__ uint32_t thread_rank() const { return threadIdx.x < threads ? threadIdx.x : threadIdx.x - threads; }
  __device__ __forceinline__ Crew crew() const { return {thread_rank(), threads}; }
  __device__ __forceinline__ void sync() const {
    if (threads == blockDim.x) {
      __syncthreads();
    } else {
      ncclCoopWarpSpan(0, int(threads / 32), sends ? 0 : 1).sync();
    }
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
