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
  __device__ __forceinline__ void spread(Crew crew, char const* from, uint64_t bytes, int self, int n) const;
};

/* (self + step) mod n: every rank starts elsewhere, so that no rank is all others' first. */
__device__ __forceinline__ int turn(int self, int step, int n) {
  int rank = self + step;
  return rank < n ? rank : rank - n;
}

__device__ __forceinline__ char* Places::from(int self, int k, int n) const { return at(turn(self, k, n)); }

/* Where results go: that place of n ranks, from the own one upwards, and one more, or none. */
struct Targets {
  static constexpr int kFour = 1; /* reduce.cuh */
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

/* Words [0, n) of `from` to each target; U of them are in flight, of the last ones, too: a small copy is one round of loads.
 * target(k) for k < targets is where one copy goes. */
template <int bytes, int U, typename Target>
__device__ __forceinline__ void copyWords(Crew crew, char const* from, uint64_t n, int targets, Target target) {
  typedef typename Word<bytes>::Type W;
  W const* in = reinterpret_cast<W const*>(from);
#pragma unroll 1
  for (uint64_t i = crew.worker; i < n; i += U * crew.workers) {
    W word[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      if (i + u * crew.workers < n) word[u] = in[i + u * crew.workers];
    }
#pragma unroll 1
    for (int k = 0; k < targets; k++) {
      W* out = reinterpret_cast<W*>(target(k));
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (i + u * crew.workers < n) out[i + u * crew.workers] = word[u];
      }
    }
  }
}

/* bytes from `from` to each target; all targets are equal modulo 16. */
template <int U, typename Target>
__device__ __forceinline__ void copyTo(Crew crew, char const* from, uint64_t bytes, int targets, Target target) {
#ifdef __GINRS_CPU__
  /* Threads run one after the other: each moves a run of its own. Word by word 256 KiB took ten times as long. */
  Share const own = Share::of(bytes, uint32_t(crew.workers), uint32_t(crew.worker));
  for (int k = 0; k < targets && own.bytes > 0; k++) {
    if (target(k) != from) memcpy(target(k) + own.begin, from + own.begin, own.bytes);
  }
#else
  int const width = commonWord(uint64_t(from), uint64_t(target(0)));
  uint64_t head = (0 - uint64_t(from)) & (width - 1);
  if (head > bytes) head = bytes;
  uint64_t const words = (bytes - head) / width, done = head + words * width;
  auto ahead = [&](uint64_t by) { return [=](int k) { return target(k) + by; }; };
  copyWords<1, 1>(crew, from, head, targets, ahead(0));
  switch (width) {
    case 16: copyWords<16, U>(crew, from + head, words, targets, ahead(head)); break;
    case 8: copyWords<8, U>(crew, from + head, words, targets, ahead(head)); break;
    case 4: copyWords<4, 4>(crew, from + head, words, targets, ahead(head)); break;
    case 2: copyWords<2, 4>(crew, from + head, words, targets, ahead(head)); break;
    default: copyWords<1, 4>(crew, from + head, words, targets, ahead(head)); break;
  }
  copyWords<1, 1>(crew, from + done, bytes - done, targets, ahead(done));
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

/* The same bytes to that place of the other ranks, of n: windows of one memory lie alike in each. */
__device__ __forceinline__ void Places::spread(Crew crew, char const* from, uint64_t bytes, int self, int n) const {
  Places const to = *this;
  copyTo<8>(crew, from, bytes, n - 1, [=](int k) { return to.at(turn(self, k + 1, n)); });
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
