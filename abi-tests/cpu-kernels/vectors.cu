// Vector types: sizes, alignments, constructors; dim3; the cached loads and stores on them.
#include <cuComplex.h>
#include <driver_functions.h>
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

#define SHAPE(type, bytes, alignment) \
  static_assert(sizeof(type) == bytes && alignof(type) == alignment, #type)
SHAPE(char1, 1, 1); SHAPE(char2, 2, 2); SHAPE(char3, 3, 1); SHAPE(char4, 4, 4); SHAPE(uchar4, 4, 4);
SHAPE(short1, 2, 2); SHAPE(short2, 4, 4); SHAPE(short3, 6, 2); SHAPE(short4, 8, 8); SHAPE(ushort4, 8, 8);
SHAPE(int1, 4, 4); SHAPE(int2, 8, 8); SHAPE(int3, 12, 4); SHAPE(int4, 16, 16); SHAPE(uint2, 8, 8); SHAPE(uint4, 16, 16);
SHAPE(long1, 8, 8); SHAPE(long2, 16, 16); SHAPE(long3, 24, 8); SHAPE(long4, 32, 16); SHAPE(ulong2, 16, 16);
SHAPE(longlong2, 16, 16); SHAPE(longlong4, 32, 16); SHAPE(ulonglong2, 16, 16); SHAPE(ulonglong4, 32, 16);
SHAPE(float1, 4, 4); SHAPE(float2, 8, 8); SHAPE(float3, 12, 4); SHAPE(float4, 16, 16);
SHAPE(double1, 8, 8); SHAPE(double2, 16, 16); SHAPE(double3, 24, 8); SHAPE(double4, 32, 16);
SHAPE(double4_16a, 32, 16); SHAPE(double4_32a, 32, 32); SHAPE(ulonglong4_32a, 32, 32);
SHAPE(dim3, 12, 4); SHAPE(__half, 2, 2); SHAPE(__half2, 4, 4); SHAPE(__nv_bfloat16, 2, 2); SHAPE(__nv_bfloat162, 4, 4);
SHAPE(__nv_fp8_e4m3, 1, 1); SHAPE(__nv_fp8x2_e4m3, 2, 2); SHAPE(__nv_fp8x4_e5m2, 4, 4);
SHAPE(__nv_fp8_e8m0, 1, 1); SHAPE(__nv_fp8x2_e8m0, 2, 2); SHAPE(__nv_fp8x4_e8m0, 4, 4);
SHAPE(__nv_fp6_e2m3, 1, 1); SHAPE(__nv_fp6x2_e2m3, 2, 2); SHAPE(__nv_fp6x4_e3m2, 4, 4);
SHAPE(__nv_fp4_e2m1, 1, 1); SHAPE(__nv_fp4x2_e2m1, 1, 1); SHAPE(__nv_fp4x4_e2m1, 2, 2);
static_assert(dim3().x == 1 && dim3(7).y == 1 && dim3(1, 2, 3).z == 3, "dim3");

template <class T>
__device__ bool same(T a, T b) {
  const char *p = (const char*)&a, *q = (const char*)&b;
  for (size_t i = 0; i < sizeof(T); i++)
    if (p[i] != q[i]) return false;
  return true;
}
template <class T>
__device__ void round_trip(void* memory, T value) {
  T* p = (T*)memory;
  __stcg(p, value);
  CHECK(same(__ldg(p), value) && same(__ldcg(p), value) && same(__ldca(p), value));
  *p = T();
  __stcs(p, value);
  CHECK(same(__ldcs(p), value) && same(__ldcv(p), value));
  *p = T();
  __stwt(p, value);
  CHECK(same(__ldlu(p), value));
  *p = T();
  __stwb(p, value);
  CHECK(same(*p, value));
}
__global__ void accesses(void* memory) {
  round_trip(memory, make_char4(1, -2, 3, -4));
  round_trip(memory, make_uchar2(1, 255));
  round_trip(memory, make_short2(-1, 2));
  round_trip(memory, make_int2(-1, 2));
  round_trip(memory, make_int4(1, 2, 3, 4));
  round_trip(memory, make_uint4(1, 2, 3, 4));
  round_trip(memory, make_float2(1.5f, 2));
  round_trip(memory, make_float4(1, 2, 3, 4.5f));
  round_trip(memory, make_double2(1, 2.25));
  round_trip(memory, make_ulonglong2(1, ~0ull));
  round_trip(memory, (signed char)-3);
  round_trip(memory, 1234567890123ull);
  round_trip(memory, 2.5);
  round_trip(memory, __floats2half2_rn(1, -2));
  __stcg((float*)memory, 1); // converts like a function of one type
  CHECK(__ldcg((const float*)memory) == 1.f);
}
// Vectors as parameters and members keep their values.
struct Holder {
  char tag;
  float4 v;
};
__global__ void passed(float4 a, Holder h, int3 i) {
  CHECK(a.w == 4 && h.v.z == 7 && h.tag == 'h' && i.z == 3);
  CHECK((size_t)&h.v % 16 == 0);
}

int main() {
  void* memory;
  CUDA(cudaMalloc(&memory, 64));
  accesses<<<1, 1>>>(memory);
  passed<<<1, 33>>>(make_float4(1, 2, 3, 4), Holder{'h', {5, 6, 7, 8}}, make_int3(1, 2, 3));
  uint3 u = dim3(4, 5);
  CHECK(u.x == 4 && u.y == 5 && u.z == 1);
  cuDoubleComplex i = make_cuDoubleComplex(0, 1), minusOne = cuCmul(i, i);
  cuFloatComplex quotient = cuCdivf(make_cuComplex(5, 5), make_cuFloatComplex(3, -1));
  CHECK(cuCreal(minusOne) == -1 && cuCimag(minusOne) == 0 && quotient.x == 1 && quotient.y == 2 && cuCabs(make_cuDoubleComplex(3, 4)) == 5);
  CHECK(make_cudaExtent(1, 2, 3).depth == 3);
  return finish("vectors");
}
