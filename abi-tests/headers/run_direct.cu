/* Direct contexts against hand-built ones: what ncclGin stores, adds and posts when the GPU carries out puts itself, by
 * way of the CPU device's build of the headers. */
#include "world.h"

using Cta = ncclCoopCta;
namespace gin = ginrs::gin;

/* Every size up to a few vectors, every alignment of both ends, shared out among 1 to 40 threads: all bytes, no others. */
static void copies() {
  alignas(16) char from[1200], to[1200];
  for (size_t i = 0; i < sizeof(from); i++) from[i] = char(i * 7 + 1);
  for (int n : {1, 3, 32, 40}) {
    for (size_t a = 0; a < 17; a++) {
      for (size_t b = 0; b < 17; b++) {
        for (size_t bytes = 0; bytes < (n == 1 ? 180 : 700); bytes += bytes < 40 ? 1 : 29) {
          memset(to, 0, sizeof(to));
          for (int rank = 0; rank < n; rank++) gin::copyBytes(to + a, from + b, bytes, rank, n);
          bool isRight = memcmp(to + a, from + b, bytes) == 0;
          for (size_t i = 0; i < a; i++) isRight &= to[i] == 0;
          for (size_t i = a + bytes; i < sizeof(to); i++) isRight &= to[i] == 0;
          CHECK(isRight);
          if (!isRight) return;
        }
      }
    }
  }
  for (size_t bytes = 1; bytes <= 8; bytes++) {
    for (size_t a = 0; a < 9; a++) {
      memset(to, 0, 32);
      gin::storeBits(to + a, 0x8877665544332211, bytes);
      uint64_t expected = 0x8877665544332211, zero = 0;
      CHECK(memcmp(to + a, &expected, bytes) == 0 && memcmp(to + a + bytes, &zero, 8) == 0);
    }
  }
}

/* What goes where, and that small operations leave the queue alone. */
static void words() {
  World world(3);
  world.makeDirect(4096);
  World::Rank& rank = world.ranks[0];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint32_t first = rank.pis[1];
  for (int i = 0; i < 4096; i++) world.memory(0)[i] = char(i * 3);

  net.put(W, 1, &rank.window, 10001, &rank.window, 5, 511, ncclGin_SignalInc{3}, ncclGin_CounterInc{5});
  CHECK(memcmp(world.memory(1) + 10001, world.memory(0) + 5, 511) == 0 && world.memory(1)[10000] == 0);
  CHECK(world.directSignals(1)[8 + 3] == 1 && rank.counters[16 + 5] == 1 && net.readCounter(5) == 1);
  net.put(W, 0, &rank.window, 20000, &rank.window, 0, 64, ncclGin_SignalAdd{3, 40}); /* to oneself */
  CHECK(memcmp(world.memory(0) + 20000, world.memory(0), 64) == 0 && net.readSignal(3) == 40);
  net.put(W, 2, &rank.window, 0, &rank.window, 0, 0, ncclGin_SignalInc{0});
  net.signal(W, 2, ncclGin_SignalAdd{0, uint64_t(1) << 40});
  net.putValue(W, 2, &rank.window, 4, 1.5f, ncclGin_SignalInc{1});
  float got;
  memcpy(&got, world.memory(2) + 4, 4);
  CHECK(got == 1.5f && world.directSignals(2)[8] == 1 + (uint64_t(1) << 40) && world.directSignals(2)[9] == 1);
  net.flush(Cta());
  net.waitSignal(Cta(), 3, 40);
  net.resetSignal(3);
  CHECK(net.readSignal(3) == 0);
  for (int peer = 0; peer < 3; peer++) CHECK(rank.pis[peer] == first);
  CHECK(rank.hintHead == 0);
}

