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

}  // namespace coll
}  // namespace ginrs
#endif
