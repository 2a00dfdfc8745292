/* A world of ranks in one process, as device code sees it: flat memory, a window, device communicators, GIN contexts, and
 * a proxy for each that applies what is posted. Layouts only, no host library. */
#ifndef HEADERS_WORLD_H_
#define HEADERS_WORLD_H_
#include <ginrs_device/marker.h>
#include <nccl_device.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "one_thread.h"

constexpr size_t kGiB = size_t(1) << 30;

/* Per rank: 4 GiB of addresses, the first 8 MiB a window that serves as resource window too. */
struct World {
  struct alignas(64) Context {
    ncclGinProxyGpuCtx_t abi;
    char pad[GINRS_GIN_EXT_OFFSET - sizeof(ncclGinProxyGpuCtx_t)];
    ginrsGinExt ext;
  };
  struct Window : ncclWindow_vidmem {
    ginrsWindowExt ext;
  };
  static_assert(sizeof(Window) == GINRS_WINDOW_EXT_OFFSET + sizeof(ginrsWindowExt), "right behind the window");
  struct Rank {
    ncclDevComm devComm = {};
    Window window = {};
    struct {
      ncclDevCommWindowTable page;
      ginrsCommExt ext;
    } table = {};
    Context context = {};
    std::vector<ncclGinProxyGfd_t> queues;
    std::vector<uint32_t> pis, cis, cached;
    std::vector<uint64_t> signals, counters, shadows;
    uint32_t abortWord = 0, hintHead = 0;
    uint32_t abortHost[2 * GINRS_WAIT_NOTE_OFFSET / 4] = {}; /* and the note of waits behind it */
    uint64_t refusal = 0;
    std::vector<uint64_t> hints;
  };
  int n;
  char* flat;
  std::vector<Rank> ranks;
  std::atomic<bool> stop{false};

