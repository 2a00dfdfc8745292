/* Who moves messages: half of a block's threads send and half receive, or all do what there is to do; where sums go on to others, a quarter
 * sends, half adds up and a quarter takes the results. In a grid of several rows each has a row. A multiprocessor stores no more than some
 * 15 GB/s over NVLink (docs/results/collectives.md), so all of them send. */
#ifndef GINRS_COLLECTIVES_GROUP_CUH_
#define GINRS_COLLECTIVES_GROUP_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

enum Role : uint32_t { kSends = 0, kReceives = 1, kGathers = 2 };

/* Threads of a block that have one role on channel blockIdx.x; a Coop (nccl_device/coop.h). */
struct Group {
  Role role;
  bool alone; /* all of the block, for nobody has to do anything else */
  uint32_t first, threads;

  /* In a launch that has something to send, to receive, or both. */
  static __device__ __forceinline__ Group own(bool sends, bool receives) {
    if (gridDim.y > 1) return row();
    if (!sends || !receives) return {sends ? kSends : kReceives, true, 0, blockDim.x};
    uint32_t const half = blockDim.x / 2;
    return threadIdx.x < half ? Group{kSends, false, 0, half} : Group{kReceives, false, half, half};
  }
  /* In one that has all three. The block's threads are a multiple of four warps. */
  static __device__ __forceinline__ Group ofThree() {
    if (gridDim.y > 1) return row();
    uint32_t const quarter = blockDim.x / 4;
    if (threadIdx.x < quarter) return {kSends, false, 0, quarter};
    if (threadIdx.x < 3 * quarter) return {kReceives, false, quarter, 2 * quarter};
    return {kGathers, false, 3 * quarter, quarter};
  }
  __device__ __forceinline__ bool sends() const { return role == kSends; }
  __device__ __forceinline__ uint32_t size() const { return threads; }
  __device__ __forceinline__ uint32_t thread_rank() const { return threadIdx.x - first; }
  __device__ __forceinline__ Crew crew() const { return {thread_rank(), threads}; }
  __device__ __forceinline__ void sync() const {
    if (threads == blockDim.x) {
      __syncthreads();
    } else {
      ncclCoopWarpSpan(int(first / 32), int(threads / 32), int(role)).sync();
    }
  }

 private:
  static __device__ __forceinline__ Group row() { return {Role(blockIdx.y), false, 0, blockDim.x}; }
};

}  // namespace coll
}  // namespace ginrs
#endif
