// Conversions of half, bfloat16 and fp8: every code to float, and floats around every code and every middle between two
// codes back, in all rounding modes, compared with reference.h. On the device and on the host.
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include "reference.h"

struct Half {
  static __host__ __device__ Format format() { return half_format(); }
  static constexpr int overflow = 0x7c00;
  static __host__ __device__ double decode(int c) { return __half2float(__ushort_as_half((unsigned short)c)); }
  static __host__ __device__ int rn(float x) { return __half_as_ushort(__float2half_rn(x)); }
  static __host__ __device__ int rz(float x) { return __half_as_ushort(__float2half_rz(x)); }
  static __host__ __device__ int ru(float x) { return __half_as_ushort(__float2half_ru(x)); }
  static __host__ __device__ int rd(float x) { return __half_as_ushort(__float2half_rd(x)); }
  static __host__ __device__ int wide(double x) { return __half_as_ushort(__double2half(x)); }
};
struct Bfloat {
  static __host__ __device__ Format format() { return bfloat_format(); }
  static constexpr int overflow = 0x7f80;
  static __host__ __device__ double decode(int c) { return __bfloat162float(__ushort_as_bfloat16((unsigned short)c)); }
  static __host__ __device__ int rn(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
  static __host__ __device__ int rz(float x) { return __bfloat16_as_ushort(__float2bfloat16_rz(x)); }
  static __host__ __device__ int ru(float x) { return __bfloat16_as_ushort(__float2bfloat16_ru(x)); }
  static __host__ __device__ int rd(float x) { return __bfloat16_as_ushort(__float2bfloat16_rd(x)); }
  static __host__ __device__ int wide(double x) { return __bfloat16_as_ushort(__double2bfloat16(x)); }
};

// One code and its neighbourhood.
template <class T>
__host__ __device__ void around(int code) {
  const Format f = T::format();
  const double value = f.value(code);
  CHECK_AT(T::decode(code) == value && T::decode(code | f.codes()) == -value, code);
  const double next = f.value(code + 1), middle = value / 2 + next / 2;
  const float points[] = {(float)value, nextafterf((float)value, 0), nextafterf((float)value, INFINITY), (float)middle,
                          nextafterf((float)middle, 0), nextafterf((float)middle, INFINITY)};
  for (float point : points)
    for (float x : {point, -point}) {
      CHECK_AT(T::rn(x) == f.encode(x, Format::nearest, T::overflow), code);
      CHECK_AT(T::rz(x) == f.encode(x, Format::zero, T::overflow), code);
      CHECK_AT(T::ru(x) == f.encode(x, Format::up, T::overflow), code);
      CHECK_AT(T::rd(x) == f.encode(x, Format::down, T::overflow), code);
    }
  // A double that rounds to the middle as a float: only one rounding gives the right answer.
  const double beside = nextafter(middle, INFINITY);
  CHECK_AT(T::wide(beside) == f.encode(beside, Format::nearest, T::overflow), code);
}
template <class T>
__host__ __device__ void specials() {
  const int sign = T::format().codes();
  CHECK(T::rn(0.f) == 0 && T::rn(-0.f) == sign && T::rn(INFINITY) == T::overflow);
  CHECK(T::rn(-INFINITY) == (T::overflow | sign) && T::rn(NAN) == 0x7fff && T::rn(-NAN) == 0x7fff);
  CHECK(T::rz(3.4e38f) == T::format().largest() && T::ru(3.4e38f) == T::overflow);
  CHECK(T::rd(-3.4e38f) == (T::overflow | sign) && T::ru(-3.4e38f) == (T::format().largest() | sign));
  CHECK(T::ru(1e-45f) == 1 && T::rd(1e-45f) == 0 && T::rd(-1e-45f) == (1 | sign) && T::rn(1e-45f) == 0);
  for (int c = T::overflow + 1; c < sign; c++) CHECK_AT(isnan(T::decode(c)) && isnan(T::decode(c | sign)), c);
  CHECK(isinf(T::decode(T::overflow)));
}
template <class T>
__global__ void all() {
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c <= T::format().largest(); c += gridDim.x * blockDim.x) around<T>(c);
  if (blockIdx.x + threadIdx.x == 0) specials<T>();
}

