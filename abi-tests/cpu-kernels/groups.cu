// cooperative_groups: ranks and sizes, sync, shuffles, partitions, reductions, scans, copies, the grid.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

struct Wide {
  double a;
  int b, c, d;
};

template <unsigned N>
__device__ void tile(const cg::thread_block& block) {
  auto t = cg::tiled_partition<N>(block);
  const unsigned thread = block.thread_rank(), rank = thread % N;
  CHECK(t.thread_rank() == rank && t.size() == N && t.num_threads() == N);
  CHECK(t.meta_group_rank() == thread / N && t.meta_group_size() == block.size() / N);
  CHECK(t.shfl((int)thread, N - 1) == (int)(thread / N * N + N - 1));
  CHECK(t.shfl_up((int)rank, 1) == (int)(rank ? rank - 1 : 0));
  CHECK(t.shfl_down((int)rank, 1) == (int)(rank + 1 < N ? rank + 1 : rank));
  CHECK(t.shfl_xor((int)rank, N / 2) == (int)(rank ^ N / 2));
  Wide wide = t.shfl(Wide{rank * 0.5, (int)rank, 2, 3}, 0);
  CHECK(wide.a == 0 && wide.b == 0 && wide.d == 3);
  CHECK(t.any(rank == N - 1) && t.all(rank < N) && !t.any(rank == N));
  CHECK(t.ballot(rank == 0) == 1u);
  CHECK(t.match_any(rank / 2) == (N == 1 ? 1u : 3u << rank / 2 * 2));
  CHECK(cg::reduce(t, (int)rank, cg::plus<int>()) == (int)(N * (N - 1) / 2));
  CHECK(cg::reduce(t, (float)rank, cg::greater<float>()) == (float)(N - 1));
  CHECK(cg::reduce(t, 1u << rank, cg::bit_or<unsigned>()) == (N == 32 ? ~0u : (1u << N % 32) - 1));
  CHECK(cg::inclusive_scan(t, 2) == (int)(2 * (rank + 1)) && cg::exclusive_scan(t, 2) == (int)(2 * rank));
  CHECK(cg::inclusive_scan(t, (int)rank, cg::greater<int>()) == (int)rank);
  CHECK(cg::invoke_one_broadcast(t, [&] { return (int)t.meta_group_rank(); }) == (int)(thread / N));
  t.sync();
}

__device__ int sum_of(cg::thread_group g, int* scratch, int value) { // the classic: any group, at run time
  int rank = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    scratch[rank] = value;
    g.sync();
    if (rank < i) value += scratch[rank + i];
    g.sync();
  }
  return value;
}

__global__ void block_groups() {
  cg::thread_block block = cg::this_thread_block();
  CHECK(block.size() == 128 && block.thread_rank() == threadIdx.x && block.group_index().x == blockIdx.x);
  CHECK(block.dim_threads().x == 128 && block.thread_index().x == threadIdx.x);
  tile<1>(block); tile<2>(block); tile<4>(block); tile<8>(block); tile<16>(block); tile<32>(block);
  auto warp = cg::tiled_partition<32>(block);
  auto quad = cg::tiled_partition<4>(warp);
  CHECK(quad.meta_group_rank() == threadIdx.x % 32 / 4 && quad.meta_group_size() == 8);
  cg::thread_block_tile<32> general = warp;
  CHECK(general.size() == 32);
  __shared__ int scratch[128];
  int total = sum_of(block, scratch, 1);
  CHECK(threadIdx.x != 0 || total == 128);
  block.sync();
  total = sum_of(cg::tiled_partition(block, 8), scratch + threadIdx.x / 8 * 8, 2);
  CHECK(threadIdx.x % 8 != 0 || total == 16);

  __shared__ int copy[128];
  __shared__ int source[128];
  source[threadIdx.x] = threadIdx.x;
  block.sync();
  cg::memcpy_async(block, copy, source, sizeof source);
  cg::wait(block);
  CHECK(copy[127 - threadIdx.x] == 127 - (int)threadIdx.x);
  auto token = block.barrier_arrive();
  block.barrier_wait(static_cast<cg::thread_block::arrival_token&&>(token));
  cg::sync(block);
  CHECK(cg::this_thread().size() == 1);
}

__global__ void partitions(int* counter) {
  const unsigned lane = threadIdx.x % 32;
  if (lane % 4 == 1) {
    cg::coalesced_group active = cg::coalesced_threads();
    CHECK(active.size() == 8 && active.thread_rank() == lane / 4);
    CHECK(active.shfl((int)lane, 3) == 13 && active.shfl_up((int)lane, 1) == (int)(lane > 4 ? lane - 4 : lane));
    CHECK(active.ballot(lane == 5) == 2u);
    CHECK(cg::reduce(active, 1, cg::plus<int>()) == 8);
    int base; // one atomic for all: what this is used for
    if (active.thread_rank() == 0) base = atomicAdd(counter, (int)active.size());
    base = active.shfl(base, 0);
    CHECK(base % 8 == 0);
    auto pairs = cg::tiled_partition(active, 2);
    CHECK(pairs.size() == 2 && pairs.thread_rank() == lane / 4 % 2 && pairs.meta_group_rank() == lane / 8);
  }
  __syncwarp();
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto half = cg::binary_partition(warp, lane % 3 == 0);
  CHECK(half.size() == (lane % 3 == 0 ? 11u : 21u));
  half.sync();
  auto same = cg::labeled_partition(warp, lane % 5);
  CHECK(same.size() == (lane % 5 < 2 ? 7u : 6u) && same.thread_rank() == lane / 5);
  CHECK(same.meta_group_size() == 5 && same.meta_group_rank() == lane % 5);
}

__global__ void whole_grid(int* rounds) {
  cg::grid_group grid = cg::this_grid();
  CHECK(grid.is_valid() && grid.size() == 6 * 40 && grid.num_blocks() == 6);
  CHECK(grid.thread_rank() == blockIdx.x * 40 + threadIdx.x);
  for (int round = 0; round < 10; round++) {
    atomicAdd(&rounds[round], 1);
    grid.sync();
    CHECK(rounds[round] == 240);
  }
}

int main() {
  int* memory;
  CUDA(cudaMallocManaged(&memory, 256));
  CUDA(cudaMemset(memory, 0, 256));
  block_groups<<<3, 128>>>();
  partitions<<<2, 64>>>(memory);
  CUDA(cudaDeviceSynchronize());
  CHECK(memory[0] == 32);
  int* rounds = memory + 8;
  void* args[] = {&rounds};
  CUDA(cudaLaunchCooperativeKernel(whole_grid, dim3(6), dim3(40), args, 0, 0));
  return finish("groups");
}
