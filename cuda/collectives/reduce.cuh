/* The one loop that adds up: elements of several sources into one or several places, by all threads of a crew. */
#ifndef GINRS_COLLECTIVES_REDUCE_CUH_
#define GINRS_COLLECTIVES_REDUCE_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

/* Where the inputs are: one place of every rank, from the own one upwards, or a table. */
struct Sources {
  Places places;
  int self, n;
  char const* const* table; /* null: places */

  __device__ __forceinline__ char const* at(int k) const { return table != nullptr ? table[k] : places.at(turn(self, k, n)); }
};

/* Packs [i, end) that this thread has a share in; U packs of P sources are in flight. Returns where it stopped. */
template <int U, typename T, int N>
__device__ __forceinline__ uint64_t reducePacks(Operation<T> const& op, Crew crew, uint64_t i, uint64_t end, uint64_t ahead, Sources const& from,
                                                Places const& to, int self, int targets) {
  constexpr int P = 4;
  typedef typename Pack<T, N>::Raw Raw;
  for (; end > (U - 1) * crew.workers && i < end - (U - 1) * crew.workers; i += U * crew.workers) {
    typename T::Sum sum[U][N];
#pragma unroll 1
    for (int k = 0; k < from.n; k += P) {
      Raw in[P][U];
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= from.n) break;
        Raw const* source = reinterpret_cast<Raw const*>(from.at(k + p) + ahead);
#pragma unroll
        for (int u = 0; u < U; u++) in[p][u] = source[i + u * crew.workers];
      }
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= from.n) break;
        if (k + p == 0) {
#pragma unroll
          for (int u = 0; u < U; u++) op.first(sum[u], Pack<T, N>::of(in[p][u]));
        } else {
          op.template add<U, N>(sum, in[p]);
        }
      }
    }
    Raw out[U];
#pragma unroll
    for (int u = 0; u < U; u++) out[u] = op.last(sum[u]).raw();
#pragma unroll 1
    for (int k = 0; k < targets; k++) {
      Raw* target = reinterpret_cast<Raw*>(to.at(targets == 1 ? 0 : turn(self, k, targets)) + ahead);
#pragma unroll
      for (int u = 0; u < U; u++) target[i + u * crew.workers] = out[u];
    }
  }
  return i;
}

/* Elements [0, count) of all sources, reduced, to one place or to that place of `targets` ranks. All pointers are aligned to an
 * element; alike: they are equal modulo 16. Not inlined: there is one of it for each type, not one for each collective. */
template <typename T>
__device__ __noinline__ void reduceTo(Operation<T> op, Crew crew, uint64_t count, bool alike, Sources from, Places to, int self, int targets) {
  constexpr int size = sizeof(typename T::Stored), N = 16 / size;
  uint64_t head = alike ? ((0 - uint64_t(from.at(0))) & 15) / size : count;
  if (head > count) head = count;
  uint64_t const packs = (count - head) / N, tail = head + packs * N;
  reducePacks<1, T, 1>(op, crew, crew.worker, head, 0, from, to, self, targets);
  uint64_t const i = reducePacks<2, T, N>(op, crew, crew.worker, packs, head * size, from, to, self, targets);
  reducePacks<1, T, N>(op, crew, i, packs, head * size, from, to, self, targets);
  if (tail < count) reducePacks<1, T, 1>(op, crew, crew.worker, count - tail, tail * size, from, to, self, targets);
}

}  // namespace coll
}  // namespace ginrs
#endif
