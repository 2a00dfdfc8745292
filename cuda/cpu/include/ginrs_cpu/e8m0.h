/* __nv_fp8_e8m0, the scale of a block of narrow values: a power of two from 2^-127 (code 0) to 2^127, or NaN. It has no sign,
 * so conversions to it take the magnitude. Included by cuda_fp8.h. */
#ifndef GINRS_CPU_E8M0_H_
#define GINRS_CPU_E8M0_H_
#include <assert.h>
#include <math.h>
#include "../device_types.h"

namespace ginrs_cpu {
struct E8m0 { static constexpr uint32_t kMax = 0xfe, kNan = 0xff; };

/* To the power of two below with Round::Zero, and else to the one above, as the types do. */
template <>
inline unsigned char narrow<E8m0>(double v, Round round, bool saturate) {
  if (v != v) return E8m0::kNan;
  if (v - v != 0) return saturate ? E8m0::kMax : E8m0::kNan;
  if (v == 0) return 0;
  int exponent;
  const double fraction = frexp(fabs(v), &exponent); /* 0.5 is a power of two, 1 is not reached */
  const int code = exponent + 126 + (round != Round::Zero && fraction > 0.5);
  if (code > (int)E8m0::kMax) return round == Round::Zero || saturate ? E8m0::kMax : E8m0::kNan;
  return code < 0 ? 0 : (unsigned char)code;
}
inline unsigned short e8m0_as_bfloat16(uint32_t code) {
  code &= 0xff;
  return (unsigned short)(code == 0 ? 0x40 /* subnormal */ : code == E8m0::kNan ? Bf16::kNan : code << Bf16::kMantissa);
}
template <>
inline float decode<E8m0>(uint32_t code) { return decode<Bf16>(e8m0_as_bfloat16(code)); }
}  // namespace ginrs_cpu

inline __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double v, __nv_saturation_t saturation, cudaRoundMode rounding) {
  assert((rounding == cudaRoundZero || rounding == cudaRoundPosInf) &&
         "conversions to e8m0 round with cudaRoundZero or cudaRoundPosInf");
  return ginrs_cpu::narrow<ginrs_cpu::E8m0>(v, rounding == cudaRoundPosInf ? ginrs_cpu::Round::Up : ginrs_cpu::Round::Zero,
                                            saturation == __NV_SATFINITE);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_e8m0x2(double2 v, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return (__nv_fp8x2_storage_t)(__nv_cvt_double_to_e8m0(v.x, saturation, rounding) |
                                __nv_cvt_double_to_e8m0(v.y, saturation, rounding) << 8);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float v, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return __nv_cvt_double_to_e8m0(v, saturation, rounding);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2 v, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return __nv_cvt_double2_to_e8m0x2(make_double2(v.x, v.y), saturation, rounding);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw v, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return __nv_cvt_float_to_e8m0(__nv_bfloat16(v), saturation, rounding);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat162raw_to_e8m0x2(__nv_bfloat162_raw v, __nv_saturation_t saturation,
                                                            cudaRoundMode rounding) {
  return __nv_cvt_float2_to_e8m0x2(__bfloat1622float2(v), saturation, rounding);
}
/* Exact: every scale is a bfloat16. */
inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t v) {
  return __nv_bfloat16_raw{ginrs_cpu::e8m0_as_bfloat16(v)};
}
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t v) {
  return __nv_bfloat162_raw{ginrs_cpu::e8m0_as_bfloat16(v), ginrs_cpu::e8m0_as_bfloat16(v >> 8u)};
}
#endif
