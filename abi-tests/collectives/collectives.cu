// Every collective x data type x operation x root x count x kind of memory x in place or not, exactly checked. Nothing waits
// between the cases of a rank: the next case overwrites the buffers as soon as the stream lets it.
//
// NVIDIA's 2.28.9 is asked for less, as on two H200 it hung in a Broadcast of registered memory with a NULL sendbuff, and gave wrong results
// in Gather and Scatter between memory of cudaMalloc and symmetric windows.
#include "world.h"

// Where inputs and results of a case lie. The last rows mix kinds.
static const struct {
  int send, recv;
} kPlaces[] = {{kSymmetric, kSymmetric}, {kPlain, kPlain}, {kWindow, kWindow}, {kRegistered, kRegistered}, {kNcclMem, kNcclMem},
               {kSymmetric, kPlain}, {kPlain, kSymmetric}};
static const int kMixed = 2;

struct Sweep {
  Example& ex;
  World& world;
  unsigned seen = 0, planted = 0;

  void run(Case c, int where, bool odd) {
    Memory &from = world.memory[kPlaces[where].send], &to = world.memory[kPlaces[where].recv];
    if (wrongOnNvidias(c, kPlaces[where].send == kSymmetric || kPlaces[where].recv == kSymmetric)) c.count &= ~15ull, odd = false;
    size_t offset = 256 + (odd ? typeFacts(c.values.type).bytes : 0);
    c.where = from.send == to.send ? from.name : kPlaces[where].send == kPlain ? "from cudaMalloc to a symmetric window" : "from a symmetric window to cudaMalloc";
    c.nulls = c.number & 2 && !onNvidiasLibrary();
    place(c, from.send + offset, to.recv + offset);
    bool plant = world.plan.planted && c.kind == kAllReduce && c.values.op == kSum && c.values.type == ncclInt32 && c.count && !planted++;
    prepareCase(c, ex.stream, NULL, plant && ex.rank == 0);
    NCCLCHECK(collective(ex, [&] { return callCase(c, world.operations.of(c), ex.comm, ex.stream); }));
    verifyCase(c, world.found, ex.stream);
    world.cases.push_back(c);
    if (world.cases.size() == 128) world.report(ex, "sweep");
  }

  // All of one collective, type and operation that the sample holds; one of them at least.
  void cell(int kind, int type, int op) {
    const uint64_t counts[] = {world.plan.big, 1, 7, 4096 + 3, 0};
    int roots = hasRoot(kind) ? ex.nRanks : 1, wheres = sizeof kPlaces / sizeof *kPlaces - (onNvidiasLibrary() ? kMixed : 0);
    int all = 2 * 2 * 5 * wheres * roots;
    uint64_t salt = mix((kind * 16 + type) * 16 + op + ((uint64_t)world.plan.seed << 32));
    int sure = (int)(salt % (all / 5 * 4));  // not count 0
    for (int at = 0; at < all; at++, seen++) {
      if (at != sure && mix(salt + at) % world.plan.sample != 0) continue;
      int rest = at;
      auto digit = [&](int base) { int d = rest % base; rest /= base; return d; };
      Case c = {};
      bool odd = digit(2);
      c.inPlace = digit(2) && kind != kAlltoAll;
      int where = digit(wheres);
      c.root = digit(roots);
      c.count = counts[digit(5)];
      c.values = {type, op, ex.nRanks, world.plan.seed + seen};
      c.kind = kind;
      c.rank = ex.rank;
      c.number = seen;
      run(c, where, odd);
    }
  }
};

int test(Example& ex) {
  World world;
  uint64_t most = world.plan.big > 4096 + 3 ? world.plan.big : 4096 + 3;
  world.create(ex, most * ex.nRanks * 8);
  Sweep sweep = {ex, world};
  for (int kind = world.plan.from; kind < kKinds; kind++) {
    for (int type = 0; type < kTypes; type++) {
      for (int op = 0; op < (reduces(kind) ? kOps : 1); op++) sweep.cell(kind, type, reduces(kind) ? op : kMove);
    }
  }
  world.report(ex, "sweep");
  world.destroy(ex);
  return twiceWrong != 0;
}
