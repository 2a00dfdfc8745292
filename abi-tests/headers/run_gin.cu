/* T116, T059 for GIN, T077, T090: what ncclGin posts and waits for, against a queue of our own, by way of the CPU
 * device's build of the headers. */
#include "world.h"

#include <unistd.h>

using Cta = ncclCoopCta;
static uint64_t raw(World& world, int peer, uint32_t index, int word) {
  return world.slot(0, peer, index).qword[word].raw;
}

/* Golden words of every kind of post, the producer index across its wrap, hints, flush, credit. */
static void queue() {
  World world(3);
  World::Rank& rank = world.ranks[0];
  ncclGin gin(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint64_t win = reinterpret_cast<uint64_t>(world.memory(0)) << 1 | 1;
  uint32_t first = rank.pis[1];

  gin.put(W, 1, &rank.window, 16, &rank.window, 32, 100);
  gin.put(W, 1, &rank.window, 0, &rank.window, 0, 0, ncclGin_SignalInc{3});
  gin.put(W, 1, &rank.window, 0, &rank.window, 0, 8, ncclGin_SignalAdd{3, 0x1122334455667788}, ncclGin_CounterInc{5});
  gin.putValue(W, 1, &rank.window, 8, 1.5f, ncclGin_SignalInc{3});
  CHECK(rank.pis[1] == uint32_t(first + 4) && rank.pis[1] == 1 && rank.pis[0] == first && rank.pis[2] == first);
  CHECK(raw(world, 1, first, 0) == (100 << 7 | 1 << 1 | 1) && raw(world, 1, first, 1) == ((8192 + 32) << 1 | 1));
  CHECK(raw(world, 1, first, 2) == win && raw(world, 1, first, 3) == ((8192 + 16) << 1 | 1));
  CHECK(raw(world, 1, first, 4) == win && raw(world, 1, first, 5) == 1 && raw(world, 1, first, 6) == 1);
  CHECK(raw(world, 1, first, 7) == 1);
  CHECK(raw(world, 1, first + 1, 0) == (9 << 1 | 1) && raw(world, 1, first + 1, 5) == (11u << 24 | 1ull << 40 | 1));
  CHECK(raw(world, 1, first + 2, 0) == (8 << 7 | 0x15 << 1 | 1));
  CHECK(raw(world, 1, first + 2, 5) == (0x7788ull << 40 | 11u << 24 | 21 << 8 | 1));
  CHECK(raw(world, 1, first + 2, 6) == (0x11223344ull << 24 | 0x5566 << 8 | 1));
  CHECK(raw(world, 1, first + 3, 0) == (4 << 7 | 0xb << 1 | 1) && raw(world, 1, first + 3, 1) == (0x3fc00000ull << 8 | 1));
  CHECK(rank.hintHead == 4 && rank.hints[0] == GINRS_HINT(1, first + 1) && rank.hints[3] == GINRS_HINT(1, 1));

  /* The queue is full: the next post waits for credit, and flush for everything. */
  std::atomic<int> done{0};
  std::thread poster([&] {
    becomeBlock(0);
    gin.signal(W, 1, ncclGin_SignalInc{0});
    done = 1;
    gin.flush(ncclCoopThread());
    done = 2;
  });
  while (__atomic_load_n(&rank.pis[1], __ATOMIC_RELAXED) != 2) sched_yield();
  usleep(2000);
  CHECK(done == 0 && rank.pis[1] == 2 && raw(world, 1, first, 0) == (100 << 7 | 1 << 1 | 1));
  CHECK(world.step(0, 1));
  while (done == 0) sched_yield();
  CHECK(raw(world, 1, first + 4, 0) == (9 << 1 | 1) && raw(world, 1, first + 4, 4) == 1);
  for (int i = 0; i < 3; i++) CHECK(world.step(0, 1));
  usleep(2000);
  CHECK(done == 1);
  CHECK(world.step(0, 1) && !world.step(0, 1));
  poster.join();
  CHECK(done == 2 && world.ranks[1].signals[11] == 2 + 0x1122334455667788 && world.ranks[1].signals[8] == 1);
  CHECK(rank.counters[21] == 1 && gin.readCounter(5) == 1);
}

/* Without the mark, and with a hand-built context, neither hints nor the extension are touched. */
static void unmarked() {
  World world(2);
  World::Rank& rank = world.ranks[0];
  ncclTeam W = ncclTeamWorld(rank.devComm);
  rank.devComm.ginrsMark[2] = 0x7f;
  CHECK(ncclGin(rank.devComm, 0)._makeCtx().ginrs.mark == 0);
  rank.abortWord = 1; /* nobody looks */
  ncclGin(rank.devComm, 0).signal(W, 1, ncclGin_SignalInc{0});
  CHECK(rank.hintHead == 0 && rank.pis[1] == uint32_t(0xfffffffe));
  ncclGinCtx ctx{NCCL_NET_DEVICE_GIN_PROXY, 0, 2, &rank.context};
  ctx.ginrs.mark = 0xcccccccc; /* a hand-built context has whatever the stack held */
  ncclGinApi_Put<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, ncclCoopThread(), 1, false, nullptr, 0, nullptr, 0, 0, true, 1u,
                                                  ncclGinSignalInc, 1, false, 0u, false, nullptr,
                                                  cuda::thread_scope_thread, cuda::thread_scope_device);
  CHECK(rank.hintHead == 0 && rank.pis[1] == 0xffffffff);
  rank.devComm.ginrsMark[2] = GINRS_MARK_BYTE2;
  CHECK(ncclGin(rank.devComm, 0)._makeCtx().ginrs.mark == (GINRS_MARK_CTX | GINRS_FLAG_KNOWN | GINRS_FLAG_HINTS | GINRS_FLAG_CACHED | GINRS_FLAG_BOUNDS));
  rank.context.ext.version = 2; /* nor windows' sizes, nor direct contexts' own queues */
  rank.context.ext.flags = GINRS_FLAG_DIRECT;
  CHECK(ncclGin(rank.devComm, 0)._makeCtx().ginrs.mark == (GINRS_MARK_CTX | GINRS_FLAG_KNOWN | GINRS_FLAG_HINTS | GINRS_FLAG_CACHED));
  rank.context.ext.version = 1; /* an older library's block: what lies behind its fields is not read */
  rank.context.ext.flags = GINRS_FLAG_DIRECT;
  CHECK(ncclGin(rank.devComm, 0)._makeCtx().ginrs.mark == (GINRS_MARK_CTX | GINRS_FLAG_KNOWN | GINRS_FLAG_HINTS));
  rank.context.ext.magic = 0;
  CHECK(ncclGin(rank.devComm, 0)._makeCtx().ginrs.mark == 0);
}

