/* Moving bytes by all threads of a call: from one place to one, or to the same offset of every rank. */
#ifndef GINRS_COLLECTIVES_MOVE_CUH_
#define GINRS_COLLECTIVES_MOVE_CUH_
#include "share.cuh"
#include "types.cuh"

namespace ginrs {
namespace coll {

/* Which of the launch's blocks this is, in one row or several: it meets those of that number of other ranks. */
__device__ __forceinline__ uint32_t meetingNumber() { return blockIdx.x + gridDim.x * blockIdx.y; }

/* Of the blocks of a call, in its row or in all of them. The launch may have others, for other calls (several.cuh). */
__device__ __forceinline__ uint32_t ownColumn(ginrsCollWork const& work) { return blockIdx.x - work.first; }
__device__ __forceinline__ uint32_t ownBlock(ginrsCollWork const& work) { return ownColumn(work) + work.blocks * blockIdx.y; }
__device__ __forceinline__ uint32_t allBlocks(ginrsCollWork const& work) { return work.blocks * gridDim.y; }

/* Threads that share a loop, and which of them this is. */
struct Crew {
  uint64_t worker, workers;

  /* All that the call has. */
  static __device__ __forceinline__ Crew of(ginrsCollWork const& work) {
    return {threadIdx.x + uint64_t(blockDim.x) * ownBlock(work), uint64_t(blockDim.x) * allBlocks(work)};
  }
  static __device__ __forceinline__ Crew block() { return {threadIdx.x, blockDim.x}; }
};

/* One place of a symmetric buffer in every rank of the LSA team: a constant distance from rank to rank. */
struct Places {
  char* first;
  int64_t stride;

  static __device__ __forceinline__ Places of(ncclDevComm const& comm, ginrsCollBuffer const& buffer, uint64_t offset = 0) {
    char* first = static_cast<char*>(ncclGetLsaPointer(buffer.window, buffer.offset + offset, 0));
    if (comm.lsaSize == 1) return {first, 0};
    return {first, static_cast<char*>(ncclGetLsaPointer(buffer.window, buffer.offset + offset, 1)) - first};
  }
  __device__ __forceinline__ char* at(int rank) const { return first + rank * stride; }
  /* The k-th of n ranks, from `self` upwards. Of another name than those that call it, which ginrs-cc else takes for recursive ones, and leaves calls. */
  __device__ __forceinline__ char* from(int self, int k, int n) const;
  __device__ __forceinline__ Places ahead(uint64_t by) const { return {first + by, stride}; }
};

/* (self + step) mod n: every rank starts elsewhere, so that no rank is all others' first. */
__device__ __forceinline__ int turn(int self, int step, int n) {
  int rank = self + step;
  return rank < n ? rank : rank - n;
}

__device__ __forceinline__ char* Places::from(int self, int k, int n) const { return at(turn(self, k, n)); }

/* Where results go: that place of n ranks, from the own one upwards, and one more, or none. */
struct Targets {
  Places places;
  int self, n;
  char* more;

  static __device__ __forceinline__ Targets one(char* to) { return {{to, 0}, 0, 1, nullptr}; }
  __device__ __forceinline__ int count() const { return n + (more != nullptr); }
  __device__ __forceinline__ char* at(int k) const { return k < n ? places.from(self, k, n) : more; }
};

/* The widest word in which two addresses can both be walked: they are equal modulo its size. */
__device__ __forceinline__ int commonWord(uint64_t a, uint64_t b) {
  uint64_t different = (a ^ b) | 16;
  return int(different & (0 - different));
}

#ifndef __GINRS_CPU__
/* The 16 bytes that begin `skew` bytes after the start of `low`, which `high` follows. */
__device__ __forceinline__ uint4 shifted(uint4 const& low, uint4 const& high, uint32_t skew) {
  uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int by = 2; by > 0; by /= 2) {
#pragma unroll
    for (int i = 0; i + by < 8; i++) w[i] = skew & (4 * by) ? w[i + by] : w[i];
  }
  uint32_t const bits = skew % 4 * 8;
  return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits), __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits)};
}

/* Copies words [0, n) to target(k) for k < targets. The first one begins `skew` bytes after `in`. U
 * words are in flight, also at the end: a small copy is one round of loads. */
