// Where memory lies is the same in each run of a seed: hash tables of pointers, in the program and in libraries, depend on it.
//   ginrs-run --seed 1 ./addresses                 prints a hash of all that malloc gave and free got, in order
// tests/explore.rs runs it.
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

extern "C" void* __libc_malloc(size_t);
extern "C" void __libc_free(void*);

static std::atomic<uint64_t> hash{0}, calls{0};
static void note(uint64_t word) {
  calls++;
  for (uint64_t was = hash; !hash.compare_exchange_weak(was, (was ^ word) * 0x9e3779b97f4a7c15);) {
  }
}
extern "C" void* malloc(size_t bytes) {
  void* at = __libc_malloc(bytes);
  note(reinterpret_cast<uintptr_t>(at));
  return at;
}
extern "C" void free(void* at) {
  note(reinterpret_cast<uintptr_t>(at) + 1);
  __libc_free(at);
}

__global__ void add(int* sum) { atomicAdd(sum, 1); }

int main() {
  constexpr int kThreads = 4, kRounds = 10, kLast = 2;
  std::mutex lock;
  std::condition_variable turn;
  int* sum;
  cudaMallocManaged(&sum, sizeof *sum);
  *sum = 0;
  for (int last = 0; last < kLast; last++) {
    int next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&, t] {
        cudaStream_t stream;
        cudaStreamCreate(&stream);
        for (int round = 0; round < kRounds; round++) {
          free(malloc(100 * (t + 1)));
          add<<<2, 3, 0, stream>>>(sum);
          if (round % 4 == t) cudaStreamSynchronize(stream);
          usleep(30 * t);
        }
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
        std::unique_lock<std::mutex> guard(lock);
        turn.wait(guard, [&] { return next == t; });
        next++;
        turn.notify_all();
      });
    }
    for (auto& thread : threads) thread.join();
  }
  printf("%d added, %lu calls, hash %016lx\n", *sum, (unsigned long)calls, (unsigned long)hash);
  return *sum != kLast * kThreads * kRounds * 6;
}
