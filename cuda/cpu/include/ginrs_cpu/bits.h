/* Integer intrinsics. They also run on host threads. */
#ifndef GINRS_CPU_BITS_H_
#define GINRS_CPU_BITS_H_
#include <stdint.h>
#include "../vector_types.h"

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
/* Position of the offset-th set bit (clear bit never) of mask from base upwards, downwards when offset is negative;
 * offset 0 asks whether the base bit itself is set. 0xffffffff when there is none. */
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (base > 31) return ~0u;
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (int i = (int)base; i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return (unsigned)i;
  return ~0u;
}

/* Each nibble of selector picks one of the eight bytes of b:a; its high bit spreads the sign of that byte. */
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    unsigned nibble = selector >> (4 * i) & 15;
    unsigned byte = (unsigned)(bytes >> (8 * (nibble & 7))) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned __int128)high << 32 | low) << (shift > 32 ? 32 : shift) >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift > 32 ? 32 : shift));
}

/* The low 24 bits of each factor (signed: sign bit 23); the low 32 of the product. */
inline int __mul24(int a, int b) { return (int)(((unsigned)((int)((unsigned)a << 8) >> 8)) * (unsigned)((int)((unsigned)b << 8) >> 8)); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)(((int64_t)a * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline int mulhi(int a, int b) { return __mulhi(a, b); }
inline unsigned mulhi(unsigned a, unsigned b) { return __umulhi(a, b); }
inline long long mul64hi(long long a, long long b) { return __mul64hi(a, b); }
inline unsigned long long mul64hi(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
inline int mul24(int a, int b) { return __mul24(a, b); }
inline unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }

inline unsigned __sad(int a, int b, unsigned c) {
  return c + (a < b ? (unsigned)b - (unsigned)a : (unsigned)a - (unsigned)b);
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
inline int __hadd(int a, int b) { return (int)(((int64_t)a + b) >> 1); }
inline int __rhadd(int a, int b) { return (int)(((int64_t)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b + 1) >> 1); }

/* Dot products of four bytes, of two halves with the low (lo) or high (hi) two bytes. */
#define GINRS_CPU_DOTS(T, byte, half)                                                                        \
  inline T __dp4a(T a, T b, T c) {                                                                           \
    for (int i = 0; i < 32; i += 8) c += (T)(byte)((unsigned)a >> i) * (T)(byte)((unsigned)b >> i);          \
    return c;                                                                                                \
  }                                                                                                          \
  inline T __dp2a_lo(T a, T b, T c) {                                                                        \
    for (int i = 0; i < 2; i++) c += (T)(half)((unsigned)a >> 16 * i) * (T)(byte)((unsigned)b >> 8 * i);     \
    return c;                                                                                                \
  }                                                                                                          \
  inline T __dp2a_hi(T a, T b, T c) {                                                                        \
    for (int i = 0; i < 2; i++)                                                                              \
      c += (T)(half)((unsigned)a >> 16 * i) * (T)(byte)((unsigned)b >> (16 + 8 * i));                        \
    return c;                                                                                                \
  }
GINRS_CPU_DOTS(int, int8_t, int16_t)
GINRS_CPU_DOTS(unsigned, uint8_t, uint16_t)
#undef GINRS_CPU_DOTS
inline int __dp4a(char4 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return c + (unsigned)a.x * b.x + (unsigned)a.y * b.y + (unsigned)a.z * b.z + (unsigned)a.w * b.w;
}
#endif
