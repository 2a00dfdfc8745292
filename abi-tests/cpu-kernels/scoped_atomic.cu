// cuda::atomic, atomic_ref, barrier, latch, semaphore: what they return, and hand-overs between blocks.
#include "check.h"
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

static_assert(cuda::thread_scope_system == 0 && cuda::thread_scope_device == 1 && cuda::thread_scope_block == 2 &&
              cuda::thread_scope_thread == 10, "numbers of the scopes");
static_assert(sizeof(cuda::atomic<uint32_t>) == 4 && sizeof(cuda::atomic<uint64_t, cuda::thread_scope_block>) == 8, "size");
static_assert(cuda::std::is_same<cuda::std::uint32_t, uint32_t>::value && cuda::std::numeric_limits<int>::max() > 0, "std");

struct Pair {
  short a, b;
};

__global__ void meanings() {
  unsigned word = 5;
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> ref(word);
  CHECK(ref.load() == 5 && ref.load(cuda::memory_order_acquire) == 5u);
  ref.store(6, cuda::memory_order_release);
  CHECK(ref.fetch_add(4, cuda::memory_order_relaxed) == 6 && ref.fetch_sub(1) == 10 && word == 9);
  CHECK(ref.fetch_and(8u) == 9 && ref.fetch_or(3u) == 8 && ref.fetch_xor(1u) == 11 && word == 10);
  CHECK(ref.fetch_min(4u) == 10 && ref.fetch_max(20u, cuda::memory_order_relaxed) == 4 && word == 20);
  CHECK(ref.exchange(1u, cuda::memory_order_acq_rel) == 20);
  unsigned expected = 2;
  CHECK(!ref.compare_exchange_strong(expected, 3u) && expected == 1);
  CHECK(ref.compare_exchange_weak(expected, 3u, cuda::memory_order_release, cuda::memory_order_relaxed) && word == 3);
  CHECK(++ref == 4 && ref++ == 4 && (ref += 5) == 10 && --ref == 9 && (ref |= 6u) == 15);
  cuda::atomic<float> f(1.5f);
  CHECK(f.fetch_add(2.f) == 1.5f && f == 3.5f);
  cuda::atomic<double, cuda::thread_scope_block> d;
  d = 2.5;
  CHECK(d.exchange(3.0) == 2.5 && d.load() == 3.0);
  int array[4];
  cuda::atomic<int*> p(array);
  CHECK(p.fetch_add(3) == array && p.load() == array + 3 && --p == array + 2);
  cuda::std::atomic<Pair> pair(Pair{1, 2});
  Pair old = pair.exchange(Pair{3, 4});
  CHECK(old.b == 2 && pair.load().a == 3);
  uint8_t bytes[4] = {250, 1, 2, 3};
  cuda::atomic_ref<uint8_t> small(bytes[0]);
  CHECK(small.fetch_add(10) == 250 && bytes[0] == 4 && bytes[1] == 1);
}

// Block 0 writes, the others read what it wrote once they see the flag.
__global__ void publish(int* data, unsigned* flag) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == gridDim.x - 1) {
    data[threadIdx.x] = threadIdx.x + 1;
    __syncthreads();
    if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
  } else {
    while (ready.load(cuda::memory_order_acquire) == 0) {
    }
    CHECK(data[threadIdx.x] == (int)threadIdx.x + 1);
  }
}
__global__ void waits(unsigned* word) {
  cuda::atomic_ref<unsigned> turn(*word);
  unsigned mine = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned now = turn.load(); now != mine; now = turn.load()) turn.wait(now);
  turn.store(mine + 1);
  turn.notify_all();
}

__global__ void barriers(int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int values[128], sum;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int round = 0; round < 5; round++) {
    values[threadIdx.x] = threadIdx.x + round;
    auto token = bar.arrive();
    bar.wait(cuda::std::move(token));
    CHECK(values[(threadIdx.x + 77) % 128] == (int)(threadIdx.x + 77) % 128 + round);
    bar.arrive_and_wait();
  }
  cuda::memcpy_async(&sum, &values[3], sizeof(int), bar);
  bar.arrive_and_wait();
  CHECK(sum == 7);
  if (threadIdx.x >= 64) {
    bar.arrive_and_drop();
    return;
  }
  bar.arrive_and_wait();
  bar.arrive_and_wait(); // now of 64
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}
struct Gates {
  cuda::latch<cuda::thread_scope_device> all{64};
  cuda::counting_semaphore<cuda::thread_scope_device> two{2};
  cuda::atomic<int, cuda::thread_scope_device> inside{0}, done{0};
};
__global__ void gates(Gates* g) {
  g->two.acquire();
  CHECK(g->inside.fetch_add(1) < 2);
  g->inside.fetch_sub(1);
  g->two.release();
  g->done.fetch_add(1, cuda::memory_order_relaxed);
  g->all.arrive_and_wait();
  CHECK(g->done.load(cuda::memory_order_relaxed) == 64);
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
}

int main() {
  int* data;
  CUDA(cudaMallocManaged(&data, 1024));
  CUDA(cudaMemset(data, 0, 1024));
  meanings<<<1, 1>>>();
  publish<<<5, 96>>>(data, (unsigned*)data + 200);
  CUDA(cudaDeviceSynchronize());
  waits<<<2, 40>>>((unsigned*)data + 201);
  barriers<<<3, 128>>>(data + 210);
  CUDA(cudaDeviceSynchronize());
  CHECK(data[201] == 80 && data[210] == 1 && data[212] == 1);
  void* place;
  CUDA(cudaMallocHost(&place, sizeof(Gates)));
  gates<<<2, 32>>>(new (place) Gates);
  CUDA(cudaDeviceSynchronize());
  cuda::atomic<int> host{1}; // host threads too
  CHECK(host.fetch_add(1) == 1 && host == 2);
  return finish("scoped_atomic");
}
