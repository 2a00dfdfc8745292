/* What cuda_fp16.h and cuda_bf16.h share besides the .inc.h files. */
#ifndef GINRS_CPU_HALVES_H_
#define GINRS_CPU_HALVES_H_
#include <limits>
#include "../vector_functions.h"
#include "codec.h"
#ifdef __CUDACC__
#include "atomic.h"
#include "warp.h"
#endif

#define GINRS_N_(a, b, c) a##b##c
#define GINRS_N(a, b, c) GINRS_N_(a, b, c)

namespace ginrs_cpu {
/* An integer as a double that rounds like it: 53 bits hold it, or its low bits are gathered into the last one. */
inline double to_odd(unsigned long long v) {
  if (v >> 53) v = (v & ~0x7ffull) | ((v & 0x7ff) != 0 ? 0x800 : 0);
  return (double)v;
}
inline double to_odd(long long v) { return v < 0 ? -to_odd(0ull - (unsigned long long)v) : to_odd((unsigned long long)v); }
inline double to_odd(int v) { return v; }
inline double to_odd(unsigned int v) { return v; }
inline double to_odd(short v) { return v; }
inline double to_odd(unsigned short v) { return v; }

/* Towards zero; what does not fit becomes the nearest that does. NaN becomes 0, where 64 bits are on either side the top
 * bit of To alone: PTX's rule. */
template <class To>
inline To convert(double v, bool fromDouble = false) {
  typedef std::numeric_limits<To> Limits;
  if (v != v) return sizeof(To) == 8 || fromDouble ? (To)(1ull << (8 * sizeof(To) - 1)) : To(0);
  if (v >= 2.0 * (double)(Limits::max() / 2 + 1)) return Limits::max();
  if (v <= (double)Limits::min()) return Limits::min();
  return (To)v;
}
inline double saturated(double v) { return v > 0 ? (v < 1 ? v : 1) : 0; }
}  // namespace ginrs_cpu
#endif
