/* What only moves bytes, through an inbox of all pairs of ranks: any buffers, any topology. A block has the channel of its number and
 * sends and receives at the same time. Chunk by chunk, and in each chunk peer after peer: rank a sends to a + 1, a + 2, .. while it receives
 * from a - 1, a - 2, .., so the k-th send of one is the k-th receive of the other and the earliest of all that are outstanding can
 * always go on. */
#ifndef GINRS_COLLECTIVES_STAGED_CUH_
#define GINRS_COLLECTIVES_STAGED_CUH_
#include "channel.cuh"
#include "group.cuh"

namespace ginrs {
namespace coll {

/* Calls chunk(offset, bytes) for the channel's share of a message. */
template <typename Chunk>
__device__ __forceinline__ void chunks(ginrsCollWork const& work, uint64_t bytes, Chunk chunk) {
  Share const share = Share::of(bytes, work.blocks, ownColumn(work));
  uint32_t const most = payloadOf(work.inbox);
  for (uint64_t done = 0; done < share.bytes && hasUse(work.comm); done += most) {
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
  /* A root's own copy goes with its first message. All-gather does not gain by it: its receivers make half of the copy. */
  __device__ __forceinline__ bool fuses() const {
    return work.kind == GINRS_COLL_BROADCAST && uint32_t(work.comm.rank) == work.root && work.comm.nRanks > 1 &&
           work.recv.at != work.send.at && (uint64_t(work.recv.at) & 15) == 0;
  }
  /* What the caller's blocks have to do. */
  __device__ __forceinline__ Group group() const {
    bool const rooted = work.kind == GINRS_COLL_BROADCAST || work.kind == GINRS_COLL_SCATTER || work.kind == GINRS_COLL_GATHER;
    bool const isRoot = uint32_t(work.comm.rank) == work.root;
    if (!rooted) return Group::own(true, true);
    return Group::own(isRoot != (work.kind == GINRS_COLL_GATHER), isRoot == (work.kind == GINRS_COLL_GATHER));
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

/* What a rank has for itself: by those that send, behind all else, for they need not wait; of a long share half by those that receive,
 * before anything can have come. */
__device__ __forceinline__ void copyOwn(ginrsCollWork const& work, Routes const& routes, Group const& group) {
  int const self = work.comm.rank;
  if (!routes.goes(self, self) || routes.fuses()) return;
  Share own = Share::of(routes.bytes, work.blocks, ownColumn(work));
  if (!group.alone) {
    uint64_t const half = own.bytes > payloadOf(work.inbox) ? own.bytes / 512 * 256 : 0;
    own = group.sends() ? Share{own.begin + half, own.bytes - half} : Share{own.begin, half};
  }
  copy(group.crew(), routes.target(self) + own.begin, routes.source(self) + own.begin, own.bytes);
}

/* A broadcast of so many bytes to several ranks is passed on. */
constexpr uint64_t kPassedOnByMessages = 4 << 20;

/* The root sends each other rank a part, and each passes its own on, chunk by chunk: the root's links carry the bytes once, not n - 1 times. What a rank
 * waits for in a chunk are sends of that chunk by others, and slots that they have freed behind earlier ones, so that none waits for itself.
 * A function: in its place the other copies spilled nearly twice as much. */
__device__ __noinline__ void broadcastStaged(ginrsCollWork const& work, Group const& group, uint64_t bytes, uint64_t header) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  Passed const parts = Passed::of(bytes, n, work.root, work.blocks, ownColumn(work));
  uint32_t const most = payloadOf(work.inbox);
  char* const recv = static_cast<char*>(work.recv.at);
  auto send = [&](int peer, char const* from, uint64_t size) {
    Outgoing out(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
    copy(group.crew(), out.open(group, work.comm, work.inbox), from, size);
    out.close(group, work.comm, work.inbox, header, uint32_t(size));
  };
  /* with(what came) before the slot is free again */
  auto receive = [&](int peer, Share const& part, auto with) {
    Incoming in(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
    char const* const slot = in.open(group, work.comm, work.inbox, header);
    with(slot);
    copy(group.crew(), recv + part.begin, slot, part.bytes);
    in.close(group, work.comm, work.inbox);
  };
  uint64_t const longest = parts.longest();
  for (uint64_t done = 0; done < longest && hasUse(work.comm); done += most) {
    Share const own = parts.step(self, done, most);
    if (!parts.isRoot(self) && own.bytes > 0) {
      receive(int(work.root), own, [&](char const* slot) {
        for (int k = 1; k < n; k++) {
          int const peer = turn(self, k, n);
          if (!parts.isRoot(peer)) send(peer, slot, own.bytes);
        }
      });
    }
    for (int k = 1; k < n; k++) {
      int const peer = turn(self, parts.isRoot(self) ? k : n - k, n);
      Share const part = parts.step(peer, done, most);
      if (parts.isRoot(peer) || part.bytes == 0) continue;
      if (parts.isRoot(self)) {
        char const* const from = static_cast<char const*>(work.send.at) + part.begin;
        send(peer, from, part.bytes);
        copy(group.crew(), recv + part.begin, from, part.bytes);
      } else {
        receive(peer, part, [](char const*) {});
      }
    }
  }
}

__device__ __forceinline__ void copyingStaged(ginrsCollWork const& work) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  uint64_t const bytes = work.count * work.eltBytes, header = headerOf(work.kind, bytes);
  Routes const routes{work, bytes};
  Group const group = routes.group();
  if (work.kind == GINRS_COLL_BROADCAST && n > 2 && bytes >= kPassedOnByMessages) {
    if (group.sends() == (uint32_t(self) == work.root)) broadcastStaged(work, group, bytes, header);
    return;
  }
  if (group.sends()) {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, k, n);
        if (!routes.goes(self, peer)) continue;
        Outgoing out(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
        char* const slot = out.open(group, work.comm, work.inbox);
        char* const own = k == 1 && routes.fuses() ? routes.target(self) + at : slot;
        copyTo<8>(group.crew(), routes.source(peer) + at, size, own == slot ? 1 : 2, [=](int i) { return i == 0 ? slot : own; });
        out.close(group, work.comm, work.inbox, header, size);
      }
    });
    copyOwn(work, routes, group);
  } else {
    copyOwn(work, routes, group);
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, n - k, n);
        if (!routes.goes(peer, self)) continue;
        Incoming in(work.comm, work.inbox, Ring::ofPair(work.comm, peer), blockIdx.x);
        copy(group.crew(), routes.target(peer) + at, in.open(group, work.comm, work.inbox, header), size);
        in.close(group, work.comm, work.inbox);
      }
    });
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
