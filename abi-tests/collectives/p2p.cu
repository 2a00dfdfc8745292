// Send and Recv: patterns, sizes, several messages to one peer, beside collectives, captured; every byte checked.
#include "world.h"

struct Message {
  int from, to;
  size_t bytes;
  int type;
  unsigned key;
};

__global__ void writeMessage(char* at, size_t bytes, unsigned key) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x) at[i] = (char)mix(mix(key) + i);
}

// Also the bytes around it.
__global__ void readMessage(const char* at, size_t bytes, unsigned key, Finding* found) {
  Case c = {};
  c.number = key;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x) {
    unsigned char got = (unsigned char)at[i], wanted = (unsigned char)mix(mix(key) + i);
    if (got != wanted) finding(found, c, 0, i, got, wanted);
  }
  if (blockIdx.x == 0 && threadIdx.x < kGuard) {
    unsigned char before = (unsigned char)at[-1 - (int)threadIdx.x], behind = (unsigned char)at[bytes + threadIdx.x];
    if (before != 0xa5) finding(found, c, 1, -1ll - threadIdx.x, before, 0xa5);
    if (behind != 0xa5) finding(found, c, 1, threadIdx.x, behind, 0xa5);
  }
}

struct Exchange {
  Example& ex;
  World& world;
  int kind = kPlain;
  unsigned keys = 100000;
  cudaStream_t stream;
  std::vector<Message> messages;

  void add(int from, int to, size_t bytes, int type = ncclUint8) {
    TypeFacts t = typeFacts(type);
    messages.push_back({from, to, bytes / t.bytes * t.bytes, type, keys++});
  }

  // Lays the messages out, fills, calls `between` in the same group, checks. Every rank knows all messages.
  template <typename Between>
  void run(const char* what, Between between, bool inGroup = true) {
    Memory& m = world.memory[kind];
    size_t sendAt = 256, recvAt = 256;
    std::vector<char*> at(messages.size());
    std::vector<char*> into(messages.size());
    unsigned blocks, threads;
    for (size_t i = 0; i < messages.size(); i++) {
      const Message& x = messages[i];
      gridFor(x.bytes, &blocks, &threads);
      size_t room = (x.bytes + 2 * kGuard + 15) & ~(size_t)15;
      size_t odd = i % 3 == 1 ? typeFacts(x.type).bytes : 0;  // alignment of the element only
      if (x.from == ex.rank) {
        at[i] = m.send + sendAt + odd;
        sendAt += room + 16;
        writeMessage<<<blocks, threads, 0, stream>>>(at[i], x.bytes, x.key);
      }
      if (x.to == ex.rank) {
        into[i] = m.recv + recvAt + odd;
        recvAt += room + 16;
      }
    }
    if (sendAt > m.half || recvAt > m.half) fprintf(stderr, "p2p.cu: %s has no room\n", what), exit(1);
    CUDACHECK(cudaMemsetAsync(m.recv, 0xa5, recvAt + kGuard, stream));
    auto calls = [&] {
      for (size_t i = 0; i < messages.size(); i++) {
        const Message& x = messages[i];
        size_t count = x.bytes / typeFacts(x.type).bytes;
        if (x.from == ex.rank) NCCLCHECK(ncclSend(at[i], count, (ncclDataType_t)x.type, x.to, ex.comm, stream));
        if (x.to == ex.rank) NCCLCHECK(ncclRecv(into[i], count, (ncclDataType_t)x.type, x.from, ex.comm, stream));
      }
      between();
      return ncclSuccess;
    };
    if (inGroup) grouped(ex, calls);
    else NCCLCHECK(collective(ex, calls));
    for (size_t i = 0; i < messages.size(); i++) {
      const Message& x = messages[i];
      if (x.to != ex.rank) continue;
      gridFor(x.bytes, &blocks, &threads);
      readMessage<<<blocks, threads, 0, stream>>>(into[i], x.bytes, x.key, world.found);
      ex.elementsChecked += x.bytes;
      ex.bytesMoved += x.bytes;
    }
    messages.clear();
  }
  void run(const char* what) { run(what, [] {}); }
  void done(const char* what) {
    finish(ex, stream);
    world.report(ex, what);
  }
};

static void ring(Exchange& x, int n) {
  const size_t sizes[] = {0, 1, 8, 15, 128, 4096 + 3, 65536, 262144 + 8, x.world.plan.largest};
  for (size_t bytes : sizes) {
    for (int r = 0; r < n; r++) x.add(r, (r + 1) % n, bytes, bytes % 8 ? ncclUint8 : ncclFloat64);
    x.run("ring");
  }
  x.done("ring");
}