/* Large puts: the queue moves the bytes, without actions; the caller acts when they have landed. Raw calls likewise. */
static void largePuts() {
  World world(2);
  world.makeDirect(100);
  World::Rank& rank = world.ranks[0];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint32_t first = rank.pis[1];
  memset(world.memory(0), 42, 1000);
  std::atomic<int> done{0};
  std::thread caller([&] {
    becomeBlock(0);
    net.put(W, 1, &world.ranks[1].window, 4096, &rank.window, 0, 101, ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
    done = 1;
  });
  while (world.slot(0, 1, first).qword[7].raw == 0) sched_yield();
  usleep(2000);
  CHECK(done == 0 && world.directSignals(1)[8] == 0);
  CHECK(world.slot(0, 1, first).qword[0].raw == (101 << 7 | ncclGinProxyOpPut << 1 | 1));
  CHECK(world.step(0, 1));
  caller.join();
  CHECK(world.directSignals(1)[8] == 1 && rank.counters[16] == 1 && rank.cached[1] == first + 1);
  CHECK(memcmp(world.memory(1) + 4096, world.memory(0), 101) == 0);

  world.launch([&](int r) {
    if (r != 0) return;
    ncclGinApi_PutValue<NCCL_NET_DEVICE_GIN_PROXY>::call(net._makeCtx(), ncclCoopThread(), 1, world.ranks[1].window.ginWins[0],
                                                         8192, uint64_t(77), true, 9u, ncclGinSignalAdd, 5, false, nullptr,
                                                         cuda::thread_scope_thread, cuda::thread_scope_device);
  });
  CHECK(world.directSignals(1)[9] == 5 && world.memory(1)[8192] == 77 && rank.pis[1] == first + 2);
}

/* As many as one of them calls for: the others' shares are not copied. */
struct GroupOf {
  int n;
  int thread_rank() const {
    return 0;
  }
  int size() const {
    return n;
  }
  void sync() {}
};

/* How much a group copies itself goes by its threads, up to the bound of the library. */
static void largestPuts() {
  struct {
    int threads;
    size_t bytes;
    bool isQueued;
  } cases[] = {{1, 512, false},          {1, 513, true},           {32, 16384, false},      {32, 16385, true},
               {512, 256 << 10, false},  {512, 262145, true},      {1024, 256 << 10, false}, {1024, 262145, true}};
  for (auto const& c : cases) {
    World world(2);
    world.makeDirect(256 << 10);
    World::Rank& rank = world.ranks[0];
    uint32_t first = rank.pis[1];
    world.launch([&](int r) {
      if (r != 0) return;
      ncclGin net(rank.devComm, 0);
      net.put(ncclTeamWorld(rank.devComm), 1, &world.ranks[1].window, 0, &rank.window, 0, c.bytes, ncclGin_SignalInc{0},
              ncclGin_None{}, GroupOf{c.threads});
    });
    CHECK((rank.pis[1] != first) == c.isQueued && world.directSignals(1)[8] == 1);
  }
}

/* What leaves its windows goes to the host, who refuses it: one byte too far, before the start, and wrapping; puts and
 * values, at either end. Nothing has moved, and no signal rises although the descriptor is credited. */
static void bounds() {
  constexpr size_t size = 8 << 20;
  World world(2, 64);
  world.makeDirect(256 << 10);
  World::Rank& rank = world.ranks[0];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  ncclWindow_t w = &rank.window;
  memset(world.memory(0), 5, 4096);
  uint32_t const first = rank.pis[1];
  net.put(W, 1, w, size - 8, w, 0, 8, ncclGin_SignalInc{0}); /* the last bytes */
  net.putValue(W, 1, w, size - 4, 7u, ncclGin_SignalInc{0});
  net.put(W, 1, w, size + 4096, w, ~size_t(0), 0, ncclGin_SignalInc{0}); /* no bytes are nowhere */
  CHECK(world.directSignals(1)[8] == 3 && rank.pis[1] == first && world.memory(1)[size - 8] == 5);

  std::atomic<bool> stop{false};
  std::thread host([&] { /* aborts, then credits, as the proxy does */
    for (; !stop; sched_yield()) {
      if (__atomic_load_n(&rank.pis[1], __ATOMIC_ACQUIRE) == rank.cis[1]) continue;
      __atomic_store_n(rank.abortHost, 1, __ATOMIC_RELEASE);
      __atomic_store_n(&rank.cis[1], rank.cis[1] + 1, __ATOMIC_RELEASE);
    }
  });
  size_t const outside[][2] = {{size - 7, 8}, {size, 1}, {size + 4096, 8}, {~size_t(0), 8}, {size_t(0) - 4096, 8}, {0, size + 1},
                               {8, ~size_t(0) - 4}, {size_t(1) << 63, 8}};
  uint32_t expected = first;
  for (auto const& range : outside) {
    for (int end = 0; end < 3; end++) {
      if (end == 2 && range[1] != 8) continue;
      __atomic_store_n(rank.abortHost, 0, __ATOMIC_RELAXED);
      if (end == 0) net.put(W, 1, w, range[0], w, 0, range[1], ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
      if (end == 1) net.put(W, 1, w, 0, w, range[0], range[1], ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
      if (end == 2) net.putValue(W, 1, w, range[0], uint64_t(9), ncclGin_SignalInc{0});
      CHECK(rank.pis[1] == ++expected && rank.abortHost[0] == 1);
    }
  }
  stop = true;
  host.join();
  CHECK(world.directSignals(1)[8] == 3 && rank.counters[16] == 0 && rank.refusal == 0);
  CHECK(world.memory(1)[0] == 0 && world.memory(1)[size] == 0 && world.memory(1)[size + 4096] == 0);
}

/* Peers are ranks, and ids the device communicator's own, whatever the pool holds; in either kind of context. */
static void ids() {
  for (bool isDirect : {false, true}) {
    World world(2);
    if (isDirect) world.makeDirect(4096);
    World::Rank& rank = world.ranks[0];
    rank.devComm.ginSignalCount = 3, rank.devComm.ginCounterCount = 2;
    ncclGin net(rank.devComm, 0);
    ncclTeam W = ncclTeamWorld(rank.devComm);
    ncclWindow_t w = &rank.window;
    rank.context.abi.signals[8 + 3] = rank.counters[16 + 2] = rank.shadows[3] = 70; /* another's */
    memset(world.memory(0), 5, 64);
    uint32_t const first = rank.pis[1];
    auto refused = [&](int kind, uint32_t id, int count) {
      bool isRight = rank.refusal == GINRS_REFUSAL(kind, id, count) && rank.pis[1] == first;
      rank.refusal = 0;
      return isRight;
    };
    for (int peer : {2, -1}) {
      net.put(W, peer, w, 4096, w, 0, 8, ncclGin_SignalInc{0});
      CHECK(refused(GINRS_REFUSED_PEER, uint32_t(peer), 2));
      net.putValue(W, peer, w, 4096, 1u);
      CHECK(refused(GINRS_REFUSED_PEER, uint32_t(peer), 2));
      net.signal(W, peer, ncclGin_SignalInc{0});
      CHECK(refused(GINRS_REFUSED_PEER, uint32_t(peer), 2));
    }
    net.put(W, 1, w, 4096, w, 0, 8, ncclGin_SignalInc{3});
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3));
    net.put(W, 1, w, 4096, w, 0, 8, ncclGin_SignalAdd{2, 9}, ncclGin_CounterInc{2});
    CHECK(refused(GINRS_REFUSED_COUNTER, 2, 2));
    net.putValue(W, 1, w, 4096, 1u, ncclGin_SignalInc{uint32_t(-1)});
    CHECK(refused(GINRS_REFUSED_SIGNAL, uint32_t(-1), 3));
    net.signal(W, 1, ncclGin_SignalInc{65535});
    CHECK(refused(GINRS_REFUSED_SIGNAL, 65535, 3));
    net.resetSignal(3);
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3) && rank.context.abi.signals[8 + 3] == 70 && rank.shadows[3] == 70);
    net.resetCounter(2);
    CHECK(refused(GINRS_REFUSED_COUNTER, 2, 2) && rank.counters[16 + 2] == 70);
    net.increaseSignalShadow(3, 1);
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3) && rank.shadows[3] == 70);
    net.waitSignal(Cta(), 3, 71); /* nobody raises it */
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3));
    net.waitSignalMeetShadow(Cta(), 3);
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3));
    uint64_t before, delta;
    net.waitSignalFollowShadow(Cta(), 3, uint64_t(1), &before, &delta);
    CHECK(refused(GINRS_REFUSED_SIGNAL, 3, 3));
    net.waitCounter(Cta(), 2, 71);
    CHECK(refused(GINRS_REFUSED_COUNTER, 2, 2));
    CHECK(net.readSignal(3) == 0 && refused(GINRS_REFUSED_SIGNAL, 3, 3));
    CHECK(net.readCounter(2) == 0 && refused(GINRS_REFUSED_COUNTER, 2, 2));
    CHECK(world.memory(1)[4096] == 0 && world.directSignals(1)[8 + 2] == 0 && world.ranks[1].signals[8 + 2] == 0);
    rank.devComm.ginrsMark[2] = 0; /* nobody to tell: as NCCL does it */
    ncclGin(rank.devComm, 0).resetCounter(2);
    CHECK(rank.counters[16 + 2] == 0 && rank.refusal == 0);
  }
}

