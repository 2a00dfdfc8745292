/* T117, T118: kernels of the shapes that NCCL's examples, its test programs and inference engines have. */
#include "case.h"

namespace program_cases {
#if CASE_C(117)
/* LSA all-reduce: each rank sums its share over all peers and stores it everywhere. */
__global__ void lsaAllReduce(ncclWindow_t window, size_t offset, size_t count, ncclDevComm devComm) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed);
  int const ranks = devComm.nRanks;
  size_t const step = size_t(gridDim.x) * blockDim.x * ranks;
  for (size_t i = devComm.rank + ranks * (threadIdx.x + size_t(blockIdx.x) * blockDim.x); i < count; i += step) {
    float sum = 0;
    for (int peer = 0; peer < ranks; peer++) sum += static_cast<float*>(ncclGetLsaPointer(window, offset, peer))[i];
    for (int peer = 0; peer < ranks; peer++) static_cast<float*>(ncclGetLsaPointer(window, offset, peer))[i] = sum;
  }
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}

/* All-to-all by GIN alone. */
template <typename T>
__global__ void ginAllToAll(ncclWindow_t send, size_t sendOffset, ncclWindow_t recv, size_t recvOffset, size_t count,
                            ncclDevComm devComm) {
  ncclGin gin{devComm, 0};
  unsigned const signal = 0;
  uint64_t const before = gin.readSignal(signal);
  ncclGinBarrierSession<ncclCoopCta> bar{ncclCoopCta(), gin, ncclTeamWorld(devComm), devComm.railGinBarrier, blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  size_t const bytes = count * sizeof(T);
  for (int peer = threadIdx.x + blockIdx.x * blockDim.x; peer < devComm.nRanks; peer += blockDim.x * gridDim.x) {
    gin.put(ncclTeamWorld(devComm), peer, recv, recvOffset + devComm.rank * bytes, send, sendOffset + peer * bytes, bytes,
            ncclGin_SignalInc{signal});
  }
  gin.waitSignal(ncclCoopCta(), signal, before + devComm.nRanks);
  gin.flush(ncclCoopCta());
}
template __global__ void ginAllToAll<float>(ncclWindow_t, size_t, ncclWindow_t, size_t, size_t, ncclDevComm);

/* All-to-all by stores within the LSA team and by GIN beyond it. */
template <typename T>
__global__ void hybridAllToAll(ncclWindow_t send, size_t sendOffset, ncclWindow_t recv, size_t recvOffset, size_t count,
                               ncclDevComm devComm) {
  ncclGin gin{devComm, 0};
  uint64_t const before = gin.readSignal(0);
  ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
  ncclTeam const world = ncclTeamWorld(devComm), lsa = ncclTeamLsa(devComm);
  int const firstLsa = world.rank - lsa.rank;
  size_t const bytes = count * sizeof(T);
  int const thread = threadIdx.x + blockIdx.x * blockDim.x, threads = blockDim.x * gridDim.x;
  for (int peer = thread; peer < world.nRanks; peer += threads) {
    if (peer < firstLsa || peer >= firstLsa + lsa.nRanks) {
      gin.put(world, peer, recv, recvOffset + world.rank * bytes, send, sendOffset + peer * bytes, bytes,
              ncclGin_SignalInc{0});
    }
  }
  T const* from = static_cast<T const*>(ncclGetLocalPointer(send, sendOffset));
  for (size_t i = thread; i < count; i += threads) {
    for (int peer = 0; peer < lsa.nRanks; peer++) {
      T* to = static_cast<T*>(ncclGetLsaPointer(recv, recvOffset, peer));
      to[world.rank * count + i] = from[(firstLsa + peer) * count + i];
    }
  }
  gin.waitSignal(ncclCoopCta(), 0, before + world.nRanks - lsa.nRanks);
  gin.flush(ncclCoopCta());
  bar.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
}
template __global__ void hybridAllToAll<double>(ncclWindow_t, size_t, ncclWindow_t, size_t, size_t, ncclDevComm);

/* RMS norm fused with the all-reduce before it, by loads from every peer or by multicast. */
template <bool multimem>
__device__ void rmsNorm(ncclSymPtr<float> tokens, float const* weight, int hidden, float epsilon,
                        ncclDevComm const& devComm) {
  ncclLsaBarrierSession bar{ncclCoopCta(), devComm, ncclTeamTagLsa(), blockIdx.x, multimem};
  bar.sync(ncclCoopCta(), cuda::memory_order_acquire);
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  ncclSymPtr<float> const row = tokens + size_t(blockIdx.x) * hidden;
  float squares = 0;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float sum = 0;
    for (int peer = 0; peer < devComm.lsaSize; peer++) sum += row.lsaPtr(peer)[i];
    squares += sum * sum;
  }
  atomicAdd(&total, squares);
  __syncthreads();
  float const scale = rsqrtf(total / hidden + epsilon);
  if (multimem) {
    float* everywhere = row.lsaMultimemPtr(devComm);
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) everywhere[i] = scale * weight[i];
  } else {
    for (int peer = 0; peer < devComm.lsaSize; peer++) {
      for (int i = threadIdx.x; i < hidden; i += blockDim.x) row.peerPtr(ncclTeamLsa(devComm), peer)[i] *= scale * weight[i];
    }
  }
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}
__global__ void rmsNorms(ncclSymPtr<float> tokens, float const* weight, __grid_constant__ const ncclDevComm devComm) {
  rmsNorm<false>(tokens, weight, 4096, 1e-6f, devComm);
  rmsNorm<true>(tokens, weight, 4096, 1e-6f, devComm);
}
#endif

