/* __nv_fp8_e4m3 and __nv_fp8_e5m2, their vectors and conversions, in host and device code. In C: the storage types. */
#ifndef __CUDA_FP8_H__
#define __CUDA_FP8_H__
#define __CUDA_FP8_TYPES_EXIST__
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short int __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
/* What becomes of values beyond the largest: NaN or infinity as the format has it, or the largest. */
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

#ifdef __cplusplus
namespace ginrs_cpu {
template <class F>
inline __nv_fp8_storage_t fp8(double v) { return (__nv_fp8_storage_t)encode<F>(v, Round::Nearest, true); }
}  // namespace ginrs_cpu

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t saturation, __nv_fp8_interpretation_t format) {
  bool saturate = saturation == __NV_SATFINITE;
  return (__nv_fp8_storage_t)(format == __NV_E4M3
                                  ? ginrs_cpu::encode<ginrs_cpu::E4m3>(v, ginrs_cpu::Round::Nearest, saturate)
                                  : ginrs_cpu::encode<ginrs_cpu::E5m2>(v, ginrs_cpu::Round::Nearest, saturate));
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 v, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t format) {
  return (__nv_fp8x2_storage_t)(__nv_cvt_double_to_fp8(v.x, saturation, format) |
                                __nv_cvt_double_to_fp8(v.y, saturation, format) << 8);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_double_to_fp8(v, s, f);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_double2_to_fp8x2(make_double2(v.x, v.y), s, f);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_float_to_fp8(__half(v), s, f);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(v), s, f);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_float_to_fp8(__nv_bfloat16(v), s, f);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw v, __nv_saturation_t s,
                                                           __nv_fp8_interpretation_t f) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(v), s, f);
}
/* Exact: every 8-bit value is a half. */
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t format) {
  return __half(format == __NV_E4M3 ? ginrs_cpu::decode<ginrs_cpu::E4m3>(v) : ginrs_cpu::decode<ginrs_cpu::E5m2>(v));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t format) {
  return __half2_raw{__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)v, format).x,
                     __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(v >> 8), format).x};
}

#define GINRS_T __nv_fp8_e4m3
#define GINRS_T2 __nv_fp8x2_e4m3
#define GINRS_T4 __nv_fp8x4_e4m3
#define GINRS_F E4m3
#include "ginrs_cpu/fp8_type.inc.h"
#undef GINRS_T
#undef GINRS_T2
#undef GINRS_T4
#undef GINRS_F
#define GINRS_T __nv_fp8_e5m2
#define GINRS_T2 __nv_fp8x2_e5m2
#define GINRS_T4 __nv_fp8x4_e5m2
#define GINRS_F E5m2
#include "ginrs_cpu/fp8_type.inc.h"
#undef GINRS_T
#undef GINRS_T2
#undef GINRS_T4
#undef GINRS_F
#endif
#endif
