/* CUDA's vector types: sizes and alignments are ABI (tests: abi-tests/cpu-kernels/vectors.cu). C and C++. */
#ifndef GINRS_CPU_VECTOR_TYPES_H_
#define GINRS_CPU_VECTOR_TYPES_H_
#include "host_defines.h"

/* One scalar type: the vectors of 1 to 4, each with its alignment. */
#define GINRS_CPU_VECTORS(name, scalar, align1, align2, align3, align4) \
  typedef struct __align__(align1) name##1 { scalar x; } name##1;                     \
  typedef struct __align__(align2) name##2 { scalar x, y; } name##2;                  \
  typedef struct __align__(align3) name##3 { scalar x, y, z; } name##3;               \
  typedef struct __align__(align4) name##4 { scalar x, y, z, w; } name##4;
GINRS_CPU_VECTORS(char, signed char, 1, 2, 1, 4)
GINRS_CPU_VECTORS(uchar, unsigned char, 1, 2, 1, 4)
GINRS_CPU_VECTORS(short, short, 2, 4, 2, 8)
GINRS_CPU_VECTORS(ushort, unsigned short, 2, 4, 2, 8)
GINRS_CPU_VECTORS(int, int, 4, 8, 4, 16)
GINRS_CPU_VECTORS(uint, unsigned int, 4, 8, 4, 16)
GINRS_CPU_VECTORS(long, long, 8, 16, 8, 16)
GINRS_CPU_VECTORS(ulong, unsigned long, 8, 16, 8, 16)
GINRS_CPU_VECTORS(longlong, long long, 8, 16, 8, 16)
GINRS_CPU_VECTORS(ulonglong, unsigned long long, 8, 16, 8, 16)
GINRS_CPU_VECTORS(float, float, 4, 8, 4, 16)
GINRS_CPU_VECTORS(double, double, 8, 16, 8, 16)
#undef GINRS_CPU_VECTORS

/* CUDA 13 names the alignment of the 32-byte vectors. */
#define GINRS_CPU_WIDE(name, scalar)                                                  \
  typedef struct __align__(16) name##4_16a { scalar x, y, z, w; } name##4_16a;        \
  typedef struct __align__(32) name##4_32a { scalar x, y, z, w; } name##4_32a;
GINRS_CPU_WIDE(long, long)
GINRS_CPU_WIDE(ulong, unsigned long)
GINRS_CPU_WIDE(longlong, long long)
GINRS_CPU_WIDE(ulonglong, unsigned long long)
GINRS_CPU_WIDE(double, double)
#undef GINRS_CPU_WIDE

/* Extents of a grid or a block; what is not given is 1. */
struct dim3 {
  unsigned int x, y, z;
#ifdef __cplusplus
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
};
typedef struct dim3 dim3;
#endif
