// The kernels under test: element by element, in vectors, and through multicast memory. The last ones are compiled for
// every device and launched only where the device communicator has multicast.
#include "bench.h"
#include <cuda_fp16.h>
#include <cassert>
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include <nccl_device.h>
#else
#error the device API is needed
#endif

template <typename T>
struct Wide { using Type = T; };
template <>
struct Wide<float> { using Type = float4; };
template <>
struct Wide<double> { using Type = double2; };
template <>
struct Wide<uint32_t> { using Type = uint4; };

template <typename V>
__device__ __forceinline__ V plus(V a, V b) { return a + b; }
template <>
__device__ __forceinline__ float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
template <>
__device__ __forceinline__ double2 plus(double2 a, double2 b) { return {a.x + b.x, a.y + b.y}; }
template <>
__device__ __forceinline__ uint4 plus(uint4 a, uint4 b) { return uint4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

template <typename T>
__device__ __forceinline__ T multicastSum(const T*) {
  assert(false);
  return T{0};
}
template <typename T>
__device__ __forceinline__ void multicastStore(T*, T) { assert(false); }
#if __CUDA_ARCH__ >= 900
template <>
__device__ __forceinline__ float multicastSum<float>(const float* at) {
  float sum;
  asm volatile("multimem.ld_reduce.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(reinterpret_cast<uintptr_t>(at)) : "memory");
  return sum;
}
template <>
__device__ __forceinline__ void multicastStore<float>(float* at, float sum) {
  asm volatile("multimem.st.global.f32 [%0], %1;" ::"l"(reinterpret_cast<uintptr_t>(at)), "f"(sum) : "memory");
}
#endif

// The calling thread's number among those of all ranks, and theirs in all.
__device__ size_t worker(const ncclDevComm& comm) { return threadIdx.x + (size_t)blockDim.x * (blockIdx.x + gridDim.x * comm.lsaRank); }
__device__ size_t workers(const ncclDevComm& comm) { return (size_t)blockDim.x * gridDim.x * comm.lsaSize; }

template <typename T, typename V>
__device__ void reduceSpan(const ncclDevComm& comm, ncclWindow_t from, ncclWindow_t to, size_t first, size_t count) {
  for (size_t i = worker(comm); i < count; i += workers(comm)) {
    V sums[2] = {V{0}};
    for (int peer = 0; peer < comm.lsaSize; ++peer) sums[0] = plus(sums[0], ((V*)ncclGetLsaPointer(from, first * sizeof(T), peer))[i]);
    for (int peer = 0; peer < comm.lsaSize; ++peer) ((V*)ncclGetLsaPointer(to, first * sizeof(T), peer))[i] = sums[0];
  }
}

template <typename T>
__global__ void reduceElements(ncclWindow_t from, ncclWindow_t to, size_t count, struct ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), comm, ncclTeamLsa(comm), comm.lsaBarrier, blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed);
  reduceSpan<T, T>(comm, from, to, 0, count);
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}

template <typename T>
__global__ void reduceVectors(ncclWindow_t from, ncclWindow_t to, size_t count, struct ncclDevComm comm) {
  using V = typename Wide<T>::Type;
  constexpr int kEach = sizeof(V) / sizeof(T);
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_acquire);
  reduceSpan<T, V>(comm, from, to, 0, count / kEach);
  reduceSpan<T, T>(comm, from, to, count / kEach * kEach, count % kEach);
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

template <typename T>
__global__ void reduceMulticast(ncclWindow_t from, ncclWindow_t to, size_t count, struct ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x, true};
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed);
  T* in = reinterpret_cast<T*>(ncclGetLsaMultimemPointer(from, 0, comm));
  T* out = reinterpret_cast<T*>(ncclGetLsaMultimemPointer(to, 0, comm));
  for (size_t i = worker(comm); i < count; i += workers(comm)) multicastStore<T>(out + i, multicastSum<T>(in + i));
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}

#define PICK(kernel, type)                       \
  ((type) == ncclInt8      ? kernel<int8_t>      \
   : (type) == ncclUint32  ? kernel<uint32_t>    \
   : (type) == ncclInt64   ? kernel<int64_t>     \
   : (type) == ncclFloat16 ? kernel<half>        \
   : (type) == ncclFloat32 ? kernel<float>       \
   : (type) == ncclFloat64 ? kernel<double>      \
                           : nullptr)

template <typename Kernel>
static bool launch(Kernel kernel, ncclWindow_t from, ncclWindow_t to, size_t count, const void* comm, int blocks, cudaStream_t stream) {
  if (kernel == nullptr) return false;
  kernel<<<blocks, 512, 0, stream>>>(from, to, count, *(const ncclDevComm*)comm);
  return true;
}

static bool runReduce(int variant, ncclDataType_t type, ncclWindow_t from, ncclWindow_t to, size_t count, const void* comm, int blocks,
                      cudaStream_t stream) {
  switch (variant) {
    case 0: return launch(PICK(reduceElements, type), from, to, count, comm, blocks, stream);
    case 1: return launch(PICK(reduceVectors, type), from, to, count, comm, blocks, stream);
    case 2: return launch(PICK(reduceMulticast, type), from, to, count, comm, blocks, stream);
  }
  return false;
}

struct Engine reduceEngine = {"all-reduce", 3, runReduce};
#pragma weak benchEngine = reduceEngine
