// CUDA graphs: collectives and messages captured alone, in groups, beside kernels and on a forked stream; replayed many times with
// new data each time, two graphs in turn, with plain calls between.
#include "world.h"

static const int kCalls = 6, kReplays = 20;
static const uint64_t kLargest = 3000;

__global__ void bump(unsigned* salt) { ++*salt; }

struct Captured {
  std::vector<Case> cases;
  unsigned* salt;
  cudaGraphExec_t exec;
};

// `forked`: every other call goes to a stream that joined the capture through an event.
static Captured capture(Example& ex, World& world, unsigned key, bool inGroup, cudaStream_t forked) {
  Captured it;
  CUDACHECK(cudaMalloc(&it.salt, sizeof(unsigned)));
  CUDACHECK(cudaMemsetAsync(it.salt, 0, sizeof(unsigned), ex.stream));
  for (int i = 0; i < kCalls; i++) {
    it.cases.push_back(someCase(ex, key + i, kLargest));
    world.placeAt(it.cases[i], (key + i) % kMemories, i, kCalls);
  }
  cudaEvent_t fork, join;
  CUDACHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDACHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  // NVIDIA's library cannot connect ranks in a capture; ours has no need to.
  for (int i = 0; i < kCalls && onNvidiasLibrary(); i++) {
    prepareCase(it.cases[i], ex.stream);
    NCCLCHECK(collective(ex, [&] { return callCase(it.cases[i], world.operations.of(it.cases[i]), ex.comm, ex.stream); }));
  }
  beginCapture(ex, ex.stream);
  if (forked) {
    CUDACHECK(cudaEventRecord(fork, ex.stream));
    CUDACHECK(cudaStreamWaitEvent(forked, fork, 0));
  }
  auto streamOf = [&](int i) { return forked && i % 2 ? forked : ex.stream; };
  auto call = [&](int i) { return callCase(it.cases[i], world.operations.of(it.cases[i]), ex.comm, streamOf(i)); };
  for (int i = 0; i < kCalls; i++) prepareCase(it.cases[i], streamOf(i), it.salt);
  if (inGroup) {
    grouped(ex, [&] {
      for (int i = 0; i < kCalls; i++) NCCLCHECK(call(i));
      return ncclSuccess;
    });
  } else {
    for (int i = 0; i < kCalls; i++) NCCLCHECK(collective(ex, [&] { return call(i); }));
  }
  for (int i = 0; i < kCalls; i++) verifyCase(it.cases[i], world.found, streamOf(i), it.salt);
  if (forked) {
    CUDACHECK(cudaEventRecord(join, forked));
    CUDACHECK(cudaStreamWaitEvent(ex.stream, join, 0));
  }
  bump<<<1, 1, 0, ex.stream>>>(it.salt);
  it.exec = endCapture(ex, ex.stream);
  CUDACHECK(cudaEventDestroy(fork));
  CUDACHECK(cudaEventDestroy(join));
  return it;
}

static void plainCall(Example& ex, World& world, unsigned key) {
  Case c = someCase(ex, key, kLargest);
  world.placeAt(c, key % kMemories, 0, kCalls);
  prepareCase(c, ex.stream);
  NCCLCHECK(collective(ex, [&] { return callCase(c, world.operations.of(c), ex.comm, ex.stream); }));
  verifyCase(c, world.found, ex.stream);
  world.cases.push_back(c);
}

int test(Example& ex) {
  World world;
  world.create(ex, kCalls * (kLargest * ex.nRanks * 8 + 8192));
  cudaStream_t forked;
  CUDACHECK(cudaStreamCreateWithFlags(&forked, cudaStreamNonBlocking));
  const char* const names[] = {"graph", "graph of a group", "graph with a fork"};
  for (int how = 0; how < 3; how++) {
    Captured a = capture(ex, world, 100 * how + 7000, how == 1, how == 2 ? forked : NULL);
    Captured b = capture(ex, world, 100 * how + 7050, how == 1, how == 2 ? forked : NULL);
    for (Captured* it : {&a, &b}) world.cases.insert(world.cases.end(), it->cases.begin(), it->cases.end());
    for (int i = 0; i < kReplays; i++) {
      CUDACHECK(cudaGraphLaunch(a.exec, ex.stream));
      if (i % 5 == 2) plainCall(ex, world, 8000 + i);
      if (i % 2) CUDACHECK(cudaGraphLaunch(b.exec, ex.stream));
    }
    finish(ex);
    unsigned replays;
    CUDACHECK(cudaMemcpy(&replays, a.salt, sizeof replays, cudaMemcpyDeviceToHost));
    TWICE_EXPECT(replays, kReplays);
    world.report(ex, names[how]);
    for (Captured* it : {&a, &b}) {
      CUDACHECK(cudaGraphExecDestroy(it->exec));
      CUDACHECK(cudaFree(it->salt));
    }
  }
  CUDACHECK(cudaStreamDestroy(forked));
  world.destroy(ex);
  return twiceWrong != 0;
}
