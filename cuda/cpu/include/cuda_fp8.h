/* __nv_fp8_e4m3, __nv_fp8_e5m2 and __nv_fp8_e8m0, their vectors and conversions, in host and device code. In C: the storage
 * types. */
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
/* The code of v in a format of 8 bits or fewer, without infinity if `saturate`. */
template <class F>
inline unsigned char narrow(double v, Round round = Round::Nearest, bool saturate = true) {
  return (unsigned char)encode<F>(v, round, saturate);
}
}  // namespace ginrs_cpu

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t saturation, __nv_fp8_interpretation_t format) {
  bool saturate = saturation == __NV_SATFINITE;
  return format == __NV_E4M3 ? ginrs_cpu::narrow<ginrs_cpu::E4m3>(v, ginrs_cpu::Round::Nearest, saturate)
                             : ginrs_cpu::narrow<ginrs_cpu::E5m2>(v, ginrs_cpu::Round::Nearest, saturate);
}
/* Exact: every 8-bit value is a half. */
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t format) {
  return __half(format == __NV_E4M3 ? ginrs_cpu::decode<ginrs_cpu::E4m3>(v) : ginrs_cpu::decode<ginrs_cpu::E5m2>(v));
}

#define GINRS_X fp8
#define GINRS_LANE 8
#define GINRS_HOW __nv_saturation_t saturation, __nv_fp8_interpretation_t format
#define GINRS_PASS saturation, format
#include "ginrs_cpu/narrow_convert.inc.h"
#define GINRS_E _e4m3
#define GINRS_F E4m3
#include "ginrs_cpu/narrow_type.inc.h"
#define GINRS_E _e5m2
#define GINRS_F E5m2
#include "ginrs_cpu/narrow_type.inc.h"
#include "ginrs_cpu/e8m0.h"
#define GINRS_E _e8m0
#define GINRS_F E8m0
#include "ginrs_cpu/narrow_type.inc.h"
#undef GINRS_X
#undef GINRS_LANE
#endif
#endif
