// fp6 and fp4: every code to float, floats around every code and every middle between two codes back, and every half and
// bfloat16, in both rounding modes, compared with reference.h. On the device and on the host.
#include "check.h"
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include "reference.h"

// One type: how its functions are called, and its format.
template <__nv_fp6_interpretation_t kind, class A, class B, class C>
struct Fp6 {
  typedef A One; typedef B Two; typedef C Four;
  static constexpr int lane = 8;
  static __host__ __device__ Format format() { return kind == __NV_E2M3 ? e2m3_format() : e3m2_format(); }
  static __host__ __device__ int of(double x, cudaRoundMode r) { return __nv_cvt_double_to_fp6(x, kind, r); }
  static __host__ __device__ int of(float x, cudaRoundMode r) { return __nv_cvt_float_to_fp6(x, kind, r); }
  static __host__ __device__ int of(__half x, cudaRoundMode r) { return __nv_cvt_halfraw_to_fp6(x, kind, r); }
  static __host__ __device__ int of(__nv_bfloat16 x, cudaRoundMode r) { return __nv_cvt_bfloat16raw_to_fp6(x, kind, r); }
  static __host__ __device__ int of(double2 x, cudaRoundMode r) { return __nv_cvt_double2_to_fp6x2(x, kind, r); }
  static __host__ __device__ int of(float2 x, cudaRoundMode r) { return __nv_cvt_float2_to_fp6x2(x, kind, r); }
  static __host__ __device__ int of(__half2 x, cudaRoundMode r) { return __nv_cvt_halfraw2_to_fp6x2(x, kind, r); }
  static __host__ __device__ int of(__nv_bfloat162 x, cudaRoundMode r) { return __nv_cvt_bfloat16raw2_to_fp6x2(x, kind, r); }
  static __host__ __device__ __half half(int c) { return __nv_cvt_fp6_to_halfraw((__nv_fp6_storage_t)c, kind); }
  static __host__ __device__ __half2 halves(int c) { return __nv_cvt_fp6x2_to_halfraw2((__nv_fp6x2_storage_t)c, kind); }
};
typedef Fp6<__NV_E2M3, __nv_fp6_e2m3, __nv_fp6x2_e2m3, __nv_fp6x4_e2m3> E2m3;
typedef Fp6<__NV_E3M2, __nv_fp6_e3m2, __nv_fp6x2_e3m2, __nv_fp6x4_e3m2> E3m2;
struct E2m1 {
  typedef __nv_fp4_e2m1 One; typedef __nv_fp4x2_e2m1 Two; typedef __nv_fp4x4_e2m1 Four;
  static constexpr int lane = 4;
  static __host__ __device__ Format format() { return e2m1_format(); }
  static __host__ __device__ int of(double x, cudaRoundMode r) { return __nv_cvt_double_to_fp4(x, __NV_E2M1, r); }
  static __host__ __device__ int of(float x, cudaRoundMode r) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, r); }
  static __host__ __device__ int of(__half x, cudaRoundMode r) { return __nv_cvt_halfraw_to_fp4(x, __NV_E2M1, r); }
  static __host__ __device__ int of(__nv_bfloat16 x, cudaRoundMode r) { return __nv_cvt_bfloat16raw_to_fp4(x, __NV_E2M1, r); }
  static __host__ __device__ int of(double2 x, cudaRoundMode r) { return __nv_cvt_double2_to_fp4x2(x, __NV_E2M1, r); }
  static __host__ __device__ int of(float2 x, cudaRoundMode r) { return __nv_cvt_float2_to_fp4x2(x, __NV_E2M1, r); }
  static __host__ __device__ int of(__half2 x, cudaRoundMode r) { return __nv_cvt_halfraw2_to_fp4x2(x, __NV_E2M1, r); }
  static __host__ __device__ int of(__nv_bfloat162 x, cudaRoundMode r) { return __nv_cvt_bfloat16raw2_to_fp4x2(x, __NV_E2M1, r); }
  static __host__ __device__ __half half(int c) { return __nv_cvt_fp4_to_halfraw((__nv_fp4_storage_t)c, __NV_E2M1); }
  static __host__ __device__ __half2 halves(int c) { return __nv_cvt_fp4x2_to_halfraw2((__nv_fp4x2_storage_t)c, __NV_E2M1); }
};

