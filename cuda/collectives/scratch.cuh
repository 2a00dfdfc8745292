/* Memory of a block that the ranks of its LSA team share: two banks, each with a piece for every rank of the team, used in turn.
 *
 *   before a meeting  a bank is written: by its owner for all to read, or by each of the others for its owner
 *   behind it         it is read, until the reader comes to the next meeting
 *
 * So whoever has passed a meeting may write the other bank: nobody reads it any more. The turn outlives launches. */
#ifndef GINRS_COLLECTIVES_SCRATCH_CUH_
#define GINRS_COLLECTIVES_SCRATCH_CUH_
#include <type_traits>
#include "channel.cuh"
#include "reduce.cuh"

namespace ginrs {
namespace coll {

typedef ncclLsaBarrierSession<ncclCoopCta> Barrier;

/* Of a block: this line, the banks, and a piece that is this rank's alone. */
constexpr uint32_t kScratchLine = 128;

__device__ __forceinline__ bool isAligned(void const* at) { return (uint64_t(at) & 15) == 0; }

/* The rank's own factor times its input. */
__device__ __noinline__ void scaleByBlock(AnyOperation any, char* to, char const* from, uint64_t bytes) {
  any.typed([&](auto const& op) {
    typedef typename std::decay<decltype(op)>::type::Type T;
    typedef typename T::Stored Stored;
    for (uint64_t i = threadIdx.x; i < bytes / sizeof(Stored); i += blockDim.x) {
      reinterpret_cast<Stored*>(to)[i] = op.scaled(Pack<T, 1>{{reinterpret_cast<Stored const*>(from)[i]}}).v[0];
    }
  });
}

/* A block's part of the scratch of an LSA rank. */
__device__ __forceinline__ char* scratchOf(ginrsCollWork const& work, int rank) {
  uint64_t const bytes = kScratchLine + (2ull * work.comm.lsaSize + 1) * work.pieceBytes;
  return static_cast<char*>(ncclGetResourceBufferLsaPointer(work.comm, work.scratch, rank)) + blockIdx.x * bytes;
}

/* Whether the ranks of the team make the same call: told before the first meeting of a launch and looked at behind it, on the CPU device alone, which is to
 * find such mistakes. By messages the slots say it. */
struct Called {
  uint64_t launches; /* of this block: equal on all ranks */
  uint64_t told;     /* in the last one: what is called, above the low 16 bits of its number */

  static __device__ __forceinline__ Called* of(ginrsCollWork const& work, int rank) {
    return reinterpret_cast<Called*>(scratchOf(work, rank) + kScratchLine / 2);
  }
  static __device__ __forceinline__ void tell(ginrsCollWork const& work) {
#ifdef __GINRS_CPU__
    if (threadIdx.x != 0 || work.comm.lsaSize == 1) return;
    Called* const own = of(work, work.comm.lsaRank);
    own->launches++;
    uint64_t const call = (callOf(work) ^ uint64_t(work.op) << 48) * 0x9e3779b97f4a7c15; /* odd: others come to others */
    storeRelaxed(&own->told, (call & ~uint64_t(0xffff)) | (own->launches & 0xffff));
#endif
  }
  static __device__ __forceinline__ void check(ginrsCollWork const& work) {
#ifdef __GINRS_CPU__
    if (threadIdx.x != 0 || work.comm.lsaSize == 1) return;
    uint64_t const own = of(work, work.comm.lsaRank)->told;
    for (int k = 0; k < work.comm.lsaSize; k++) {
      uint64_t const theirs = loadRelaxed(&of(work, k)->told);
      /* Who has met for the last time may be in its next launch. */
      bool const isOfThis = ((theirs ^ own) & 0xffff) == 0;
      if (isOfThis && theirs != own && !isAborted(work.comm, true)) refuseCall();
    }
#endif
  }
};

struct Scratch {
  ginrsCollWork const& work;
  Barrier& barrier;
  int self, n;     /* in the team */
  Places places;   /* of the block's scratch, in each rank of the team */
  uint64_t piece;  /* of a rank in a bank: bytes, at most */
  uint64_t message; /* what of it goes along a rail at a time, at most */
  uint32_t odd;   /* which bank */

  __device__ __forceinline__ Scratch(ginrsCollWork const& work, Barrier& barrier)
      : work(work), barrier(barrier), self(work.comm.lsaRank), n(work.comm.lsaSize), piece(work.pieceBytes), message(work.pieceBytes) {
    if (work.comm.lsaSize < work.comm.nRanks) message = min(piece, uint64_t(work.rails.slotBytes - kHeader));
    char* const first = scratchOf(work, 0);
    places = {first, n > 1 ? scratchOf(work, 1) - first : 0};
    Called::tell(work);
    odd = *reinterpret_cast<uint32_t*>(places.at(self));
  }
  /* For the next launch; by all threads, behind the last meeting. */
  __device__ __forceinline__ void end() const {
    if (threadIdx.x == 0) *reinterpret_cast<uint32_t*>(places.at(self)) = odd;
  }

