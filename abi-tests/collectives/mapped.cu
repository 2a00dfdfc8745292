// Buffers in no window: at offsets of their own on each rank, of every kind of memory, freed and made anew between calls, on two
// communicators. MANY (12): allocations that are used and freed, one after the other.
#include <algorithm>
#include "world.h"

#ifdef __SANITIZE_ADDRESS__
static const bool kAddressesComeAgain = false;  // AddressSanitizer keeps what was freed
#else
static const bool kAddressesComeAgain = true;
#endif

static const int kTypesOf[] = {ncclUint8, ncclFloat16, ncclFloat32, ncclFloat64};
static const int kCalls[] = {kAllGather, kBroadcast, kBcast, kAlltoAll, kAllReduce, kReduceScatter, kReduce, kGather, kScatter};
static const int kHowMany = sizeof(kCalls) / sizeof(kCalls[0]);

// A pair of buffers of any memory.
struct Pair {
  enum Kind { kDevice, kNccl, kHost, kManaged, kKinds };
  int kind;
  char *send, *recv;

  void create(int of, size_t bytes) {
    kind = of;
    for (char** at : {&send, &recv}) {
      switch (kind) {
        case kDevice: CUDACHECK(cudaMalloc(at, bytes)); break;
        case kNccl: NCCLCHECK(ncclMemAlloc((void**)at, bytes)); break;
        case kHost: CUDACHECK(cudaMallocHost((void**)at, bytes)); break;
        default: CUDACHECK(cudaMallocManaged(at, bytes));
      }
    }
  }
  void destroy() {
    for (char* at : {send, recv}) {
      if (kind == kNccl) NCCLCHECK(ncclMemFree(at));
      else if (kind == kHost) CUDACHECK(cudaFreeHost(at));
      else CUDACHECK(cudaFree(at));
    }
  }
};

struct Mapped {
  Example& ex;
  World& world;
  uint64_t largest;
  unsigned number = 0;

  size_t bytes() const { return largest * ex.nRanks * 8 + 8192; }

  // cudaMalloc, cudaFree and their like wait for kernels of other ranks in this process: none runs while a rank is in one.
  Pair pairNew(int kind) {
    hostBarrier(ex);
    Pair pair;
    pair.create(kind, bytes());
    hostBarrier(ex);
    return pair;
  }
  void pairGone(Pair& pair) {
    hostBarrier(ex);
    pair.destroy();
  }

  // A case at `offset` elements behind what every buffer has in front.
  Case run(const Pair& pair, int kind, uint64_t count, size_t offset, ncclComm_t comm) {
    Case c = {};
    c.kind = kind;
    c.values = {kTypesOf[number / 4 % 4], reduces(kind) ? (int)kSum : (int)kMove, ex.nRanks, ++number};
    c.rank = ex.rank;
    c.root = (int)(number % ex.nRanks);
    c.inPlace = number % 3 == 0 && kind != kAlltoAll;
    c.count = count;
    c.number = number;
    static const char* const names[] = {"cudaMalloc", "ncclMemAlloc", "cudaMallocHost", "cudaMallocManaged"};
    c.where = names[pair.kind];
    offset *= typeFacts(c.values.type).bytes;
    place(c, pair.send + 256 + offset, pair.recv + 256 + offset);
    prepareCase(c, ex.stream);
    NCCLCHECK(collective(ex, [&] { return callCase(c, ncclSum, comm, ex.stream); }));
    verifyCase(c, world.found, ex.stream);
    world.cases.push_back(c);
    return c;
  }
  uint64_t someCount() const { return number % 2 ? mix(number) % largest + 1 : largest - number % 7; }

  // Some calls of each kind with the same buffers.
  void all(const Pair& pair, int rounds, bool moves, const char* what) {
    for (int round = 0; round < rounds; round++) {
      for (int kind : kCalls) run(pair, kind, someCount(), moves ? (ex.rank * 37 + round * 5) % 61 : 0, ex.comm);
      world.report(ex, what);  // waits
    }
  }

  void anywhere() {
    for (int kind : {Pair::kDevice, Pair::kNccl}) {
      Pair pair = pairNew(kind);
      all(pair, 4, false, "at one offset");
      all(pair, 4, true, "at an offset of each rank's own");
      pairGone(pair);
    }
  }

  // One rank's memory, or all ranks', is of a kind that peers cannot map.
  void ofOtherKinds() {
    for (int kind : {Pair::kHost, Pair::kManaged}) {
      for (int odd : {0, ex.nRanks - 1, -1}) {
        Pair pair = pairNew(odd < 0 || odd == ex.rank ? kind : Pair::kDevice);
        all(pair, 1, true, "one rank's memory is of another kind");
        pairGone(pair);
      }
    }
  }

  // Addresses that come again are other memory: a peer that wrote to the old one would be found.
  void freedAndMadeAnew() {
    std::vector<char*> seen;
    int again = 0, many = getenv("MANY") ? atoi(getenv("MANY")) : 12;
    for (int round = 0; round < many; round++) {
      Pair pair = pairNew(round % 2 ? Pair::kNccl : Pair::kDevice);
      again += std::find(seen.begin(), seen.end(), pair.recv) != seen.end();
      seen.push_back(pair.recv);
      if (seen.size() > 64) seen.erase(seen.begin());
      int calls = round % 4 < 2 ? 5 : 2;
      for (int i = 0; i < calls; i++) {
        run(pair, i % 2 ? kAlltoAll : kAllGather, largest - i, 0, ex.comm);
        if (calls == 5) world.report(ex, "memory made anew");  // the last ones are mapped then
      }
      world.report(ex, "memory made anew");
      pairGone(pair);
    }
    if (ex.rank == 0) printf("of %d allocations %d were where another had been\n", many, again);
    TWICE_EXPECT(many < 12 || again > 0 || !kAddressesComeAgain, true);
  }

  void onTwoCommunicators() {
    ncclComm_t other;
    NCCLCHECK(collective(ex, [&] { return ncclCommSplit(ex.comm, 0, ex.rank, &other, NULL); }));
    Pair pair = pairNew(Pair::kDevice);
    for (int i = 0; i < 12; i++) {
      run(pair, kCalls[i / 2 % kHowMany], someCount(), 8 * ex.rank, i % 2 ? other : ex.comm);
      world.report(ex, "two communicators");
    }
    hostBarrier(ex);
    NCCLCHECK(ncclCommDestroy(other));
    for (int i = 0; i < 3; i++) run(pair, kAllGather, someCount(), 8, ex.comm);
    world.report(ex, "the other communicator is gone");
    pairGone(pair);
  }
};

int test(Example& ex) {
  World world;
  world.create(ex, 8192);
  Mapped mapped{ex, world, 3000};
  mapped.anywhere();
  mapped.ofOtherKinds();
  mapped.freedAndMadeAnew();
  mapped.onTwoCommunicators();
  world.destroy(ex);
  return twiceWrong != 0;
}
