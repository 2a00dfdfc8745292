/* __nv_fp4_e2m1, in the low bits of a byte, two in a byte, four in two, and conversions, in host and device code. In C: the
 * storage types. It has neither infinity nor NaN: what is too large becomes the largest, NaN the largest positive. */
#ifndef __CUDA_FP4_H__
#define __CUDA_FP4_H__
#include "cuda_fp6.h"

typedef __nv_fp8_storage_t __nv_fp4_storage_t;
typedef __nv_fp8_storage_t __nv_fp4x2_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp4x4_storage_t;
typedef enum __nv_fp4_interpretation_t { __NV_E2M1 } __nv_fp4_interpretation_t;

#ifdef __cplusplus
#define __CUDA_FP4_TYPES_EXIST__
inline __nv_fp4_storage_t __nv_cvt_double_to_fp4(double v, __nv_fp4_interpretation_t, cudaRoundMode rounding) {
  return ginrs_cpu::narrow<ginrs_cpu::E2m1>(v, ginrs_cpu::narrow_round(rounding));
}
/* Exact: every 4-bit value is a half. */
inline __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t v, __nv_fp4_interpretation_t) {
  return __half(ginrs_cpu::decode<ginrs_cpu::E2m1>(v));
}

#define GINRS_X fp4
#define GINRS_LANE 4
#define GINRS_HOW __nv_fp4_interpretation_t format, cudaRoundMode rounding
#define GINRS_PASS format, rounding
#include "ginrs_cpu/narrow_convert.inc.h"
#define GINRS_E _e2m1
#define GINRS_F E2m1
#include "ginrs_cpu/narrow_type.inc.h"
#undef GINRS_X
#undef GINRS_LANE
#endif
#endif
