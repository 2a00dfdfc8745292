/* Reductions in one LSA team: directly between buffers in symmetric windows, between buffers whose
 * addresses ranks exchange (mapped.cuh), or by messages (passing.cuh). One kernel for each type has
 * all three. */
#ifndef GINRS_COLLECTIVES_SUMS_CUH_
#define GINRS_COLLECTIVES_SUMS_CUH_
#include "mapped.cuh"
#include "passing.cuh"
#include "reduce.cuh"

namespace ginrs {
namespace coll {

/* The part of the sum that this rank makes. Directly, a root makes all of its sum. Mapped, the other
 * ranks make a part each, so that each link carries the sum's bytes once; of two ranks the root reads
 * the other one. */
__device__ __forceinline__ Elements elementsOf(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, root = int(work.root);
  bool const isAlone = work.how == GINRS_COLL_DIRECT || isPair(work);
  switch (work.kind) {
    case GINRS_COLL_REDUCE_SCATTER: return {self * work.count, work.count};
    case GINRS_COLL_REDUCE_FOR_EACH: return {0, work.count};
    case GINRS_COLL_REDUCE:
      if ((self == root) != isAlone) return {0, 0};
      return isAlone ? Elements{0, work.count} : Elements::ofPart(work, self - (self > root), n - 1);
    default: return Elements::ofPart(work, self, n);
  }
}

/* In an all-reduce of so many bytes each rank first makes its part and then copies it to the others:
 * links that are read and written at the same time carry less. Two H200: 4 MiB 20.4 us, at the same
 * time 22.0; 256 MiB 788 and 878; four H100: 64 MiB 313 and 365, 256 MiB 1210 and 1420.
 * src/coll/table.rs has the same limit. */
__device__ __forceinline__ bool isApart(ginrsCollWork const& work) {
#ifdef __GINRS_CPU__
  uint64_t const least = 1 << 20; /* so that tests cover it */
#else
  uint64_t const least = isPair(work) ? 4 << 20 : 64 << 20;
#endif
  return work.count * work.eltBytes >= least;
}

/* A sum of buffers that all ranks see: each rank reduces a part of it and writes that to itself, to
 * the root, or to all. */
struct SeenSum {
  ginrsCollWork const& work;
  Elements own;
  bool isForAll, inTwo;
  Share share; /* of the own elements' bytes */

  static __device__ __forceinline__ SeenSum of(ginrsCollWork const& work) {
    Elements const own = elementsOf(work);
    bool const isForAll = work.kind == GINRS_COLL_ALL_REDUCE, inTwo = isForAll && work.how == GINRS_COLL_MAPPED && isApart(work);
    uint64_t const bytes = own.count * work.eltBytes;
    /* In two steps each block copies what it has made itself. */
    Share share = {0, bytes};
    if (inTwo) share = Share::of(bytes, allBlocks(work), ownBlock(work));
    return {work, own, isForAll, inTwo, share};
  }
  __device__ __forceinline__ Crew crew() const { return inTwo ? Crew::block() : Crew::of(work); }

  /* Lists the addresses. Returns the number of targets. */
  __device__ __forceinline__ int list(bool isDirect, Seen const& all, SumAddresses& addresses) const {
    int const n = work.comm.lsaSize, self = work.comm.lsaRank;
    uint64_t const ahead = own.first * work.eltBytes + share.begin;
    TeamAddresses const send = isDirect ? TeamAddresses::of(Places::of(work.comm, work.send)) : TeamAddresses::of(all.send);
    TeamAddresses recv = TeamAddresses::of(all.recv);
    if (isDirect && isForAll) recv = TeamAddresses::of(Places::of(work.comm, work.recv));
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
      int const peer = turn(self, k, n);
      addresses.from[k] = send.at(peer) + ahead;
      if (!isDirect) addresses.factors[k] = all.factor[peer];
      if (isForAll) addresses.to[k] = recv.at(peer) + ahead;
    }
    if (threadIdx.x == 0 && !isForAll) {
      bool const isOfRoot = work.kind == GINRS_COLL_REDUCE && !isDirect;
      addresses.to[0] = isOfRoot ? recv.at(int(work.root)) + ahead : static_cast<char*>(work.recv.at);
    }
    __syncthreads();
    return isForAll && !inTwo ? n : 1;
  }
  /* The second step. */
  __device__ __forceinline__ void give(SumAddresses const& addresses) const {
    __syncthreads();
    copyToAny(Crew::block(), addresses.to[0], share.bytes, work.comm.lsaSize - 1, [&](int k) { return addresses.to[k + 1]; });
  }
};

/* Returns whether the sum is made: if a rank's buffer is not seen by all, it is not, on any rank. `call`
 * is equal on all ranks. */
template <typename T>
__device__ __forceinline__ bool reducingSeen(ginrsMappedWork const& work, uint64_t call) {
  __shared__ Seen all;
  __shared__ SumAddresses addresses;
  ginrsCollWork const& coll = work.coll;
  bool const isDirect = coll.how == GINRS_COLL_DIRECT;
  Barrier barrier{ncclCoopCta(), coll.comm, ncclTeamTagLsa(), meetingNumber()};
  bool isSeen = isDirect;
  if (isDirect) {
    meetDirect(coll, barrier);
  } else {
    isSeen = agree(work, call, barrier, all);
  }
  if (isSeen) {
    SeenSum const seen = SeenSum::of(coll);
    int const targets = seen.list(isDirect, all, addresses);
    Operation<T> const op = Operation<T>::of(coll).with(addresses.factors);
    reduceTo<T>(op, seen.crew(), seen.share.bytes / coll.eltBytes, Listed{addresses.from, coll.comm.lsaSize}, Listed{addresses.to, targets});
    if (seen.inTwo) seen.give(addresses);
  }
  /* After it no rank reads this one's input or board, and its output is complete. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  return isSeen;
}

/* unseen() runs before messages and may change `work`. */
template <typename T, typename Unseen>
__device__ __forceinline__ void reducing(ginrsMappedWork const& work, uint64_t call, Unseen const& unseen) {
  if (work.coll.how != GINRS_COLL_STAGED && reducingSeen<T>(work, call)) return;
  unseen();
  reducingByMessages<T>(work.coll);
}

template <typename T>
__device__ __forceinline__ void reducingAlone(ginrsMappedWork const& work) {
  reducing<T>(work, callOf(work.coll), [] {});
}

}  // namespace coll
}  // namespace ginrs
#endif
