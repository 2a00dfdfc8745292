/* Collectives among ranks of one LSA team, from buffers and to buffers that are in no window, or of which the others do not know where: each rank tells
 * them where their kernels see those of its buffers that they touch, or that not all of them do. Where all have told, they go straight between those
 * addresses, as in the direct way; else by messages. So ranks need not agree beforehand, and what a rank passes may change from call to call. */
#ifndef GINRS_COLLECTIVES_MAPPED_CUH_
#define GINRS_COLLECTIVES_MAPPED_CUH_
#include "direct.cuh"
#include "passing.cuh"
#include "staged.cuh"

namespace ginrs {
namespace coll {

/* Of a block, in each rank's memory, zero at first. */
struct MappedBoard {
  uint64_t launches; /* of this block, so far: equal on all ranks */
  uint64_t pad[15];
  /* By rank of the team. That rank's block of this number writes before their first barrier of a launch; read before the last. */
  struct Told {
    uint64_t send, recv; /* where this rank's kernels see its buffers (ginrsMappedWork), or 0 */
    uint64_t call;       /* callOf */
    uint64_t launch;     /* the how many-eth */
    uint64_t factor;     /* PRE_MUL: the bits of that rank's */
  } told[GINRS_MAPPED_RANKS];

  static __device__ __forceinline__ MappedBoard* of(ginrsMappedWork const& work, int rank) {
    return static_cast<MappedBoard*>(ncclGetResourceBufferLsaPointer(work.coll.comm, work.board, rank)) + meetingNumber();
  }
};
static_assert(sizeof(MappedBoard) == GINRS_MAPPED_BOARD, "src/coll/setup.rs makes it");

/* A place of every rank's buffer: those begin anywhere. */
struct MappedPlaces {
  uint64_t const* begins;
  uint64_t offset;