/* Puts of all sizes, signals, counters and barriers among ranks; some go by the queue. */
static void exchange() {
  World world(3);
  world.makeDirect(2048);
  for (World::Rank& rank : world.ranks) rank.devComm.railGinBarrier = {4, 1000};
  int const rounds = 300;
  world.launch([&](int r) {
    ncclDevComm const& d = world.ranks[r].devComm;
    ncclWindow_t w = &world.ranks[r].window;
    ncclGin net(d, 0);
    ncclTeam W = ncclTeamWorld(d);
    char* data = world.memory(r) + 65536;
    for (uint32_t round = 1; round <= uint32_t(rounds); round++) {
      size_t bytes = 1 + round * 37 % 3000, at = 65536 + round % 19;
      for (size_t i = 0; i < 4096; i++) data[i] = char(i + round * 5 + r * 11);
      for (int peer = 0; peer < 3; peer++) {
        net.put(W, peer, &world.ranks[peer].window, 8192 * (1 + r) + round % 7, w, at, bytes, ncclGin_SignalInc{0},
                ncclGin_CounterInc{0});
      }
      net.waitSignal(Cta(), 0, 3 * round);
      for (int from = 0; from < 3; from++) {
        char const* got = world.memory(r) + 8192 * (1 + from) + round % 7;
        for (size_t i = 0; i < bytes; i++) CHECK(got[i] == char(i + round % 19 + round * 5 + from * 11));
      }
      net.waitCounter(Cta(), 0, 3 * round);
      ncclGinBarrierSession<Cta> bar{Cta(), net, ncclTeamTagWorld(), 1};
      bar.sync(Cta(), cuda::memory_order_acq_rel);
    }
    net.flush(Cta());
  });
  for (int r = 0; r < 3; r++) CHECK(world.directSignals(r)[8] == 3 * rounds && world.ranks[r].counters[16] == 3 * rounds);
}

/* An abort ends the wait of a large put, and its signal is not raised; later puts are dropped. */
static void abortEndsWaits() {
  World world(2);
  world.makeDirect(100);
  World::Rank& rank = world.ranks[0];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  std::thread killer([&] {
    usleep(10000);
    __atomic_store_n(&rank.abortWord, 1, __ATOMIC_RELAXED);
  });
  net.put(W, 1, &world.ranks[1].window, 4096, &rank.window, 0, 101, ncclGin_SignalInc{0});
  net.waitSignal(Cta(), 0, 100);
  net.flush(Cta());
  killer.join();
  world.memory(0)[0] = 1;
  net.put(W, 1, &rank.window, 0, &rank.window, 0, 8, ncclGin_SignalInc{0});
  net.putValue(W, 1, &rank.window, 0, 5, ncclGin_SignalInc{0});
  CHECK(world.directSignals(1)[8] == 0 && world.memory(1)[0] == 0);
}

int main() {
  becomeBlock(0);
  copies();
  words();
  largePuts();
  largestPuts();
  bounds();
  ids();
  exchange();
  abortEndsWaits();
  return failures;
}
