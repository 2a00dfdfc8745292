/* __nv_fp6_e2m3 and __nv_fp6_e3m2, a byte each, their vectors and conversions, in host and device code. In C: the storage
 * types. They have neither infinity nor NaN: what is too large becomes the largest, NaN the largest positive. */
#ifndef __CUDA_FP6_H__
#define __CUDA_FP6_H__
#include <assert.h>
#include "cuda_fp8.h"
#include "device_types.h"

typedef __nv_fp8_storage_t __nv_fp6_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp6x2_storage_t;
typedef __nv_fp8x4_storage_t __nv_fp6x4_storage_t;
typedef enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 } __nv_fp6_interpretation_t;

#ifdef __cplusplus
#define __CUDA_FP6_TYPES_EXIST__
namespace ginrs_cpu {
/* NVIDIA's conversions know these two, and say so with an assertion. */
inline Round narrow_round(cudaRoundMode rounding) {
  assert((rounding == cudaRoundNearest || rounding == cudaRoundZero) &&
         "conversions to fp4 and fp6 round with cudaRoundNearest or cudaRoundZero");
  return rounding == cudaRoundNearest ? Round::Nearest : Round::Zero;
}
}  // namespace ginrs_cpu

inline __nv_fp6_storage_t __nv_cvt_double_to_fp6(double v, __nv_fp6_interpretation_t format, cudaRoundMode rounding) {
  ginrs_cpu::Round round = ginrs_cpu::narrow_round(rounding);
  return format == __NV_E2M3 ? ginrs_cpu::narrow<ginrs_cpu::E2m3>(v, round) : ginrs_cpu::narrow<ginrs_cpu::E3m2>(v, round);
}
/* Exact: every 6-bit value is a half. */
inline __half_raw __nv_cvt_fp6_to_halfraw(__nv_fp6_storage_t v, __nv_fp6_interpretation_t format) {
  return __half(format == __NV_E2M3 ? ginrs_cpu::decode<ginrs_cpu::E2m3>(v) : ginrs_cpu::decode<ginrs_cpu::E3m2>(v));
}

#define GINRS_X fp6
#define GINRS_LANE 8
#define GINRS_HOW __nv_fp6_interpretation_t format, cudaRoundMode rounding
#define GINRS_PASS format, rounding
#include "ginrs_cpu/narrow_convert.inc.h"
#define GINRS_E _e2m3
#define GINRS_F E2m3
#include "ginrs_cpu/narrow_type.inc.h"
#define GINRS_E _e3m2
#define GINRS_F E3m2
#include "ginrs_cpu/narrow_type.inc.h"
#undef GINRS_X
#undef GINRS_LANE
#endif
#endif