static void waits() {
  World world(1);
  World::Rank& rank = world.ranks[0];
  ncclGin gin(rank.devComm, 0);
  rank.signals[8] = 0x1000000fe;
  CHECK(gin.readSignal(0) == 0x1000000fe && gin.readSignal(0, 8) == 0xfe && gin.readSignal(0, 32) == 0xfe);
  gin.waitSignal(Cta(), 0, 0xfe, 32);
  gin.waitSignal(Cta(), 0, 0x80, 8);
  rank.counters[16] = 3; /* T077: 0xf0 + 0x13 wraps to 3 in 8 bits */
  gin.waitCounter(Cta(), 0, 0xf0, 8);
  gin.waitCounter(Cta(), 0, 3);
  gin.waitCounter(Cta(), 0, uint64_t(-5), 56);

  *gin.getSignalShadowPtr(0) = 0xf0;
  gin.waitSignalMeetShadow(Cta(), 0, 32);
  uint32_t before, delta;
  gin.waitSignalFollowShadow(Cta(), 0, 5u, &before, &delta, 32);
  CHECK(before == 0xf0 && delta == 0xe && rank.shadows[0] == 0xf0);
  gin.increaseSignalShadow(0, delta);
  CHECK(rank.shadows[0] == 0xfe);
  uint8_t before8, delta8;
  gin.waitSignalFollowShadow(Cta(), 0, uint8_t(0), &before8, &delta8, 8);
  CHECK(before8 == 0xfe && delta8 == 0);
  gin.resetSignal(0);
  gin.resetCounter(0);
  CHECK(rank.signals[8] == 0 && rank.shadows[0] == 0 && rank.counters[16] == 0);

  std::thread waiter([&] {
    becomeBlock(0);
    gin.waitSignal(Cta(), 1, 10);
  });
  unsigned long seen = yields;
  while (__atomic_load_n(&yields, __ATOMIC_RELAXED) < seen + 100) sched_yield(); /* it yields while it waits */
  __atomic_store_n(&rank.signals[9], 10, __ATOMIC_RELEASE);
  waiter.join();
}

