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
  static constexpr bool isSlow = false; /* to convert */
  typedef U Stored;
  typedef U Sum;
  typedef S Signed;
  static constexpr bool isFloat = false;
  static __device__ __forceinline__ Sum load(Stored v) { return v; }
  static __device__ __forceinline__ Stored store(Sum v) { return v; }

  /* The bits to invert so that unsigned comparison finds the maximum or minimum. */
  static __device__ __forceinline__ Sum order(uint32_t op) {
    bool const hasSign = op == GINRS_COLL_MAX_S || op == GINRS_COLL_MIN_S, isMin = op == GINRS_COLL_MIN_S || op == GINRS_COLL_MIN_U;
    Sum const sign = Sum(Sum(1) << (8 * sizeof(Sum) - 1));
    return Sum((hasSign ? sign : 0) ^ (isMin ? Sum(~Sum(0)) : 0));
  }
  static __device__ __forceinline__ Sum ordered(Sum v, Sum order) { return Sum(v ^ order); }
};
typedef Integer<uint8_t, int8_t> I8;
typedef Integer<uint32_t, int32_t> I32;
typedef Integer<uint64_t, int64_t> I64;

/* Floats that add up in a float or double, and are rounded once, however many ranks there are. */
template <typename T, typename S>
struct Float {
  static constexpr bool isSlow = false;
  typedef T Stored;
  typedef S Sum, Signed;
  static constexpr bool isFloat = true;
  static __device__ __forceinline__ Sum load(Stored v) { return static_cast<Sum>(v); }
  static __device__ __forceinline__ Stored store(Sum v) { return Stored(v); }

  /* The factor that makes a minimum the maximum. */
  static __device__ __forceinline__ Sum order(uint32_t op) { return Sum(op == GINRS_COLL_MIN_S || op == GINRS_COLL_MIN_U ? -1 : 1); }
  static __device__ __forceinline__ Sum ordered(Sum v, Sum order) { return v * order; }
};
typedef Float<__half, float> F16;
typedef Float<__nv_bfloat16, float> Bf16;
typedef Float<float, float> F32;
typedef Float<double, double> F64;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
/* Floats of 8 bits on GPUs without instructions that convert them; CUDA's functions have loops there.
 * Every code and every 61st float convert as by CUDA's functions. Without infinities (E4M3) only a
 * code of all ones is NaN. */
template <typename T, int mantissa, bool hasInfinity>
struct Byte : Float<T, float> {
  static constexpr bool isSlow = true;
  static constexpr int bias = (1 << (6 - mantissa)) - 1, dropped = 23 - mantissa;
  static constexpr uint32_t nan = 0x7f, infinity = hasInfinity ? nan >> mantissa << mantissa : nan;

  static __device__ __forceinline__ float load(T v) {
    uint32_t const bits = v.__x & nan;
    float const size = __uint_as_float(bits << dropped) * __uint_as_float(uint32_t(254 - bias) << 23);
    float const special = __uint_as_float(0x7f800000 | (hasInfinity ? bits << dropped : uint32_t(1)));
    return copysignf(bits >= infinity ? special : size, v.__x & 0x80 ? -1.0f : 1.0f);
  }
  /* Rounds to the nearest, ties to even, and saturates at the largest finite number. */
  static __device__ __forceinline__ T store(float v) {
    uint32_t const bits = __float_as_uint(v) & 0x7fffffff, sign = __float_as_uint(v) >> 24 & 0x80;
    uint32_t const rounded = (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
    uint32_t code = rounded - (uint32_t(127 - bias) << mantissa);
    /* Codes of subnormal numbers count multiples of the smallest one. */
    if (bits < uint32_t(128 - bias) << 23) code = __float2uint_rn(fabsf(v) * __uint_as_float(uint32_t(126 + bias + mantissa) << 23));
    T out;
    out.__x = __nv_fp8_storage_t(bits > 0x7f800000 ? nan : sign | min(code, infinity - 1));
    return out;
  }
};
typedef Byte<__nv_fp8_e4m3, 3, false> E4m3;
typedef Byte<__nv_fp8_e5m2, 2, true> E5m2;
#else
typedef Float<__nv_fp8_e4m3, float> E4m3;
typedef Float<__nv_fp8_e5m2, float> E5m2;
#endif

/* Calls f(T()) for a ginrsCollType. */
template <typename F>
__device__ __forceinline__ void withType(uint32_t type, F const& f) {
  switch (type) {
    case GINRS_COLL_I8: return f(I8());
    case GINRS_COLL_I32: return f(I32());
    case GINRS_COLL_I64: return f(I64());
    case GINRS_COLL_F16: return f(F16());
    case GINRS_COLL_BF16: return f(Bf16());
    case GINRS_COLL_F32: return f(F32());
    case GINRS_COLL_F64: return f(F64());
    case GINRS_COLL_E4M3: return f(E4m3());
    case GINRS_COLL_E5M2: return f(E5m2());
    default: GINRS_TRAP("a type that the kernels do not have");
  }
}

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
  typedef T Type;
  typedef typename T::Sum Sum;
  typedef typename T::Signed Signed;
  uint32_t op;
  Sum operand; /* PRE_MUL: this rank's factor; AVG: 1 / number of ranks; maxima and minima: T::order */
  int nRanks;
  uint64_t const* factors; /* PRE_MUL, of inputs that are not yet multiplied: the bits of those of all sources; else null */