static void allPairs(Exchange& x, int n, unsigned rounds) {
  for (unsigned round = 0; round < rounds; round++) {
    for (int from = 0; from < n; from++) {
      for (int to = 0; to < n; to++) {
        uint64_t hash = mix(round * 4096 + from * 64 + to + 77);
        size_t bytes = hash % 5 == 0 ? 0 : hash % 5 == 1 ? hash % 1000 : (hash >> 8) % 50000;
        x.add(from, to, bytes, (int)(hash >> 40) % kTypes);
      }
    }
    x.run("all pairs, and to itself");
  }
  x.done("all pairs, and to itself");
}

// Messages of one pair arrive in the order of the calls, whatever their sizes.
static void severalToOne(Exchange& x, int n) {
  const size_t sizes[] = {5000, 3, 0, 70000, 1, 16, 300000, 2};
  for (size_t bytes : sizes) {
    for (int r = 0; r < n; r++) {
      x.add(r, (r + 1) % n, bytes);
      if (r % 2) x.add(r, (r + n - 1) % n, bytes / 3);
    }
  }
  x.run("several to one peer");
  for (int i = 0; i < 300; i++) x.add(i % n, (i * 7 + 1) % n, 8 * (i % 40), ncclInt64);
  x.run("300 in one group");
  x.done("several to one peer");
}

// What gather, scatter, neighbour exchange and half of the ranks do; nobody else has to take part.
static void patterns(Exchange& x, int n) {
  for (int r = 0; r < n; r++) x.add(r, n - 1, 3000 + r);
  x.run("all to one");
  for (int r = 0; r < n; r++) x.add(0, r, 3000 + r);
  x.run("one to all");
  for (int r = 0; r + 1 < n; r++) x.add(r, r + 1, 20000), x.add(r + 1, r, 20000);
  x.run("neighbours");
  x.done("patterns");
  // Outside groups, in turn.
  for (int i = 0; i < 6 && n > 1; i++) {
    x.add(i % 2 ? n - 1 : 0, i % 2 ? 0 : n - 1, i * 4000);
    x.run("two ranks alone", [] {}, false);
  }
  x.done("two ranks alone");
}

// Messages and collectives in one group.
static void withCollectives(Exchange& x, int n) {
  for (unsigned i = 0; i < 4; i++) {
    Case c = someCase(x.ex, 9000 + i, 3000);
    x.world.placeAt(c, x.kind == kPlain ? kSymmetric : kPlain, 1, 2);
    prepareCase(c, x.stream);
    for (int r = 0; r < n; r++) x.add(r, (r + 1) % n, 10000), x.add(r, (r + 2) % n, 100);
    x.run("with collectives", [&] { NCCLCHECK(callCase(c, x.world.operations.of(c), x.ex.comm, x.stream)); });
    verifyCase(c, x.world.found, x.stream);
    x.world.cases.push_back(c);
  }
  x.done("with collectives");
}

static void captured(Exchange& x, int n) {
  auto messages = [&] {
    for (int r = 0; r < n; r++) x.add(r, (r + 1) % n, 5000), x.add(r, (r + n - 1) % n, 64);
  };
  if (onNvidiasLibrary()) messages(), x.run("connected");
  beginCapture(x.ex, x.stream);
  messages();
  x.run("captured");
  cudaGraphExec_t exec = endCapture(x.ex, x.stream);
  for (int i = 0; i < 10; i++) CUDACHECK(cudaGraphLaunch(exec, x.stream));
  x.done("captured");
  CUDACHECK(cudaGraphExecDestroy(exec));
}

int test(Example& ex) {
  World world;
  int n = ex.nRanks;
  size_t most = 60000 * (size_t)n * 2 + 1200000;
  world.create(ex, most > world.plan.largest ? most : world.plan.largest + 4096);
  cudaStream_t stream;
  CUDACHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Exchange x{ex, world};
  x.stream = stream;
  for (int kind : {kPlain, kSymmetric}) {
    x.kind = kind;
    ring(x, n);
    allPairs(x, n, 3);
    severalToOne(x, n);
    patterns(x, n);
    withCollectives(x, n);
    captured(x, n);
  }
  CUDACHECK(cudaStreamDestroy(stream));
  world.destroy(ex);
  return twiceWrong != 0;
}
