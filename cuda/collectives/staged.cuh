/* Collectives through the staging memory: any buffers, any topology. Blocks (x, y): x is the channel, y the part that is played, and
 * all parts run at the same time. Chunk by chunk, and in each chunk peer after peer: rank a sends to a + 1, a + 2, .. while it receives
 * from a - 1, a - 2, .., so the k-th send of one is the k-th receive of the other and the earliest of all that are outstanding can
 * always go on. */
#ifndef GINRS_COLLECTIVES_STAGED_CUH_
#define GINRS_COLLECTIVES_STAGED_CUH_
#include "channel.cuh"
#include "direct.cuh"

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

__device__ __forceinline__ void sendTo(ginrsCollWork const& work, int peer, uint32_t channel, uint64_t message, char const* from, uint32_t bytes) {
  Outgoing out(work.comm, work.inbox, peer, channel);
  sendSlot(out, headerOf(work.kind, message), bytes, [&](char* slot) { copy(Crew::block(), slot, from, bytes); });
}
__device__ __forceinline__ void receiveFrom(ginrsCollWork const& work, int peer, uint32_t channel, uint64_t message, char* to, uint32_t bytes) {
  Incoming in(work.comm, work.inbox, peer, channel);
  receiveSlot(in, headerOf(work.kind, message), to, bytes);
}

/* ---- Without arithmetic: who sends to whom, from where to where. ---- */

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
  uint64_t const bytes = work.count * work.eltBytes;
  Routes const routes{work, bytes};
  if (blockIdx.y == 0) {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, k, n);
        if (routes.goes(self, peer)) sendTo(work, peer, blockIdx.x, bytes, routes.source(peer) + at, size);
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
        if (routes.goes(peer, self)) receiveFrom(work, peer, blockIdx.x, bytes, routes.target(peer) + at, size);
      }
    });
  }
}

/* ---- With arithmetic. ---- */

constexpr int kStagedRanks = 1024; /* reductions: the most ranks; src/coll knows it too */

/* The rank's own factor times its input. One buffer may be both. All threads of the block. */
template <typename T>
__device__ __forceinline__ void scale(Operation<T> const& op, char* to, char const* from, uint32_t bytes) {
  typedef typename T::Stored Stored;
  for (uint32_t i = threadIdx.x; i < bytes / sizeof(Stored); i += blockDim.x) {
    reinterpret_cast<Stored*>(to)[i] = op.scaled(Pack<T, 1>{{reinterpret_cast<Stored const*>(from)[i]}}).v[0];
  }
}

template <typename T>
__device__ __noinline__ void sendInput(ginrsCollWork const& work, Operation<T> const& op, int peer, uint64_t message, char const* from, uint32_t bytes) {
  Outgoing out(work.comm, work.inbox, peer, blockIdx.x);
  sendSlot(out, headerOf(work.kind, message), bytes, [&](char* slot) {
    if (op.isScaled()) {
      scale<T>(op, slot, from, bytes);
    } else {
      copy(Crew::block(), slot, from, bytes);
    }
  });
}

/* Waits for a slot of every other rank, reduces them with `own` into `to`, frees them. All threads of the block. */
template <typename T>
__device__ __noinline__ void reduceSlots(ginrsCollWork const& work, Operation<T> const& op, uint32_t channel, uint64_t message, char const* own,
                                            char* to, uint32_t bytes) {
  __shared__ char const* sources[kStagedRanks];
  int const n = work.comm.nRanks, self = work.comm.rank;
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    if (k == self) {
      sources[k] = own;
    } else {
      sources[k] = Incoming(work.comm, work.inbox, k, channel).next(headerOf(work.kind, message));
    }
  }
  if (op.isScaled()) {
    scale<T>(op, to, own, bytes);
    own = to;
    if (threadIdx.x == self % blockDim.x) sources[self] = to;
  }
  __syncthreads();
  /* In order of ranks, whoever reduces. */
  bool const alike = ((uint64_t(own) | uint64_t(to)) & 15) == 0;
  reduceTo<T>(op, Crew::block(), bytes / sizeof(typename T::Stored), alike, Sources{{nullptr, 0}, self, n, sources}, Places{to, 0}, self, 1);
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    if (k != self) Incoming(work.comm, work.inbox, k, channel).free();
  }
}