  static __device__ __forceinline__ Operation of(ginrsCollWork const& work) {
    Operation own{work.op, T::order(work.op), work.comm.nRanks, nullptr};
    if (work.op == GINRS_COLL_PRE_MUL) own.operand = factorOf(factorBits(work));
    if (work.op == GINRS_COLL_AVG) own.operand = Sum(1) / Sum(own.nRanks);
    return own;
  }
  /* The same for sources with these factors. */
  __device__ __forceinline__ Operation with(uint64_t const* all) const { return {op, operand, nRanks, isScaled() ? all : nullptr}; }
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
    return {divides() ? uint32_t(GINRS_COLL_SUM) : op, operand, nRanks, factors};
  }

  /* PRE_MUL: every rank multiplies its own input, by its own factor, before anybody adds it up. */
  __device__ __forceinline__ bool isScaled() const { return op == GINRS_COLL_PRE_MUL; }
  template <int N>
  __device__ __forceinline__ Pack<T, N> scaled(Pack<T, N> in) const {
#pragma unroll
    for (int i = 0; i < N; i++) in.v[i] = T::store(T::load(in.v[i]) * operand);
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
#ifdef __GINRS_CPU__
      case GINRS_COLL_PROD: each<kMultiplies, U, N>(sum, a, b); break;
      case GINRS_COLL_MAX_S:
      case GINRS_COLL_MAX_U:
      case GINRS_COLL_MIN_S:
      case GINRS_COLL_MIN_U: each<kPicks, U, N>(sum, a, b); break;
#else
      /* One sequence of instructions for five operations: the code was most of ptxas's work. */
      case GINRS_COLL_PROD:
      case GINRS_COLL_MAX_S:
      case GINRS_COLL_MAX_U:
      case GINRS_COLL_MIN_S:
      case GINRS_COLL_MIN_U: each<kMultipliesOrPicks, U, N>(sum, a, b); break;
#endif
      default: each<kAdds, U, N>(sum, a, b);
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
    if (!divides()) return;
    if constexpr (T::isFloat) {
#pragma unroll
      for (int i = 0; i < N; i++) sum[i] = sum[i] * operand;
    } else {
      /* Multiplies by the reciprocal instead of dividing each element. */
      uint64_t const reciprocal = ~uint64_t(0) / uint64_t(nRanks) + 1;
#pragma unroll
      for (int i = 0; i < N; i++) sum[i] = quotient(sum[i], reciprocal);
    }
  }

 private:
  enum How { kAdds, kMultiplies, kPicks, kMultipliesOrPicks };

  template <How how, int U, int N, typename A, typename B>
  __device__ __forceinline__ void each(Sum (&sum)[U][N], A const& a, B const& b) const {
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
      for (int i = 0; i < N; i++) sum[u][i] = combined<how>(a[u][i], b[u][i]);
    }
  }
  template <How how>
  __device__ __forceinline__ Sum combined(Sum a, Sum b) const {
    switch (how) {
      case kMultiplies: return a * b;
      case kPicks: return picked(a, b);
      case kMultipliesOrPicks: return op == GINRS_COLL_PROD ? Sum(a * b) : picked(a, b);
      default: return a + b;
    }
  }
  /* Of a number and a NaN the number, as fmax has it. */
  __device__ __forceinline__ Sum picked(Sum a, Sum b) const {
    bool const keeps = T::ordered(a, operand) > T::ordered(b, operand);
    return keeps | (T::isFloat && b != b) ? a : b;
  }
  /* Rounds towards zero. Up to 32 bits the product with ceil(2^64 / n) is exact. */
  __device__ __forceinline__ Sum quotient(Sum sum, uint64_t reciprocal) const {
    bool const isNegative = op == GINRS_COLL_DIV_S && Signed(sum) < 0;
    uint64_t const size = isNegative ? Sum(0 - sum) : sum;
    uint64_t of = size;
    if constexpr (sizeof(Sum) == 8) {
      of = size / uint64_t(nRanks);
    } else if (nRanks > 1) {
      of = ((reciprocal >> 32) * size + ((reciprocal & 0xffffffff) * size >> 32)) >> 32;
    }
    return isNegative ? Sum(0 - of) : Sum(of);
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
