// Warp primitives: shuffles of every type and width, votes, matches, reductions, divergence, short warps.
#include "check.h"

template <class T>
__device__ void shuffles(unsigned lane) {
  const T own = T(lane * 3 + 1);
  auto of = [](unsigned l) { return T(l * 3 + 1); };
  for (int width = 1; width <= 32; width *= 2) {
    const unsigned first = lane / width * width;
    for (int i = 0; i < 32; i += 5) {
      CHECK(__shfl_sync(~0u, own, i, width) == of(first + i % width));
      CHECK(__shfl_up_sync(~0u, own, i, width) == of(lane >= first + i ? lane - i : lane));
      CHECK(__shfl_down_sync(~0u, own, i, width) == of(lane + i < first + width ? lane + i : lane));
      unsigned other = lane ^ i;
      CHECK(__shfl_xor_sync(~0u, own, i, width) == of(other < first + width ? other : lane));
    }
  }
}

__global__ void whole() {
  const unsigned lane = threadIdx.x % 32;
  shuffles<int>(lane);
  shuffles<unsigned>(lane);
  shuffles<long>(lane);
  shuffles<unsigned long>(lane);
  shuffles<long long>(lane);
  shuffles<unsigned long long>(lane);
  shuffles<float>(lane);
  shuffles<double>(lane);

  CHECK(__ballot_sync(~0u, lane % 3 == 0) == 0x49249249u);
  CHECK(__any_sync(~0u, lane == 31) && !__any_sync(~0u, lane > 31));
  CHECK(__all_sync(~0u, lane < 32) && !__all_sync(~0u, lane != 7));
  CHECK(__match_any_sync(~0u, lane / 8) == 0xffu << lane / 8 * 8);
  CHECK(__match_any_sync(~0u, 1ull << (lane & 1) * 40) == (lane & 1 ? 0xaaaaaaaau : 0x55555555u));
  int all = -1;
  CHECK(__match_all_sync(~0u, 2.5, &all) == ~0u && all == 1);
  CHECK(__match_all_sync(~0u, lane, &all) == 0 && all == 0);
  CHECK(__reduce_add_sync(~0u, lane) == 496u);
  CHECK(__reduce_add_sync(~0u, -(int)lane) == -496);
  CHECK(__reduce_min_sync(~0u, (int)lane - 5) == -5 && __reduce_max_sync(~0u, (int)lane - 5) == 26);
  CHECK(__reduce_min_sync(~0u, lane + 3) == 3u && __reduce_max_sync(~0u, lane) == 31u);
  CHECK(__reduce_and_sync(~0u, ~(1u << lane)) == 0u && __reduce_or_sync(~0u, 1u << lane) == ~0u);
  CHECK(__reduce_xor_sync(~0u, lane == 3 ? 5u : 0u) == 5u);
}

// Halves of a warp on their own ways, each with its mask, and together again.
__global__ void diverged(int* order) {
  const unsigned lane = threadIdx.x % 32;
  int sum = 0;
  if (lane < 16) {
    for (int i = 0; i < 8; i++) sum += __shfl_xor_sync(0x0000ffffu, (int)lane, 1 << i % 4, 16);
    CHECK(__ballot_sync(0xffffu, 1) == 0xffffu);
    if (lane == 0) order[threadIdx.x / 32] = 1;
  } else {
    CHECK(__reduce_add_sync(0xffff0000u, 1) == 16);
    CHECK(__activemask() == 0xffff0000u);
  }
  __syncwarp();
  CHECK(order[threadIdx.x / 32] == 1);
  CHECK(__popc(__activemask()) == 32);
  if (lane & 1) {
    CHECK(__activemask() == 0xaaaaaaaau);
    return; // the others' full-mask sync must not wait for these
  }
  __syncwarp(0x55555555u);
  CHECK(__shfl_sync(0x55555555u, (int)lane, 30) == 30);
}

// The second warp has 13 threads only.
__global__ void ragged() {
  const unsigned lane = threadIdx.x % 32, mask = threadIdx.x < 32 ? ~0u : 0x1fffu;
  CHECK(__ballot_sync(mask, 1) == mask);
  CHECK(__activemask() == mask);
  __syncwarp();
  CHECK(__shfl_down_sync(mask, (int)lane, 1) == (int)(mask >> lane == 1 ? (lane == 31 ? 31 : 0) : lane + 1));
}

// A sum over each warp as everybody writes it, in 2-D blocks (a warp is 32 threads in x-fastest order).
__global__ void sums(int* out) {
  unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  int value = thread;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  if (thread % 32 == 0) out[blockIdx.x * 8 + thread / 32] = value;
}

int main() {
  int* memory;
  CUDA(cudaMallocManaged(&memory, 1024 * sizeof(int)));
  CUDA(cudaMemset(memory, 0, 1024 * sizeof(int)));
  whole<<<3, 64>>>();
  diverged<<<1, 128>>>(memory);
  ragged<<<2, 45>>>();
  CUDA(cudaDeviceSynchronize());
  sums<<<4, dim3(16, 16)>>>(memory);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 32; i++) CHECK(memory[i] == 496 + 1024 * (i % 8));
  CUDA(cudaFree(memory));
  return finish("warp");
}