template <int U, bool isSkewed, typename Target>
__device__ __forceinline__ void copyWords(Crew crew, uint4 const* in, uint32_t skew, uint64_t n, int targets, Target target) {
  /* Outside of the loop, which has stores that the compiler takes for changes of the list. */
  char* const first = target(0);
#pragma unroll 1
  for (uint64_t i = crew.worker; i < n; i += U * crew.workers) {
    uint4 word[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      if (i + u * crew.workers < n) word[u] = in[i + u * crew.workers];
    }
    if constexpr (isSkewed) {
      uint4 next[U];
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (i + u * crew.workers < n) next[u] = in[i + u * crew.workers + 1];
      }
#pragma unroll
      for (int u = 0; u < U; u++) word[u] = shifted(word[u], next[u], skew);
    }
#pragma unroll 1
    for (int k = 0; k < targets; k++) {
      uint4* out = reinterpret_cast<uint4*>(k == 0 ? first : target(k));
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (i + u * crew.workers < n) out[i + u * crew.workers] = word[u];
      }
    }
  }
}
#endif

/* Copies `bytes` to each target; all targets are equal modulo 16. Stores are whole words. If the
 * source differs modulo 16, each word is assembled from two loads, which stay inside the source. Up
 * to 31 bytes at each end are copied one by one. */
template <int U, typename Target>
__device__ __forceinline__ void copyTo(Crew crew, char const* from, uint64_t bytes, int targets, Target target) {
#ifdef __GINRS_CPU__
  /* Threads run one after the other: each moves a run of its own. Word by word 256 KiB took ten times as long. */
  Share const own = Share::of(bytes, uint32_t(crew.workers), uint32_t(crew.worker));
  for (int k = 0; k < targets && own.bytes > 0; k++) {
    if (target(k) != from) memcpy(target(k) + own.begin, from + own.begin, own.bytes);
  }
#else
  uint64_t head = (0 - uint64_t(target(0))) & 15;
  uint32_t const skew = uint32_t(uint64_t(from) + head) & 15;
  if (head < skew) head += 16;
  uint64_t const least = head + (skew > 0 ? 16 - skew : 0), words = bytes > least ? (bytes - least) / 16 : 0;
  if (words == 0) head = bytes;
  auto ahead = [&](int k) { return target(k) + head; };
  uint4 const* const in = reinterpret_cast<uint4 const*>(from + head - skew);
  if (skew == 0) {
    copyWords<U, false>(crew, in, 0, words, targets, ahead);
  } else {
    copyWords<4, true>(crew, in, skew, words, targets, ahead);
  }
  uint64_t const rest = bytes - 16 * words;
#pragma unroll 1
  for (uint64_t i = crew.worker; i < rest; i += crew.workers) {
    uint64_t const at = i < head ? i : i + 16 * words;
    char const byte = from[at];
#pragma unroll 1
    for (int k = 0; k < targets; k++) target(k)[at] = byte;
  }
#endif
}

/* The same to targets that begin anywhere. */
template <typename Target>
__device__ __forceinline__ void copyToAny(Crew crew, char const* from, uint64_t bytes, int targets, Target target) {
  uint64_t different = 0;
  for (int k = 1; k < targets; k++) different |= uint64_t(target(k)) ^ uint64_t(target(0));
  bool const alike = (different & 15) == 0;
  for (int first = 0; first < targets; first += alike ? targets : 1) {
    copyTo<8>(crew, from, bytes, alike ? targets : 1, [&](int k) { return target(first + k); });
  }
}

/* bytes from one place to another; they do not overlap, unless they are the same. */
__device__ __forceinline__ void copy(Crew crew, char* to, char const* from, uint64_t bytes) {
  if (to != from) copyTo<8>(crew, from, bytes, 1, [=](int) { return to; });
}

/* The same by a block, as functions: there is one of each in a kernel, not one for each collective. With eight words in flight they spill
 * registers, and an all-reduce took 1.3 times as long. */
__device__ __noinline__ void copyByBlock(char* to, char const* from, uint64_t bytes) {
  if (to != from) copyTo<4>(Crew::block(), from, bytes, 1, [=](int) { return to; });
}
/* Rows, so far apart: few threads to each where there are many of them. */
__device__ __noinline__ void rowsByBlock(char* to, int64_t toApart, char const* from, int64_t fromApart, uint64_t bytes, int rows) {
  int const crews = max(1, min(rows, int(blockDim.x / 32))), threads = int(blockDim.x) / crews, first = int(threadIdx.x) / threads;
  Crew const crew = {threadIdx.x % threads, uint64_t(threads)};
  for (int row = first; row < rows && first < crews; row += crews) {
    char* const target = to + row * toApart;
    copyTo<4>(crew, from + row * fromApart, bytes, 1, [=](int) { return target; });
  }
}
__device__ __noinline__ void spreadByBlock(Targets to, char const* from, uint64_t bytes) {
  copyTo<4>(Crew::block(), from, bytes, to.count(), [&](int k) { return to.at(k); });
}

}  // namespace coll
}  // namespace ginrs
#endif
