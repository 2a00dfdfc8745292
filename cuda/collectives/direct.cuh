/* Collectives among ranks of one LSA team on buffers in symmetric windows: a barrier, loads from and stores to the peers' own
 * buffers, a barrier. Block b of every rank meets block b of the others: that all blocks have met, all kernels know when they end. */
#ifndef GINRS_COLLECTIVES_DIRECT_CUH_
#define GINRS_COLLECTIVES_DIRECT_CUH_
#include "scratch.cuh"
#include "share.cuh"

namespace ginrs {
namespace coll {

/* What one rank makes of a result that has a part of each: whole lines of all ranks, where there is enough. */
struct Elements {
  uint64_t first, count;

  template <typename T>
  static __device__ __forceinline__ Elements ofRank(ginrsCollWork const& work) {
    int const n = work.comm.lsaSize;
    uint64_t const line = n * (128 / sizeof(typename T::Stored)), part = (work.count + line - 1) / line * (line / n);
    uint64_t const first = min(work.comm.lsaRank * part, work.count);
    return {first, min(part, work.count - first)};
  }
};

/* A part of a symmetric buffer that a rank reads from everybody, and where its result goes. */
template <typename T>
__device__ __forceinline__ void reduceFromPeers(ginrsCollWork const& work, uint64_t first, uint64_t count, Targets const& to) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  Places const from = Places::of(work.comm, work.send, first * work.eltBytes);
  reduceTo<T>(Operation<T>::of(work), Crew::grid(), count, Sources{from, self, n, nullptr}, to);
}

template <typename T>
__device__ __forceinline__ void reduceDirect(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t first = 0, count = work.count;
  Targets to = Targets::one(static_cast<char*>(work.recv.at));
  switch (work.kind) {
    case GINRS_COLL_ALL_REDUCE: {
      /* Each rank reduces its part and writes it to everybody. */
      Elements const own = Elements::ofRank<T>(work);
      first = own.first;
      count = own.count;
      to = {Places::of(work.comm, work.recv, first * work.eltBytes), self, n, nullptr};
      break;
    }
    case GINRS_COLL_REDUCE_SCATTER: first = self * work.count; break;
    default: /* reduce: everything, by the root alone */
      if (uint32_t(self) != work.root) return;
  }
  reduceFromPeers<T>(work, first, count, to);
}

template <typename T>
__device__ __forceinline__ void reducingDirect(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  /* Everybody's input is there, and nobody reads its output any more. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  reduceDirect<T>(work);
  /* Nobody reads this rank's input any more, and all of its output is there. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

/* A broadcast of so many bytes goes in two steps. */
constexpr uint64_t kTwoSteps = 1 << 20;

/* The root gives each rank a part, and each passes its own on to the others: the root's links carry it about once, not n - 1 times. A
 * block's share of a part is the same in both steps, so that blocks of one number suffice each other. */
template <typename To, typename Meet>
__device__ __forceinline__ void broadcastInTwoSteps(ginrsCollWork const& work, To const& to, Meet const& meet, char const* from, uint64_t bytes) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, root = int(work.root);
  uint64_t const each = (bytes + n - 1) / n;
  auto share = [&](int rank) {
    uint64_t const first = min(rank * each, bytes);
    Share own = Share::of(min(each, bytes - first), allBlocks(), ownBlock());
    own.begin += first;
    return own;
  };
  Share const own = share(self);
  if (self == root) {
    for (int k = 0; k < n; k++) {
      Share const theirs = share(k);
      copy(Crew::block(), to.at(k) + theirs.begin, from + theirs.begin, theirs.bytes);
      copy(Crew::block(), to.at(self) + theirs.begin, from + theirs.begin, theirs.bytes);
    }
  }
  meet();
  char const* const mine = self == root ? from : to.at(self);
  for (int k = 1; k < n; k++) {
    int const peer = turn(self, k, n);
    if (peer != root) copy(Crew::block(), to.at(peer) + own.begin, mine + own.begin, own.bytes);
  }
}

/* Between two meetings of all ranks. `recv` is where each of them receives. */
template <typename To, typename Meet>
__device__ __forceinline__ void copyingTogether(ginrsCollWork const& work, To const& recv, Meet const& meet) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t const bytes = work.count * work.eltBytes;
  char const* const from = static_cast<char const*>(work.send.at);
  bool const isRoot = uint32_t(self) == work.root;
  Crew const crew = Crew::grid();
  switch (work.kind) {
    case GINRS_COLL_ALL_GATHER: {
      To const to = recv.ahead(self * bytes);
      to.spread(crew, from, bytes, self, n);
      break;
    }
    case GINRS_COLL_BROADCAST: {
      if (bytes >= kTwoSteps && n > 2) {
        broadcastInTwoSteps(work, recv, meet, from, bytes);
      } else if (isRoot) {
        recv.spread(crew, from, bytes, self, n);
      }
      break;
    }
    case GINRS_COLL_ALL_TO_ALL: {
      To const to = recv.ahead(self * bytes);
      for (int k = 0; k < n; k++) {
        int const peer = turn(self, k, n);
        copy(crew, to.at(peer), from + peer * bytes, bytes);
      }
      break;
    }
  }
}

__device__ __forceinline__ void copyingDirect(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  auto meet = [&] { barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel); };
  meet();
  copyingTogether(work, Places::of(work.comm, work.recv), meet);
  meet();
}

}  // namespace coll
}  // namespace ginrs
#endif
