/* Collectives among ranks of one LSA team on buffers in symmetric windows: a barrier, loads from and stores to the peers' own
 * buffers, a barrier. Block b of every rank meets block b of the others: that all blocks have met, all kernels know when they end. */
#ifndef GINRS_COLLECTIVES_DIRECT_CUH_
#define GINRS_COLLECTIVES_DIRECT_CUH_
#include "scratch.cuh"
#include "share.cuh"

namespace ginrs {
namespace coll {

/* The address of a buffer of every rank of the team: at a constant distance from rank to rank, or
 * listed by rank. */
struct TeamAddresses {
  Places strided;
  uint64_t const* listed; /* null: strided */
  uint64_t offset;

  static __device__ __forceinline__ TeamAddresses of(Places const& strided) { return {strided, nullptr, 0}; }
  static __device__ __forceinline__ TeamAddresses of(uint64_t const* listed) { return {{}, listed, 0}; }
  __device__ __forceinline__ char* at(int rank) const { return (listed != nullptr ? reinterpret_cast<char*>(listed[rank]) : strided.at(rank)) + offset; }
  __device__ __forceinline__ TeamAddresses ahead(uint64_t by) const { return {strided, listed, offset + by}; }
};

/* What one of n ranks makes of a result that has a part of each: whole lines of all, where there is enough. */
struct Elements {
  uint64_t first, count;

  static __device__ __forceinline__ Elements ofPart(ginrsCollWork const& work, int part, int n) {
    uint64_t const count = work.count, line = n * (128 / work.eltBytes), each = (count + line - 1) / line * (line / n);
    uint64_t const first = min(part * each, count);
    return {first, min(each, count - first)};
  }
};

/* A broadcast of so many bytes is passed on. Only where ranks do not tell each other of their buffers: else they read it (mapped.cuh). */
constexpr uint64_t kPassedOn = 2 << 20;
/* What a block gives a rank of it before it tells of that and turns to the next. Four H100, 256 MiB: 882 us, with 16 KiB 1070, with 64 917, with 96 935. */
#ifdef __GINRS_CPU__
constexpr uint64_t kStep = 1 << 20; /* to tell costs much */
#else
constexpr uint64_t kStep = 32 << 10;
#endif

/* Of a block, in each rank's memory: how far the root has come with broadcasts that are passed on, in steps. Counts outlive launches. */
struct Relay {
  uint64_t come; /* by the root's block of this number; it writes */
  uint64_t gone; /* with those of earlier launches: equal on all ranks */
};

/* In the line of a block's scratch, behind Called. */
__device__ __forceinline__ Relay* relayIn(ginrsCollWork const& work, int rank) {
  return reinterpret_cast<Relay*>(scratchOf(work, rank) + kScratchLine * 3 / 4);
}

/* The root gives each other rank a part, and each passes its own on to the rest while the root gives the next step's bytes: every link carries the
 * bytes once, the root's not n - 1 times. Nobody waits for room: each byte has its place. A block's share of a part is the same for all who touch it, so
 * that blocks of one number suffice each other. Blocks begin with different ranks: all links have something to carry. */
__device__ __forceinline__ void broadcastPassedOn(ginrsCollWork const& work, TeamAddresses const& to) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t const bytes = work.count * work.eltBytes;
  char const* const from = static_cast<char const*>(work.send.at);
  Passed const parts = Passed::of(bytes, n, work.root, allBlocks(work), ownBlock(work));
  bool const isRoot = parts.isRoot(self);
  char* const own = static_cast<char*>(work.recv.at);
  int const toRoot = (parts.root - self + n) % n;
  /* `part` to one rank, and the root's own buffer; or to all but the root. */
  auto give = [&](char const* source, Share const& part, int peer) {
    int const targets = !isRoot ? n - 2 : own == source ? 1 : 2;
    auto target = [&](int k) {
      char* const begin = !isRoot ? to.at(turn(self, k + 1 < toRoot ? k + 1 : k + 2, n)) : k == 0 ? to.at(peer) : own;
      return begin + part.begin;
    };
    copyToAny(Crew::block(), source + part.begin, part.bytes, targets, target);
  };
  uint64_t const longest = parts.longest(), before = relayIn(work, self)->gone;
  uint64_t steps = before;
  for (uint64_t done = 0; done < longest; done += kStep) {
    steps++;
    if (isRoot) {
      for (int k = 0; k < n - 1; k++) {
        int const peer = turn(self, 1 + int((k + ownBlock(work)) % uint32_t(n - 1)), n);
        give(from, parts.step(peer, done, kStep), peer);
      }
      __syncthreads();
      for (int k = threadIdx.x; k < n; k += blockDim.x) {
        if (k != self) End::tell(&relayIn(work, k)->come, steps);
      }
    } else {
      if (threadIdx.x == 0) awaitCount(work.comm, &relayIn(work, self)->come, steps, work.root);
      __syncthreads();
      give(own, parts.step(self, done, kStep), self);
    }
  }
  if (steps > before && threadIdx.x == 0) relayIn(work, self)->gone = steps;
}

/* Of n + 1 blocks one copies what a rank has for itself; the others keep the links busy, which are no faster with more of them. In one block its own
 * stores wait behind those that a link is to take: two H200, all-to-all of 1 GiB 1690 us, so 1545 to 1595; with half of the blocks 1550 or 1755, by where they run. */
struct Hands {
  bool keep, give;
  uint32_t block, blocks; /* of those that do the same */

