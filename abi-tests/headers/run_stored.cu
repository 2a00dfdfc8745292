/* Proxied contexts with GINRS_FLAG_STORES against hand-built ones: payloads of small puts to LSA peers are stored, and what is posted
 * are their actions alone. */
#include "world.h"

using Cta = ncclCoopCta;

/* Ranks 1 and 2 are one LSA team, rank 0 is on another node. */
struct Nodes : World {
  Nodes() : World(3) {
    for (int r = 0; r < n; r++) {
      Rank& rank = ranks[r];
      rank.context.ext.flags = GINRS_FLAG_STORES;
      rank.context.ext.storeLargest = 1024;
      int const first = r == 0 ? 0 : 1;
      rank.window.ginOffset4K = 0;
      rank.window.lsaRank = rank.devComm.lsaRank = r - first;
      rank.devComm.lsaSize = r == 0 ? 1 : 2;
      rank.window.lsaFlatBase = memory(first);
      rank.devComm.resourceWindow_inlined.lsaFlatBase = memory(first);
    }
    for (int i = 0; i < 4096; i++) memory(1)[i] = char(i * 3 + 1);
  }
  /* What rank 1 has posted to `peer` since its queue began at `first`. */
  uint32_t posted(int peer, uint32_t first) {
    return ranks[1].pis[peer] - first;
  }
  uint64_t header(int peer, uint32_t index) {
    return slot(1, peer, index).qword[0].raw;
  }
};

static uint64_t headerOf(uint64_t opcode, uint64_t bytes) {
  return bytes << 7 | opcode << 1 | 1;
}

static void puts() {
  Nodes world;
  World::Rank& rank = world.ranks[1];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint32_t const first = rank.pis[2];
  CHECK((net._ginrsFlags & GINRS_FLAG_STORES) != 0);

  /* Nothing to do for the host. */
  net.put(W, 2, &rank.window, 10001, &rank.window, 5, 511);
  net.put(W, 1, &rank.window, 20000, &rank.window, 0, 64);
  net.putValue(W, 2, &rank.window, 12, 1.5f);
  float got;
  memcpy(&got, world.memory(2) + 12, 4);
  CHECK(got == 1.5f && memcmp(world.memory(2) + 10001, world.memory(1) + 5, 511) == 0);
  CHECK(memcmp(world.memory(1) + 20000, world.memory(1), 64) == 0);
  CHECK(world.posted(2, first) == 0 && world.posted(1, first) == 0);
  net.flush(Cta());

  /* Actions alone are posted, and each once. */
  net.put(W, 2, &rank.window, 30000, &rank.window, 0, 100, ncclGin_SignalAdd{3, 7}, ncclGin_CounterInc{5});
  CHECK(world.posted(2, first) == 1 && memcmp(world.memory(2) + 30000, world.memory(1), 100) == 0);
  CHECK(world.header(2, first) == headerOf(ncclGinProxyOpPut | ncclGinProxyOpWithSignalAdd | ncclGinProxyOpWithCounter, 0));
  net.put(W, 2, &rank.window, 31000, &rank.window, 0, 100, ncclGin_None{}, ncclGin_CounterInc{6});
  net.putValue(W, 2, &rank.window, 40000, uint64_t(77), ncclGin_SignalInc{4});
  CHECK(world.header(2, first + 2) == headerOf(ncclGinProxyOpPut | ncclGinProxyOpWithSignalInc, 0));
  CHECK(world.memory(2)[40000] == 77 && world.posted(2, first) == 3);
  while (world.step(1, 2)) {}
  CHECK(world.ranks[2].signals[8 + 3] == 7 && world.ranks[2].signals[8 + 4] == 1);
  CHECK(rank.counters[16 + 5] == 1 && rank.counters[16 + 6] == 1);
}

/* What is too large for its group, and what goes to another node, goes by the host whole. */
static void posts() {
  Nodes world;
  World::Rank& rank = world.ranks[1];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint32_t const first = rank.pis[2];
  net.put(W, 2, &world.ranks[2].window, 4096, &rank.window, 0, 513, ncclGin_SignalInc{0});
  CHECK(world.header(2, first) == headerOf(ncclGinProxyOpPut | ncclGinProxyOpWithSignalInc, 513) && world.memory(2)[4096] == 0);
  CHECK(world.step(1, 2) && memcmp(world.memory(2) + 4096, world.memory(1), 513) == 0);
  net.put(W, 0, &world.ranks[0].window, 4096, &rank.window, 0, 8, ncclGin_SignalInc{0});
  net.putValue(W, 0, &world.ranks[0].window, 8192, uint64_t(5));
  CHECK(world.posted(0, first) == 2 && world.memory(0)[4096] == 0 && world.memory(0)[8192] == 0);
  while (world.step(1, 0)) {}
  CHECK(memcmp(world.memory(0) + 4096, world.memory(1), 8) == 0 && world.memory(0)[8192] == 5);
}

/* What leaves its windows is not stored, but posted, for the host to refuse: one byte too far, and wrapping. */
static void bounds() {
  constexpr size_t size = 8 << 20;
  Nodes world;
  World::Rank& rank = world.ranks[1];
  ncclGin net(rank.devComm, 0);
  ncclTeam W = ncclTeamWorld(rank.devComm);
  uint32_t const first = rank.pis[2];
  char const* const behind = world.memory(2) + size;
  net.put(W, 2, &rank.window, size - 8, &rank.window, 0, 9, ncclGin_SignalInc{0});
  net.put(W, 2, &rank.window, 0, &rank.window, size - 8, 9, ncclGin_SignalInc{0});
  net.putValue(W, 2, &rank.window, size - 7, uint64_t(-1));
  net.putValue(W, 2, &rank.window, size_t(0) - 8, uint64_t(-1));
  CHECK(world.posted(2, first) == 4 && behind[0] == 0 && behind[-1] == 0 && world.memory(2)[0] == 0);
  CHECK(world.header(2, first) == headerOf(ncclGinProxyOpPut | ncclGinProxyOpWithSignalInc, 9));
  /* Ids that it was not given: nothing is stored, nothing posted, the host is told. */
  net.put(W, 2, &rank.window, 0, &rank.window, 0, 8, ncclGin_SignalInc{32});
  CHECK(world.posted(2, first) == 4 && world.memory(2)[0] == 0 && rank.refusal == GINRS_REFUSAL(GINRS_REFUSED_SIGNAL, 32, 32));
}

int main() {
  becomeBlock(0);
  puts();
  posts();
  bounds();
  return failures;
}
