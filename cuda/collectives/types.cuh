/* Elements: how each type lies in memory, what it is added up in, and the operations on packs of 16 bytes. */
#ifndef GINRS_COLLECTIVES_TYPES_CUH_
#define GINRS_COLLECTIVES_TYPES_CUH_
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include "work.h"

namespace ginrs {
namespace coll {

/* Integers of one width: sums, products and their wrap-around are the same with and without a sign. */
template <typename U, typename S>
struct Integer {
  typedef U Stored;
  typedef U Sum;
  typedef S Signed;
  static constexpr bool isFloat = false;
  static __device__ __forceinline__ Sum load(Stored v) { return v; }
  static __device__ __forceinline__ Stored store(Sum v) { return v; }
};
typedef Integer<uint8_t, int8_t> I8;
typedef Integer<uint32_t, int32_t> I32;
typedef Integer<uint64_t, int64_t> I64;

struct F64 {
  typedef double Stored, Sum, Signed;
  static constexpr bool isFloat = true;
  static __device__ __forceinline__ Sum load(Stored v) { return v; }
  static __device__ __forceinline__ Stored store(Sum v) { return v; }
};
struct F32 {
  typedef float Stored, Sum, Signed;
  static constexpr bool isFloat = true;
  static __device__ __forceinline__ Sum load(Stored v) { return v; }
  static __device__ __forceinline__ Stored store(Sum v) { return v; }
};
/* Small floats add up in a float and are rounded once, however many ranks there are. */
template <typename T>
struct Small {
  typedef T Stored;
  typedef float Sum, Signed;
  static constexpr bool isFloat = true;
  static __device__ __forceinline__ Sum load(Stored v) { return static_cast<float>(v); }
  static __device__ __forceinline__ Stored store(Sum v) { return Stored(v); }
};
typedef Small<__half> F16;
typedef Small<__nv_bfloat16> Bf16;
typedef Small<__nv_fp8_e4m3> E4m3;
typedef Small<__nv_fp8_e5m2> E5m2;

/* Words of 1, 2, 4, 8 and 16 bytes. */
template <int bytes> struct Word;
template <> struct Word<1> { typedef uint8_t Type; };
template <> struct Word<2> { typedef uint16_t Type; };
template <> struct Word<4> { typedef uint32_t Type; };
template <> struct Word<8> { typedef uint64_t Type; };
template <> struct Word<16> { typedef uint4 Type; };

/* N elements that are loaded and stored as one word: 16 bytes, or one element where buffers are not aligned alike. */
template <typename T, int N>
struct Pack {
  typedef typename Word<N * sizeof(typename T::Stored)>::Type Raw;
  typename T::Stored v[N];

  static __device__ __forceinline__ Pack of(Raw const& raw) {
    Pack own;
    memcpy(static_cast<void*>(own.v), &raw, sizeof raw);
    return own;
  }
  __device__ __forceinline__ Raw raw() const {
    Raw out;
    memcpy(&out, static_cast<void const*>(v), sizeof out);
    return out;
  }
};

/* PRE_MUL: the bits of this rank's factor, an element. */
__device__ __forceinline__ uint64_t factorBits(ginrsCollWork const& work) {
  if (work.scalarAt == nullptr) return work.scalar;
  uint64_t bits = 0;
  for (uint32_t i = 0; i < work.eltBytes; i++) bits |= uint64_t(static_cast<uint8_t const*>(work.scalarAt)[i]) << 8 * i;
  return bits;
}

/* An operation as a launch has it. Uniform over the grid: its branches stand outside the loops over elements. */
template <typename T>
struct Operation {
  typedef typename T::Sum Sum;
  typedef typename T::Signed Signed;
  uint32_t op;
  Sum factor; /* of PRE_MUL the own, of AVG 1 / number of ranks */
  int nRanks;
  uint64_t const* factors; /* PRE_MUL, of inputs that are not yet multiplied: the bits of those of all sources; else null */

  static __device__ __forceinline__ Operation of(ginrsCollWork const& work) {
    Operation own{work.op, Sum(1), work.comm.nRanks, nullptr};
    if (work.op == GINRS_COLL_PRE_MUL) own.factor = factorOf(factorBits(work));
    if (work.op == GINRS_COLL_AVG) own.factor = Sum(1) / Sum(own.nRanks);
    return own;
  }
  /* The same for sources with these factors. */
  __device__ __forceinline__ Operation with(uint64_t const* all) const { return {op, factor, nRanks, isScaled() ? all : nullptr}; }
  /* Of the bits of an element. */
  static __device__ __forceinline__ Sum factorOf(uint64_t bits) {
    typename T::Stored scalar;
    memcpy(&scalar, &bits, sizeof scalar);
    return T::load(scalar);
  }