/* Puts, signals, counters and barriers among ranks, with a proxy that delivers. */
static void exchange() {
  World world(3);
  for (World::Rank& rank : world.ranks) rank.devComm.railGinBarrier = {4, 1000};
  int const rounds = 200;
  world.launch([&](int r) {
    ncclDevComm const& d = world.ranks[r].devComm;
    ncclWindow_t w = &world.ranks[r].window;
    ncclGin gin(d, 0);
    ncclTeam W = ncclTeamWorld(d);
    uint32_t* data = reinterpret_cast<uint32_t*>(world.memory(r) + 8192);
    for (uint32_t round = 1; round <= rounds; round++) {
      for (uint32_t i = 0; i < 64; i++) data[i] = uint32_t(r) << 24 | round << 8 | i;
      for (int peer = 0; peer < 3; peer++) {
        /* The world's proxy takes the source's registration for the destination's: address the peer's memory. */
        gin.put(W, peer, &world.ranks[peer].window, 4096 * (1 + r), w, 0, 256, ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
      }
      gin.waitSignal(Cta(), 0, 3 * round);
      for (int from = 0; from < 3; from++) {
        uint32_t* got = reinterpret_cast<uint32_t*>(world.memory(r) + 8192 + 4096 * (1 + from));
        for (uint32_t i = 0; i < 64; i++) CHECK(got[i] == (uint32_t(from) << 24 | round << 8 | i));
      }
      gin.waitCounter(Cta(), 0, 3 * round);
      ncclGinBarrierSession<Cta> bar{Cta(), gin, ncclTeamTagWorld(), 1};
      bar.sync(Cta(), cuda::memory_order_acq_rel);
    }
    gin.flush(Cta());
  });
  for (int r = 0; r < 3; r++) {
    CHECK(world.words(r, 1000)[4] == 2 * rounds && world.ranks[r].signals[8 + 5] == 2 * rounds);
    CHECK(world.ranks[r].counters[16] == 3 * rounds);
  }
}

/* An abort ends credit waits, flushes, signal, counter and barrier waits; what comes later returns at once. */
static void abortEndsWaits() {
  World world(2);
  for (World::Rank& rank : world.ranks) rank.devComm.railGinBarrier = {4, 1000};
  std::atomic<int> finished{0};
  std::thread killer([&] {
    usleep(20000);
    CHECK(finished == 0);
    for (World::Rank& rank : world.ranks) __atomic_store_n(&rank.abortWord, 1, __ATOMIC_RELAXED);
  });
  world.launch(
      [&](int r) {
        ncclDevComm const& d = world.ranks[r].devComm;
        ncclGin gin(d, 0);
        ncclTeam W = ncclTeamWorld(d);
        for (int i = 0; i < 10; i++) gin.signal(W, 1 - r, ncclGin_SignalInc{0}); /* beyond credit */
        finished = finished + 1;
        gin.flush(Cta());
        gin.waitSignal(Cta(), 0, 100);
        gin.waitCounter(Cta(), 0, 100);
        uint64_t before, delta;
        gin.waitSignalFollowShadow(Cta(), 0, uint64_t(100), &before, &delta);
        ncclBarrierSession<Cta> bar{Cta(), ncclTeamTagRail(), gin, 0};
        bar.sync(Cta(), cuda::memory_order_acq_rel);
        uint32_t claimed = world.ranks[r].pis[1 - r];
        gin.signal(W, 1 - r, ncclGin_SignalInc{0});
        CHECK(world.ranks[r].pis[1 - r] == claimed); /* dropped */
      },
      false);
  killer.join();
}

/* What cannot work says so. */
static void refusals() {
  World world(2);
  World::Rank& rank = world.ranks[0];
  ncclDevComm d = rank.devComm;
  ncclTeam W = ncclTeamWorld(d);
  /* A range that a descriptor cannot carry comes to our host as one outside of any window, and is refused there. */
  uint32_t first = rank.pis[1];
  ncclGin(d, 0).put(W, 1, &rank.window, 0, &rank.window, size_t(0) - 8192 - 4096, size_t(1) << 57);
  CHECK(raw(world, 1, first, 0) == (((uint64_t(1) << 57) - 1) << 7 | 1 << 1 | 1));
  CHECK(raw(world, 1, first, 1) == ((size_t(0) - 4096) << 1 | 1) && raw(world, 1, first, 3) == (8192 << 1 | 1));
  ncclGin(d, 0).put(W, 1, &rank.window, (size_t(1) << 63) - 8192, &rank.window, 0, 8);
  CHECK(raw(world, 1, first + 1, 3) == (uint64_t(1) << 63 | 1));

  ncclDevComm unmarked = d; /* without our host nobody would refuse it */
  unmarked.ginrsMark[2] = 0;
  traps("signal id", [&] { ncclGin(unmarked, 0).signal(W, 1, ncclGin_SignalInc{65528}); });
  traps("counter id", [&] {
    ncclGin(unmarked, 0).put(W, 1, &rank.window, 0, &rank.window, 0, 8, ncclGin_None{}, ncclGin_CounterInc{65520});
  });
  traps("2^57", [&] { ncclGin(unmarked, 0).put(W, 1, &rank.window, 0, &rank.window, 0, size_t(1) << 57); });
  traps("2^63", [&] { ncclGin(unmarked, 0).put(W, 1, &rank.window, size_t(0) - 9000, &rank.window, 0, 8); });
  traps("not a rank", [&] { ncclGin(unmarked, 0).signal(W, 2, ncclGin_SignalInc{0}); });
  d.ginTypes[0] = NCCL_NET_DEVICE_UNPACK;
  traps("backend is not compiled", [&] { ncclGin(d, 0).signal(W, 1, ncclGin_SignalInc{0}); });
  traps("backend is not compiled", [&] { ncclGin(d, 0).readSignal(0); });
  traps("backend is not compiled", [&] { ncclGin_BackendOne<NCCL_NET_DEVICE_GIN_PROXY>(d, 0).flush(Cta()); });
  d.ginContextCount = 0;
  traps("no GIN", [&] { ncclGin(d, 3).waitCounter(Cta(), 0, 1); });
}

int main() {
  becomeBlock(0);
  queue();
  unmarked();
  waits();
  exchange();
  abortEndsWaits();
  refusals();
  return failures;
}
