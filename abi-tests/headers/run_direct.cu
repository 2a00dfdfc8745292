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

  net.put(W, 1, &rank.window, 10001, &rank.window, 5, 4091, ncclGin_SignalInc{3}, ncclGin_CounterInc{5});
  CHECK(memcmp(world.memory(1) + 10001, world.memory(0) + 5, 4091) == 0 && world.memory(1)[10000] == 0);
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
  exchange();
  abortEndsWaits();
  return failures;
}
