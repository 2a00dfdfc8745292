/* The one loop that adds up: elements of several sources into one or several places, by all threads of a crew. */
#ifndef GINRS_COLLECTIVES_REDUCE_CUH_
#define GINRS_COLLECTIVES_REDUCE_CUH_
#include "move.cuh"

namespace ginrs {
namespace coll {

/* Where inputs are: one place of every rank, from the own one upwards, and one more, or none. */
struct Sources {
  Places places;
  int self, n;
  char const* more;

  __device__ __forceinline__ int count() const { return n + (more != nullptr); }
  __device__ __forceinline__ char const* at(int k) const { return k < n ? places.from(self, k, n) : more; }
};

/* Where results go says of how wide sums four are under way: as wide as their elements, or twice so (reduceTo). */

/* Places that have nothing to do with each other. */
struct Listed {
  static constexpr int kFour = 1;
  char* const* places;
  int n;

  __device__ __forceinline__ int count() const { return n; }
  __device__ __forceinline__ char* at(int k) const { return places[k]; }
};

/* One place. */
struct One {
  static constexpr int kFour = 2;
  char* place;

  __device__ __forceinline__ int count() const { return 1; }
  __device__ __forceinline__ char* at(int) const { return place; }
};

/* Elements [0, count) of all sources, reduced, to all targets, which may be one of the sources. All pointers are aligned to an element.
 * Not inlined: there is one of it for each type, not one for each collective. */
#ifdef __GINRS_CPU__
/* Elements where they lie, by number. */
template <typename T>
struct Stretch {
  typename T::Stored* elements;

  __device__ __forceinline__ typename T::Sum operator[](int i) const { return T::load(elements[i]); }
};
/* The same, multiplied. */
template <typename T>
struct ScaledStretch {
  typename T::Stored* elements;
  typename T::Sum factor;

  __device__ __forceinline__ typename T::Sum operator[](int i) const { return T::load(elements[i]) * factor; }
};

/* Elements from `done` on, by whole runs of N, of which the compiler makes vectors; a run's sums stay in the first cache. Returns where the
 * rest begins. Nothing in it may become a function of its own: that would count at each basic block, and an all-reduce took three times as long. */
template <int N, typename T, typename From, typename To>
__device__ __forceinline__ uint64_t reduceRuns(Operation<T> const& op, Crew crew, uint64_t done, uint64_t count, From const& from, To const& to) {
  typedef typename T::Stored Stored;
  uint64_t const runs = (count - done) / N;
  for (uint64_t run = crew.worker; run < runs; run += crew.workers) {
    uint64_t const first = done + run * N;
    auto at = [=](char const* place) __attribute__((always_inline)) { return const_cast<Stored*>(reinterpret_cast<Stored const*>(place)) + first; };
    typename T::Sum sum[1][N];
    auto addAll = [&](auto input) __attribute__((always_inline)) {
      decltype(input(0)) const own[1] = {input(0)};
      if (from.count() == 1) {
        for (int i = 0; i < N; i++) sum[0][i] = own[0][i];
      }
      for (int k = 1; k < from.count(); k++) {
        decltype(input(0)) const next[1] = {input(k)};
        if (k == 1) {
          op.template combine<1, N>(sum, own, next);
        } else {
          op.template combine<1, N>(sum, sum, next);
        }
      }
    };
    if (op.factors != nullptr) {
      addAll([&](int k) __attribute__((always_inline)) { return ScaledStretch<T>{at(from.at(k)), op.factorOf(op.factors[k])}; });
    } else {
      addAll([&](int k) __attribute__((always_inline)) { return Stretch<T>{at(from.at(k))}; });
    }
    op.divide(sum[0]);
    Stored* const out = at(to.at(0));
    for (int i = 0; i < N; i++) out[i] = T::store(sum[0][i]);
    for (int k = 1; k < to.count(); k++) memcpy(at(to.at(k)), out, N * sizeof(Stored));
  }
  return done + runs * N;
}

/* Nobody asks in between whether the thread's turn is over: 256 KiB took ten times as long with 16 bytes at a time. */
#if defined(__has_attribute) && __has_attribute(no_sanitize_coverage)
#define GINRS_COMPUTES __attribute__((noinline, no_sanitize_coverage))
#else
#define GINRS_COMPUTES __attribute__((noinline))
#endif
template <typename T, typename From, typename To>
__device__ GINRS_COMPUTES void reduceTo(Operation<T> op, Crew crew, uint64_t count, From from, To to) {
  constexpr int most = 1024 / sizeof(typename T::Sum);
  uint64_t done = reduceRuns<most, T>(op, crew, 0, count, from, to);
  done = reduceRuns<16, T>(op, crew, done, count, from, to);
  reduceRuns<1, T>(op, crew, done, count, from, to);
}
#else
/* 16 bytes to where none begin, by words. */
template <typename W, typename Raw>
__device__ __forceinline__ void storeWords(char* to, Raw const& pack) {
  W words[sizeof(Raw) / sizeof(W)];
  memcpy(words, &pack, sizeof words);
#pragma unroll
  for (unsigned i = 0; i < sizeof(Raw) / sizeof(W); i++) reinterpret_cast<W*>(to)[i] = words[i];
}

/* Packs [i, end) that this thread has a share in; U packs of P sources are in flight. Returns where it stopped. */
template <int U, int P, typename T, int N, typename From, typename To>
__device__ __forceinline__ uint64_t reducePacks(Operation<T> const& op, Crew crew, uint64_t i, uint64_t end, uint64_t ahead, From const& from,
                                                To const& to) {
  typedef typename Pack<T, N>::Raw Raw;
  for (; end > (U - 1) * crew.workers && i < end - (U - 1) * crew.workers; i += U * crew.workers) {
    typename T::Sum sum[U][N];
#pragma unroll 1
    for (int k = 0; k < from.count(); k += P) {
      Raw in[P][U];
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= from.count()) break;
        Raw const* source = reinterpret_cast<Raw const*>(from.at(k + p) + ahead);
#pragma unroll
        for (int u = 0; u < U; u++) in[p][u] = source[i + u * crew.workers];
      }
#pragma unroll
      for (int p = 0; p < P; p++) {
        if (k + p >= from.count()) break;
        if (k + p == 0) {
#pragma unroll
          for (int u = 0; u < U; u++) op.first(sum[u], Pack<T, N>::of(in[p][u]));
          op.template scale<U, N>(sum, 0);
        } else {
          op.template add<U, N>(sum, in[p], k + p);
        }
      }
    }
    Raw out[U];
#pragma unroll
    for (int u = 0; u < U; u++) out[u] = op.last(sum[u]).raw();
#pragma unroll 1
    for (int k = 0; k < to.count(); k++) {
      Raw* target = reinterpret_cast<Raw*>(to.at(k) + ahead);
      bool const isWhole = N == 1 || uint64_t(target) % 16 == 0;
#pragma unroll
      for (int u = 0; u < U; u++) {
        Raw* const at = target + (i + u * crew.workers);
        if (isWhole) {
          *at = out[u];
        } else if constexpr (N > 1) {
          if (uint64_t(target) % 4 == 0) {
            storeWords<uint32_t>(reinterpret_cast<char*>(at), out[u]);
          } else {
            storeWords<typename T::Stored>(reinterpret_cast<char*>(at), out[u]);
          }
        }
      }
    }
  }
  return i;
}

