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

/* `n` bytes, 16 at most, in words that fit where they are; what lies behind them is zero. */
template <typename W>
__device__ __forceinline__ uint4 loadWords(char const* at, int n) {
  W word[16 / sizeof(W)] = {};
#pragma unroll
  for (int k = 0; k < int(16 / sizeof(W)); k++) {
    if (k * int(sizeof(W)) < n) word[k] = reinterpret_cast<W const*>(at)[k];
  }
  uint4 raw;
  memcpy(&raw, word, sizeof raw);
  return raw;
}
template <typename W>
__device__ __forceinline__ void storeWords(char* at, int n, uint4 const& raw) {
  W word[16 / sizeof(W)];
  memcpy(word, &raw, sizeof raw);
#pragma unroll
  for (int k = 0; k < int(16 / sizeof(W)); k++) {
    if (k * int(sizeof(W)) < n) reinterpret_cast<W*>(at)[k] = word[k];
  }
}
__device__ __forceinline__ uint4 loadBytes(char const* at, int n) {
  switch (commonWord(uint64_t(at) | n, 0)) {
    case 16: return loadWords<uint4>(at, n);
    case 8: return loadWords<uint64_t>(at, n);
    case 4: return loadWords<uint32_t>(at, n);
    case 2: return loadWords<uint16_t>(at, n);
    default: return loadWords<uint8_t>(at, n);
  }
}
__device__ __forceinline__ void storeBytes(char* at, int n, uint4 const& raw) {
  switch (commonWord(uint64_t(at) | n, 0)) {
    case 16: return storeWords<uint4>(at, n, raw);
    case 8: return storeWords<uint64_t>(at, n, raw);
    case 4: return storeWords<uint32_t>(at, n, raw);
    case 2: return storeWords<uint16_t>(at, n, raw);
    default: return storeWords<uint8_t>(at, n, raw);
  }
}

/* Pack after pack of a part, by as many threads as there are, in an epoch each: `load` has this rank's of the part for a rank, or of the one for
 * all; then `take` gets those of all ranks. */
template <typename Load, typename Take>
__device__ __forceinline__ void exchangeLL(ginrsCollWork const& work, uint64_t packs, Load const& load, Take const& take) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, threads = int(blockDim.x), slot = int(threadIdx.x);
  bool const each = work.kind == GINRS_COLL_REDUCE_SCATTER || work.kind == GINRS_COLL_ALL_TO_ALL;
  ncclLLA2ASession<ncclCoopCta> a2a{ncclCoopCta(), work.comm, ncclTeamLsa(work.comm), work.ll, blockIdx.x, n * threads};
  for (uint64_t base = uint64_t(ownColumn(work)) * threads; base < packs; base += uint64_t(work.blocks) * threads) {
    uint64_t const i = base + slot;
    if (i < packs) {
      if (each) {
        for (int k = 0; k < n; k++) {
          int const peer = turn(self, k, n);
          a2a.send(peer, self * threads + slot, load(peer, i));
        }
      } else {
        a2a.bcast(self * threads + slot, load(0, i));
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
  auto own = [&](int part, uint64_t i) {
    Pack<T, N> const pack = loadPack<T, N>(static_cast<typename T::Stored const*>(work.send.at) + part * work.count, i, work.count);
    return op.isScaled() ? op.scaled(pack).raw() : pack.raw();
  };
  exchangeLL(work, (work.count + N - 1) / N, own, [&](auto& a2a, int slot, int threads, uint64_t i) {
    auto load = [&](Raw const& raw) {
      Sums sums;
      op.first(sums.v[0], Pack<T, N>::of(raw));
      return sums;
    };
    auto merge = [&](Sums a, Sums const& b) {
      op.template merge<1, N>(a.v, b.v);
      return a;
    };
    Sums sums = a2a.template recvReduce<(T::isSlow ? 1 : 4), Raw>(slot, work.comm.lsaSize, threads, load, merge);
    if (wants) storePack<T, N>(static_cast<typename T::Stored*>(work.recv.at), i, work.count, op.last(sums.v[0]));
  });
}

/* All-gather and all-to-all: rank by rank, what each has sent. */
__device__ __forceinline__ void copyingLL(ginrsCollWork const& work) {
  constexpr int ahead = 4;
  uint64_t const bytes = work.count * work.eltBytes;
  auto left = [&](uint64_t i) { return int(min(uint64_t(16), bytes - 16 * i)); };
  auto own = [&](int part, uint64_t i) { return loadBytes(static_cast<char const*>(work.send.at) + part * bytes + 16 * i, left(i)); };
  exchangeLL(work, (bytes + 15) / 16, own, [&](auto& a2a, int slot, int threads, uint64_t i) {
    int const n = work.comm.lsaSize;
    char* const to = static_cast<char*>(work.recv.at) + 16 * i;
    for (int first = 0; first < n; first += ahead) {
      uint4 got[ahead];
      int const those = min(ahead, n - first);
      a2a.template recvUnrolled<1, ahead>(slot + first * threads, those, threads, got);
#pragma unroll
      for (int e = 0; e < ahead; e++) {
        if (e < those) storeBytes(to + (first + e) * bytes, left(i), got[e]);
      }
    }
  });
}

}  // namespace coll
}  // namespace ginrs
#endif
