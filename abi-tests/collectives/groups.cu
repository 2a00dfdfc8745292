// Many collectives in one group: the library may put them into one launch, side by side (src/coll/several.rs). Kinds, types, roots, memory and sizes at random;
// on one stream, on two that ranks choose for themselves, and captured.
#include "world.h"

static const int kMost = 45;  // more than a launch takes
static const uint64_t kLargest = 3000;

// The calls of a group; all alike but for their sizes and roots, or at random. Some groups have a long one among short ones; some are reductions, one for each rank as
// root, as PyTorch makes them of a reduce-scatter of uneven parts: one set, or two and a call more.
static std::vector<Case> someGroup(Example& ex, World& world, unsigned key) {
  uint64_t hash = mix(key);
  bool forEach = key % 4 == 2 && ex.nRanks < kMost / 2;
  int calls = hash % 3 == 0 ? kMost : 2 + int((hash >> 8) % 7);
  if (forEach) calls = hash % 3 == 0 ? 2 * ex.nRanks + 1 : ex.nRanks;
  bool alike = forEach || (hash >> 16 & 1), uneven = hash >> 17 & 1;
  std::vector<Case> cases;
  for (int i = 0; i < calls; i++) {
    int kind = forEach ? int(kReduce) : int((hash >> 20) % kKinds);
    Case c = someCase(ex, key * 100 + i, uneven && i != calls / 2 ? 40 : kLargest, alike ? kind : -1);
    if (forEach) {
      c.root = (i + int(hash >> 40 & 7)) % ex.nRanks;
      if (!uneven) c.count = kLargest - c.count / 8;  // none so long that the others have to help
    }
    if (alike) {
      c.values.type = int((hash >> 24) % kTypes);
      if (reduces(c.kind)) c.values.op = int((hash >> 32) % kOps);
    }
    world.placeAt(c, int((mix(key * 100 + i) >> 40) % kMemories), i, kMost);
    if (c.count > 0) cases.push_back(c);
  }
  return cases;
}

static void callAll(Example& ex, World& world, const std::vector<Case>& cases, cudaStream_t other) {
  grouped(ex, [&] {
    for (const Case& c : cases) {
      // Which of the two is a rank's own matter.
      bool elsewhere = other && mix(c.number + 7 * ex.rank) & 1;
      ncclResult_t result = callCase(c, world.operations.of(c), ex.comm, elsewhere ? other : ex.stream);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  });
}

static void join(cudaEvent_t event, cudaStream_t from, cudaStream_t to) {
  CUDACHECK(cudaEventRecord(event, from));
  CUDACHECK(cudaStreamWaitEvent(to, event, 0));
}

int test(Example& ex) {
  World world;
  world.create(ex, kMost * ((kLargest * ex.nRanks * 8 + 2 * kGuard + 8191) & ~(size_t)4095));
  cudaStream_t other;
  cudaEvent_t event;
  CUDACHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDACHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (unsigned round = 0; round < 24; round++) {
    std::vector<Case> cases = someGroup(ex, world, world.plan.seed * 1000 + round);
    bool captures = round % 6 == 5, two = round % 3 == 1;
    for (const Case& c : cases) prepareCase(c, ex.stream);
    if (captures) {
      beginCapture(ex, ex.stream);
      callAll(ex, world, cases, NULL);
      cudaGraphExec_t exec = endCapture(ex, ex.stream);
      for (const Case& c : cases) prepareCase(c, ex.stream);
      CUDACHECK(cudaGraphLaunch(exec, ex.stream));
      finish(ex);
      CUDACHECK(cudaGraphExecDestroy(exec));
    } else {
      if (two) join(event, ex.stream, other);
      callAll(ex, world, cases, two ? other : NULL);
      if (two) join(event, other, ex.stream);
    }
    for (const Case& c : cases) verifyCase(c, world.found, ex.stream), world.cases.push_back(c);
    world.report(ex, "a group of collectives");
  }
  hostBarrier(ex);
  CUDACHECK(cudaEventDestroy(event));
  CUDACHECK(cudaStreamDestroy(other));
  world.destroy(ex);
  return twiceWrong != 0;
}