/* Reduce-scatter of parts, and then each rank sends its reduced part to all. The parts are the same ranges on all ranks and go through
 * the same channels in the same chunks: a chunk of a result arrives only after the input it replaces has been sent, so one buffer may
 * be both. */
template <typename T>
__device__ __forceinline__ void allReduceStaged(ginrsCollWork const& work) {
  constexpr uint64_t size = sizeof(typename T::Stored), line = 128 / size;
  int const n = work.comm.nRanks, self = work.comm.rank;
  char const* const send = static_cast<char const*>(work.send.at);
  char* const recv = static_cast<char*>(work.recv.at);
  uint64_t const each = (work.count + n * line - 1) / (n * line) * line;
  auto part = [&](int rank) {
    uint64_t const first = min(rank * each, work.count);
    return Share{first * size, min(each, work.count - first) * size};
  };
  uint64_t const message = work.count * size;
  Operation<T> const op = Operation<T>::of(work);
  switch (blockIdx.y) {
    case 0: /* the largest part has a chunk wherever a smaller one has */
      chunks(work, each * size, [&](uint64_t at, uint32_t most) {
        for (int k = 1; k < n; k++) {
          int const peer = turn(self, k, n);
          Share const theirs = part(peer);
          if (at < theirs.bytes) sendInput<T>(work, op, peer, message, send + theirs.begin + at, uint32_t(min(uint64_t(most), theirs.bytes - at)));
        }
      });
      break;
    case 1: {
      Share const own = part(self);
      chunks(work, each * size, [&](uint64_t at, uint32_t most) {
        if (at >= own.bytes) return;
        uint32_t const bytes = uint32_t(min(uint64_t(most), own.bytes - at));
        reduceSlots<T>(work, op, blockIdx.x, message, send + own.begin + at, recv + own.begin + at, bytes);
        __syncthreads();
        for (int k = 1; k < n; k++) sendTo(work, turn(self, k, n), work.channels + blockIdx.x, message, recv + own.begin + at, bytes);
        __syncthreads();
      });
      break;
    }
    default:
      chunks(work, each * size, [&](uint64_t at, uint32_t most) {
        for (int k = 1; k < n; k++) {
          int const peer = turn(self, n - k, n);
          Share const theirs = part(peer);
          if (at < theirs.bytes) {
            receiveFrom(work, peer, work.channels + blockIdx.x, message, recv + theirs.begin + at, uint32_t(min(uint64_t(most), theirs.bytes - at)));
          }
        }
      });
  }
}

/* Everybody's block k to rank k, which reduces them; of a reduce only the root's. */
template <typename T>
__device__ __forceinline__ void reduceScatterStaged(ginrsCollWork const& work) {
  int const n = work.comm.nRanks, self = work.comm.rank;
  bool const toRoot = work.kind == GINRS_COLL_REDUCE;
  uint64_t const bytes = work.count * sizeof(typename T::Stored);
  char const* const send = static_cast<char const*>(work.send.at);
  Operation<T> const op = Operation<T>::of(work);
  auto block = [&](int rank) { return send + (toRoot ? 0 : rank * bytes); };
  if (blockIdx.y == 0) {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      for (int k = 1; k < n; k++) {
        int const peer = turn(self, k, n);
        if (!toRoot || uint32_t(peer) == work.root) sendInput<T>(work, op, peer, bytes, block(peer) + at, size);
      }
    });
  } else if (!toRoot || uint32_t(self) == work.root) {
    chunks(work, bytes, [&](uint64_t at, uint32_t size) {
      reduceSlots<T>(work, op, blockIdx.x, bytes, block(self) + at, static_cast<char*>(work.recv.at) + at, size);
      __syncthreads();
    });
  }
}

template <typename T>
__device__ __forceinline__ void reducingStaged(ginrsCollWork const& work) {
  if (work.kind == GINRS_COLL_ALL_REDUCE) {
    allReduceStaged<T>(work);
  } else {
    reduceScatterStaged<T>(work);
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
