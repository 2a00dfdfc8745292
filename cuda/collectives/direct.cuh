/* Collectives among ranks of one LSA team on buffers in symmetric windows: a barrier, loads from and stores to the peers' own
 * buffers, a barrier. Block b of every rank meets block b of the others: that all blocks have met, all kernels know when they end. */
#ifndef GINRS_COLLECTIVES_DIRECT_CUH_
#define GINRS_COLLECTIVES_DIRECT_CUH_
#include "scratch.cuh"
#include "share.cuh"

namespace ginrs {
namespace coll {

/* What one of n ranks makes of a result that has a part of each: whole lines of all, where there is enough. */
struct Elements {
  uint64_t first, count;

  template <typename T>
  static __device__ __forceinline__ Elements ofPart(uint64_t count, int part, int n) {
    uint64_t const line = n * (128 / sizeof(typename T::Stored)), each = (count + line - 1) / line * (line / n);
    uint64_t const first = min(part * each, count);
    return {first, min(each, count - first)};
  }
  template <typename T>
  static __device__ __forceinline__ Elements ofRank(ginrsCollWork const& work) {
    return ofPart<T>(work.count, work.comm.lsaRank, work.comm.lsaSize);
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
  Called::tell(work);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  Called::check(work);
  reduceDirect<T>(work);
  /* Nobody reads this rank's input any more, and all of its output is there. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

/* A broadcast of so many bytes is passed on. */
constexpr uint64_t kPassedOn = 1 << 20;
/* What a block gives a rank, and that passes on, before they meet. */
#ifdef __GINRS_CPU__
constexpr uint64_t kStep = 1 << 20; /* a meeting costs much */
#else
constexpr uint64_t kStep = 128 << 10;
#endif

/* The root gives each other rank a part, and each passes its own on to the rest while the root gives the next step's bytes: every link carries the
 * bytes once, the root's not n - 1 times. A block's share of a part is the same for all who touch it, so that blocks of one number suffice each other. */
template <typename To, typename Meet>
__device__ __forceinline__ void broadcastPassedOn(ginrsCollWork const& work, To const& to, Meet const& meet, char const* from, uint64_t bytes) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  Passed const parts = Passed::of(bytes, n, work.root, allBlocks(), ownBlock());
  char* const own = static_cast<char*>(work.recv.at);
  auto move = [&](char* target, char const* source, Share const& part) { copy(Crew::block(), target + part.begin, source + part.begin, part.bytes); };
  auto passOn = [&](uint64_t done) {
    for (int k = 1; k < n; k++) {
      int const peer = turn(self, k, n);
      if (!parts.isRoot(peer)) move(to.at(peer), own, parts.step(self, done, kStep));
    }
  };
  uint64_t const longest = parts.longest();
  for (uint64_t done = 0; done < longest; done += kStep) {
    if (!parts.isRoot(self)) {
      if (done > 0) passOn(done - kStep);
    } else {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, k, n);
        move(to.at(peer), from, parts.step(peer, done, kStep));
        move(own, from, parts.step(peer, done, kStep));
      }
    }
    meet();
  }
  if (!parts.isRoot(self) && longest > 0) passOn((longest - 1) / kStep * kStep);
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
      if (bytes >= kPassedOn && n > 2) {
        broadcastPassedOn(work, recv, meet, from, bytes);
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
  Called::tell(work);
  meet();
  Called::check(work);
  copyingTogether(work, Places::of(work.comm, work.recv), meet);
  meet();
}

}  // namespace coll
}  // namespace ginrs
#endif