  /* What all have added up is not yet the result. */
  __device__ __forceinline__ bool divides() const { return op >= GINRS_COLL_DIV_S; }
  /* The same for sums that are not yet of all ranks. */
  __device__ __forceinline__ Operation partial() const {
    return {divides() ? uint32_t(GINRS_COLL_SUM) : op, factor, nRanks, factors};
  }

  /* PRE_MUL: every rank multiplies its own input, by its own factor, before anybody adds it up. */
  __device__ __forceinline__ bool isScaled() const { return op == GINRS_COLL_PRE_MUL; }
  template <int N>
  __device__ __forceinline__ Pack<T, N> scaled(Pack<T, N> in) const {
#pragma unroll
    for (int i = 0; i < N; i++) in.v[i] = T::store(T::load(in.v[i]) * factor);
    return in;
  }

  template <int N>
  __device__ __forceinline__ void first(Sum (&sum)[N], Pack<T, N> const& in) const {
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = T::load(in.v[i]);
  }

  /* U packs at once: the branch stands outside of all of them. */
  template <int U, int N>
  __device__ __forceinline__ void add(Sum (&sum)[U][N], typename Pack<T, N>::Raw const (&in)[U], int source) const {
    Sum next[U][N];
#pragma unroll
    for (int u = 0; u < U; u++) first(next[u], Pack<T, N>::of(in[u]));
    scale<U, N>(next, source);
    merge<U, N>(sum, next);
  }
  /* By the factor of that source, where those are known. */
  template <int U, int N>
  __device__ __forceinline__ void scale(Sum (&sum)[U][N], int source) const {
    if (factors == nullptr) return;
    Sum const by = factorOf(factors[source]);
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
      for (int i = 0; i < N; i++) sum[u][i] = sum[u][i] * by;
    }
  }

  template <int U, int N>
  __device__ __forceinline__ void merge(Sum (&sum)[U][N], Sum const (&next)[U][N]) const {
    combine<U, N>(sum, sum, next);
  }
  /* Of U times N summands, or of what has them by number. */
  template <int U, int N, typename A, typename B>
  __device__ __forceinline__ void combine(Sum (&sum)[U][N], A const& a, B const& b) const {
    switch (op) {
      case GINRS_COLL_PROD: each<GINRS_COLL_PROD, U, N>(sum, a, b); break;
      case GINRS_COLL_MAX_S: each<GINRS_COLL_MAX_S, U, N>(sum, a, b); break;
      case GINRS_COLL_MAX_U: each<GINRS_COLL_MAX_U, U, N>(sum, a, b); break;
      case GINRS_COLL_MIN_S: each<GINRS_COLL_MIN_S, U, N>(sum, a, b); break;
      case GINRS_COLL_MIN_U: each<GINRS_COLL_MIN_U, U, N>(sum, a, b); break;
      default: each<GINRS_COLL_SUM, U, N>(sum, a, b);
    }
  }

  /* The result of all ranks' summands. */
  template <int N>
  __device__ __forceinline__ Pack<T, N> last(Sum (&sum)[N]) const {
    divide(sum);
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; i++) out.v[i] = T::store(sum[i]);
    return out;
  }
  template <int N>
  __device__ __forceinline__ void divide(Sum (&sum)[N]) const {
    switch (op) {
      case GINRS_COLL_DIV_S:
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = Sum((long long)Signed(sum[i]) / nRanks);
        break;
      case GINRS_COLL_DIV_U:
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = Sum((unsigned long long)sum[i] / (unsigned)nRanks);
        break;
      case GINRS_COLL_AVG:
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = sum[i] * factor;
        break;
    }
  }

 private:
  template <uint32_t how, int U, int N, typename A, typename B>
  static __device__ __forceinline__ void each(Sum (&sum)[U][N], A const& a, B const& b) {
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
      for (int i = 0; i < N; i++) sum[u][i] = combined<how>(a[u][i], b[u][i]);
    }
  }
  template <uint32_t how>
  static __device__ __forceinline__ Sum combined(Sum a, Sum b) {
    switch (how) {
      case GINRS_COLL_PROD: return a * b;
      case GINRS_COLL_MAX_S: return larger<Signed>(a, b);
      case GINRS_COLL_MAX_U: return larger<Sum>(a, b);
      case GINRS_COLL_MIN_S: return smaller<Signed>(a, b);
      case GINRS_COLL_MIN_U: return smaller<Sum>(a, b);
      default: return a + b;
    }
  }
  /* Of a number and a NaN the number, as fmax has it. */
  template <typename As>
  static __device__ __forceinline__ Sum larger(Sum a, Sum b) {
    bool const keeps = As(a) > As(b);
    return keeps | (T::isFloat && b != b) ? a : b;
  }
  template <typename As>
  static __device__ __forceinline__ Sum smaller(Sum a, Sum b) {
    bool const keeps = As(a) < As(b);
    return keeps | (T::isFloat && b != b) ? a : b;
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
