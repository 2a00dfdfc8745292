/* Small calls in one hop: each datum goes with a flag (ncclLLA2ASession), to all ranks or to the one that it is for, and nobody waits for
 * anything but data. What is added up is so in order of ranks, so that all get the same bits. Buffers need not be registered.
 *
 * A session's slots serve every other epoch, so each rank has to hear of every other in each: who gave could else overwrite what is not yet read. So
 * a Reduce sends to all, and what has one root alone to hear of (Broadcast, Gather, Scatter) does not go this way. */
#ifndef GINRS_COLLECTIVES_LL_CUH_
#define GINRS_COLLECTIVES_LL_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

/* Pack number i of `count` elements; what lies behind them is zero. */
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> loadPack(typename T::Stored const* from, uint64_t i, uint64_t count) {
  typedef typename Pack<T, N>::Raw Raw;
  if ((uint64_t(from) & 15) == 0 && (i + 1) * N <= count) return Pack<T, N>::of(reinterpret_cast<Raw const*>(from)[i]);
  Pack<T, N> pack;
#pragma unroll
  for (int e = 0; e < N; e++) pack.v[e] = i * N + e < count ? from[i * N + e] : typename T::Stored{};
  return pack;
}
template <typename T, int N>
__device__ __forceinline__ void storePack(typename T::Stored* to, uint64_t i, uint64_t count, Pack<T, N> const& pack) {
  typedef typename Pack<T, N>::Raw Raw;
  if ((uint64_t(to) & 15) == 0 && (i + 1) * N <= count) {
    reinterpret_cast<Raw*>(to)[i] = pack.raw();
    return;
  }
#pragma unroll
  for (int e = 0; e < N; e++) {
    if (i * N + e < count) to[i * N + e] = pack.v[e];
  }
}

/* Pack after pack of `count` elements, by as many threads as there are, in an epoch each: this rank's go out, changed, then `take` gets those of all. */
template <typename T, int N, typename Change, typename Take>
__device__ __forceinline__ void exchangeLL(ginrsCollWork const& work, uint64_t count, Change const& change, Take const& take) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, threads = int(blockDim.x), slot = int(threadIdx.x);
  typename T::Stored const* const from = static_cast<typename T::Stored const*>(work.send.at);
  bool const each = work.kind == GINRS_COLL_REDUCE_SCATTER || work.kind == GINRS_COLL_ALL_TO_ALL;
  uint64_t const packs = (count + N - 1) / N;
  ncclLLA2ASession<ncclCoopCta> a2a{ncclCoopCta(), work.comm, ncclTeamLsa(work.comm), work.ll, blockIdx.x, n * threads};
  for (uint64_t base = uint64_t(blockIdx.x) * threads; base < packs; base += uint64_t(gridDim.x) * threads) {
    uint64_t const i = base + slot;
    if (i < packs) {
      if (each) {
        for (int k = 0; k < n; k++) {
          int const peer = turn(self, k, n);
          a2a.send(peer, self * threads + slot, change(loadPack<T, N>(from + peer * count, i, count)).raw());
        }
      } else {
        a2a.bcast(self * threads + slot, change(loadPack<T, N>(from, i, count)).raw());
      }
      take(a2a, slot, threads, i);
    }
    a2a.endEpoch(ncclCoopCta());
  }
}

template <typename T>
__device__ __forceinline__ void reducingLL(ginrsCollWork const& work) {
  constexpr int N = 16 / sizeof(typename T::Stored);
  typedef typename Pack<T, N>::Raw Raw;
  struct Sums {
    typename T::Sum v[1][N];
  };
  Operation<T> const op = Operation<T>::of(work);
  bool const wants = work.kind != GINRS_COLL_REDUCE || uint32_t(work.comm.lsaRank) == work.root;
  auto change = [&](Pack<T, N> const& own) { return op.isScaled() ? op.scaled(own) : own; };
  exchangeLL<T, N>(work, work.count, change, [&](auto& a2a, int slot, int threads, uint64_t i) {
    auto load = [&](Raw const& raw) {
      Sums sums;
      op.first(sums.v[0], Pack<T, N>::of(raw));
      return sums;
    };
    auto merge = [&](Sums a, Sums const& b) {
      op.template merge<1, N>(a.v, b.v);
      return a;
    };
    Sums sums = a2a.template recvReduce<4, Raw>(slot, work.comm.lsaSize, threads, load, merge);
    if (wants) storePack<T, N>(static_cast<typename T::Stored*>(work.recv.at), i, work.count, op.last(sums.v[0]));
  });
}

/* All-gather and all-to-all: rank by rank, what each has sent. */
__device__ __forceinline__ void copyingLL(ginrsCollWork const& work) {
  constexpr int N = 16, ahead = 4;
  typedef Pack<I8, N>::Raw Raw;
  uint64_t const bytes = work.count * work.eltBytes;
  auto as = [](Pack<I8, N> const& own) { return own; };
  exchangeLL<I8, N>(work, bytes, as, [&](auto& a2a, int slot, int threads, uint64_t i) {
    int const n = work.comm.lsaSize;
    I8::Stored* const to = static_cast<I8::Stored*>(work.recv.at);
    for (int first = 0; first < n; first += ahead) {
      Raw got[ahead];
      int const those = min(ahead, n - first);
      a2a.template recvUnrolled<1, ahead>(slot + first * threads, those, threads, got);
#pragma unroll
      for (int e = 0; e < ahead; e++) {
        if (e < those) storePack<I8, N>(to + (first + e) * bytes, i, bytes, Pack<I8, N>::of(got[e]));
      }
    }
  });
}

}  // namespace coll
}  // namespace ginrs
#endif
