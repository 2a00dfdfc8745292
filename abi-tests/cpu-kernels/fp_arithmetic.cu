// Arithmetic of half and bfloat16: sums, products and fused products of many pairs against exact sums rounded once;
// comparisons with NaN, extremes, pairs, shuffles, operators.
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "reference.h"

__host__ __device__ unsigned scramble(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  return x;
}
// A half times 2^24 is an integer, a product of two times 2^48 too: __int128 holds a*b+c exactly.
__host__ __device__ __int128 scaled(__half h) { return (__int128)((double)__half2float(h) * 0x1p24); }
__host__ __device__ int exact_fma(__half a, __half b, __half c) {
  __int128 sum = scaled(a) * scaled(b) + (scaled(c) << 24);
  __int128 magnitude = sum < 0 ? -sum : sum;
  int code = 0; // the largest code at most the magnitude
  for (int step = 0x4000; step; step /= 2) {
    int next = code + step;
    if (next <= 0x7c00 && (__int128)(half_format().value(next) * 0x1p24) << 24 <= magnitude) code = next;
  }
  if (code < 0x7c00) {
    __int128 low = (__int128)(half_format().value(code) * 0x1p24) << 24, high = (__int128)(half_format().value(code + 1) * 0x1p24) << 24;
    __int128 twice = 2 * magnitude, ends = low + high;
    if (twice > ends || (twice == ends && code % 2)) code++;
  }
  return code | (sum < 0 ? 0x8000 : 0);
}
ANYWHERE void triple(unsigned seed) {
  unsigned r = scramble(seed), s = scramble(r);
  __half a = __ushort_as_half((unsigned short)r), b = __ushort_as_half((unsigned short)(r >> 16)),
         c = __ushort_as_half((unsigned short)s);
  if (__hisnan(a) || __hisinf(a) || __hisnan(b) || __hisinf(b) || __hisnan(c) || __hisinf(c)) return;
  auto code = [](__half h) { return (int)__half_as_ushort(h); };
  double x = __half2float(a), y = __half2float(b);
  if (x + y != 0) CHECK_AT(code(__hadd(a, b)) == half_format().encode(x + y, Format::nearest, 0x7c00), seed);
  if (x - y != 0) CHECK_AT(code(__hsub(a, b)) == half_format().encode(x - y, Format::nearest, 0x7c00), seed);
  CHECK_AT(code(__hmul(a, b)) == half_format().encode(x * y, Format::nearest, 0x7c00), seed);
  if (scaled(a) * scaled(b) + (scaled(c) << 24) != 0) CHECK_AT(code(__hfma(a, b, c)) == exact_fma(a, b, c), seed);
  // Near cancellation, and with a last digit far below: where rounding twice goes wrong.
  __half near = __ushort_as_half((unsigned short)((code(__hneg(__hmul(a, b))) & 0xfffc) | (s >> 16 & 3)));
  if (!__hisnan(near) && !__hisinf(near) && scaled(a) * scaled(b) + (scaled(near) << 24) != 0)
    CHECK_AT(code(__hfma(a, b, near)) == exact_fma(a, b, near), seed);
  __nv_bfloat16 d = __ushort_as_bfloat16((unsigned short)r), e = __ushort_as_bfloat16((unsigned short)(r >> 16));
  double u = __bfloat162float(d), v = __bfloat162float(e);
  if (isnan(u) || isnan(v) || isinf(u) || isinf(v) || u + v == 0) return;
  // Sums of far apart bfloat16 are not exact in double, but then the smaller one is far below half a step.
  CHECK_AT(__bfloat16_as_ushort(__hadd(d, e)) == bfloat_format().encode(u + v, Format::nearest, 0x7f80), seed);
  if (u * v != 0) CHECK_AT(__bfloat16_as_ushort(__hmul(d, e)) == bfloat_format().encode(u * v, Format::nearest, 0x7f80), seed);
  // A third operand too small for a double to hold beside the product still decides between two neighbours.
  if (fabs(u * v) > 1e-10 && fabs(u * v) < 1e30)
    for (double tiny : {0x1p-120, -0x1p-120})
      CHECK_AT(__bfloat16_as_ushort(__hfma(d, e, __double2bfloat16(tiny))) ==
                   bfloat_format().encode(nextafter(u * v, tiny * INFINITY), Format::nearest, 0x7f80), seed);
}
__global__ void triples(unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) triple(i);
}

