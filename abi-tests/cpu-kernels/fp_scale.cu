// __nv_fp8_e8m0, the scale of blocks of narrow values: every power of two and what lies around it, every bfloat16, both rounding
// modes, saturating and not, compared with a search through the codes. On the device and on the host.
#include <cmath>
#include "check.h"
#include <cuda_fp8.h>

__host__ __device__ double scale(int code) { return ldexp(1.0, code - 127); }

// The largest code that is not above |x|, or the smallest that is not below.
__host__ __device__ int expected(double x, cudaRoundMode r, bool saturate) {
  const double magnitude = fabs(x);
  if (isnan(x)) return 0xff;
  if (isinf(x)) return saturate ? 0xfe : 0xff;
  int code = 0;
  if (r == cudaRoundZero) {
    while (code < 0xfe && scale(code + 1) <= magnitude) code++;
    return code;
  }
  while (code < 0xff && scale(code) < magnitude) code++;
  return code == 0xff && saturate ? 0xfe : code;
}

__host__ __device__ void value(double x, long long at) {
  for (int k = 0; k < 4; k++) {
    const cudaRoundMode r = k & 1 ? cudaRoundPosInf : cudaRoundZero;
    const __nv_saturation_t s = k & 2 ? __NV_SATFINITE : __NV_NOSAT;
    CHECK_AT(__nv_cvt_double_to_e8m0(x, s, r) == expected(x, r, k & 2), at);
    CHECK_AT(__nv_cvt_float_to_e8m0((float)x, s, r) == expected((float)x, r, k & 2), at);
    const int pair = expected(3, r, k & 2) | expected((float)x, r, k & 2) << 8;
    CHECK_AT(__nv_cvt_float2_to_e8m0x2(make_float2(3, (float)x), s, r) == pair, at);
    CHECK_AT(__nv_cvt_double2_to_e8m0x2(make_double2(3, (float)x), s, r) == pair, at);
  }
  CHECK_AT(__nv_fp8_e8m0(x).__x == expected(x, cudaRoundPosInf, true), at);
  CHECK_AT(__nv_fp8_e8m0((float)x).__x == expected((float)x, cudaRoundPosInf, true), at);
}
__host__ __device__ void around(int code) {
  const double at = scale(code), middle = at * 1.5;
  for (double sign : {1.0, -1.0})
    for (double x : {at, nextafter(at, 0.0), nextafter(at, 2 * at), middle, (double)nextafterf((float)at, 0.f),
                     (double)nextafterf((float)at, (float)(2 * at))})
      value(sign * x, code);
  __nv_fp8_e8m0 one;
  one.__x = (unsigned char)code;
  CHECK_AT((float)one == at && (double)one == at && (float)(__nv_bfloat16)one == at && (bool)one, code);
  CHECK_AT((float)__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw((unsigned char)code)) == at, code);
  CHECK_AT((float)(__half)one == (float)__half((float)at), code);
  if (at < 1e9) CHECK_AT((int)one == (int)at && (unsigned long long)one == (unsigned long long)at, code);
}
__host__ __device__ void bits(int code) {
  const __nv_bfloat16 b = __nv_bfloat16_raw{(unsigned short)code};
  const __nv_bfloat162 two(__nv_bfloat16(8.f), b);
  for (int k = 0; k < 4; k++) {
    const cudaRoundMode r = k & 1 ? cudaRoundPosInf : cudaRoundZero;
    const __nv_saturation_t s = k & 2 ? __NV_SATFINITE : __NV_NOSAT;
    CHECK_AT(__nv_cvt_bfloat16raw_to_e8m0(b, s, r) == expected((float)b, r, k & 2), code);
    CHECK_AT(__nv_cvt_bfloat162raw_to_e8m0x2(two, s, r) == (130 | expected((float)b, r, k & 2) << 8), code);
  }
}
__host__ __device__ void once() {
  for (double x : {0.0, -0.0, (double)NAN, (double)INFINITY, -(double)INFINITY, 5e-324, 1e300, -1e300}) value(x, 0);
  __nv_fp8_e8m0 nan;
  nan.__x = 0xff;
  CHECK(isnan((float)nan) && isnan((double)nan) && isnan((float)(__half)nan) && (int)nan == 0 && (bool)nan);
  CHECK(__nv_fp8_e8m0(3).__x == 129 && __nv_fp8_e8m0((1ll << 62) + 1).__x == 190 && __nv_fp8_e8m0(-(1ll << 62)).__x == 189);
  CHECK(__nv_fp8_e8m0(0u).__x == 0 && __nv_fp8_e8m0(~0ull).__x == 191 && __nv_fp8_e8m0((short)-5).__x == 130);
  const __nv_fp8x2_e8m0 two(make_float2(1, 6));
  CHECK(two.__x == (127 | 130 << 8) && ((float2)two).y == 8 && (float)((__half2)two).x == 1 && (float)((__nv_bfloat162)two).y == 8);
  CHECK((float)__nv_bfloat162(__nv_cvt_e8m0x2_to_bf162raw(two.__x)).y == 8);
  const float4 four = (float4)__nv_fp8x4_e8m0(make_float4(1, 0.3f, 100, -4));
  CHECK(four.x == 1 && four.y == 0.5f && four.z == 128 && four.w == 4);
}
__global__ void all() {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int c = i; c < 0xff; c += n) around(c);
  for (int c = i; c < 65536; c += 5 * n) bits(c);
  if (i == 0) once();
}
__global__ void nearest(int* out) { *out = __nv_cvt_float_to_e8m0(1.25f, __NV_SATFINITE, cudaRoundNearest); }

int main() {
  all<<<8, 64>>>();
  CUDA(cudaDeviceSynchronize());
  for (int c = 0; c < 0xff; c += 3) around(c);
  for (int c = 0; c < 65536; c += 17) bits(c);
  once();
  const int rc = finish("fp_scale");
  // Last, for it ends the device's context: other rounding modes are an assertion's failure, as NVIDIA's.
  int* out;
  CUDA(cudaMalloc(&out, sizeof *out));
  nearest<<<1, 1>>>(out);
  if (cudaDeviceSynchronize() == cudaErrorAssert) return rc;
  printf("rounding to the nearest passed\n");
  return 1;
}