  __device__ __forceinline__ uint64_t bankBytes() const { return n * piece; }
  /* A place of the present bank, in each rank. */
  __device__ __forceinline__ Places bank(uint64_t offset) const {
    return {places.first + kScratchLine + odd * bankBytes() + offset, places.stride};
  }
  __device__ __forceinline__ char* own() const { return places.at(self) + kScratchLine + 2 * bankBytes(); }

  __device__ __forceinline__ void meet() {
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    Called::check(work);
  }
  __device__ __forceinline__ void next() { odd ^= 1; }
  /* The longest block of which one for each team fits into a message. */
  __device__ __forceinline__ uint64_t blockOf(int teams) const { return message / teams / 128 * 128; }

  /* This rank's input into its own bank. */
  __device__ __forceinline__ void bring(AnyOperation const& op, uint64_t offset, char const* from, uint64_t bytes) const {
    char* const to = bank(offset).at(self);
    if (op.isScaled()) {
      scaleByBlock(op, to, from, bytes);
    } else {
      copyByBlock(to, from, bytes);
    }
  }
  /* The team's inputs at `mine` of what every rank has at `from`, all ready to be read: each rank calls it once, and reads before its
   * next meeting but one. `parts` of them, so far apart in memory and here. A rank that is alone reads its own where it lies. */
  __device__ __forceinline__ Places inputs(AnyOperation const& op, char const* from, uint64_t mine, uint64_t bytes, int parts = 1,
                                           uint64_t apart = 0) {
    if (n == 1 && !op.isScaled() && isAligned(from)) return {const_cast<char*>(from) + mine, 0};
    for (int k = 0; k < parts; k++) bring(op, k * message, from + k * apart, bytes);
    meet();
    Places const team = bank(mine);
    next();
    return team;
  }
};

/* Where a slice's results go on their way to `recv` of every rank of the team: to the present bank, from where each takes them behind a
 * meeting; or to their place, if the rank is alone. */
struct Results {
  Scratch& scratch;
  char* recv;
  bool straight;

  __device__ __forceinline__ Results(Scratch& scratch, char* recv)
      : scratch(scratch), recv(recv), straight(scratch.n == 1 && isAligned(recv)) {}
  /* And to one more place. */
  __device__ __forceinline__ Targets at(uint64_t offset, char* more) const {
    if (straight) return {{recv + offset, 0}, 0, 1, more};
    return {scratch.bank(offset), scratch.self, scratch.n, more};
  }
  /* The place of one rank alone. */
  __device__ __forceinline__ char* of(int rank, uint64_t offset) const { return straight ? recv + offset : scratch.bank(offset).at(rank); }
  /* `parts` of the bank, so far apart in `recv`. */
  __device__ __forceinline__ void take(uint64_t bytes, int parts = 1, uint64_t apart = 0) const {
    if (straight) return;
    scratch.meet();
    for (int k = 0; k < parts; k++) copyByBlock(recv + k * apart, scratch.bank(k * scratch.message).at(scratch.self), bytes);
    scratch.next();
  }
};

/* Which slices of so many bytes a block goes through: all as long as each other, as far as it goes. */
struct Slices {
  uint64_t total, each;

  /* `most`, a multiple of `unit`, is the longest. */
  static __device__ __forceinline__ Slices of(uint64_t total, uint64_t most, uint64_t unit) {
    uint64_t const blocks = gridDim.x, rounds = (total + blocks * most - 1) / (blocks * most);
    uint64_t const each = (total + blocks * rounds - 1) / (blocks * rounds);
    return {total, (each + unit - 1) / unit * unit};
  }
  __device__ __forceinline__ uint64_t first() const { return blockIdx.x * each; }
  __device__ __forceinline__ bool has(ginrsCollWork const& work, uint64_t at) const { return at < total && hasUse(work.comm); }
  __device__ __forceinline__ uint64_t step() const { return gridDim.x * each; }
  __device__ __forceinline__ uint64_t bytes(uint64_t at) const { return min(each, total - at); }
};

/* `bytes` in n parts of whole lines: the last ones may be shorter, or empty. */
struct Parts {
  uint64_t bytes, each;

  static __device__ __forceinline__ Parts of(uint64_t bytes, int n) { return {bytes, (bytes + n * 128 - 1) / (n * 128) * 128}; }
  __device__ __forceinline__ uint64_t begin(int i) const { return i * each; }
  __device__ __forceinline__ uint64_t size(int i) const { return i * each < bytes ? min(each, bytes - i * each) : 0; }
};

}  // namespace coll
}  // namespace ginrs
#endif