  static __device__ __forceinline__ Hands own(ginrsCollWork const& work, bool inPlace) {
    uint32_t const n = uint32_t(work.comm.lsaSize), all = allBlocks(work), self = ownBlock(work), group = n + 1, few = all / group;
    if (inPlace || few == 0) return {true, true, self, all};
    return self % group == n ? Hands{true, false, self / group, few} : Hands{false, true, self - self / group, all - few};
  }
  __device__ __forceinline__ Share share(uint64_t bytes) const { return Share::of(bytes, blocks, block); }
  __device__ __forceinline__ Crew crew() const { return {threadIdx.x + uint64_t(blockDim.x) * block, uint64_t(blockDim.x) * blocks}; }
};

/* As many bytes between this rank and each, where to(rank) and from(rank) say: by other warps for each rank, all at the same time. One rank after the other,
 * a gather of 256 KiB by four H200 waited for three of them: 11.9 us in place of 10.1. */
template <typename To, typename From>
__device__ __forceinline__ void withEach(ginrsCollWork const& work, uint64_t bytes, To const& to, From const& from) {
  int const self = work.comm.lsaRank, others = work.comm.lsaSize - 1;
  Hands const hands = Hands::own(work, to(self) == from(self));
  if (hands.keep) copy(hands.crew(), to(self), from(self), bytes);
  if (!hands.give) return;
  Share const share = hands.share(bytes);
  int const warps = int(blockDim.x / 32), crews = max(1, min(others, warps)), threads = crews > 1 ? warps / crews * 32 : int(blockDim.x);
  int const own = int(threadIdx.x) / threads;
  Crew const crew = {threadIdx.x - uint32_t(own * threads), uint64_t(threads)};
  for (int k = own; k < others && own < crews; k += crews) {
    int const peer = turn(self, 1 + int((k + hands.block) % uint32_t(others)), others + 1);
    copy(crew, to(peer) + share.begin, from(peer) + share.begin, share.bytes);
  }
}

/* The own bytes to everybody. `own` is where they go here. */
__device__ __forceinline__ void giveAll(ginrsCollWork const& work, TeamAddresses const& to, char* own, uint64_t bytes) {
  char const* const from = static_cast<char const*>(work.send.at);
  int const self = work.comm.lsaRank, n = work.comm.lsaSize;
  Hands const hands = Hands::own(work, own == from);
  if (hands.give) copyToAny(hands.crew(), from, bytes, n - 1, [&](int k) { return to.at(turn(self, k + 1, n)); });
  if (hands.keep) copy(hands.crew(), own, from, bytes);
}

/* All-gather and all-to-all, between two meetings of all ranks. `recv` is where each of them receives. */
__device__ __forceinline__ void giveEach(ginrsCollWork const& work, TeamAddresses const& recv) {
  uint64_t const bytes = work.count * work.eltBytes, self = work.comm.lsaRank;
  TeamAddresses const to = recv.ahead(self * bytes);
  char const* const from = static_cast<char const*>(work.send.at);
  if (work.kind == GINRS_COLL_ALL_GATHER) {
    giveAll(work, to, static_cast<char*>(work.recv.at) + self * bytes, bytes);
  } else {
    withEach(work, bytes, [&](int rank) { return to.at(rank); }, [&](int rank) { return from + rank * bytes; });
  }
}

/* Runs between the two barriers of the direct algorithm. */
__device__ __forceinline__ void copyDirect(ginrsCollWork const& work) {
  TeamAddresses const recv = TeamAddresses::of(Places::of(work.comm, work.recv));
  if (work.kind != GINRS_COLL_BROADCAST) {
    giveEach(work, recv);
  } else if (work.count * work.eltBytes >= kPassedOn && work.comm.lsaSize > 2) {
    broadcastPassedOn(work, recv);
  } else if (uint32_t(work.comm.lsaRank) == work.root) {
    giveAll(work, recv, static_cast<char*>(work.recv.at), work.count * work.eltBytes);
  }
}

/* The first barrier of the direct algorithm: after it all inputs are complete, and no rank uses its
 * output for anything else. */
__device__ __forceinline__ void meetDirect(ginrsCollWork const& work, Barrier& barrier) {
  Called::tell(work);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  Called::check(work);
}

}  // namespace coll
}  // namespace ginrs
#endif
