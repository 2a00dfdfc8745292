/* How blocks divide bytes among themselves. */
#ifndef GINRS_COLLECTIVES_SHARE_CUH_
#define GINRS_COLLECTIVES_SHARE_CUH_
#include <stdint.h>

namespace ginrs {
namespace coll {

/* The share of one of several channels or blocks: contiguous, begins at a multiple of 256 bytes. */
struct Share {
  uint64_t begin, bytes;

  static __device__ __forceinline__ Share of(uint64_t bytes, uint32_t channels, uint32_t channel) {
    uint64_t const each = ((bytes + channels - 1) / channels + 255) / 256 * 256;
    uint64_t const begin = min(each * channel, bytes);
    return {begin, min(each, bytes - begin)};
  }
};

/* Of a broadcast that is passed on: a part for each rank but the root, and of each of them the share of one channel or block. */
struct Passed {
  uint64_t bytes, each;
  int n, root;
  uint32_t channels, channel;

  static __device__ __forceinline__ Passed of(uint64_t bytes, int n, uint32_t root, uint32_t channels, uint32_t channel) {
    uint64_t const others = uint64_t(n) - 1;
    return {bytes, ((bytes + others - 1) / others + 255) / 256 * 256, n, int(root), channels, channel};
  }
  __device__ __forceinline__ bool isRoot(int rank) const { return rank == root; }
  /* What of `rank`'s share is to go when `done` of it has gone, `most` at a time: none of it when it has ended. */
  __device__ __forceinline__ Share step(int rank, uint64_t done, uint64_t most) const {
    uint64_t const first = min(uint64_t(rank - (rank > root)) * each, bytes);
    Share const all = Share::of(min(each, bytes - first), channels, channel);
    if (done >= all.bytes) return {0, 0};
    uint64_t const left = all.bytes - done;
    return {first + all.begin + done, left < most ? left : most};
  }
  /* Of all shares: of a shorter part the last channels may have more than of a whole one. */
  __device__ __forceinline__ uint64_t longest() const {
    uint64_t const last = min(uint64_t(n - 2) * each, bytes);
    return max(Share::of(min(each, bytes), channels, channel).bytes, Share::of(bytes - last, channels, channel).bytes);
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
