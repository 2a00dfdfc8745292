/* T059, T099, T100: the LSA barrier's and the LL all-to-all's words, and that they work, by way of the CPU device's build
 * of the headers. */
#include "world.h"

#include <unistd.h>

using Cta = ncclCoopCta;
struct Twelve {
  uint32_t x[3];
};

/* T059: nB = 5, n = 7. Which words an arrival writes, and where the epoch is kept. */
static void barrierWords() {
  World world(7);
  uint32_t const buffer = 40, nB = 5, index = 3, n = 7, self = 2;
  ncclDevComm& d = world.ranks[self].devComm;
  d.lsaBarrier = {buffer, int(nB)};
  world.words(self, buffer)[nB + index] = 0xffffffff; /* the kept epoch; arrival announces 0 */
  world.words(self, buffer)[index] = 77;              /* the other mode's */
  for (uint32_t r = 0; r < n; r++) world.words(r, buffer)[3 * nB + index * n + self] = 5;
  {
    ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), index};
    CHECK(bar.epoch == 0xffffffff && bar.index == int(index) && !bar.multimem);
    CHECK(bar.ucInbox(6, 1) == world.words(6, buffer) + 3 * nB + index * n + 1);
    CHECK(bar.mcInbox(false) == world.words(self, buffer) + 2 * nB + index);
    bar.arrive(Cta(), cuda::memory_order_release);
    for (uint32_t r = 0; r < n; r++) {
      CHECK(world.words(r, buffer)[3 * nB + index * n + self] == (r == self ? 5u : 0u));
      if (r != self) world.words(self, buffer)[3 * nB + index * n + r] = r == 1 ? 1 : 0; /* rank 1 is a phase ahead */
    }
    bar.wait(Cta(), cuda::memory_order_acquire);
  }
  CHECK(world.words(self, buffer)[nB + index] == 0 && world.words(self, buffer)[index] == 77);
}

/* Many phases over several sessions, epochs across the wrap, plain data between barriers. */
static void barrierOrder() {
  World world(4);
  for (World::Rank& rank : world.ranks) rank.devComm.lsaBarrier = {40, 2};
  for (int r = 0; r < 4; r++) {
    world.words(r, 40)[2 + 1] = 0xfffffff0;
    for (int p = 0; p < 4; p++) world.words(r, 40)[6 + 4 + p] = 0xfffffff0;
  }
  uint64_t shared[4] = {};
  world.launch(
      [&](int r) {
        ncclDevComm const& d = world.ranks[r].devComm;
        for (uint64_t round = 1; round <= 50; round++) {
          ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamLsa(d), d.lsaBarrier, 1};
          for (uint64_t phase = 0; phase < 10; phase++) {
            shared[r] = round * 100 + phase;
            bar.sync(Cta(), cuda::memory_order_acq_rel);
            for (uint64_t value : shared) CHECK(value == round * 100 + phase);
            bar.arrive(Cta(), cuda::memory_order_release);
            bar.wait(Cta(), cuda::memory_order_acquire);
          }
        }
      },
      false);
  for (int r = 0; r < 4; r++) CHECK(world.words(r, 40)[3] == 0xfffffff0 + 1000);
}

/* T100: recvReduce folds each element once, in order, for every remainder; of no elements it is zero. */
template <int Unroll>
static void reduceTails() {
  World world(1);
  ncclDevComm const& d = world.ranks[0].devComm;
  for (int n = 0; n <= 17; n++) {
    ncclLLA2ASession<Cta> a2a{Cta(), d, ncclTeamLsa(d), ncclLLA2AHandle{40, 128}, 1, 64};
    for (int i = 0; i < n; i++) a2a.send(0, 5 + 3 * i, i + 1);
    int calls = 0;
    int64_t folded = a2a.recvReduce<Unroll, int>(
        5, n, 3, [](int x) { return int64_t(x); },
        [&](int64_t a, int64_t b) { return calls += 1, a * 3 + b; });
    int64_t want = n == 0 ? 0 : 1;
    for (int i = 1; i < n; i++) want = want * 3 + i + 1;
    CHECK(folded == want && calls == (n == 0 ? 0 : n - 1));
    a2a.endEpoch(Cta());
  }
}

