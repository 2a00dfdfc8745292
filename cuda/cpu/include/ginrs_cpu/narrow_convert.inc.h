/* Conversions of cuda_fp8.h, cuda_fp6.h and cuda_fp4.h. No include guard: each includes this once, with GINRS_X
 * (its name), GINRS_LANE (bits from one lane to the next), GINRS_HOW (the parameters that say how) and
 * GINRS_PASS (their names) defined, behind its __nv_cvt_double_to_X and __nv_cvt_X_to_halfraw, on which all others rest:
 * a double holds every float, half and bfloat16. */
#define GINRS_ONE GINRS_N(__nv_, GINRS_X, _storage_t)
#define GINRS_TWO GINRS_N(__nv_, GINRS_X, x2_storage_t)
inline GINRS_TWO GINRS_N(__nv_cvt_double2_to_, GINRS_X, x2)(double2 v, GINRS_HOW) {
  return (GINRS_TWO)(GINRS_N(__nv_cvt_double_to_, GINRS_X, )(v.x, GINRS_PASS) |
                     GINRS_N(__nv_cvt_double_to_, GINRS_X, )(v.y, GINRS_PASS) << GINRS_LANE);
}
inline GINRS_ONE GINRS_N(__nv_cvt_float_to_, GINRS_X, )(float v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_double_to_, GINRS_X, )(v, GINRS_PASS);
}
inline GINRS_TWO GINRS_N(__nv_cvt_float2_to_, GINRS_X, x2)(float2 v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_double2_to_, GINRS_X, x2)(make_double2(v.x, v.y), GINRS_PASS);
}
inline GINRS_ONE GINRS_N(__nv_cvt_halfraw_to_, GINRS_X, )(__half_raw v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_float_to_, GINRS_X, )(__half(v), GINRS_PASS);
}
inline GINRS_TWO GINRS_N(__nv_cvt_halfraw2_to_, GINRS_X, x2)(__half2_raw v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_float2_to_, GINRS_X, x2)(__half22float2(v), GINRS_PASS);
}
inline GINRS_ONE GINRS_N(__nv_cvt_bfloat16raw_to_, GINRS_X, )(__nv_bfloat16_raw v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_float_to_, GINRS_X, )(__nv_bfloat16(v), GINRS_PASS);
}
inline GINRS_TWO GINRS_N(__nv_cvt_bfloat16raw2_to_, GINRS_X, x2)(__nv_bfloat162_raw v, GINRS_HOW) {
  return GINRS_N(__nv_cvt_float2_to_, GINRS_X, x2)(__bfloat1622float2(v), GINRS_PASS);
}
inline __half2_raw GINRS_N(__nv_cvt_, GINRS_X, x2_to_halfraw2)(GINRS_TWO v, GINRS_N(__nv_, GINRS_X, _interpretation_t) format) {
  return __half2_raw{GINRS_N(__nv_cvt_, GINRS_X, _to_halfraw)((GINRS_ONE)v, format).x,
                     GINRS_N(__nv_cvt_, GINRS_X, _to_halfraw)((GINRS_ONE)(v >> GINRS_LANE), format).x};
}
#undef GINRS_ONE
#undef GINRS_TWO
#undef GINRS_HOW
#undef GINRS_PASS
