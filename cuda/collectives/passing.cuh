/* Reductions of any buffers in one LSA team, by messages: each rank has a part of the result to make. It sends every other rank what it has for that
 * one's part, adds up what the others send for its own, and, in an all-reduce, passes the sum on to all, in a reduce to the root. Threads have
 * one of the three roles (group.cuh): they wait for each other by slots alone, a sender for none of the others, who adds up for senders, who
 * takes results for those who add up. So the links carry inputs and sums at the same time, and all that crosses them are stores. */
#ifndef GINRS_COLLECTIVES_PASSING_CUH_
#define GINRS_COLLECTIVES_PASSING_CUH_
#include "channel.cuh"
#include "group.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

/* What each rank makes, in pieces that fit into a slot: those of one block. */
struct Pieces {
  uint64_t each, total, most;
  uint32_t blocks, column;
  bool scattered; /* of as many bytes for each rank; else in whole lines, as far as they go */

  static __device__ __forceinline__ Pieces of(ginrsCollWork const& work) {
    uint64_t const bytes = work.count * work.eltBytes;
    int const n = work.comm.nRanks;
    bool const scattered = work.kind == GINRS_COLL_REDUCE_SCATTER;
    return {scattered ? bytes : Parts::of(bytes, n).each, scattered ? n * bytes : bytes, payloadOf(work.inbox), work.blocks, ownColumn(work), scattered};
  }
  /* Piece i of what that rank makes: where it begins in all that a rank gives, and its bytes; none behind the last one. */
  __device__ __forceinline__ Share piece(int rank, uint64_t i) const {
    uint64_t const begin = min(rank * each, total);
    Share const share = Share::of(min(each, total - begin), blocks, column);
    uint64_t const done = min(i * most, share.bytes);
    return {begin + share.begin + done, min(most, share.bytes - done)};
  }
};

/* PRE_MUL: where the head of a slot has the bits of the sender's factor, behind what every slot begins with. */
__device__ __forceinline__ uint64_t* factorAt(char* payload) { return reinterpret_cast<uint64_t*>(payload) - 1; }
static_assert(kTravels == 16, "that has 8 bytes");

__device__ __noinline__ void sendInputs(ginrsCollWork const& work, Pieces pieces, Group group, uint64_t header) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  bool more = true;
  for (uint64_t i = 0; more && hasUse(work.comm); i++) {
    more = false;
    for (int k = 1; k < n; k++) {
      int const peer = turn(self, k, n);
      Share const piece = pieces.piece(peer, i);
      if (piece.bytes == 0) continue;
      more = true;
      Outgoing out(work.comm, work.inbox, Ring::ofNear(work.comm, peer), blockIdx.x);
      char* const slot = out.open(group, work.comm, work.inbox);
      copy(group.crew(), slot, static_cast<char const*>(work.send.at) + piece.begin, piece.bytes);
      if (work.op == GINRS_COLL_PRE_MUL && group.thread_rank() == 0) *factorAt(slot) = factorBits(work);
      out.close(group, work.comm, work.inbox, header, uint32_t(piece.bytes));
    }
  }
}

/* Addresses of all sources and targets of a loop, those of this rank first. */
struct SumAddresses {
  char* from[GINRS_SUM_RANKS];
  char* to[GINRS_SUM_RANKS];
  uint64_t factors[GINRS_MAPPED_RANKS];
};

/* The part of the sum that this rank makes, one slot's bytes at a time. Slots of all other ranks are
 * open at the same time, and slots to those that get the sum. */
struct PassedSum {
  ginrsCollWork const& work;
  Pieces pieces;
  Group group;
  uint64_t header;
  Share piece;

  __device__ __forceinline__ bool gets(int rank) const { /* the sum */
    return work.kind == GINRS_COLL_ALL_REDUCE || (work.kind == GINRS_COLL_REDUCE ? uint32_t(rank) == work.root : rank == work.comm.rank);
  }
  __device__ __forceinline__ Incoming input(int k) const {
    return {work.comm, work.inbox, Ring::ofNear(work.comm, turn(work.comm.rank, work.comm.nRanks - k, work.comm.nRanks)), blockIdx.x};
  }
  __device__ __forceinline__ Outgoing sum(int peer) const { return {work.comm, work.rails, Ring::ofNear(work.comm, peer), blockIdx.x}; }

