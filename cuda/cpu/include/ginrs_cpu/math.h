/* Math functions that CUDA has and libm has not, and the intrinsics on float and double. They run on host threads too.
 * Fast ones (__sinf) give the exact function's value: more digits than a GPU's. */
#ifndef GINRS_CPU_MATH_H_
#define GINRS_CPU_MATH_H_
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <cmath>
#include <cstdlib>
#include "halves.h"

/* libm's newer versions, and its reserved names, clash with C++ linkage: these are C functions. */
#define GINRS_CPU_UNARY(name, expression)                                            \
  extern "C" inline double name(double x) noexcept { return expression; }            \
  extern "C" inline float name##f(float v) noexcept { double x = v; return (float)(expression); } \
  inline float name(float v) { return name##f(v); }
GINRS_CPU_UNARY(rsqrt, 1.0 / sqrt(x))
GINRS_CPU_UNARY(rcbrt, 1.0 / cbrt(x))
GINRS_CPU_UNARY(sinpi, sin(M_PI * remainder(x, 2.0)))
GINRS_CPU_UNARY(cospi, cos(M_PI * remainder(x, 2.0)))
GINRS_CPU_UNARY(erfcx, exp(x * x) * erfc(x))
GINRS_CPU_UNARY(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
#undef GINRS_CPU_UNARY
inline float exp10(float x) { return exp10f(x); }
extern "C" inline double rhypot(double x, double y) noexcept { return 1.0 / hypot(x, y); }
extern "C" inline float rhypotf(float x, float y) noexcept { return 1.0f / hypotf(x, y); }
extern "C" inline double norm3d(double a, double b, double c) noexcept { return sqrt(a * a + b * b + c * c); }
extern "C" inline float norm3df(float a, float b, float c) noexcept { return (float)norm3d(a, b, c); }
extern "C" inline double rnorm3d(double a, double b, double c) noexcept { return 1.0 / norm3d(a, b, c); }
extern "C" inline float rnorm3df(float a, float b, float c) noexcept { return (float)rnorm3d(a, b, c); }
extern "C" inline double norm4d(double a, double b, double c, double d) noexcept { return hypot(hypot(a, b), hypot(c, d)); }
extern "C" inline float norm4df(float a, float b, float c, float d) noexcept { return (float)norm4d(a, b, c, d); }
extern "C" inline double rnorm4d(double a, double b, double c, double d) noexcept { return 1.0 / norm4d(a, b, c, d); }
extern "C" inline float rnorm4df(float a, float b, float c, float d) noexcept { return (float)rnorm4d(a, b, c, d); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return (float)ginrs_cpu::saturated(x); }

#define GINRS_CPU_FAST(name, expression) \
  extern "C" inline float name(float x) noexcept { return expression; }
GINRS_CPU_FAST(__sinf, sinf(x))
GINRS_CPU_FAST(__cosf, cosf(x))
GINRS_CPU_FAST(__tanf, tanf(x))
GINRS_CPU_FAST(__tanhf, tanhf(x))
GINRS_CPU_FAST(__expf, expf(x))
GINRS_CPU_FAST(__exp10f, exp10f(x))
GINRS_CPU_FAST(__logf, logf(x))
GINRS_CPU_FAST(__log2f, log2f(x))
GINRS_CPU_FAST(__log10f, log10f(x))
#undef GINRS_CPU_FAST
extern "C" inline float __powf(float x, float y) noexcept { return powf(x, y); }
extern "C" inline void __sincosf(float x, float* s, float* c) noexcept { sincosf(x, s, c); }

/* min and max over every pair of types that CUDA gives them; the number where one is NaN. */
#define GINRS_CPU_EXTREMES(A, B, T)                                   \
  inline T min(A a, B b) { return (T)a < (T)b ? (T)a : (T)b; }        \
  inline T max(A a, B b) { return (T)a < (T)b ? (T)b : (T)a; }
#define GINRS_CPU_EXTREMES_SIGNS(S, U)  \
  GINRS_CPU_EXTREMES(S, S, S)           \
  GINRS_CPU_EXTREMES(U, U, U)           \
  GINRS_CPU_EXTREMES(S, U, U)           \
  GINRS_CPU_EXTREMES(U, S, U)
GINRS_CPU_EXTREMES_SIGNS(int, unsigned int)
GINRS_CPU_EXTREMES_SIGNS(long, unsigned long)
GINRS_CPU_EXTREMES_SIGNS(long long, unsigned long long)
#undef GINRS_CPU_EXTREMES_SIGNS
#undef GINRS_CPU_EXTREMES
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
inline unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
inline unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

/* The bits. */
#define GINRS_CPU_BITS(From, name, To) \
  inline To name(From v) { To r; __builtin_memcpy(&r, &v, sizeof r); return r; }
GINRS_CPU_BITS(float, __float_as_int, int)
GINRS_CPU_BITS(float, __float_as_uint, unsigned int)
GINRS_CPU_BITS(int, __int_as_float, float)
GINRS_CPU_BITS(unsigned int, __uint_as_float, float)
GINRS_CPU_BITS(double, __double_as_longlong, long long)
GINRS_CPU_BITS(long long, __longlong_as_double, double)
#undef GINRS_CPU_BITS
inline int __double2loint(double v) { return (int)__double_as_longlong(v); }
inline int __double2hiint(double v) { return (int)(__double_as_longlong(v) >> 32); }
inline double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}

namespace ginrs_cpu {
/* f() under a rounding mode of the processor. The barrier keeps the operation between the two changes of mode. */
template <int mode, class F>
inline auto rounded(F f) -> decltype(f()) {
  const int before = fegetround();
  fesetround(mode);
  volatile auto result = f();
  fesetround(before);
  return result;
}
/* The compiler may assume nothing about the value, so it neither folds nor moves what is computed from it. */
template <class T>
inline T opaque(T v) {
  volatile T copy = v;
  return copy;
}
}  // namespace ginrs_cpu

/* One operation in the four rounding modes of the instruction set. */
#define GINRS_CPU_ROUNDED(T, name, parameters, expression)                                               \
  inline T name##_rn parameters { return expression; }                                                   \
  inline T name##_rz parameters { return ginrs_cpu::rounded<FE_TOWARDZERO>([=] { return (T)(expression); }); } \
  inline T name##_ru parameters { return ginrs_cpu::rounded<FE_UPWARD>([=] { return (T)(expression); }); }     \
  inline T name##_rd parameters { return ginrs_cpu::rounded<FE_DOWNWARD>([=] { return (T)(expression); }); }
#define GINRS_CPU_ARITHMETIC(T, p, f)                                                                    \
  GINRS_CPU_ROUNDED(T, __##p##add, (T a, T b), ginrs_cpu::opaque(a) + b)                                 \
  GINRS_CPU_ROUNDED(T, __##p##sub, (T a, T b), ginrs_cpu::opaque(a) - b)                                 \
  GINRS_CPU_ROUNDED(T, __##p##mul, (T a, T b), ginrs_cpu::opaque(a) * b)                                 \
  GINRS_CPU_ROUNDED(T, __##p##div, (T a, T b), ginrs_cpu::opaque(a) / b)                                 \
  GINRS_CPU_ROUNDED(T, __##p##rcp, (T a), (T)1 / ginrs_cpu::opaque(a))                                   \
  GINRS_CPU_ROUNDED(T, __##p##sqrt, (T a), sqrt##f(ginrs_cpu::opaque(a)))
GINRS_CPU_ARITHMETIC(float, f, f)
GINRS_CPU_ARITHMETIC(double, d, )
GINRS_CPU_ROUNDED(float, __fmaf, (float a, float b, float c), fmaf(ginrs_cpu::opaque(a), b, c))
GINRS_CPU_ROUNDED(double, __fma, (double a, double b, double c), fma(ginrs_cpu::opaque(a), b, c))
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline double __drsqrt_rn(double x) { return rsqrt(x); }

/* Conversions between floating point and integers: saturating to the integer, rounded to the float. */
#define GINRS_CPU_TO_INTEGER(F, name, T)                                                        \
  inline T name##_rn(F v) { return ginrs_cpu::convert<T>(rint((double)v), sizeof(F) == 8); }                    \
  inline T name##_rz(F v) { return ginrs_cpu::convert<T>((double)v, sizeof(F) == 8); }                          \
  inline T name##_ru(F v) { return ginrs_cpu::convert<T>(ceil((double)v), sizeof(F) == 8); }                    \
  inline T name##_rd(F v) { return ginrs_cpu::convert<T>(floor((double)v), sizeof(F) == 8); }
#define GINRS_CPU_INTEGERS(T, name)                                                 \
  GINRS_CPU_TO_INTEGER(float, __float2##name, T)                                    \
  GINRS_CPU_TO_INTEGER(double, __double2##name, T)                                  \
  GINRS_CPU_ROUNDED(float, __##name##2float, (T v), (float)ginrs_cpu::opaque(v))
GINRS_CPU_INTEGERS(int, int)
GINRS_CPU_INTEGERS(unsigned int, uint)
GINRS_CPU_INTEGERS(long long, ll)
GINRS_CPU_INTEGERS(unsigned long long, ull)
GINRS_CPU_ROUNDED(double, __ll2double, (long long v), (double)ginrs_cpu::opaque(v))
GINRS_CPU_ROUNDED(double, __ull2double, (unsigned long long v), (double)ginrs_cpu::opaque(v))
GINRS_CPU_ROUNDED(float, __double2float, (double v), (float)ginrs_cpu::opaque(v))
inline double __int2double_rn(int v) { return v; }
inline double __uint2double_rn(unsigned int v) { return v; }
#undef GINRS_CPU_INTEGERS
#undef GINRS_CPU_TO_INTEGER
#undef GINRS_CPU_ARITHMETIC
#undef GINRS_CPU_ROUNDED
#endif
