/* nccl::utility, the part without device instructions: rounding, division by a stored reciprocal, rolling compares.
 * Everything here is pure and usable on host and device. */
#ifndef _NCCL_DEVICE_UTILITY_H_
#include "../utility.h" /* which includes this file before those that build on it */
#elif !defined(_NCCL_DEVICE_UTILITY__MATH_H_)
#define _NCCL_DEVICE_UTILITY__MATH_H_
#ifdef __cplusplus

namespace nccl {
namespace utility {

/* For unevaluated contexts only. clang asks for the qualifiers there, too. */
template <typename T>
#if NCCL_CHECK_CUDACC
__host__ __device__
#endif
    T&& declval() noexcept;

template <typename T, T v>
struct ValueAsType {
  static constexpr T value = v;
};

/* ---- Rounding. Arguments are not negative, divisors and alignments not zero. ---- */

template <typename X, typename Y, typename Z = decltype(X() + Y())>
NCCL_HOST_DEVICE_INLINE constexpr Z divUp(X x, Y y) {
  return (Z(x) + Z(y) - 1) / Z(y);
}
template <typename X, typename Y, typename Z = decltype(X() + Y())>
NCCL_HOST_DEVICE_INLINE constexpr Z roundUp(X x, Y y) {
  return divUp(x, y) * Z(y);
}
template <typename X, typename Y, typename Z = decltype(X() + Y())>
NCCL_HOST_DEVICE_INLINE constexpr Z roundDown(X x, Y y) {
  return Z(x) / Z(y) * Z(y);
}

/* The alignment is a power of two. The "& 1" takes pointers out of the overload set: they have their own below. */
template <typename X, typename Y, typename Z = decltype((X() + Y()) & 1)>
NCCL_HOST_DEVICE_INLINE constexpr Z alignUp(X x, Y alignment) {
  return (Z(x) + Z(alignment) - 1) & ~(Z(alignment) - 1);
}
template <typename X, typename Y, typename Z = decltype((X() + int()) & 1)>
NCCL_HOST_DEVICE_INLINE constexpr Z alignDown(X x, Y alignment) {
  return Z(x) & ~(Z(alignment) - 1);
}
template <typename T>
struct ElementBytes : ValueAsType<size_t, sizeof(T)> {};
template <>
struct ElementBytes<void> : ValueAsType<size_t, 1> {};
template <>
struct ElementBytes<void const> : ValueAsType<size_t, 1> {};
template <typename T>
NCCL_HOST_DEVICE_INLINE T* alignUp(T* p, size_t alignment) {
  static_assert(ElementBytes<T>::value == 1, "alignUp: only pointers to one-byte elements can be aligned without losing elements");
  return reinterpret_cast<T*>(alignUp(reinterpret_cast<uintptr_t>(p), alignment));
}
template <typename T>
NCCL_HOST_DEVICE_INLINE T* alignDown(T* p, size_t alignment) {
  static_assert(ElementBytes<T>::value == 1, "alignDown: only pointers to one-byte elements can be aligned without losing elements");
  return reinterpret_cast<T*>(alignDown(reinterpret_cast<uintptr_t>(p), alignment));
}
template <typename T>
NCCL_HOST_DEVICE_INLINE void* alignUp(void const* p, size_t alignment) {
  return reinterpret_cast<void*>(alignUp(reinterpret_cast<uintptr_t>(p), alignment));
}
template <typename T>
NCCL_HOST_DEVICE_INLINE void* alignDown(void const* p, size_t alignment) {
  return reinterpret_cast<void*>(alignDown(reinterpret_cast<uintptr_t>(p), alignment));
}

/* True for 0 too. */
template <typename Int>
NCCL_HOST_DEVICE_INLINE constexpr bool isPow2(Int x) {
  return (x & (x - 1)) == 0;
}

/* `base` plus delta * 4 GiB, where base is any 64-bit object (a pointer as a rule). The addition is modulo 2^32 in the
 * high word, so a negative delta goes down. */
template <typename T>
NCCL_HOST_DEVICE_INLINE T add4G(T base, int delta) {
  static_assert(sizeof(T) == 8, "add4G: the base must be a 64-bit object");
  uint64_t bits;
  __builtin_memcpy(&bits, &base, 8);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  /* By halves, which the optimizer would put together: so the product that delta is as a rule and this addition become
   * one instruction. An LSA all-reduce of 2 ranks is 1 to 2 % faster for it. */
  uint32_t low, high;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(bits));
  high += uint32_t(delta);
  asm("mov.b64 %0, {%1, %2};" : "=l"(bits) : "r"(low), "r"(high));
#else
  bits += uint64_t(uint32_t(delta)) << 32;
#endif
  __builtin_memcpy(&base, &bits, 8);
  return base;
}

/* ---- Rolling compares: a <= b among counters of nBits that wrap, right while they are less than half a turn apart.
 * Bits above nBits are ignored. ---- */

template <typename Uint>
NCCL_HOST_DEVICE_INLINE constexpr Uint lowBits(int nBits) {
  return nBits >= int(8 * sizeof(Uint)) ? Uint(~Uint(0)) : nBits <= 0 ? Uint(0) : Uint((Uint(1) << nBits) - 1);
}
template <typename Uint>
NCCL_HOST_DEVICE_INLINE constexpr bool rollingLessEq(Uint a, Uint b, int nBits = 8 * sizeof(Uint)) {
  static_assert(Uint(-1) > Uint(0), "rollingLessEq: the counters must be unsigned");
  return Uint(Uint(b - a) & lowBits<Uint>(nBits)) <= Uint(lowBits<Uint>(nBits) >> 1);
}
template <typename Uint>
NCCL_HOST_DEVICE_INLINE constexpr bool rollingLessThan(Uint a, Uint b, int nBits = 8 * sizeof(Uint)) {
  return !rollingLessEq(b, a, nBits);
}

/* ---- Division by a reciprocal that was computed once. The reciprocal of x is floor((2^N - 1) / x), plus one for powers
 * of two (which makes those exact); that of 1 wraps to 0, and 0 means "divide by one". ---- */

NCCL_HOST_DEVICE_INLINE constexpr uint32_t idivRcp32(uint32_t x) {
  return UINT32_MAX / x + (isPow2(x) ? 1 : 0);
}
NCCL_HOST_DEVICE_INLINE constexpr uint64_t idivRcp64(uint64_t x) {
  return UINT64_MAX / x + (isPow2(x) ? 1 : 0);
}

NCCL_HOST_DEVICE_INLINE uint32_t mul32hi(uint32_t a, uint32_t b) {
  return uint32_t((uint64_t(a) * b) >> 32);
}
NCCL_HOST_DEVICE_INLINE uint64_t mul64hi(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  return __umul64hi(a, b);
#else
  return uint64_t(((unsigned __int128)a * b) >> 64);
#endif
}

/* The reciprocal of x * y, which must fit. The product of two reciprocals is at most two short of it. */
NCCL_HOST_DEVICE_INLINE uint32_t imulRcp32(uint32_t x, uint32_t xrcp, uint32_t y, uint32_t yrcp) {
  if (xrcp == 0) return yrcp;
  if (yrcp == 0) return xrcp;
  uint32_t product = x * y, quotient = mul32hi(xrcp, yrcp);
  if (isPow2(product)) return quotient;
  uint32_t rest = UINT32_MAX - quotient * product;
  for (; rest >= product; rest -= product) quotient += 1;
  return quotient;
}
NCCL_HOST_DEVICE_INLINE uint64_t imulRcp64(uint64_t x, uint64_t xrcp, uint64_t y, uint64_t yrcp) {
  if (xrcp == 0) return yrcp;
  if (yrcp == 0) return xrcp;
  uint64_t product = x * y, quotient = mul64hi(xrcp, yrcp);
  if (isPow2(product)) return quotient;
  uint64_t rest = UINT64_MAX - quotient * product;
  for (; rest >= product; rest -= product) quotient += 1;
  return quotient;
}

/* x / y and x % y. The high product is at most one short of the quotient. */
NCCL_HOST_DEVICE_INLINE void idivmodFast32(uint32_t* quo, uint32_t* rem, uint32_t x, uint32_t y, uint32_t yrcp) {
  uint32_t q = yrcp == 0 ? x : mul32hi(x, yrcp);
  uint32_t r = x - q * y;
  if (r >= y) {
    r -= y;
    q += 1;
  }
  *quo = q;
  *rem = r;
}
NCCL_HOST_DEVICE_INLINE void idivmodFast64(uint64_t* quo, uint64_t* rem, uint64_t x, uint64_t y, uint64_t yrcp) {
  uint64_t q = yrcp == 0 ? x : mul64hi(x, yrcp);
  uint64_t r = x - q * y;
  if (r >= y) {
    r -= y;
    q += 1;
  }
  *quo = q;
  *rem = r;
}
NCCL_HOST_DEVICE_INLINE uint32_t idivFast32(uint32_t x, uint32_t y, uint32_t yrcp) {
  uint32_t q, r;
  idivmodFast32(&q, &r, x, y, yrcp);
  return q;
}
NCCL_HOST_DEVICE_INLINE uint32_t imodFast32(uint32_t x, uint32_t y, uint32_t yrcp) {
  uint32_t q, r;
  idivmodFast32(&q, &r, x, y, yrcp);
  return r;
}
NCCL_HOST_DEVICE_INLINE uint64_t idivFast64(uint64_t x, uint64_t y, uint64_t yrcp) {
  uint64_t q, r;
  idivmodFast64(&q, &r, x, y, yrcp);
  return q;
}
NCCL_HOST_DEVICE_INLINE uint64_t imodFast64(uint64_t x, uint64_t y, uint64_t yrcp) {
  uint64_t q, r;
  idivmodFast64(&q, &r, x, y, yrcp);
  return r;
}

}  // namespace utility
}  // namespace nccl

#endif
#endif
