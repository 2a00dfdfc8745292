// Inputs whose sums are exact in every type, and their comparison bit by bit.
#pragma nv_diag_suppress declared_but_not_referenced
#include "bench.h"
#include <cuda_fp16.h>
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#if CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#if !defined(__CUDA_FP16_TYPES_EXIST__) || !defined(__CUDA_BF16_TYPES_EXIST__) || !defined(__CUDA_FP8_TYPES_EXIST__)
#error "cuda_fp16.h, cuda_bf16.h and cuda_fp8.h say which types there are"
#endif
#include <algorithm>
#include <cassert>
#include <type_traits>

namespace {
template <typename T>
struct Traits : std::integral_constant<bool, std::is_integral<T>::value> {};
template <>
struct Traits<half> : std::false_type {};
template <>
struct Traits<__nv_bfloat16> : std::false_type {};
template <>
struct Traits<__nv_fp8_e4m3> : std::false_type {};

__host__ __device__ uint32_t scramble(uint64_t x) {
  union {
    uint64_t whole;
    uint32_t half[2];
  };
  whole = x * 0xd1342543de82ef95ull + 12345;
  half[0] ^= half[1] >> 7;
#ifdef __CUDA_ARCH__
  return __umulhi(half[0], 5u) + (__popcll(whole) & 1);
#else
  return (uint32_t)(((uint64_t)half[0] * 5u) >> 32) + (__builtin_popcountll(whole) & 1);
#endif
}

template <typename T>
__host__ __device__ T fromCount(uint64_t n) { return T(n); }
template <>
__host__ __device__ half fromCount<half>(uint64_t n) { return __ull2half_rn(n); }
template <>
__host__ __device__ __nv_bfloat16 fromCount<__nv_bfloat16>(uint64_t n) { return __double2bfloat16((double)n); }
template <>
__host__ __device__ __nv_fp8_e4m3 fromCount<__nv_fp8_e4m3>(uint64_t n) { return __nv_fp8_e4m3((double)n); }

struct Add {
  template <typename T, typename = decltype(T() + T())>
  __host__ __device__ T operator()(T a, T b) const { return a + b; }
  __host__ __device__ half operator()(half a, half b) const {
#if __CUDA_ARCH__ >= 530
    return __hadd(a, b);
#else
    return __float2half(__half2float(a) + __half2float(b));
#endif
  }
  __host__ __device__ __nv_fp8_e4m3 operator()(__nv_fp8_e4m3 a, __nv_fp8_e4m3 b) const {
    return __nv_fp8_e4m3(__hadd(__half(a), __half(b)));
  }
};

template <typename T>
__global__ void __launch_bounds__(256, 1) fill(T* data, intptr_t count, int rank, uint64_t seed) {
  for (intptr_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] = fromCount<T>(scramble(seed + i) + rank % 2);
}

template <typename T, typename Bits, typename Op>
__global__ void __launch_bounds__(256, 1) compare(T const* data, intptr_t count, Op op, int ranks, uint64_t seed, int64_t* wrong) {
  int64_t bad = 0;
  for (intptr_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    union {
      T value;
      Bits bits;
    } got, expected;
    T sum = fromCount<T>(scramble(seed + i));
    for (int r = 1; r < ranks; r++) sum = op(sum, fromCount<T>(scramble(seed + i) + r % 2));
    got.value = data[i];
    expected.value = sum;
    bad += got.bits != expected.bits;
  }
  asm volatile("red.global.add.u64 [%0],%1;" ::"l"(wrong), "l"(bad) : "memory");
}

dim3 blocksFor(intptr_t count) { return dim3((unsigned)std::min<intptr_t>(8, (count + 255) / 256)); }
}  // namespace

#define BY_TYPE(type, DO)                                       \
  switch (type) {                                               \
    case ncclInt8: DO(int8_t, uint8_t)                          \
    case ncclUint32: DO(uint32_t, uint32_t)                     \
    case ncclInt64: DO(int64_t, uint64_t)                       \
    case ncclFloat16: DO(half, uint16_t)                        \
    case ncclFloat32: DO(float, uint32_t)                       \
    case ncclFloat64: DO(double, uint64_t)                      \
    case ncclBfloat16: DO(__nv_bfloat16, uint16_t)              \
    case ncclFloat8e4m3: DO(__nv_fp8_e4m3, uint8_t)             \
    default: assert(0); return cudaErrorInvalidValue;           \
  }

cudaError_t benchFill(void* data, size_t size, ncclDataType_t type, int rank, uint64_t seed, cudaStream_t stream) {
  intptr_t count = (intptr_t)size;
  void const* kernel = nullptr;
#define DO(T, Bits) { static_assert(Traits<T>::value || sizeof(Bits) == sizeof(T), ""); kernel = (void const*)&fill<T>; } break;
  BY_TYPE(type, DO)
#undef DO
  void* arguments[] = {&data, &count, &rank, &seed};
  return cudaLaunchKernel(kernel, blocksFor(count), dim3{256, 1, 1}, arguments, 0, stream);
}

cudaError_t benchCheck(const void* data, size_t size, ncclDataType_t type, int ranks, uint64_t seed, int64_t* wrong, cudaStream_t stream) {
  intptr_t count = (intptr_t)size;
  Add add;
  void const* kernel = nullptr;
#define DO(T, Bits) { kernel = (void const*)&compare<T, Bits, Add>; } break;
  BY_TYPE(type, DO)
#undef DO
  void* arguments[6] = {&data, &count, nullptr, &ranks, &seed, &wrong};
  arguments[2] = &add;
  dim3 grid = {1, 1, 1};
  grid = blocksFor(count);
  return cudaLaunchKernel(kernel, grid, dim3(256), arguments, 0, stream);
}
