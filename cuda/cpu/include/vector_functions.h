/* make_int4(...) and its kin. C and C++. */
#ifndef GINRS_CPU_VECTOR_FUNCTIONS_H_
#define GINRS_CPU_VECTOR_FUNCTIONS_H_
#include "vector_types.h"
#ifdef __cplusplus
#define GINRS_CPU_MAKE constexpr
#else
#define GINRS_CPU_MAKE static __inline__
#endif
#define GINRS_CPU_MAKE4(type, scalar)                                                                   \
  GINRS_CPU_MAKE type make_##type(scalar x, scalar y, scalar z, scalar w) {                             \
    type v = {x, y, z, w};                                                                              \
    return v;                                                                                           \
  }
#define GINRS_CPU_MAKES(name, scalar)                                                                   \
  GINRS_CPU_MAKE name##1 make_##name##1(scalar x) { name##1 v = {x}; return v; }                        \
  GINRS_CPU_MAKE name##2 make_##name##2(scalar x, scalar y) { name##2 v = {x, y}; return v; }           \
  GINRS_CPU_MAKE name##3 make_##name##3(scalar x, scalar y, scalar z) { name##3 v = {x, y, z}; return v; } \
  GINRS_CPU_MAKE4(name##4, scalar)
GINRS_CPU_MAKES(char, signed char)
GINRS_CPU_MAKES(uchar, unsigned char)
GINRS_CPU_MAKES(short, short)
GINRS_CPU_MAKES(ushort, unsigned short)
GINRS_CPU_MAKES(int, int)
GINRS_CPU_MAKES(uint, unsigned int)
GINRS_CPU_MAKES(long, long)
GINRS_CPU_MAKES(ulong, unsigned long)
GINRS_CPU_MAKES(longlong, long long)
GINRS_CPU_MAKES(ulonglong, unsigned long long)
GINRS_CPU_MAKES(float, float)
GINRS_CPU_MAKES(double, double)
GINRS_CPU_MAKE4(long4_16a, long)
GINRS_CPU_MAKE4(long4_32a, long)
GINRS_CPU_MAKE4(ulong4_16a, unsigned long)
GINRS_CPU_MAKE4(ulong4_32a, unsigned long)
GINRS_CPU_MAKE4(longlong4_16a, long long)
GINRS_CPU_MAKE4(longlong4_32a, long long)
GINRS_CPU_MAKE4(ulonglong4_16a, unsigned long long)
GINRS_CPU_MAKE4(ulonglong4_32a, unsigned long long)
GINRS_CPU_MAKE4(double4_16a, double)
GINRS_CPU_MAKE4(double4_32a, double)
#undef GINRS_CPU_MAKES
#undef GINRS_CPU_MAKE4
#undef GINRS_CPU_MAKE
#endif