  /* Opens slots for step i. Returns the number of targets, -1 after the last step. */
  __device__ __noinline__ int open(uint64_t i, SumAddresses& addresses) {
    int const n = work.comm.nRanks, self = work.comm.rank;
    if (!hasUse(work.comm)) return -1;
    piece = pieces.piece(self, i);
    if (piece.bytes == 0) return -1;
    bool const isFirst = group.thread_rank() == 0, isScaled = work.op == GINRS_COLL_PRE_MUL;
    if (isFirst) addresses.from[0] = static_cast<char*>(work.send.at) + piece.begin;
    if (isFirst && isScaled) addresses.factors[0] = factorBits(work);
    for (int k = 1; k < n; k++) {
      char* const slot = const_cast<char*>(input(k).open(group, work.comm, work.inbox, header));
      if (isFirst) addresses.from[k] = slot;
      if (isFirst && isScaled) addresses.factors[k] = loadRelaxed(factorAt(slot));
    }
    int targets = 0;
    if (gets(self)) {
      uint64_t const before = pieces.scattered ? self * pieces.each : 0;
      if (isFirst) addresses.to[0] = static_cast<char*>(work.recv.at) + piece.begin - before;
      targets++;
    }
    for (int k = 1; k < n; k++) {
      int const peer = turn(self, k, n);
      if (!gets(peer)) continue;
      char* const slot = sum(peer).open(group, work.comm, work.rails);
      if (isFirst) addresses.to[targets] = slot;
      targets++;
    }
    group.sync();
    return targets;
  }
  __device__ __noinline__ void close() const {
    int const n = work.comm.nRanks;
    for (int k = 1; k < n; k++) {
      int const peer = turn(work.comm.rank, k, n);
      if (gets(peer)) sum(peer).close(group, work.comm, work.rails, header, uint32_t(piece.bytes));
    }
    for (int k = 1; k < n; k++) input(k).close(group, work.comm, work.inbox);
  }
};

__device__ __noinline__ void gatherSums(ginrsCollWork const& work, Pieces pieces, Group group, uint64_t header) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  bool more = true;
  for (uint64_t i = 0; more && hasUse(work.comm); i++) {
    more = false;
    for (int k = 1; k < n; k++) {
      int const peer = turn(self, n - k, n);
      Share const piece = pieces.piece(peer, i);
      if (piece.bytes == 0) continue;
      more = true;
      Incoming in(work.comm, work.rails, Ring::ofNear(work.comm, peer), blockIdx.x);
      copy(group.crew(), static_cast<char*>(work.recv.at) + piece.begin, in.open(group, work.comm, work.rails, header), piece.bytes);
      in.close(group, work.comm, work.rails);
    }
  }
}

/* Not inlined: ptxas would spill its state in the loop of the other two algorithms. The parts that do
 * not depend on the type are functions, too: they are compiled once. */
template <typename T>
__device__ __noinline__ void reducingByMessages(ginrsCollWork const& work) {
  __shared__ SumAddresses addresses;
  Pieces const pieces = Pieces::of(work);
  uint64_t const header = headerOf(work.kind, work.count * work.eltBytes);
  bool const gathers = work.kind == GINRS_COLL_ALL_REDUCE || (work.kind == GINRS_COLL_REDUCE && uint32_t(work.comm.rank) == work.root);
  Group const group = gathers ? Group::ofThree() : Group::own(true, true);
  PassedSum sum{work, pieces, group, header, {}};
  int targets;
  switch (group.role) {
    case kSends: sendInputs(work, pieces, group, header); break;
    case kReceives:
      for (uint64_t i = 0; (targets = sum.open(i, addresses)) >= 0; i++) {
        Operation<T> const op = Operation<T>::of(work).with(addresses.factors);
        reduceTo<T, (sizeof(typename T::Stored) > 1 ? 2 : 1)>(op, group.crew(), sum.piece.bytes / work.eltBytes, Listed{addresses.from, work.comm.nRanks}, Listed{addresses.to, targets});
        sum.close();
      }
      break;
    case kGathers:
      if (gathers) gatherSums(work, pieces, group, header);
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
