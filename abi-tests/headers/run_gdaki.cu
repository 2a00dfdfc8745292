/* A queue pair that has failed ends the kernel: completions that a test writes, in plain memory, as a network card would. By
 * way of the CPU device's build of the headers. */
#include "world.h"

using Cta = ncclCoopCta;
constexpr int kDepth = 8, kPeers = 2;

struct Card {
  alignas(64) uint8_t rings[2 * kPeers][kDepth][64] = {};
  uint8_t completions[2 * kPeers][kDepth][64] = {};
  doca_gpu_dev_verbs_qp qps[2 * kPeers] = {};
  uint64_t doorbells[2 * kPeers] = {};
  uint32_t records[2 * kPeers] = {}, keys[kPeers] = {};
  ncclGinGdakiGPUContext context = {};
  ncclGinGdakiMemHandle memory = {};
  ncclWindow_vidmem window = {};
  uint64_t signals[16] = {}, counters[16] = {}, shadows[16] = {};
  ncclDevComm devComm = {};

  Card() {
    for (int q = 0; q < 2 * kPeers; q++) {
      doca_gpu_dev_verbs_qp& qp = qps[q];
      qp.sq_wqe_num = kDepth;
      qp.sq_wqe_mask = kDepth - 1;
      qp.sq_wqe_daddr = rings[q][0];
      qp.sq_dbrec = &records[q];
      qp.sq_db = &doorbells[q];
      qp.cq_sq.cqe_daddr = completions[q][0];
      qp.cq_sq.cqe_num = kDepth;
      qp.cq_sq.cqe_mask = kDepth - 1;
      qp.cq_sq.cqe_size = 64;
      for (int i = 0; i < kDepth; i++) completions[q][i][63] = 0xf1; /* no completion yet */
    }
    context.gdqp = qps;
    context.companion_gdqp = qps + kPeers;
    context.signals_table = {signals, keys, 0};
    context.counters_table = {counters, keys, 0};
    memory = {keys, 0};
    window.ginWins[0] = &memory;
    devComm.nRanks = devComm.lsaSize = kPeers;
    devComm.ginContextCount = 1;
    devComm.ginTypes[0] = NCCL_NET_DEVICE_GIN_GDAKI;
    devComm.ginHandles[0] = &context;
    devComm.ginSignalCount = devComm.ginCounterCount = 8;
    devComm.ginSignalShadows = shadows;
  }
  /* Request `index` of queue q is complete, or has failed. */
  void complete(int q, uint64_t index, bool isError) {
    uint8_t* entry = completions[q][index % kDepth];
    entry[60] = uint8_t(index >> 8), entry[61] = uint8_t(index);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    entry[63] = uint8_t((isError ? 13 : 0) << 4 | (index / kDepth & 1));
  }
};

/* Runs the kernel in a process that must end by the card's error. */
template <typename Kernel>
static void endsByError(Card& card, Kernel kernel) {
  traps("the network card reported an error", [&] {
    alarm(60); /* a kernel that goes on */
    kernel(ncclGin(card.devComm, 0), ncclTeamWorld(card.devComm), &card.window);
    fprintf(stderr, "the kernel ended as if nothing had happened");
  });
}

int main() {
  becomeBlock(0);
  auto puts = [](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
    for (int i = 0; i < 10 * kDepth; i++) gin.put(W, 1, w, 0, w, 0, 8);
  };
  auto signalled = [](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
    for (int i = 0; i < 10 * kDepth; i++) gin.put(W, 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
  };
  /* Puts alone, and those of two requests each, whoever of the two fails, be it after some that were well. */
  for (uint64_t failed = 0; failed < 6; failed++) {
    Card card;
    for (uint64_t i = 0; i < failed; i++) card.complete(1, i, false);
    card.complete(1, failed, true);
    endsByError(card, puts);
    endsByError(card, signalled);
    endsByError(card, [&](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
      for (uint64_t i = 0; i < 7; i++) gin.putValue(W, 1, w, 0, 5);
      gin.flush(Cta());
    });
  }
  /* All that came behind has failed, too, and nobody has looked for rounds. */
  {
    Card card;
    for (uint64_t i = 3; i < 3 + kDepth; i++) card.complete(1, i, true);
    endsByError(card, puts);
    endsByError(card, signalled);
  }
  /* Waits for what a failed request would have done; a signal may be waited for by one who has posted in vain. */
  for (int q : {1, 3}) { /* the put, or the companion's wait and count */
    Card card;
    card.complete(q, 0, true);
    auto put = [](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
      gin.put(W, 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_CounterInc{0});
    };
    endsByError(card, [&](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
      put(gin, W, w);
      gin.waitCounter(Cta(), 0, 1);
    });
    endsByError(card, [&](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
      put(gin, W, w);
      gin.waitSignal(Cta(), 0, 1);
    });
    endsByError(card, [&](ncclGin const& gin, ncclTeam W, ncclWindow_t w) {
      put(gin, W, w);
      uint64_t before, delta;
      gin.waitSignalFollowShadow(Cta(), 0, uint64_t(1), &before, &delta);
    });
  }
  /* Where nothing fails puts go on for rounds, and waits last until what they wait for. */
  {
    Card card;
    std::atomic<bool> stop{false};
    std::thread network([&] {
      for (uint64_t done = 0; !stop; sched_yield()) {
        uint64_t const ready = __atomic_load_n(&card.qps[1].sq_ready_index, __ATOMIC_ACQUIRE);
        for (; done < ready; done++) card.complete(1, done, false);
      }
    });
    ncclGin gin(card.devComm, 0);
    puts(gin, ncclTeamWorld(card.devComm), &card.window);
    signalled(gin, ncclTeamWorld(card.devComm), &card.window);
    gin.flush(Cta());
    CHECK(card.qps[1].sq_rsvd_index == 30 * kDepth && card.qps[1].cq_sq.cqe_ci == 30 * kDepth);
    std::thread waiter([&] {
      becomeBlock(0);
      gin.waitSignal(Cta(), 0, 1);
    });
    usleep(20000);
    __atomic_store_n(&card.signals[0], 1, __ATOMIC_RELEASE);
    waiter.join();
    stop = true;
    network.join();
  }
  return failures;
}