  explicit World(int n, uint32_t queueSize = 4, uint32_t firstIndex = 0xfffffffd) : n(n), ranks(n) {
    flat = static_cast<char*>(
        mmap(nullptr, n * 4 * kGiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (flat == MAP_FAILED) _Exit(2);
    for (int r = 0; r < n; r++) init(r, queueSize, firstIndex);
  }
  ~World() {
    munmap(flat, n * 4 * kGiB);
  }

  void init(int r, uint32_t queueSize, uint32_t firstIndex) {
    Rank& rank = ranks[r];
    rank.queues.resize(size_t(n) * queueSize);
    rank.pis.assign(n, firstIndex);
    rank.cis.assign(n, firstIndex);
    rank.cached.assign(n, firstIndex);
    rank.signals.assign(64, 0);
    rank.counters.assign(64, 0);
    rank.shadows.assign(64, 0);
    rank.hints.assign(8, 0);
    rank.context.abi = {n,
                        queueSize,
                        rank.queues.data(),
                        rank.pis.data(),
                        rank.cis.data(),
                        rank.counters.data(),
                        rank.signals.data()};
    ginrsGinExt& ext = rank.context.ext = {};
    ext.magic = GINRS_GIN_EXT_MAGIC;
    ext.version = GINRS_EXT_VERSION;
    ext.hintMask = 7;
    ext.abortWord = &rank.abortWord;
    ext.abortHost = rank.abortHost;
    ext.hintHead = &rank.hintHead;
    ext.hintRing = rank.hints.data();
    ext.cachedCis = rank.cached.data();
    ext.refusal = &rank.refusal;

    rank.window.lsaFlatBase = flat;
    rank.window.lsaRank = rank.window.worldRank = r;
    rank.window.stride4G = 1;
    rank.window.ginOffset4K = 2;
    rank.window.ext.bytes = 8 << 20;
    rank.window.ginWins[0] = memory(r); /* this world's proxy takes the handle for the address */
    rank.table.page.entries[1] = {reinterpret_cast<uintptr_t>(memory(r)), 8 << 20, &rank.window};
    /* A put names the window of the peer here: its handle is the address. */
    for (int i = 0; i < n && i < 30; i++) rank.table.page.entries[2 + i].window = &ranks[i].window;
    rank.table.ext = {GINRS_COMM_EXT_MAGIC, GINRS_EXT_VERSION, sizeof(ginrsCommExt), &rank.abortWord, rank.abortHost, uint32_t(n), 0};

    ncclDevComm& d = rank.devComm;
    d.rank = d.lsaRank = r;
    d.nRanks = d.lsaSize = n;
    d.nRanks_rcp32 = d.lsaSize_rcp32 = nccl::utility::idivRcp32(uint32_t(n));
    d.windowTable = &rank.table.page;
    d.resourceWindow = &rank.window;
    d.resourceWindow_inlined = rank.window;
    d.resourceWindow_inlined.ginrsMark = GINRS_MARK_WORD;
    d.ginrsMark[0] = GINRS_MARK_BYTE0, d.ginrsMark[1] = GINRS_MARK_BYTE1, d.ginrsMark[2] = GINRS_MARK_BYTE2;
    d.ginContextCount = 1;
    d.ginTypes[0] = NCCL_NET_DEVICE_GIN_PROXY;
    d.ginHandles[0] = &rank.context;
    d.ginSignalBase = 8;
    d.ginSignalCount = 32;
    d.ginCounterBase = 16;
    d.ginCounterCount = 32;
    d.ginSignalShadows = rank.shadows.data();
  }

  /* All contexts become direct: signals in flat memory, 1 GiB in; no offset between registrations and windows. The queues
   * of the ABI's struct are nobody's. */
  void makeDirect(uint64_t largest) {
    for (int r = 0; r < n; r++) {
      Rank& rank = ranks[r];
      rank.window.ginOffset4K = 0;
      rank.context.abi.signals = directSignals(r);
      rank.context.ext.flags = GINRS_FLAG_DIRECT;
      rank.context.ext.directStride4G = 1;
      rank.context.ext.directSignals = directSignals(0);
      rank.context.ext.storeLargest = largest;
      rank.context.ext.signals = rank.context.ext.counters = 64;
      rank.context.ext.directQueues = rank.queues.data();
      rank.context.ext.directPis = rank.pis.data();
      rank.context.ext.directCis = rank.cis.data();
      rank.context.abi.queues = nullptr;
      rank.context.abi.pis = rank.context.abi.cis = nullptr;
    }
  }
  uint64_t* directSignals(int r) {
    return reinterpret_cast<uint64_t*>(memory(r) + kGiB);
  }
  char* memory(int r) {
    return flat + r * 4 * kGiB;
  }
  uint32_t* words(int r, uint32_t handle) {
    return reinterpret_cast<uint32_t*>(memory(r) + 128 * size_t(handle));
  }
  ncclGinProxyGfd_t& slot(int r, int peer, uint32_t index) {
    uint32_t size = ranks[r].context.abi.queueSize;
    return ranks[r].queues[size_t(peer) * size + (index & (size - 1))];
  }

  /* Takes the next descriptor of a queue, if it is complete, zeroes its slot, applies it, then gives credit. */
  bool step(int r, int peer) {
    Rank& rank = ranks[r];
    void* gfd = &slot(r, peer, rank.cis[peer]);
    uint64_t* qwords = static_cast<uint64_t*>(gfd);
    ncclGinProxyGfd_t taken;
    for (int i = 0; i < 8; i++) {
      taken.qword[i].raw = __atomic_load_n(&qwords[i], __ATOMIC_ACQUIRE);
      if (!taken.qword[i].flag.v) return false;
    }
    for (int i = 0; i < 8; i++) __atomic_store_n(&qwords[i], 0, __ATOMIC_RELAXED);
    apply(rank, ranks[peer], taken);
    __atomic_store_n(&rank.cis[peer], rank.cis[peer] + 1, __ATOMIC_RELEASE);
    return true;
  }
  static void apply(Rank& self, Rank& peer, ncclGinProxyGfd_t gfd) {
    unsigned op = gfd.qword[0].header.op;
    size_t size = gfd.qword[0].header.size;
    char* dst = reinterpret_cast<char*>(uintptr_t(gfd.qword[4].dstHandle.dstHandle)) + gfd.qword[3].dstOff.dstOff;
    if (op & ncclGinProxyOpWithInline) {
      uint64_t low = gfd.qword[1].inlineLow.inlineValLow, middle = gfd.qword[1].inlineLow.inlineValLow2;
      uint64_t value = low | middle << 32 | uint64_t(gfd.qword[2].inlineHigh.inlineValHigh) << 48;
      memcpy(dst, &value, size);
    } else if (size != 0) {
      memcpy(dst, reinterpret_cast<char*>(uintptr_t(gfd.qword[2].srcHandle.srcHandle)) + gfd.qword[1].srcOff.srcOff, size);
    }
    uint64_t add = uint64_t(gfd.qword[5].completion.signalValLow) | uint64_t(gfd.qword[6].signalVal.signalValLow2) << 16 |
                   uint64_t(gfd.qword[6].signalVal.signalValHigh) << 32;
    if (op & ncclGinProxyOpWithSignalInc) add = 1;
    if (op & (ncclGinProxyOpWithSignalInc | ncclGinProxyOpWithSignalAdd)) {
      __atomic_add_fetch(&peer.signals[gfd.qword[5].completion.signalId], add, __ATOMIC_ACQ_REL);
    }
    if (op & ncclGinProxyOpWithCounter) {
      __atomic_add_fetch(&self.counters[gfd.qword[5].completion.counterId], 1, __ATOMIC_RELEASE);
    }
  }

  /* Runs `kernel(rank)` as a block of each rank, with a proxy beside it if asked. */
  template <typename Kernel>
  void launch(Kernel kernel, bool withProxy = true) {
    stop = false;
    std::thread proxy([&] {
      while (withProxy && !stop) {
        bool moved = false;
        for (int r = 0; r < n; r++) {
          for (int peer = 0; peer < n; peer++) moved |= step(r, peer);
        }
        if (!moved) sched_yield();
      }
    });
    std::vector<std::thread> blocks;
    for (int r = 0; r < n; r++) {
      blocks.emplace_back([&, r] {
        becomeBlock(0);
        kernel(r);
      });
    }
    for (std::thread& block : blocks) block.join();
    stop = true;
    proxy.join();
  }
};

/* Expects `body` to end in a trap with these words: in a child, because a trap ends the process. */
template <typename Body>
void traps(char const* expected, Body body) {
  int pipes[2];
  if (pipe(pipes) != 0) _Exit(2);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], 2);
    body();
    _Exit(0);
  }
  close(pipes[1]);
  char text[512] = {};
  ssize_t got = read(pipes[0], text, sizeof(text) - 1);
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  bool isRight = got > 0 && strstr(text, expected) != nullptr && WIFEXITED(status) && WEXITSTATUS(status) == 3;
  if (!isRight) printf("expected a trap with \"%s\", got \"%s\"\n", expected, text);
  CHECK(isRight);
}
#endif
