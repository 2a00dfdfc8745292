// <cuda/ptx> and <nv/target>: bulk copies through mbarriers by their functions, and choices between host and device.
#include "check.h"
#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>
#include <nv/target>
#include <utility>

namespace ptx = cuda::ptx;
constexpr int kWords = 256, kBytes = 4 * kWords;

__global__ void copy(const int* from, int* to, int* sums) {
  __shared__ alignas(128) int row[kWords];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  for (uint32_t phase = 0; phase < 3; phase++) {
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, row, from + phase * kWords, kBytes, &bar);
      uint64_t state = ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, kBytes);
      while (!ptx::mbarrier_try_wait(&bar, state)) {}
    }
    while (!ptx::mbarrier_try_wait_parity(&bar, phase & 1)) {}
    row[threadIdx.x] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to + phase * kWords, row, kBytes);
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, (const int*)row, kBytes);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
    __syncthreads();
  }
  CHECK(ptx::get_sreg_tid_x() == threadIdx.x && ptx::get_sreg_laneid() == threadIdx.x % 32);
}

// cuda::barrier and PTX on one object, as NVIDIA's guide mixes them.
__global__ void mixed(const int* from, int* to) {
  typedef cuda::barrier<cuda::thread_scope_block> Barrier;
  __shared__ alignas(128) int row[kWords];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier bar;
  static_assert(sizeof(Barrier) == 8, "an mbarrier");
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, row, from, kBytes, cuda::device::barrier_native_handle(bar));
    token = cuda::device::barrier_arrive_tx(bar, 1, kBytes);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  to[threadIdx.x] = row[kWords - 1 - threadIdx.x];
  bar.arrive_and_wait();
  if (threadIdx.x == 0) cuda::device::memcpy_async_tx(row, from + kWords, cuda::aligned_size_t<16>(kBytes), bar), token = cuda::device::barrier_arrive_tx(bar, 1, kBytes);
  else token = bar.arrive();
  bar.wait(std::move(token));
  to[kWords + threadIdx.x] = row[threadIdx.x];
}

__host__ __device__ int side() { NV_IF_TARGET(NV_IS_DEVICE, (return 1;), (return 2;)) }
__host__ __device__ int architecture() {
  NV_DISPATCH_TARGET(NV_PROVIDES_SM_90, (return 90;), NV_IS_HOST, (return 0;), NV_ANY_TARGET, (return 1;))
}
__host__ __device__ constexpr int constant(int x) { NV_IF_ELSE_TARGET(NV_IS_HOST, (return x + 1;), (return x + 1;)) }
static_assert(constant(1) == 2, "in constant expressions");
__global__ void sides(int* out) {
  out[0] = side();
  out[1] = architecture();
}

int main() {
  int *from, *to, *sums;
  CUDA(cudaMallocManaged(&from, 3 * kBytes));
  CUDA(cudaMallocManaged(&to, 3 * kBytes));
  CUDA(cudaMallocManaged(&sums, kBytes));
  for (int i = 0; i < 3 * kWords; i++) from[i] = i, sums[i % kWords] = 0;
  copy<<<1, kWords>>>(from, to, sums);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 3 * kWords; i++) CHECK_AT(to[i] == i + 1, i);
  for (int i = 0; i < kWords; i++) CHECK_AT(sums[i] == 3 * i + 3 * kWords + 3, i);
  mixed<<<1, kWords>>>(from, to);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < kWords; i++) CHECK_AT(to[i] == kWords - 1 - i && to[kWords + i] == kWords + i, i);
  sides<<<1, 1>>>(to);
  CUDA(cudaDeviceSynchronize());
  CHECK(to[0] == 1 && to[1] == 90 && side() == 2 && architecture() == 0);
  return finish("ptx_functions");
}