#if CASE_C(118)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
/* Vectors, several at a time, over all LSA peers; and the same by multicast loads and stores. */
template <typename Vector, int unroll>
__device__ __forceinline__ void sumPeers(ncclSymPtr<Vector> send, ncclSymPtr<Vector> recv, size_t count, int ranks) {
  size_t const step = size_t(blockDim.x) * gridDim.x;
  for (size_t i = threadIdx.x + size_t(blockIdx.x) * blockDim.x; i < count; i += step * unroll) {
    Vector got[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
      if (i + u * step < count) got[u] = send.lsaPtr(0)[i + u * step];
    }
    for (int peer = 1; peer < ranks; peer++) {
#pragma unroll
      for (int u = 0; u < unroll; u++) {
        if (i + u * step >= count) continue;
        Vector const more = send.lsaPtr(peer)[i + u * step];
        got[u].x += more.x, got[u].y += more.y, got[u].z += more.z, got[u].w += more.w;
      }
    }
    for (int peer = 0; peer < ranks; peer++) {
#pragma unroll
      for (int u = 0; u < unroll; u++) {
        if (i + u * step < count) recv.lsaPtr(peer)[i + u * step] = got[u];
      }
    }
  }
}
template <typename Vector>
__global__ void testAllReduce(ncclWindow_t send, size_t sendOffset, ncclWindow_t recv, size_t recvOffset, size_t count,
                              int root, struct ncclDevComm devComm) {
  (void)root;
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), devComm, ncclTeamTagLsa(), blockIdx.x};
  bar.sync(ncclCoopCta(), cuda::memory_order_acquire);
  ncclSymPtr<Vector> from{send, sendOffset}, to{recv, recvOffset};
  sumPeers<Vector, 4>(from + devComm.rank * count, to + devComm.rank * count, count, devComm.lsaSize);
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}
template __global__ void testAllReduce<float4>(ncclWindow_t, size_t, ncclWindow_t, size_t, size_t, int, struct ncclDevComm);
__global__ void testMultimem(ncclWindow_t send, ncclWindow_t recv, size_t count, struct ncclDevComm devComm) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), devComm, ncclTeamTagLsa(), blockIdx.x, true};
  bar.sync(ncclCoopCta(), cuda::memory_order_acquire);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12060 && !defined(__GINRS_CPU__)
  float* from = static_cast<float*>(ncclGetLsaMultimemPointer(send, 0, devComm));
  float* to = static_cast<float*>(ncclGetLsaMultimemPointer(recv, 0, devComm));
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
    float sum;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(from + i) : "memory");
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(to + i), "f"(sum) : "memory");
  }
#else
  (void)send, (void)recv, (void)count;
#endif
  bar.sync(ncclCoopCta(), cuda::memory_order_release);
}
#else
#error "T118: NCCL_VERSION_CODE is below that of the device API with GIN"
#endif
static_assert(NCCL_VERSION_CODE == 22809, "T118");
#endif
}  // namespace program_cases
