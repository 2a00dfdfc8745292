/* Intrinsics of a 16-bit type and its pair. Included once per type after halves_type.inc.h. */

/* Arithmetic. _rn never contracts, and nothing here does; _sat clamps to 0..1. */
#define GINRS_BINARY(name, name2, op)                                                                            \
  inline GINRS_T name(GINRS_T a, GINRS_T b) { return a op b; }                                                   \
  inline GINRS_T2 name2(GINRS_T2 a, GINRS_T2 b) { return a op b; }
#define GINRS_BINARY_KINDS(name, op)                                                                             \
  GINRS_BINARY(name, name##2, op)                                                                                \
  GINRS_BINARY(name##_rn, name##2_rn, op)                                                                        \
  inline GINRS_T name##_sat(GINRS_T a, GINRS_T b) { return GINRS_T(ginrs_cpu::saturated(a op b)); }              \
  inline GINRS_T2 name##2_sat(GINRS_T2 a, GINRS_T2 b) { return ginrs_cpu::each(a, b, (GINRS_T(*)(GINRS_T, GINRS_T))name##_sat); }
GINRS_BINARY_KINDS(__hadd, +)
GINRS_BINARY_KINDS(__hsub, -)
GINRS_BINARY_KINDS(__hmul, *)
GINRS_BINARY(__hdiv, __h2div, /)
#undef GINRS_BINARY_KINDS
#undef GINRS_BINARY
inline GINRS_T __hfma(GINRS_T a, GINRS_T b, GINRS_T c) {
  return GINRS_T(ginrs_cpu::fma_to_odd((float)a, (float)b, (float)c));
}
inline GINRS_T __hfma_sat(GINRS_T a, GINRS_T b, GINRS_T c) { return GINRS_T(ginrs_cpu::saturated(__hfma(a, b, c))); }
inline GINRS_T __hfma_relu(GINRS_T a, GINRS_T b, GINRS_T c) {
  GINRS_T sum = __hfma(a, b, c);
  return (float)sum < 0 ? GINRS_T(0.0f) : sum;
}
inline GINRS_T2 __hfma2(GINRS_T2 a, GINRS_T2 b, GINRS_T2 c) {
  return GINRS_T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline GINRS_T2 __hfma2_sat(GINRS_T2 a, GINRS_T2 b, GINRS_T2 c) {
  return GINRS_T2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}
inline GINRS_T2 __hfma2_relu(GINRS_T2 a, GINRS_T2 b, GINRS_T2 c) {
  return GINRS_T2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}
inline GINRS_T __hneg(GINRS_T a) { return -a; }
inline GINRS_T2 __hneg2(GINRS_T2 a) { return -a; }
inline GINRS_T __habs(GINRS_T a) { return GINRS_RAW{(unsigned short)(GINRS_RAW(a).x & 0x7fff)}; }
inline GINRS_T2 __habs2(GINRS_T2 a) { return GINRS_T2(__habs(a.x), __habs(a.y)); }

/* Comparisons: ordered ones are false for NaN, those with u are true. On pairs: 1.0 or 0.0 per half, `b`: a bool for
 * both, `_mask`: 16 bits set per half. */
#define GINRS_RELATION(suffix, expression)                                                                             \
  inline bool __h##suffix(GINRS_T ha, GINRS_T hb) { float a = ha, b = hb; return expression; }                         \
  inline GINRS_T2 __h##suffix##2(GINRS_T2 a, GINRS_T2 b) {                                                             \
    return GINRS_T2(__h##suffix(a.x, b.x) ? 1.0f : 0.0f, __h##suffix(a.y, b.y) ? 1.0f : 0.0f);                         \
  }                                                                                                                    \
  inline bool __hb##suffix##2(GINRS_T2 a, GINRS_T2 b) { return __h##suffix(a.x, b.x) && __h##suffix(a.y, b.y); }       \
  inline unsigned __h##suffix##2_mask(GINRS_T2 a, GINRS_T2 b) {                                                        \
    return (__h##suffix(a.x, b.x) ? 0xffffu : 0) | (__h##suffix(a.y, b.y) ? 0xffff0000u : 0);                          \
  }
GINRS_RELATION(eq, a == b)
GINRS_RELATION(ne, a < b || a > b)
GINRS_RELATION(lt, a < b)
GINRS_RELATION(gt, a > b)
GINRS_RELATION(le, a <= b)
GINRS_RELATION(ge, a >= b)
GINRS_RELATION(equ, !(a < b || a > b))
GINRS_RELATION(neu, a != b)
GINRS_RELATION(ltu, !(a >= b))
GINRS_RELATION(gtu, !(a <= b))
GINRS_RELATION(leu, !(a > b))
GINRS_RELATION(geu, !(a < b))
#undef GINRS_RELATION
inline bool __hisnan(GINRS_T a) { return (float)a != (float)a; }
inline GINRS_T2 __hisnan2(GINRS_T2 a) { return GINRS_T2(__hisnan(a.x) ? 1.0f : 0.0f, __hisnan(a.y) ? 1.0f : 0.0f); }
inline int __hisinf(GINRS_T a) { return (float)a == __builtin_inff() ? 1 : (float)a == -__builtin_inff() ? -1 : 0; }

/* The number where one operand is NaN; _nan: NaN. +0 is above -0. */
#define GINRS_EXTREME(name, above)                                                                      \
  inline GINRS_T name(GINRS_T a, GINRS_T b) {                                                           \
    if (__hisnan(a)) return __hisnan(b) ? GINRS_T(__builtin_nanf("")) : b;                              \
    if (__hisnan(b)) return a;                                                                          \
    if ((float)a == (float)b) return (__builtin_signbit((float)a) != 0) == above ? b : a;               \
    return ((float)a > (float)b) == above ? a : b;                                                      \
  }                                                                                                     \
  inline GINRS_T name##_nan(GINRS_T a, GINRS_T b) {                                                     \
    return __hisnan(a) || __hisnan(b) ? GINRS_T(__builtin_nanf("")) : name(a, b);                       \
  }                                                                                                     \
  inline GINRS_T2 name##2(GINRS_T2 a, GINRS_T2 b) { return GINRS_T2(name(a.x, b.x), name(a.y, b.y)); }  \
  inline GINRS_T2 name##2_nan(GINRS_T2 a, GINRS_T2 b) { return GINRS_T2(name##_nan(a.x, b.x), name##_nan(a.y, b.y)); }
GINRS_EXTREME(__hmax, true)
GINRS_EXTREME(__hmin, false)
#undef GINRS_EXTREME

/* Functions: in double, rounded once. */
#define GINRS_FUNCTION(name, expression)                                                          \
  inline GINRS_T h##name(GINRS_T h) { double v = (float)h; return GINRS_T((double)(expression)); } \
  inline GINRS_T2 h2##name(GINRS_T2 a) { return GINRS_T2(h##name(a.x), h##name(a.y)); }
GINRS_FUNCTION(ceil, __builtin_ceil(v))
GINRS_FUNCTION(floor, __builtin_floor(v))
GINRS_FUNCTION(trunc, __builtin_trunc(v))
GINRS_FUNCTION(rint, __builtin_rint(v))
GINRS_FUNCTION(sqrt, __builtin_sqrt(v))
GINRS_FUNCTION(rsqrt, 1.0 / __builtin_sqrt(v))
GINRS_FUNCTION(rcp, 1.0 / v)
GINRS_FUNCTION(exp, __builtin_exp(v))
GINRS_FUNCTION(exp2, __builtin_exp2(v))
GINRS_FUNCTION(exp10, __builtin_pow(10.0, v))
GINRS_FUNCTION(log, __builtin_log(v))
GINRS_FUNCTION(log2, __builtin_log2(v))
GINRS_FUNCTION(log10, __builtin_log10(v))
GINRS_FUNCTION(sin, __builtin_sin(v))
GINRS_FUNCTION(cos, __builtin_cos(v))
GINRS_FUNCTION(tanh, __builtin_tanh(v))
GINRS_FUNCTION(tanh_approx, __builtin_tanh(v))
#undef GINRS_FUNCTION

#ifdef __CUDACC__
GINRS_CPU_SHUFFLES(GINRS_T)
GINRS_CPU_SHUFFLES(GINRS_T2)
GINRS_CPU_ATOMIC(GINRS_T, atomicAdd, ginrs_cpu::atomic_plus(p, value))
GINRS_CPU_ATOMIC(GINRS_T2, atomicAdd, ginrs_cpu::atomic_plus(p, value))
#endif
#undef GINRS_T
#undef GINRS_T2
#undef GINRS_X
#undef GINRS_X2
#undef GINRS_RAW
#undef GINRS_RAW2
#undef GINRS_F