// What x becomes: saturated, and NaN the largest.
template <class T>
__host__ __device__ int expected(double x, cudaRoundMode r) {
  const Format f = T::format();
  return isnan(x) ? f.largest() : f.encode(x, r == cudaRoundZero ? Format::zero : Format::nearest, f.largest());
}
// One code, with its sign, and its neighbourhood.
template <class T>
__host__ __device__ void around(int code) {
  typedef typename T::One One;
  const Format f = T::format();
  const int magnitude = code & (f.codes() - 1);
  const double sign = code & f.codes() ? -1 : 1, value = sign * f.value(magnitude),
               middle = sign * (f.value(magnitude) + f.value(magnitude + 1)) / 2;
  One one;
  one.__x = (unsigned char)code;
  CHECK_AT((float)one == value && (double)one == value && (float)(__half)one == value && (float)(__nv_bfloat16)one == value, code);
  CHECK_AT(signbit((float)one) == (sign < 0) && (bool)one == (value != 0) && (int)one == (int)value && (long long)one == (int)value, code);
  CHECK_AT((unsigned)one == (value < 0 ? 0 : (unsigned)value) && (signed char)one == (int)value, code);
  CHECK_AT((float)T::half(code) == value, code);
  CHECK_AT(One((int)value).__x == expected<T>((int)value, cudaRoundNearest), code);
  const double points[] = {value, nextafter(value, 0.0), nextafter(value, 2 * value), 100 * value,
                           middle, nextafter(middle, 0.0), nextafter(middle, 2 * middle),
                           nextafterf((float)value, 0.f), nextafterf((float)middle, 0.f), nextafterf((float)middle, (float)(2 * middle))};
  for (double x : points) {
    for (cudaRoundMode r : {cudaRoundNearest, cudaRoundZero}) {
      CHECK_AT(T::of(x, r) == expected<T>(x, r), code);
      CHECK_AT(T::of((float)x, r) == expected<T>((float)x, r), code);
    }
    CHECK_AT(One(x).__x == expected<T>(x, cudaRoundNearest), code);
    CHECK_AT(One((float)x).__x == expected<T>((float)x, cudaRoundNearest), code);
  }
}
// A half and a bfloat16 with these bits.
template <class T>
__host__ __device__ void bits(int code) {
  typedef typename T::One One;
  const __half h = __half_raw{(unsigned short)code};
  const __nv_bfloat16 b = __nv_bfloat16_raw{(unsigned short)code};
  for (cudaRoundMode r : {cudaRoundNearest, cudaRoundZero}) {
    CHECK_AT(T::of(h, r) == expected<T>((float)h, r), code);
    CHECK_AT(T::of(b, r) == expected<T>((float)b, r), code);
  }
  CHECK_AT(One(h).__x == T::of(h, cudaRoundNearest) && One(b).__x == T::of(b, cudaRoundNearest), code);
}
template <class T>
__host__ __device__ void specials() {
  typedef typename T::One One;
  const int largest = T::format().largest(), sign = T::format().codes();
  for (cudaRoundMode r : {cudaRoundNearest, cudaRoundZero}) {
    CHECK(T::of((float)NAN, r) == largest && T::of(-(float)NAN, r) == largest && T::of((double)NAN, r) == largest);
    CHECK(T::of((float)INFINITY, r) == largest && T::of(-(float)INFINITY, r) == (largest | sign));
    CHECK(T::of(1e300, r) == largest && T::of(-1e300, r) == (largest | sign) && T::of(5e-324, r) == 0 && T::of(-1e-45f, r) == sign);
    CHECK(T::of(0.0, r) == 0 && T::of(-0.0f, r) == sign);
  }
  CHECK(One(1ull << 63).__x == largest && One(-1ll << 63).__x == (largest | sign) && One((short)-1).__x == One(-1.f).__x);
}
// The first lane is in the lowest bits; 1.9 lies between two codes of each format.
template <class T>
__host__ __device__ void vectors() {
  typedef typename T::One One;
  for (cudaRoundMode r : {cudaRoundNearest, cudaRoundZero}) {
    const int pair = expected<T>(1.9f, r) | expected<T>(-0.5f, r) << T::lane;
    CHECK(T::of(make_float2(1.9f, -0.5f), r) == pair && T::of(make_double2(1.9f, -0.5f), r) == pair);
    CHECK(T::of(__half2(__half(1.9f), __half(-0.5f)), r) == pair && T::of(__nv_bfloat162(__nv_bfloat16(1.9f), __nv_bfloat16(-0.5f)), r) == pair);
  }
  const typename T::Two two(make_float2(1.5f, -2.f));
  CHECK(((float2)two).x == 1.5f && ((float2)two).y == -2 && (float)((__half2)two).y == -2 && (float)T::halves(two.__x).x == 1.5f);
  CHECK((float)T::halves(two.__x).y == -2 && two.__x == (One(1.5f).__x | One(-2.f).__x << T::lane));
  const typename T::Four four(make_float4(1, 1.5f, 2, -4)), same(__half2(__half(1.f), __half(1.5f)), __half2(__half(2.f), __half(-4.f)));
  const float4 back = (float4)four;
  CHECK(back.x == 1 && back.y == 1.5f && back.z == 2 && back.w == -4 && four.__x == same.__x);
  CHECK(four.__x >> 3 * T::lane == One(-4.f).__x && (four.__x >> 2 * T::lane & ((1 << T::lane) - 1)) == One(2.f).__x);
}
template <class T>
__host__ __device__ void part(int i, int of) {
  for (int c = i; c < 2 * T::format().codes(); c += of) around<T>(c);
  for (int c = i; c < 65536; c += of) bits<T>(c);
  if (i == 0) specials<T>(), vectors<T>();
}
template <class T>
__global__ void all() { part<T>(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x); }

__global__ void upwards(int* out) { *out = __nv_cvt_float_to_fp4(1.25f, __NV_E2M1, cudaRoundPosInf); }

int main() {
  all<E2m3><<<8, 64>>>();
  all<E3m2><<<8, 64>>>();
  all<E2m1><<<8, 64>>>();
  CUDA(cudaDeviceSynchronize());
  part<E2m3>(0, 7);
  part<E3m2>(0, 7);
  part<E2m1>(0, 7);
  const int rc = finish("fp_narrow");
  // Last, for it ends the device's context: the two other rounding modes are an assertion's failure, as NVIDIA's.
  int* out;
  CUDA(cudaMalloc(&out, sizeof *out));
  upwards<<<1, 1>>>(out);
  if (cudaDeviceSynchronize() == cudaErrorAssert) return rc;
  printf("rounding upwards passed\n");
  return 1;
}
