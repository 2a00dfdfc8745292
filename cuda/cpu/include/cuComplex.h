/* Complex numbers of the toolkit, in host and device code. */
#ifndef CU_COMPLEX_H_
#define CU_COMPLEX_H_
#include <math.h>
#include "vector_functions.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

/* Each operation for both precisions: T is the number's type, R its parts', f ends the name, m that of math.h. */
#define GINRS_CPU_COMPLEX(T, R, make, f, m)                                                                      \
  static inline R cuCreal##f(T x) { return x.x; }                                                                \
  static inline R cuCimag##f(T x) { return x.y; }                                                                \
  static inline T make(R real, R imaginary) {                                                                    \
    T x;                                                                                                         \
    x.x = real;                                                                                                  \
    x.y = imaginary;                                                                                             \
    return x;                                                                                                    \
  }                                                                                                              \
  static inline T cuConj##f(T x) { return make(x.x, -x.y); }                                                     \
  static inline T cuCadd##f(T x, T y) { return make(x.x + y.x, x.y + y.y); }                                     \
  static inline T cuCsub##f(T x, T y) { return make(x.x - y.x, x.y - y.y); }                                     \
  static inline T cuCmul##f(T x, T y) { return make(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }             \
  static inline R cuCabs##f(T x) { return hypot##m(x.x, x.y); }                                                  \
  static inline T cuCdiv##f(T x, T y) { /* scaled by the larger part, so that squares stay in range */           \
    R s = fabs##m(y.x) + fabs##m(y.y), a = y.x / s, b = y.y / s, n = (a * a + b * b) * s;                        \
    return make((x.x * a + x.y * b) / n, (x.y * a - x.x * b) / n);                                               \
  }                                                                                                              \
  static inline T cuCfma##f(T x, T y, T d) { return cuCadd##f(cuCmul##f(x, y), d); }
GINRS_CPU_COMPLEX(cuFloatComplex, float, make_cuFloatComplex, f, f)
GINRS_CPU_COMPLEX(cuDoubleComplex, double, make_cuDoubleComplex, , )
#undef GINRS_CPU_COMPLEX

static inline cuComplex make_cuComplex(float real, float imaginary) { return make_cuFloatComplex(real, imaginary); }
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return make_cuDoubleComplex(x.x, x.y); }
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return make_cuFloatComplex((float)x.x, (float)x.y); }
#endif
