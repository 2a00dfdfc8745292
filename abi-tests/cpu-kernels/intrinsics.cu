// Integer, bit and float intrinsics, against their definitions; math functions that libm has not; min and max.
#include "check.h"
#include <algorithm>
#include <cfenv>
#include <math_constants.h>
using namespace std; // as many programs do: must not make min, max, abs, isnan ambiguous

ANYWHERE void bits() {
  CHECK(__popc(0xf0f00001u) == 9 && __popcll(~0ull) == 64 && __clz(0) == 32 && __clz(1) == 31 && __clzll(1) == 63);
  CHECK(__clzll(0) == 64 && __ffs(0) == 0 && __ffs(0x80) == 8 && __ffsll(1ll << 40) == 41);
  CHECK(__brev(1) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u && __brevll(2) == 1ull << 62);
  CHECK(__fns(0b10110, 0, 1) == 1 && __fns(0b10110, 0, 3) == 4 && __fns(0b10110, 0, 4) == ~0u);
  CHECK(__fns(0b10110, 4, -2) == 2 && __fns(0b10110, 2, 0) == 2 && __fns(0b10110, 3, 0) == ~0u);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7531) == 0x77553311u);
  CHECK(__byte_perm(0x00000080u, 0, 0x4448) == 0x000000ffu && __byte_perm(0x0000007fu, 0, 0x4448) == 0u);
  CHECK(__funnelshift_l(0x80000001u, 0x1u, 4) == 0x18u && __funnelshift_r(0x10u, 0x3u, 4) == 0x30000001u);
  CHECK(__funnelshift_l(5u, 6u, 32) == 6u && __funnelshift_lc(5u, 6u, 40) == 5u && __funnelshift_rc(5u, 6u, 32) == 6u);
  CHECK(__mul24(-3, 5) == -15 && __umul24(0x1000003u, 2u) == 6u && __mul24(0x00800000, 1) == -0x00800000);
  CHECK(__mulhi(-1, 1) == -1 && __umulhi(~0u, ~0u) == ~0u - 1 && __mul64hi(-1, 1) == -1);
  CHECK(__umul64hi(~0ull, ~0ull) == ~0ull - 1 && __sad(-3, 4, 1u) == 8 && __usad(3u, ~0u, 0u) == ~0u - 3);
  CHECK(__hadd(-3, 2) == -1 && __rhadd(-3, 2) == 0 && __uhadd(~0u, ~0u) == ~0u && __urhadd(1u, 2u) == 2);
  CHECK(__dp4a(0x01ff0203, 0x01010105, 10) == 10 + 1 - 1 + 2 + 15 && __dp4a(0xff000001u, 0x02000003u, 1u) == 1 + 510 + 3);
  CHECK(__dp2a_lo(0x0002ffff, 0x00000305, 0) == -5 + 6 && __dp2a_hi(0x00020001, 0x03050000, 0) == 5 + 6);
}
ANYWHERE void floats() {
  CHECK(__float_as_int(1.f) == 0x3f800000 && __int_as_float(0x40000000) == 2.f && __float_as_uint(-0.f) == 0x80000000u);
  CHECK(__double_as_longlong(1.0) == 0x3ff0000000000000ll && __hiloint2double(0x40000000, 0) == 2.0);
  CHECK(__double2hiint(2.0) == 0x40000000 && __double2loint(1.0 + 0x1p-52) == 1 && __uint_as_float(0x7f800000u) == CUDART_INF_F);
  CHECK(__float2int_rn(2.5f) == 2 && __float2int_rz(-2.9f) == -2 && __float2int_ru(2.1f) == 3 && __float2int_rd(-2.1f) == -3);
  CHECK(__float2int_rz(1e20f) == 2147483647 && __float2int_rz(NAN) == 0 && __float2uint_rz(-5.f) == 0u);
  CHECK(__double2int_rz(-1e300) == -2147483647 - 1 && __double2ll_rn(0x1p62 + 1.0) == 1ll << 62);
  CHECK(__float2ull_rz(1e30f) == ~0ull && __float2ll_rz(NAN) == (long long)(1ull << 63));
  CHECK(__int2float_rn(16777217) == 16777216.f && __int2float_ru(16777217) == 16777218.f && __int2float_rd(-16777217) == -16777218.f);
  CHECK(__ull2float_rz(~0ull) == 0x1.fffffep63f && __ull2float_rn(~0ull) == 0x1p64f && __ll2double_rd(-(1ll << 53) - 1) == -0x1p53 - 2);
  CHECK(__uint2float_rn(~0u) == 0x1p32f && __double2float_ru(1.0 + 0x1p-40) == 1.f + 0x1p-23f && __double2float_rd(1.0 + 0x1p-40) == 1.f);
  CHECK(__fadd_rn(1.f, 0x1p-30f) == 1.f && __fadd_ru(1.f, 0x1p-30f) == 1.f + 0x1p-23f && __fadd_rz(-1.f, -0x1p-30f) == -1.f);
  CHECK(__fsub_rd(1.f, 0x1p-30f) == 1.f - 0x1p-24f && __fmul_ru(1.f + 0x1p-23f, 1.f + 0x1p-23f) == 1.f + 0x1.8p-22f);
  CHECK(__fdiv_rd(1.f, 3.f) < __fdiv_ru(1.f, 3.f) && __frcp_rn(4.f) == 0.25f && __fsqrt_ru(2.f) > __fsqrt_rd(2.f));
  CHECK(__fmaf_rn(1.f + 0x1p-12f, 1.f - 0x1p-12f, -1.f) == -0x1p-24f && __dadd_ru(1.0, 1e-30) == 1.0 + 0x1p-52);
  CHECK(__ddiv_rz(-1.0, 3.0) > __ddiv_rd(-1.0, 3.0) && __dmul_rn(3.0, 4.0) == 12.0 && __fma_rn(2.0, 3.0, 4.0) == 10.0);
#ifdef __GINRS_CPU__
  CHECK(fegetround() == FE_TONEAREST); // the directed ones put it back
#endif
  auto near = [](double a, double b) { return fabs(a - b) <= 1e-5 * fabs(b) + 1e-7; };
  CHECK(near(__sinf(1.f), sin(1.0)) && near(__cosf(1.f), cos(1.0)) && near(__tanf(1.f), tan(1.0)) && near(__expf(2.f), exp(2.0)));
  CHECK(near(__logf(3.f), log(3.0)) && near(__log2f(3.f), log2(3.0)) && near(__log10f(3.f), log10(3.0)) && near(__exp10f(2.f), 100));
  CHECK(near(__powf(2.f, 0.5f), sqrt(2.0)) && near(__fdividef(1.f, 4.f), 0.25) && __saturatef(1.5f) == 1.f && __saturatef(NAN) == 0.f);
  float s, c;
  __sincosf(0.5f, &s, &c);
  CHECK(near(s, sin(0.5)) && near(c, cos(0.5)));
  sincospif(0.25f, &s, &c);
  CHECK(near(s, c) && near(rsqrtf(4.f), 0.5) && rsqrt(16.0) == 0.25 && near(sinpi(0.5), 1) && near(cospif(1.f), -1));
  CHECK(near(exp10(3.0), 1000) && near(exp10f(2.f), 100) && near(normcdf(0.0), 0.5) && near(rcbrtf(8.f), 0.5) && near(rhypotf(3, 4), 0.2));
  CHECK(norm3df(2, 3, 6) == 7 && near(rnorm4d(1, 1, 1, 1), 0.5) && near(erfcx(1.0), 0.42758357615580700) && fdividef(1, 2) == 0.5f);
}
ANYWHERE void extremes() {
  CHECK(min(3, -4) == -4 && max(3u, 4u) == 4u && max(-1, 1u) == ~0u && min(1ll, -1ll) == -1 && max(2ul, 3ul) == 3ul);
  CHECK(min(1.5f, 2.f) == 1.5f && max(1.f, NAN) == 1.f && max(1.f, 2.0) == 2.0 && min(NAN, 1.0) == 1.0);
  CHECK(umin(1u, 2u) == 1u && llmax(1, 2) == 2 && ullmin(3, 2) == 2 && std::max(1, 2) == 2);
  CHECK(abs(-3) == 3 && abs(-2.5f) == 2.5f && abs(-4ll) == 4 && fabsf(-1.f) == 1.f && isnan(NAN) && isinf(-INFINITY) && isfinite(1.f) && signbit(-0.f));
  CHECK(fmaxf(1, 2) == 2 && sqrt(4.f) == 2.f && powf(2, 3) == 8 && fmodf(5, 3) == 2 && floorf(-0.5f) == -1 && lrintf(2.5f) == 2);
}
__global__ void device() {
  bits();
  floats();
  extremes();
}

int main() {
  device<<<2, 3>>>();
#ifdef __GINRS_CPU__
  bits();
  floats();
  extremes();
#endif
  return finish("intrinsics");
}
