/* Collectives among ranks of one LSA team on buffers in symmetric windows: a barrier, loads from and stores to the peers' own
 * buffers, a barrier. Block b of every rank meets block b of the others: that all blocks have met, all kernels know when they end. */
#ifndef GINRS_COLLECTIVES_DIRECT_CUH_
#define GINRS_COLLECTIVES_DIRECT_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

typedef ncclLsaBarrierSession<ncclCoopCta> Barrier;

/* Packs [i, end) that this thread has a share in, reduced over n sources; sink(index, result). U packs of P sources are in flight. */
template <int U, typename T, int N, typename Source, typename Sink>
__device__ __forceinline__ uint64_t reducePacks(Operation<T> const& op, Crew crew, uint64_t i, uint64_t end, int n, Source source,
                                                Sink sink) {
  constexpr int P = 4;
  typedef typename Pack<T, N>::Raw Raw;
  for (; end > (U - 1) * crew.workers && i < end - (U - 1) * crew.workers; i += U * crew.workers) {
    typename T::Sum sum[U][N];
#pragma unroll 1
    for (int k = 0; k < n; k += P) {
      Raw in[P][U];
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= n) break;
        Raw const* from = reinterpret_cast<Raw const*>(source(k + p));
#pragma unroll
        for (int u = 0; u < U; u++) in[p][u] = from[i + u * crew.workers];
      }
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= n) break;
#pragma unroll
        for (int u = 0; u < U; u++) {
          Pack<T, N> pack = Pack<T, N>::of(in[p][u]);
          if (k + p == 0) {
            op.first(sum[u], pack);
          } else {
            op.add(sum[u], pack);
          }
        }
      }
    }
#pragma unroll
    for (int u = 0; u < U; u++) sink(i + u * crew.workers, op.last(sum[u]).raw());
  }
  return i;
}

/* Elements [0, count) reduced over n sources and written to each of `targets` places. source(k), target(k): where element 0 is; all
 * are equal modulo the element's size, and `alike` says that all are equal modulo 16. */
template <typename T, typename Source, typename Target>
__device__ __forceinline__ void reduceTo(Operation<T> const& op, Crew crew, uint64_t count, bool alike, int n, Source source, int targets,
                                         Target target) {
  constexpr int size = sizeof(typename T::Stored), N = 16 / size;
  auto part = [&](auto pack, uint64_t first, uint64_t elements) {
    constexpr int M = decltype(pack)::value;
    typedef typename Pack<T, M>::Raw Raw;
    auto from = [=](int k) { return source(k) + first * size; };
    auto sink = [=](uint64_t i, Raw const& raw) {
#pragma unroll 1
      for (int k = 0; k < targets; k++) reinterpret_cast<Raw*>(target(k) + first * size)[i] = raw;
    };
    uint64_t const packs = elements / M;
    uint64_t i = crew.worker;
    if (M > 1) i = reducePacks<2, T, M>(op, crew, i, packs, n, from, sink);
    reducePacks<1, T, M>(op, crew, i, packs, n, from, sink);
  };
  uint64_t head = alike ? ((0 - uint64_t(source(0))) & 15) / size : count;
  if (head > count) head = count;
  uint64_t const middle = (count - head) / N * N;
  if (head > 0) part(std::integral_constant<int, 1>(), 0, head);
  if (middle > 0) part(std::integral_constant<int, N>(), head, middle);
  if (head + middle < count) part(std::integral_constant<int, 1>(), head + middle, count - head - middle);
}

