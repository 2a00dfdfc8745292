/* Collectives among ranks of one LSA team, from buffers and to buffers that are in no window, or of which the others do not know where: each rank tells
 * them where their kernels see those of its buffers that they touch, or that not all of them do. Where all have told, they go straight between those
 * addresses, as in the direct way; else by messages. So ranks need not agree beforehand, and what a rank passes may change from call to call. */
#ifndef GINRS_COLLECTIVES_MAPPED_CUH_
#define GINRS_COLLECTIVES_MAPPED_CUH_
#include "direct.cuh"
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
    giveEach(work, TeamAddresses::of(all.recv));
  }
}

/* Collectives that only move bytes, except along rails. Directly and mapped, block b of every rank
 * has two barriers with block b of the others. Staged, slots synchronise. */
__device__ __forceinline__ void copying(ginrsMappedWork const& work) {
  ginrsCollWork const& coll = work.coll;
  if (coll.how != GINRS_COLL_STAGED) {
    __shared__ Seen all;
    Barrier barrier{ncclCoopCta(), coll.comm, ncclTeamTagLsa(), meetingNumber()};
    bool agreed = true;
    if (coll.how == GINRS_COLL_DIRECT) {
      meetDirect(coll, barrier);
      copyDirect(coll);
    } else if ((agreed = agree(work, callOf(coll), barrier, all))) {
      copyTogether(coll, all);
    }
    /* All ranks have read the boards. If they agreed, all bytes have arrived. */
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    if (agreed) return;
  }
  copyingStaged(coll);
}

}  // namespace coll
}  // namespace ginrs
#endif
