/* The loop that adds up elements of several sources into one or several targets, by all threads of a
 * crew. */
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

/* Places that have nothing to do with each other. */
struct Listed {
  char* const* places;
  int n;

  __device__ __forceinline__ int count() const { return n; }
  __device__ __forceinline__ char* at(int k) const { return places[k]; }
};

/* Reduces elements [0, count) of all sources into all targets. A target may be a source. All pointers
 * are aligned to an element. */
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
template <typename T, int most = 4, typename From, typename To>
__device__ GINRS_COMPUTES void reduceTo(Operation<T> op, Crew crew, uint64_t count, From from, To to) {
  constexpr int longest = 1024 / sizeof(typename T::Sum);
  uint64_t done = reduceRuns<longest, T>(op, crew, 0, count, from, to);
  done = reduceRuns<16, T>(op, crew, done, count, from, to);
  reduceRuns<1, T>(op, crew, done, count, from, to);
}
/* The variant for calls between LSA teams. On the CPU device it is the same. */
template <typename T, typename From, typename To>
__device__ __forceinline__ void reduceSlowly(Operation<T> const& op, Crew crew, uint64_t count, From const& from, To const& to) {
  reduceTo<T>(op, crew, count, from, to);
}
#else
/* Stores 16 bytes in words, to an address that is misaligned for them. */
template <typename W, typename Raw>
__device__ __forceinline__ void storeWords(Raw* to, Raw const& pack) {
  W words[sizeof(Raw) / sizeof(W)];
  memcpy(words, &pack, sizeof words);
#pragma unroll
  for (unsigned i = 0; i < sizeof(Raw) / sizeof(W); i++) reinterpret_cast<W*>(to)[i] = words[i];
}

/* Reduces packs [i, end) that are this thread's, as far as there are U of them. U packs of P sources
 * are in flight. Pack i begins `ahead` bytes and index(i) packs after each address. Returns the first
 * pack that is left. Predicated loads of the last packs kept the loaded words in local memory: bfloat16
 * took twice as long. */
template <int U, int P, typename T, int N, typename From, typename To, typename Index>
__device__ __forceinline__ uint64_t reducePacks(Operation<T> const& op, Crew crew, uint64_t i, uint64_t end, uint64_t ahead, From const& from,
                                                To const& to, Index const& index) {
  typedef typename Pack<T, N>::Raw Raw;
#pragma unroll 1
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
        for (int u = 0; u < U; u++) in[p][u] = source[index(i + u * crew.workers)];
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
        Raw* const at = target + index(i + u * crew.workers);
        if (isWhole) {
          *at = out[u];
        } else if constexpr (N > 1) {
          /* A rank's part of a reduce-scatter is misaligned unless parts are multiples of a pack.
           * Four H100, 1000003 floats for each rank: element by element 126 us, NVIDIA's 66. */
          if (sizeof(typename T::Stored) < 4 && uint64_t(target) % 4 == 0) {
            storeWords<uint32_t>(at, out[u]);
          } else {
            storeWords<typename T::Stored>(at, out[u]);
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

/* Calls packs(count, offset in bytes) for whole packs of N, and elements(count, index) for elements
 * before and after them. */
template <int N, int size, typename From, typename Packs, typename Elements>
__device__ __forceinline__ void inPacks(uint64_t count, From const& from, Packs const& packs, Elements const& elements) {
  uint64_t const first = alike(from) ? ((0 - uint64_t(from.at(0))) & 15) / size : count, head = min(first, count);
  uint64_t const whole = (count - head) / N, rest = count - whole * N;
  packs(whole, head * size);
  if (rest > 0) elements(rest, [=](uint64_t i) { return i < head ? i : i + whole * N; });
}

/* At most `most` packs of a source are in flight. Inlined: a function saves and restores some
 * hundred bytes of registers for each thread. */
template <typename T, int most = 4, typename From, typename To>
__device__ __forceinline__ void reduceTo(Operation<T> const& op, Crew crew, uint64_t count, From const& from, To const& to) {
  constexpr int size = sizeof(typename T::Stored), N = 16 / size;
  /* A sum takes a register at least. */
  constexpr int wide = N * (sizeof(typename T::Sum) < 4 ? 4 : sizeof(typename T::Sum)) / 16;
  auto same = [](uint64_t i) { return i; };
  inPacks<N, size>(
      count, from,
      [&](uint64_t packs, uint64_t ahead) {
        /* Four packs of two ranks; more would spill. If sums are twice as wide as elements, four for
         * one target only: two H100, 64 MB of bfloat16 136 us, with two 150; for several targets 258
         * with four, 240 with two. */
        uint64_t i = crew.worker;
        if (most == 4 && (wide == 1 || (wide == 2 && to.count() == 1))) {
          if (from.count() <= 2) i = reducePacks<4, 2, T, N>(op, crew, i, packs, ahead, from, to, same);
        }
        if (most > 1 && !T::isSlow) i = reducePacks<2, 4, T, N>(op, crew, i, packs, ahead, from, to, same);
        reducePacks<1, 4, T, N>(op, crew, i, packs, ahead, from, to, same);
      },
      [&](uint64_t elements, auto index) {
        uint64_t i = crew.worker;
        if (!T::isSlow) i = reducePacks<4, 2, T, 1>(op, crew, i, elements, 0, from, to, index);
        reducePacks<1, 2, T, 1>(op, crew, i, elements, 0, from, to, index);
      });
}

/* The same for calls between LSA teams, which the network limits: one kernel has all types. */
template <typename T, typename From, typename To>
__device__ __noinline__ void reduceSlowly(Operation<T> op, Crew crew, uint64_t count, From from, To to) {
  constexpr int size = sizeof(typename T::Stored), N = 16 / size;
  auto same = [](uint64_t i) { return i; };
  inPacks<N, size>(
      count, from, [&](uint64_t packs, uint64_t ahead) { reducePacks<1, 2, T, N>(op, crew, crew.worker, packs, ahead, from, to, same); },
      [&](uint64_t elements, auto index) { reducePacks<1, 2, T, 1>(op, crew, crew.worker, elements, 0, from, to, index); });
}
#endif

/* The operation of a launch, for code that is not compiled for each type. */
struct AnyOperation {
  ginrsCollWork const& work;
  uint32_t op;

  static __device__ __forceinline__ AnyOperation of(ginrsCollWork const& work) { return {work, work.op}; }
  __device__ __forceinline__ bool divides() const { return op >= GINRS_COLL_DIV_S; }
  __device__ __forceinline__ bool isScaled() const { return op == GINRS_COLL_PRE_MUL; }
  __device__ __forceinline__ AnyOperation partial() const { return {work, divides() ? uint32_t(GINRS_COLL_SUM) : op}; }

  /* Calls f with the Operation. */
  template <typename F>
  __device__ __forceinline__ void typed(F const& f) const {
    withType(work.type, [&](auto type) {
      auto own = Operation<decltype(type)>::of(work);
      own.op = op;
      f(own);
    });
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
