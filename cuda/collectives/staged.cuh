/* What only moves bytes, through an inbox of all pairs of ranks: any buffers, any topology. Blocks (x, y): x is the channel, y 0 sends
 * and 1 receives, at the same time. Chunk by chunk, and in each chunk peer after peer: rank a sends to a + 1, a + 2, .. while it receives
 * from a - 1, a - 2, .., so the k-th send of one is the k-th receive of the other and the earliest of all that are outstanding can
 * always go on. */
#ifndef GINRS_COLLECTIVES_STAGED_CUH_
#define GINRS_COLLECTIVES_STAGED_CUH_
#include "channel.cuh"

namespace ginrs {
namespace coll {

/* Calls chunk(offset, bytes) for the channel's share of a message. */
template <typename Chunk>
__device__ __forceinline__ void chunks(ginrsCollWork const& work, uint64_t bytes, Chunk chunk) {
  Share const share = Share::of(bytes, work.channels, blockIdx.x);
  uint32_t const most = payloadOf(work.inbox);
  for (uint64_t done = 0; done < share.bytes; done += most) {
    chunk(share.begin + done, uint32_t(min(uint64_t(most), share.bytes - done)));
  }
}

/* Who sends to whom, from where to where. */
struct Routes {
  ginrsCollWork const& work;
  uint64_t bytes; /* of each message */

  __device__ __forceinline__ bool goes(int from, int to) const {
    switch (work.kind) {
      case GINRS_COLL_BROADCAST:
      case GINRS_COLL_SCATTER: return uint32_t(from) == work.root;
      case GINRS_COLL_GATHER: return uint32_t(to) == work.root;
      default: return true;
    }
  }
  __device__ __forceinline__ char const* source(int to) const {
    bool const perPeer = work.kind == GINRS_COLL_ALL_TO_ALL || work.kind == GINRS_COLL_SCATTER;
    return static_cast<char const*>(work.send.at) + (perPeer ? to * bytes : 0);
  }
  __device__ __forceinline__ char* target(int from) const {
    bool const perPeer = work.kind == GINRS_COLL_ALL_TO_ALL || work.kind == GINRS_COLL_GATHER || work.kind == GINRS_COLL_ALL_GATHER;
    return static_cast<char*>(work.recv.at) + (perPeer ? from * bytes : 0);
  }
};

__device__ __forceinline__ void copyingStaged(ginrsCollWork const& work) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  uint64_t const bytes = work.count * work.eltBytes, header = headerOf(work.kind, bytes);
  Routes const routes{work, bytes};
  if (blockIdx.y == 0) {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, k, n);
        if (!routes.goes(self, peer)) continue;
        Outgoing out(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
        copy(Crew::block(), out.open(work.comm, work.inbox), routes.source(peer) + at, size);
        out.close(work.comm, work.inbox, header, size);
      }
    });
    if (routes.goes(self, self)) {
      Share const share = Share::of(bytes, work.channels, blockIdx.x);
      copy(Crew::block(), routes.target(self) + share.begin, routes.source(self) + share.begin, share.bytes);
    }
  } else {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, n - k, n);
        if (!routes.goes(peer, self)) continue;
        Incoming in(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
        copy(Crew::block(), routes.target(peer) + at, in.open(work.comm, work.inbox, header), size);
        in.close(work.comm, work.inbox);
      }
    });
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
