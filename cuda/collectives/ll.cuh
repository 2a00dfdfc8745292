/* Small all-reduces in one hop: every rank sends all of its input to all, each datum with a flag (ncclLLA2ASession), and each adds up
 * what arrives, in order of ranks, so that all get the same bits. Buffers need not be registered. */
#ifndef GINRS_COLLECTIVES_LL_CUH_
#define GINRS_COLLECTIVES_LL_CUH_
#include "types.cuh"

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

template <typename T>
__device__ __forceinline__ void allReduceLL(ginrsCollWork const& work) {
  constexpr int N = 16 / sizeof(typename T::Stored);
  typedef typename Pack<T, N>::Raw Raw;
  typedef typename T::Sum Sum;
  struct Sums {
    Sum v[1][N];
  };
  Operation<T> const op = Operation<T>::of(work);
  int const n = work.comm.lsaSize, self = work.comm.lsaRank, threads = int(blockDim.x), slot = int(threadIdx.x);
  typename T::Stored const* const from = static_cast<typename T::Stored const*>(work.send.at);
  typename T::Stored* const to = static_cast<typename T::Stored*>(work.recv.at);
  uint64_t const packs = (work.count + N - 1) / N;
  ncclLLA2ASession<ncclCoopCta> a2a{ncclCoopCta(), work.comm, ncclTeamLsa(work.comm), work.ll, blockIdx.x, n * threads};
  for (uint64_t base = uint64_t(blockIdx.x) * threads; base < packs; base += uint64_t(gridDim.x) * threads) {
    uint64_t const i = base + slot;
    if (i < packs) {
      Pack<T, N> const own = loadPack<T, N>(from, i, work.count);
      a2a.bcast(self * threads + slot, op.isScaled() ? op.scaled(own).raw() : own.raw());
      auto load = [&](Raw const& raw) {
        Sums sums;
        op.first(sums.v[0], Pack<T, N>::of(raw));
        return sums;
      };
      auto merge = [&](Sums a, Sums const& b) {
        op.template merge<1, N>(a.v, b.v);
        return a;
      };
      Sums sums = a2a.template recvReduce<4, Raw>(slot, n, threads, load, merge);
      storePack<T, N>(to, i, work.count, op.last(sums.v[0]));
    }
    a2a.endEpoch(ncclCoopCta());
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