static void allToAll() {
  World world(4);
  uint32_t const buffer = 40, nSlots = 32, block = 3;
  for (int r = 0; r < 4; r++) world.words(r, buffer)[block * (1 + 2 * nSlots) * 4] = 0xfffffff0 - 2; /* near the wrap */
  world.launch(
      [&](int r) {
        ncclDevComm const& d = world.ranks[r].devComm;
        for (int session = 0; session < 4; session++) {
          ncclLLA2ASession<Cta> a2a{Cta(), d, ncclTeamLsa(d), ncclLLA2AHandle{buffer, nSlots}, block, 8};
          for (int i = 0; i < 25; i++) {
            uint32_t tag = a2a.epoch;
            for (int peer = 0; peer < 4; peer++) a2a.send(peer, r, Twelve{{tag, uint32_t(r), uint32_t(peer)}});
            Twelve got[4];
            a2a.recvUnrolled<4>(0, 4, 1, got);
            for (uint32_t from = 0; from < 4; from++) {
              CHECK(got[from].x[0] == tag && got[from].x[1] == from && got[from].x[2] == uint32_t(r));
            }
            CHECK(tag >= 2);
            a2a.bcast(4 + r, double(tag) + r);
            double sum = a2a.recvReduce<2, double>(4, 4, 1, [](double x) { return x; }, [](double x, double y) { return x + y; });
            CHECK(sum == 4.0 * tag + 6);
            a2a.endEpoch(Cta());
          }
        }
      },
      false);
  for (int r = 0; r < 4; r++) CHECK(world.words(r, buffer)[block * (1 + 2 * nSlots) * 4] == 0xfffffff0 + 100 + 2 - 2);
}

static void findWindow() {
  World world(1);
  World::Rank& rank = world.ranks[0];
  ncclDevComm const& d = rank.devComm;
  ncclDevCommWindowTable second = {};
  ncclWindow_vidmem other = {};
  rank.table.page.next = &second;
  second.entries[31] = {0x10000, 0x1000, &other};
  second.entries[30] = {0, ~uintptr_t(0), &other}; /* empty: a zero field */
  char* base = world.memory(0);
  CHECK(ncclFindWindow(Cta(), d, base) == &rank.window && ncclFindWindow(Cta(), d, base + (8 << 20) - 1) == &rank.window);
  CHECK(ncclFindWindow(Cta(), d, base + (8 << 20)) == nullptr && ncclFindWindow(Cta(), d, base - 1) == nullptr);
  CHECK(ncclFindWindow(ncclCoopThread(), d, (void*)0x10fff) == &other);
  CHECK(ncclGetLocalPointer(&rank.window, 5) == base + 5);
}

static void abortEndsWaits() {
  World world(2);
  for (World::Rank& rank : world.ranks) rank.devComm.lsaBarrier = {40, 2};
  std::atomic<int> finished{0};
  std::thread killer([&] {
    usleep(20000);
    CHECK(finished == 0);
    __atomic_store_n(&world.ranks[0].abortWord, 1, __ATOMIC_RELAXED);
  });
  world.launch(
      [&](int r) {
        if (r == 1) return; /* never comes */
        ncclDevComm const& d = world.ranks[0].devComm;
        ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), 0};
        bar.sync(Cta(), cuda::memory_order_acq_rel);
        finished = 1;
        bar.sync(Cta(), cuda::memory_order_acq_rel);
        ncclLLA2ASession<Cta> a2a{Cta(), d, ncclTeamLsa(d), ncclLLA2AHandle{100, 32}, 0, 8};
        a2a.recv<double>(0);
        finished = 2;
      },
      false);
  killer.join();
  CHECK(finished == 2);
}

/* Past the ends lie other barriers, blocks and parities. */
static void refusals() {
  World world(1);
  ncclDevComm& d = world.ranks[0].devComm;
  d.lsaBarrier = {40, 2};
  traps("nBarriers", [&] { ncclLsaBarrierSession<Cta>{Cta(), d, ncclTeamTagLsa(), 2}; });
  auto session = [&](auto use) {
    ncclLLA2ASession<Cta> a2a{Cta(), d, ncclTeamLsa(d), ncclLLA2AHandle{100, 8}, 0, 4};
    use(a2a);
  };
  session([](auto& a2a) { a2a.send(0, 7, 1.0), a2a.send(0, 3, Twelve{}); });
  traps("nSlots", [&] { session([](auto& a2a) { a2a.send(0, 8, 1.0); }); });
  traps("nSlots", [&] { session([](auto& a2a) { a2a.bcast(4, Twelve{}); }); });
  traps("nSlots", [&] { session([](auto& a2a) { a2a.template recv<int>(-1); }); });
}

int main() {
  becomeBlock(0);
  refusals();
  barrierWords();
  barrierOrder();
  reduceTails<1>();
  reduceTails<4>();
  reduceTails<8>();
  allToAll();
  findWindow();
  abortEndsWaits();
  return failures;
}