// fp8: what it becomes of every half and every bfloat16, both formats, saturating and not.
__host__ __device__ int fp8(const Format& f, double x, bool saturate) {
  int overflow = saturate ? f.largest() : f.infinity ? 0x7c : 0x7f;
  if (isnan(x)) return 0x7f;
  if (isinf(x)) return overflow | (x < 0 ? 0x80 : 0);
  return f.encode(x, Format::nearest, overflow);
}
__host__ __device__ void fp8_of(int code) {
  for (int k = 0; k < 4; k++) {
    const Format f = k & 1 ? e5m2_format() : e4m3_format();
    auto interpretation = k & 1 ? __NV_E5M2 : __NV_E4M3;
    auto saturation = k & 2 ? __NV_SATFINITE : __NV_NOSAT;
    __half h = __ushort_as_half((unsigned short)code);
    __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)code);
    CHECK_AT(__nv_cvt_halfraw_to_fp8(h, saturation, interpretation) == fp8(f, (float)h, k & 2), code * 4 + k);
    CHECK_AT(__nv_cvt_bfloat16raw_to_fp8(b, saturation, interpretation) == fp8(f, (float)b, k & 2), code * 4 + k);
    float past = nextafterf((float)h, INFINITY);
    CHECK_AT(__nv_cvt_float_to_fp8(past, saturation, interpretation) == fp8(f, past, k & 2), code * 4 + k);
  }
}
__global__ void all_fp8() {
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < 65536; c += gridDim.x * blockDim.x) fp8_of(c);
}
template <class T, class T2, class T4>
__host__ __device__ void fp8_types(const Format& f, int nan) {
  for (int c = 0; c < 256; c++) {
    T v;
    v.__x = (unsigned char)c;
    int magnitude = c & 0x7f;
    double value = magnitude <= f.largest() ? f.value(magnitude) * (c & 0x80 ? -1 : 1) : NAN;
    if (f.infinity && magnitude == 0x7c) value = c & 0x80 ? -INFINITY : INFINITY;
    CHECK_AT((float)v == value || (isnan((float)v) && isnan(value)), c);
    CHECK_AT((float)(__half)v == (float)v || isnan(value), c);
    if (magnitude <= f.largest()) CHECK_AT(T((float)v).__x == c && T((__half)v).__x == c && T((double)v).__x == c, c);
    if (magnitude <= f.largest() && value >= 0 && value < 200) CHECK_AT((int)v == (int)value && T((int)value).__x == T((float)(int)value).__x, c);
  }
  CHECK(T(1e9f).__x == f.largest() && T(-INFINITY).__x == (f.largest() | 0x80) && T(NAN).__x == nan);
  T2 two(make_float2(1.f, -2.f));
  CHECK(((float2)two).x == 1 && ((float2)two).y == -2 && (two.__x & 0xff) == T(1.f).__x);
  T4 four(make_float4(1, 2, 4, -8));
  float4 back = (float4)four;
  CHECK(back.x == 1 && back.y == 2 && back.z == 4 && back.w == -8 && four.__x >> 24 == T(-8.f).__x);
  CHECK(__high2float((__half2)T2(__floats2half2_rn(3, 5))) == 5);
}

// Integers to and from the 16-bit types.
ANYWHERE void integers() {
  CHECK(__half2int_rn(__float2half(2.5f)) == 2 && __half2int_rz(__float2half(-2.75f)) == -2);
  CHECK(__half2int_ru(__float2half(2.25f)) == 3 && __half2int_rd(__float2half(-2.25f)) == -3);
  CHECK(__half2uint_rz(__float2half(-3.f)) == 0 && __half2short_rz(__float2half(65504.f)) == 32767);
  CHECK(__half2int_rz(CUDART_INF_FP16) == 2147483647 && __half2int_rz(CUDART_NAN_FP16) == 0);
  CHECK(__bfloat162ll_rz(__float2bfloat16(1e30f)) == 0x7fffffffffffffffll);
  CHECK(__half2float(__int2half_rn(2049)) == 2048 && __half2float(__int2half_ru(2049)) == 2050);
  CHECK(__half2float(__int2half_rz(70000)) == 65504 && isinf(__half2float(__int2half_rn(70000))));
  CHECK(__half2float(__ushort2half_rn(65519)) == 65504 && __half2float(__short2half_rn(-7)) == -7);
  // 2^62 + 2^54 is the middle of two bfloat16; one more must go up, though a double cannot tell.
  CHECK(__bfloat162float(__ll2bfloat16_rn((1ll << 62) + (1ll << 54))) == 0x1p62f);
  CHECK(__bfloat162float(__ll2bfloat16_rn((1ll << 62) + (1ll << 54) + 1)) == 0x1.02p62f);
  CHECK(__bfloat162float(__ull2bfloat16_rd(~0ull)) == 0x1.fep63f && __bfloat162float(__ll2bfloat16_rd(-(1ll << 62) - 1)) == -0x1.02p62f);
}
__global__ void once() {
  fp8_types<__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3>(e4m3_format(), 0x7f);
  fp8_types<__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2>(e5m2_format(), 0x7f);
  integers();
}

int main() {
  all<Half><<<8, 64>>>();
  all<Bfloat><<<8, 64>>>();
  all_fp8<<<8, 64>>>();
  once<<<1, 1>>>();
  for (int c = 0; c <= half_format().largest(); c += 7) around<Half>(c);
  for (int c = 0; c <= bfloat_format().largest(); c += 7) around<Bfloat>(c);
  for (int c = 0; c < 65536; c += 7) fp8_of(c);
  specials<Half>();
  specials<Bfloat>();
#ifdef __GINRS_CPU__
  integers();
#endif
  return finish("fp_convert");
}