template <class T>
ANYWHERE void rules() {
  const T one(1.0f), two(2.0f), three(3), nan(NAN), inf(INFINITY), zero(0.0f), minus(-0.0f);
  CHECK(one + two == three && three - two == one && two * three == T(6.0) && three / two == T(1.5f));
  T v = one;
  v += two; v *= two; v -= one; v /= T(5.f);
  CHECK(v == one && v++ == one && v == two && --v == one && -v == T(-1) && +v == one);
  CHECK(one < two && two >= two && !(nan == nan) && nan != nan && !(nan < one) && (bool)one && !(bool)minus);
  CHECK(__heq(one, one) && !__heq(nan, nan) && __hequ(nan, one) && !__hne(nan, one) && __hneu(nan, one));
  CHECK(__hlt(one, two) && __hltu(nan, two) && !__hlt(nan, two) && __hge(two, two) && __hgeu(one, nan) && !__hgt(one, inf));
  CHECK(__hisnan(nan) && !__hisnan(inf) && __hisinf(inf) == 1 && __hisinf(-inf) == -1 && __hisinf(one) == 0);
  CHECK(__hmax(nan, one) == one && __hmin(two, nan) == two && __hisnan(__hmax_nan(nan, one)) && __hisnan(__hmin(nan, nan)));
  CHECK(!__builtin_signbit((float)__hmax(minus, zero)) && __builtin_signbit((float)__hmin(zero, minus)));
  CHECK(__hadd_sat(two, one) == one && __hsub_sat(one, two) == zero && __hfma_relu(one, T(-3), one) == zero);
  CHECK(__habs(T(-3)) == three && __hneg(one) == T(-1) && hsqrt(T(9)) == three && hrcp(two) == T(0.5f));
  CHECK(hfloor(T(-1.5f)) == T(-2) && hceil(T(1.25f)) == two && htrunc(T(-1.5f)) == T(-1) && hrint(T(2.5f)) == two);
  CHECK(hexp2(three) == T(8) && hlog2(T(8)) == three && hcos(zero) == one && hlog10(T(100)) == two);
  CHECK((int)T(-2.75f) == -2 && (unsigned char)T(300) == 255 && (long)three == 3 && T(7u) == T(7ll));
}
ANYWHERE void pairs() {
  __half2 a = __floats2half2_rn(1, 2), b = make_half2(__float2half(3), __float2half(2));
  CHECK(__low2float(a + b) == 4 && __high2float(a * b) == 4 && a == __halves2half2(__low2half(a), __high2half(a)));
  CHECK(__heq2_mask(a, b) == 0xffff0000u && __hbeq2(a, a) && !__hbeq2(a, b) && __low2float(__hlt2(a, b)) == 1);
  CHECK(__low2float(__hfma2(a, b, a)) == 4 && __high2float(__hmax2(a, b)) == 2 && __low2float(__h2div(a, b)) < 0.334f);
  CHECK(__half22float2(__lowhigh2highlow(a)).x == 2 && __high2float(__low2half2(a)) == 1 && __low2float(__high2half2(a)) == 2);
  CHECK(__half22float2(__lows2half2(a, b)).y == 3 && __half22float2(__highs2half2(a, b)).x == 2);
  CHECK(__half2half2(__float2half(5)) == __float2half2_rn(5) && __float22half2_rn(make_float2(1, 2)) == a);
  CHECK(__hisnan2(__floats2half2_rn(NAN, 1)).x == __float2half(1) && h2sqrt(__floats2half2_rn(4, 9)).y == __float2half(3));
  __nv_bfloat162 c = __floats2bfloat162_rn(1, 2), d = __bfloat162bfloat162(__float2bfloat16(2));
  CHECK(__bfloat1622float2(c * d).y == 4 && __low2float(__hadd2(c, d)) == 3 && __high2bfloat16(c) == __float2bfloat16(2));
  CHECK(__halves2bfloat162(__low2bfloat16(c), __high2bfloat16(c)) == c && (float)__nv_bfloat16(__half(1.5f)) == 1.5f);
}
__global__ void device() {
  rules<__half>();
  rules<__nv_bfloat16>();
  pairs();
  const int lane = threadIdx.x % 32;
  CHECK(__half2float(__shfl_xor_sync(~0u, __int2half_rn(lane), 1)) == (lane ^ 1));
  CHECK(__high2float(__shfl_sync(~0u, __floats2bfloat162_rn(0, lane), 5)) == 5);
  __shared__ __half shared[32]; // no constructor runs
  shared[lane] = lane;
  __syncthreads();
  CHECK((float)shared[31 - lane] == 31 - lane);
}

int main() {
  triples<<<8, 64>>>(300000);
  device<<<1, 32>>>();
#ifdef __GINRS_CPU__
  for (unsigned i = 0; i < 20000; i++) triple(i + 1000000);
  rules<__half>();
  rules<__nv_bfloat16>();
  pairs();
#endif
  return finish("fp_arithmetic");
}