/* Each rank reduces its part from everybody and writes it to everybody. A part is a multiple of 128 bytes, where there is enough. */
template <typename T>
__device__ __forceinline__ void allReduceDirect(ginrsCollWork const& work) {
  constexpr uint64_t line = 128 / sizeof(typename T::Stored);
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t const part = (work.count + n * line - 1) / (n * line) * line;
  uint64_t const first = min(self * part, work.count), count = min(part, work.count - first);
  Places const from = Places::of(work.comm, work.send, first * work.eltBytes);
  Places const to = Places::of(work.comm, work.recv, first * work.eltBytes);
  bool const alike = ((uint64_t(from.first) ^ uint64_t(to.first)) & 15) == 0;
  reduceTo(Operation<T>::of(work), Crew::grid(), count, alike, n, [=](int k) { return from.at(turn(self, k, n)); }, n,
           [=](int k) { return to.at(turn(self, k, n)); });
}

/* Its block of everybody's, into its own memory. */
template <typename T>
__device__ __forceinline__ void reduceScatterDirect(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  Places const from = Places::of(work.comm, work.send, self * work.count * work.eltBytes);
  char* const to = static_cast<char*>(work.recv.at);
  bool const alike = ((uint64_t(from.first) ^ uint64_t(to)) & 15) == 0;
  reduceTo(Operation<T>::of(work), Crew::grid(), work.count, alike, n, [=](int k) { return from.at(turn(self, k, n)); }, 1,
           [=](int) { return to; });
}

/* Everything from everybody, by the root alone. */
template <typename T>
__device__ __forceinline__ void reduceDirect(ginrsCollWork const& work) {
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  if (uint32_t(self) != work.root) return;
  Places const from = Places::of(work.comm, work.send);
  char* const to = static_cast<char*>(work.recv.at);
  bool const alike = ((uint64_t(from.first) ^ uint64_t(to)) & 15) == 0;
  reduceTo(Operation<T>::of(work), Crew::grid(), work.count, alike, n, [=](int k) { return from.at(turn(self, k, n)); }, 1,
           [=](int) { return to; });
}

template <typename T>
__device__ __forceinline__ void reducingDirect(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  /* Everybody's input is there, and nobody reads its output any more. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  switch (work.kind) {
    case GINRS_COLL_ALL_REDUCE: allReduceDirect<T>(work); break;
    case GINRS_COLL_REDUCE_SCATTER: reduceScatterDirect<T>(work); break;
    case GINRS_COLL_REDUCE: reduceDirect<T>(work); break;
  }
  /* Nobody reads this rank's input any more, and all of its output is there. */
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

__device__ __forceinline__ void copyingDirect(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  int const n = work.comm.lsaSize, self = work.comm.lsaRank;
  uint64_t const bytes = work.count * work.eltBytes;
  char const* const from = static_cast<char const*>(work.send.at);
  bool const isRoot = uint32_t(self) == work.root;
  Crew const crew = Crew::grid();
  switch (work.kind) {
    case GINRS_COLL_ALL_GATHER: {
      Places const to = Places::of(work.comm, work.recv, self * bytes);
      copyTo(crew, from, bytes, n, [=](int k) { return to.at(turn(self, k, n)); });
      break;
    }
    case GINRS_COLL_BROADCAST: {
      Places const to = Places::of(work.comm, work.recv);
      if (isRoot) copyTo(crew, from, bytes, n, [=](int k) { return to.at(turn(self, k, n)); });
      break;
    }
    case GINRS_COLL_ALL_TO_ALL: {
      Places const to = Places::of(work.comm, work.recv, self * bytes);
      for (int k = 0; k < n; k++) {
        int const peer = turn(self, k, n);
        copy(crew, to.at(peer), from + peer * bytes, bytes);
      }
      break;
    }
    case GINRS_COLL_GATHER: copy(crew, Places::of(work.comm, work.recv, self * bytes).at(work.root), from, bytes); break;
    case GINRS_COLL_SCATTER: {
      Places const to = Places::of(work.comm, work.recv);
      for (int k = 0; isRoot && k < n; k++) {
        int const peer = turn(self, k, n);
        copy(crew, to.at(peer), from + peer * bytes, bytes);
      }
      break;
    }
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

}  // namespace coll
}  // namespace ginrs
#endif
