/* The courier: a block that stays on the GPU for a while, looks for small copies in a ring in host memory, and makes them: a copy engine takes some
 * 10 us for the smallest. The host's half, with the protocol and its argument, is src/device/courier. */
#ifndef GINRS_COURIER_CUH_
#define GINRS_COURIER_CUH_
#include "nccl_device.h"
#include "ginrs_device/gin/copy.cuh"

/* The parameter of the kernel. */
struct ginrsCourierWork {
  uint64_t* words; /* in host memory, zero at first: see below */
  uint64_t* slots; /* the same, of a ring */
  uint64_t first;  /* number of the first command that this launch carries out */
  uint64_t launch; /* 1, 2, .. */
  uint64_t idle;   /* it ends when it has found nothing for so many nanoseconds */
  uint64_t life;   /* and when it is so old; with commands before it, at twice that */
};
static_assert(sizeof(ginrsCourierWork) == 48, "src/device/courier/ring.rs");

#define GINRS_COURIER_SLOTS 512
/* Words that the kernel writes, a line each: the launch that has begun; commands done, of all launches; the launch that has ended, twice, and one more if
 * that was for its age. */
#define GINRS_COURIER_BEGUN 0
#define GINRS_COURIER_DONE 8
#define GINRS_COURIER_ENDED 16

/* Command c stands in slot c % GINRS_COURIER_SLOTS. It is four words, each with the command's round in its lowest 16 bits: they are written one by one and read
 * together, and each says itself whether it has been written. What stands above the round is: where from, or a value's lower half; where to; bytes, and
 * what it is; a value's upper half. */
#define GINRS_COURIER_WORDS 4
#define GINRS_COURIER_COPY 0
#define GINRS_COURIER_VALUE 1
#define GINRS_COURIER_STOP 2

namespace ginrs {
namespace courier {

/* Commands that one look finds: a lane for each word. */
constexpr uint32_t kGroup = 32 / GINRS_COURIER_WORDS;
/* Bytes up to which a warp copies alone, so that others make other copies meanwhile. */
constexpr uint32_t kAlone = 1024;

__device__ __forceinline__ uint64_t nanoseconds() {
#ifdef __GINRS_CPU__
  return __globaltimer();
#else
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#endif
}

/* Commands from `next` on that stand in the ring, and their words without rounds. Of warp 0, all of it. */
__device__ __forceinline__ uint32_t find(uint64_t* slots, uint64_t next, uint64_t* group) {
  uint32_t const lane = threadIdx.x % 32;
  uint64_t const command = next + lane / GINRS_COURIER_WORDS, round = (command / GINRS_COURIER_SLOTS + 1) & 0xffff;
  uint64_t const word = look(slots + command % GINRS_COURIER_SLOTS * GINRS_COURIER_WORDS + lane % GINRS_COURIER_WORDS, cuda::memory_order_acquire);
  uint32_t const there = __ballot_sync(0xffffffffu, (word & 0xffff) == round);
  uint32_t const whole = there & there >> 1 & there >> 2 & there >> 3 & 0x11111111u, missing = ~whole & 0x11111111u;
  uint32_t const found = missing == 0 ? kGroup : uint32_t(__ffs(int(missing)) - 1) / GINRS_COURIER_WORDS;
  if (found > 0) settle(cuda::memory_order_acquire);
  group[lane] = word >> 16;
  return found;
}

/* By the whole block. Small ones go at the same time, by a warp each. */
__device__ __forceinline__ void carry(uint64_t const* group, uint32_t found) {
  uint32_t const warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  for (uint32_t c = 0; c < found; c++) {
    uint64_t const* const words = group + c * GINRS_COURIER_WORDS;
    char* const to = reinterpret_cast<char*>(words[1]);
    char const* const from = reinterpret_cast<char const*>(words[0]);
    uint32_t const bytes = uint32_t(words[2] >> 2), what = uint32_t(words[2] & 3);
    bool const own = c % warps == warp;
    if (what == GINRS_COURIER_VALUE) {
      if (own && lane == 0) gin::storeBits(to, words[0] | words[3] << 32, bytes);
    } else if (bytes > kAlone) {
      gin::copyBytes(to, from, bytes, int(threadIdx.x), int(blockDim.x));
    } else if (own && bytes > 0) {
      gin::copyBytes(to, from, bytes, int(lane), 32);
    }
  }
}

enum Verdict : uint32_t { kGoOn, kStop, kAged };

/* One block of whole warps. */
__device__ __forceinline__ void deliver(ginrsCourierWork const& work) {
  __shared__ uint64_t group[32];
  __shared__ uint32_t foundHere, verdictHere;
  uint64_t next = work.first;
  uint64_t const born = nanoseconds();
  uint64_t last = born;
  uint32_t verdict = kGoOn;
  if (threadIdx.x == 0) storeRelaxed(work.words + GINRS_COURIER_BEGUN, work.launch);
  while (verdict == kGoOn) {
    if (threadIdx.x < 32) {
      uint32_t const found = find(work.slots, next, group);
      __syncwarp();
      if (threadIdx.x == 0) {
        uint64_t const now = nanoseconds();
        if (found > 0) last = now;
        if (now - last > work.idle) verdict = kStop;
        if (now - born > (found > 0 ? 2 : 1) * work.life) verdict = kAged;
        for (uint32_t c = 0; c < found; c++) {
          if ((group[c * GINRS_COURIER_WORDS + 2] & 3) == GINRS_COURIER_STOP) verdict = kStop;
        }
        foundHere = found;
        verdictHere = verdict;
      }
    }
    __syncthreads(); /* what warp 0 has acquired is everybody's */
    uint32_t const found = foundHere;
    verdict = verdictHere;
    carry(group, found);
    __syncthreads(); /* all have stored, and nobody reads the group any more */
    next += found;
    if (found > 0 && threadIdx.x == 0) {
      fenceRelease<cuda::thread_scope_system>(); /* of what the others have stored, too: the barrier has put it before */
      storeRelaxed(work.words + GINRS_COURIER_DONE, next);
    }
  }
  if (threadIdx.x == 0) {
    fenceRelease<cuda::thread_scope_system>();
    storeRelaxed(work.words + GINRS_COURIER_ENDED, 2 * work.launch + (verdict == kAged ? 1 : 0));
  }
}

}  // namespace courier
}  // namespace ginrs

extern "C" __global__ void __launch_bounds__(256, 1) ginrs_courier(__grid_constant__ const ginrsCourierWork work) { ginrs::courier::deliver(work); }
#endif
