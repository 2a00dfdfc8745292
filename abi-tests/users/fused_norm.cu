// Residual add, all-reduce and RMSNorm in one kernel over LSA: a block per row adds the row of all ranks with 16-byte
// loads, normalises it and stores it into every rank's window. fp16, bf16 and float; one process, a thread per rank.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <vector>

namespace {
constexpr int kHidden = 1024, kRows = 12, kThreads = 128;

#define OK(call)                                                                                 \
  do {                                                                                           \
    auto code_ = (call);                                                                         \
    if ((int)code_ != 0) {                                                                       \
      std::fprintf(stderr, "line %d: %s: %d %s\n", __LINE__, #call, (int)code_, ncclGetLastError(nullptr)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

template <typename T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T v[kSize];
};

template <typename T>
__host__ __device__ inline float widen(T x) {
  if constexpr (std::is_same_v<T, __half>) return __half2float(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(x);
  else return x;
}
template <typename T>
__host__ __device__ inline T narrow(float x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else return x;
}

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

template <int Threads>
__device__ float blockSum(float x) {
  static_assert(Threads % 32 == 0, "whole warps");
  __shared__ float part[Threads / 32];
  x = warpSum(x);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x < Threads / 32 ? part[threadIdx.x] : 0.f;
  if (threadIdx.x < 32) x = warpSum(x);
  if (threadIdx.x == 0) part[0] = x;
  __syncthreads();
  return part[0];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
addReduceNorm(const __grid_constant__ ncclDevComm comm, ncclSymPtr<T> input, ncclSymPtr<T> output, const T* __restrict__ residual,
              const T* __restrict__ weight, float epsilon) {
  using P = Pack<T>;
  constexpr int kPacks = kHidden / P::kSize, kEach = kPacks / kThreads;
  static_assert(kEach * kThreads == kPacks, "a row is spread evenly");
  ncclTeam lsa = ncclTeamLsa(comm);
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int row = blockIdx.x * lsa.nRanks + lsa.rank; row < kRows; row += gridDim.x * lsa.nRanks) {
    float x[kEach][P::kSize], squares = 0;
#pragma unroll
    for (int k = 0; k < kEach; k++) {
      const int at = row * kHidden + (k * kThreads + threadIdx.x) * P::kSize;
      P mine = *reinterpret_cast<const P*>(residual + at);
      for (int i = 0; i < P::kSize; i++) x[k][i] = widen(mine.v[i]);
      for (int peer = 0; peer < lsa.nRanks; peer++) {
        const int4 raw = __ldcg(reinterpret_cast<const int4*>((input + at).lsaPtr(peer)));
        const P& theirs = reinterpret_cast<const P&>(raw);
        for (int i = 0; i < P::kSize; i++) x[k][i] += widen(theirs.v[i]);
      }
      for (int i = 0; i < P::kSize; i++) squares = fmaf(x[k][i], x[k][i], squares);
    }
    const float scale = 1.f / sqrtf(blockSum<kThreads>(squares) / kHidden + epsilon);
#pragma unroll
    for (int k = 0; k < kEach; k++) {
      const int in_row = (k * kThreads + threadIdx.x) * P::kSize;
      P result;
      for (int i = 0; i < P::kSize; i++) result.v[i] = narrow<T>(x[k][i] * scale * widen(__ldg(weight + in_row + i)));
      for (int peer = 0; peer < lsa.nRanks; peer++) *reinterpret_cast<P*>((output + row * kHidden + in_row).lsaPtr(peer)) = result;
    }
    __syncthreads();
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

float element(int rank, size_t i) { return (float)((i * 13 + rank * 5) % 16) / 8 - 1; } // sums are exact in all types

template <typename T>
int runType(const char* name, int rank, int ranks, ncclComm_t comm, cudaStream_t stream) {
  constexpr size_t n = (size_t)kRows * kHidden, bytes = n * sizeof(T);
  void *in, *out;
  T *residual, *weight;
  ncclWindow_t inWindow, outWindow;
  OK(ncclMemAlloc(&in, bytes));
  OK(ncclMemAlloc(&out, bytes));
  OK(ncclCommWindowRegister(comm, in, bytes, &inWindow, NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclCommWindowRegister(comm, out, bytes, &outWindow, NCCL_WIN_COLL_SYMMETRIC));
  OK(cudaMallocAsync(&residual, bytes, stream));
  OK(cudaMallocAsync(&weight, kHidden * sizeof(T), stream));
  std::vector<T> host(n), ones(kHidden, narrow<T>(0.5f));
  for (size_t i = 0; i < n; i++) host[i] = narrow<T>(element(rank, i));
  OK(cudaMemcpyAsync(in, host.data(), bytes, cudaMemcpyHostToDevice, stream));
  for (size_t i = 0; i < n; i++) host[i] = narrow<T>(element(77, i));
  OK(cudaMemcpyAsync(residual, host.data(), bytes, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(weight, ones.data(), ones.size() * sizeof(T), cudaMemcpyHostToDevice, stream));

  ncclDevCommRequirements needs{};
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, addReduceNorm<T>, kThreads, 0));
  blocks = blocks > 4 ? 4 : blocks;
  needs.lsaBarrierCount = blocks;
  ncclDevComm device;
  OK(ncclDevCommCreate(comm, &needs, &device));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, addReduceNorm<T>, device, ncclSymPtr<T>(inWindow), ncclSymPtr<T>(outWindow), (const T*)residual,
                        (const T*)weight, 1e-5f));
  OK(cudaMemcpyAsync(host.data(), out, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
#ifdef PLANT
  host[17] = narrow<T>(widen(host[17]) + 0.5f);
#endif
  int wrong = 0;
  for (int row = 0; row < kRows; row++) {
    std::vector<float> sum(kHidden);
    double squares = 0;
    for (int h = 0; h < kHidden; h++) {
      sum[h] = element(77, row * kHidden + h);
      for (int r = 0; r < ranks; r++) sum[h] += element(r, row * kHidden + h);
      squares += (double)sum[h] * sum[h];
    }
    const double scale = 1 / std::sqrt(squares / kHidden + 1e-5), slack = std::is_same_v<T, float> ? 1e-5 : 1e-2;
    for (int h = 0; h < kHidden; h++) {
      const double expected = sum[h] * scale * 0.5, got = widen(host[row * kHidden + h]);
      wrong += !(std::fabs(got - expected) <= slack * std::fabs(expected) + 1e-6);
    }
  }
  if (wrong) std::fprintf(stderr, "rank %d: %s: %d of %zu are wrong\n", rank, name, wrong, n);
  OK(ncclDevCommDestroy(comm, &device));
  OK(ncclCommWindowDeregister(comm, inWindow));
  OK(ncclCommWindowDeregister(comm, outWindow));
  OK(ncclMemFree(in));
  OK(ncclMemFree(out));
  OK(cudaFreeAsync(residual, stream));
  OK(cudaFreeAsync(weight, stream));
  return wrong;
}
}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<int> wrong(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; rank++) {
    threads.emplace_back([=, &wrong] {
      int least, greatest;
      cudaStream_t stream;
      ncclComm_t comm;
      OK(cudaSetDevice(rank));
      OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
      OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
      OK(ncclCommInitRank(&comm, ranks, id, rank));
      wrong[rank] = runType<float>("float", rank, ranks, comm, stream) + runType<__half>("half", rank, ranks, comm, stream) +
                    runType<__nv_bfloat16>("bf16", rank, ranks, comm, stream);
      OK(ncclCommDestroy(comm));
      OK(cudaStreamDestroy(stream));
    });
  }
  for (auto& t : threads) t.join();
  int bad = 0;
  for (int w : wrong) bad |= w;
  std::puts(bad ? "fused_norm: WRONG" : "fused_norm: ok");
  return bad != 0;
}