/* Whether all places are equal modulo 16. */
template <typename From>
__device__ __forceinline__ bool alike(From const& from) {
  uint64_t const first = uint64_t(from.at(0));
  uint64_t different = 0;
  for (int k = 1; k < from.count(); k++) different |= first ^ uint64_t(from.at(k));
  return (different & 15) == 0;
}

template <typename T, typename From, typename To>
__device__ __noinline__ void reduceTo(Operation<T> op, Crew crew, uint64_t count, From from, To to) {
  constexpr int size = sizeof(typename T::Stored), N = 16 / size;
  /* What is loaded goes by packs, and to other places than those it is stored to in smaller words: parts of a reduce-scatter begin so where a rank has no
   * whole number of packs. Four H100, 1000003 floats for each, by elements 126 us and NVIDIA 66, 16000057 1816 and 690. */
  uint64_t head = alike(from) ? ((0 - uint64_t(from.at(0))) & 15) / size : count;
  if (head > count) head = count;
  uint64_t const packs = (count - head) / N, tail = head + packs * N;
  uint64_t const element = reducePacks<4, 4, T, 1>(op, crew, crew.worker, head, 0, from, to);
  reducePacks<1, 4, T, 1>(op, crew, element, head, 0, from, to);
  uint64_t i = crew.worker;
  /* More of them would spill; a sum takes a register at least. Sums that are twice as wide as what they are of: four for one place alone (two H100, 64 MB of bfloat16: 136 us, with two 150); where
   * several get them, with four 258, with two 240, and beside each other in one function 345 for an all-reduce by messages that takes 301. */
  constexpr int wide = N * (sizeof(typename T::Sum) < 4 ? 4 : sizeof(typename T::Sum)) / 16, U = wide <= To::kFour ? 4 : 2;
  if (from.count() <= 2) i = reducePacks<U, 2, T, N>(op, crew, i, packs, head * size, from, to);
  i = reducePacks<2, 4, T, N>(op, crew, i, packs, head * size, from, to);
  reducePacks<1, 4, T, N>(op, crew, i, packs, head * size, from, to);
  if (tail < count) reducePacks<1, 4, T, 1>(op, crew, crew.worker, count - tail, tail * size, from, to);
}
#endif

}  // namespace coll
}  // namespace ginrs
#endif