  __device__ __forceinline__ char* at(int rank) const { return reinterpret_cast<char*>(begins[rank] + offset); }
  __device__ __forceinline__ MappedPlaces ahead(uint64_t by) const { return {begins, offset + by}; }
  __device__ __forceinline__ void spread(Crew crew, char const* from, uint64_t bytes, int self, int n) const {
    MappedPlaces const to = *this;
    copyToAny(crew, from, bytes, n - 1, [=](int k) { return to.at(turn(self, k + 1, n)); });
  }
};

/* Where the ranks' buffers are, as far as others touch them, and their factors. */
struct Seen {
  uint64_t send[GINRS_MAPPED_RANKS], recv[GINRS_MAPPED_RANKS], factor[GINRS_MAPPED_RANKS];
};

/* One way alone a link carries more by loads than by stores: two H200, 256 MiB, by 32 blocks 369 GB/s and 351 (both ways at the same time 334 and 347). So
 * who gets something from one rank reads it. */
__device__ __forceinline__ bool isPair(ginrsCollWork const& work) { return work.comm.lsaSize == 2; }

/* Whether others read that rank's send buffer, and write its receive buffer: Call::lends of src/coll/call.rs. */
__device__ __forceinline__ bool isRead(ginrsCollWork const& work, int rank) {
  bool const isRoot = uint32_t(rank) == work.root;
  switch (work.kind) {
    case GINRS_COLL_ALL_REDUCE:
    case GINRS_COLL_REDUCE_SCATTER:
    case GINRS_COLL_REDUCE_FOR_EACH: return true;
    case GINRS_COLL_REDUCE: return !isPair(work) || !isRoot;
    case GINRS_COLL_BROADCAST:
    case GINRS_COLL_SCATTER: return isRoot;
    case GINRS_COLL_GATHER: return !isRoot;
    default: return false;
  }
}
__device__ __forceinline__ bool isWritten(ginrsCollWork const& work, int rank) {
  bool const isRoot = uint32_t(rank) == work.root;
  switch (work.kind) {
    case GINRS_COLL_REDUCE: return !isPair(work) && isRoot;
    case GINRS_COLL_BROADCAST: return !isPair(work) && !isRoot;
    case GINRS_COLL_REDUCE_SCATTER:
    case GINRS_COLL_REDUCE_FOR_EACH:
    case GINRS_COLL_SCATTER:
    case GINRS_COLL_GATHER: return false;
    default: return true;
  }
}

/* The first barrier. True if every rank has told where its buffers are, for the same `call` (callOf): the same on all of them, and in all blocks. Other
 * calls are refused on the way of messages. Who has left the barrier by an abort may find what was told for an earlier launch. */
__device__ __forceinline__ bool agree(ginrsMappedWork const& work, uint64_t call, Barrier& barrier, Seen& all) {
  ginrsCollWork const& coll = work.coll;
  ncclDevComm const& comm = coll.comm;
  MappedBoard* const own = MappedBoard::of(work, comm.lsaRank);
  uint64_t const launch = loadRelaxed(&own->launches) + 1;
  uint64_t const factor = coll.op == GINRS_COLL_PRE_MUL ? factorBits(coll) : 0;
  for (int k = threadIdx.x; k < comm.lsaSize; k += blockDim.x) {
    MappedBoard::of(work, k)->told[comm.lsaRank] = {work.send[k], work.recv[k], call, launch, factor};
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (threadIdx.x == 0) storeRelaxed(&own->launches, launch);
  /* Not the host's word: 32 blocks that read it at the same time took 30 us. */
  bool told = !isAborted(comm);
  for (int k = threadIdx.x; k < comm.lsaSize; k += blockDim.x) {
    MappedBoard::Told* const of = &own->told[k];
    uint64_t const send = loadRelaxed(&of->send), recv = loadRelaxed(&of->recv);
    told = told && loadRelaxed(&of->call) == call && loadRelaxed(&of->launch) == launch;
    told = told && (!isRead(coll, k) || send != 0) && (!isWritten(coll, k) || recv != 0);
    /* Its own as the program has it: what is in place is not copied. */
    bool const isOwn = k == comm.lsaRank;
    all.send[k] = isOwn ? reinterpret_cast<uint64_t>(coll.send.at) : seenAt(comm, send, k);
    all.recv[k] = isOwn ? reinterpret_cast<uint64_t>(coll.recv.at) : seenAt(comm, recv, k);
    all.factor[k] = loadRelaxed(&of->factor);
  }
  return __syncthreads_and(told) != 0;
}

/* What this rank makes of a sum. For a root several others do it: each link carries the sum's bytes once then. One other it reads. */
template <typename T>
__device__ __forceinline__ Elements elementsOf(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, root = int(work.root);
  if (work.kind == GINRS_COLL_REDUCE_SCATTER) return {self * work.count, work.count};
  if (work.kind == GINRS_COLL_REDUCE_FOR_EACH) return {0, work.count};
  if (work.kind != GINRS_COLL_REDUCE) return Elements::ofPart<T>(work.count, self, n);
  if ((self == root) != isPair(work)) return {0, 0};
  return isPair(work) ? Elements{0, work.count} : Elements::ofPart<T>(work.count, self - (self > root), n - 1);
}

/* Of an all-reduce of so many bytes each rank first makes its part and then gives it to the others: links that are read and written at the same time carry
 * less. Two H200: 4 MiB 20.4 us, at the same time 22.0; 256 MiB 788 and 878; four H100: 64 MiB 313 and 365, 256 MiB 1210 and 1420. src/coll/table.rs counts on it. */
__device__ __forceinline__ bool isApart(ginrsCollWork const& work) {
#ifdef __GINRS_CPU__
  uint64_t const least = 1 << 20; /* so that tests come by */
#else
  uint64_t const least = isPair(work) ? 4 << 20 : 64 << 20;
#endif
  return work.count * work.eltBytes >= least;
}

/* Each rank reduces a part of what all have, of a scatter its own, and writes it where it belongs: to itself, to the root, or to all. */
template <typename T>
__device__ __forceinline__ void reduceTogether(ginrsCollWork const& work, Seen const& all) {
  __shared__ char* from[GINRS_MAPPED_RANKS];
  __shared__ char* to[GINRS_MAPPED_RANKS];
  __shared__ uint64_t factors[GINRS_MAPPED_RANKS];
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  Elements const own = elementsOf<T>(work);
  bool const isForAll = work.kind == GINRS_COLL_ALL_REDUCE, inTwo = isForAll && isApart(work);
  /* In two steps block by block, for what a block gives away it has made */
  Share const share = inTwo ? Share::of(own.count * work.eltBytes, allBlocks(work), ownBlock(work)) : Share{0, own.count * work.eltBytes};
  uint64_t const ahead = own.first * work.eltBytes + share.begin;
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    int const peer = turn(self, k, n);
    from[k] = reinterpret_cast<char*>(all.send[peer] + ahead);
    factors[k] = all.factor[peer];
    if (isForAll) to[k] = reinterpret_cast<char*>(all.recv[peer] + ahead);
  }
  bool const isScattered = work.kind == GINRS_COLL_REDUCE_SCATTER || work.kind == GINRS_COLL_REDUCE_FOR_EACH;
  if (threadIdx.x == 0 && isScattered) to[0] = static_cast<char*>(work.recv.at);
  if (threadIdx.x == 0 && work.kind == GINRS_COLL_REDUCE) to[0] = reinterpret_cast<char*>(all.recv[work.root] + ahead);
  __syncthreads();
  Operation<T> const op = Operation<T>::of(work).with(factors);
  Crew const crew = inTwo ? Crew::block() : Crew::of(work);
  uint64_t const count = share.bytes / work.eltBytes;
  int const targets = isForAll && !inTwo ? n : 1;
  if (targets == 1) {
    reduceTo<T>(op, crew, count, Listed{from, n}, One{to[0]});
  } else {
    reduceTo<T>(op, crew, count, Listed{from, n}, Listed{to, targets});
  }
  if (!inTwo) return;
  __syncthreads();
  copyToAny(Crew::block(), to[0], share.bytes, n - 1, [&](int k) { return to[k + 1]; });
}

/* Block b of every rank meets block b of the others, as in the direct way. False: not all have told; the bytes are where they were. */
template <typename Move>
__device__ __forceinline__ bool mapped(ginrsMappedWork const& work, uint64_t call, Move const& move) {
  __shared__ Seen all;
  Barrier barrier{ncclCoopCta(), work.coll.comm, ncclTeamTagLsa(), meetingNumber()};
  bool const agreed = agree(work, call, barrier, all);
  if (agreed) move(all);
  /* All of them have read what they were told, and, where they agreed, all bytes are there. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  return agreed;
}

/* A broadcast: each but the root reads a part of it there, and writes that to itself and to the rest, so every link carries the bytes once, and nobody waits
 * for anybody in between. Four H200, 256 MiB: 768 us; by a root that gives each its part, of which they are told to pass it on, 861. */
__device__ __forceinline__ void readAndPassOn(ginrsCollWork const& work, Seen const& all, uint64_t bytes) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, root = int(work.root);
  char const* const from = reinterpret_cast<char const*>(all.send[root]);
  if (self == root) return copy(Crew::of(work), static_cast<char*>(work.recv.at), from, bytes);
  Share const part = Share::of(bytes, n - 1, self - (self > root));
  int const toRoot = (root - self + n) % n;
  copyToAny(Crew::of(work), from + part.begin, part.bytes, n - 1,
            [&](int k) { return reinterpret_cast<char*>(all.recv[turn(self, k < toRoot ? k : k + 1, n)] + part.begin); });
}

__device__ __forceinline__ void copyTogether(ginrsCollWork const& work, Seen const& all) {
  uint64_t const bytes = work.count * work.eltBytes;
  bool const isRoot = uint32_t(work.comm.lsaRank) == work.root;
  char* const own = static_cast<char*>(work.recv.at);
  if (work.kind == GINRS_COLL_GATHER) {
    if (!isRoot) return;
    withEach(work, bytes, [&](int rank) { return own + rank * bytes; }, [&](int rank) { return reinterpret_cast<char const*>(all.send[rank]); });
  } else if (work.kind == GINRS_COLL_SCATTER) {
    copy(Crew::of(work), own, reinterpret_cast<char const*>(all.send[work.root] + work.comm.lsaRank * bytes), bytes);
  } else if (work.kind == GINRS_COLL_BROADCAST) {
    readAndPassOn(work, all, bytes);
  } else {
    giveEach(work, MappedPlaces{all.recv, 0});
  }
}

__device__ __forceinline__ bool copiedMapped(ginrsMappedWork const& work) {
  return mapped(work, callOf(work.coll), [&](Seen const& all) { copyTogether(work.coll, all); });
}

__device__ __forceinline__ void copyingMapped(ginrsMappedWork const& work) {
  if (!copiedMapped(work)) copyingStaged(work.coll);
}

template <typename T>
__device__ __forceinline__ bool reducedMapped(ginrsMappedWork const& work, uint64_t call) {
  return mapped(work, call, [&](Seen const& all) { reduceTogether<T>(work.coll, all); });
}

template <typename T>
__device__ __forceinline__ void reducingMapped(ginrsMappedWork const& work) {
  if (!reducedMapped<T>(work, callOf(work.coll))) reducingByMessages<T>(work.coll);
}

}  // namespace coll
}  // namespace ginrs
#endif
