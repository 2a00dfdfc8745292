// Programs that hang, one for each mistake, and healthy ones whose waits last: `hang CASE` as processes under ginrs-run,
// `hang CASE threads N` as threads of one process, `hang CASE threads N pairs` on a communicator for each two of them. Prints "rank R: ok" where all went well, "rank R: ended" where a wait was ended.
// tests/hangs.rs runs them, and finds the marked lines ("wait of: ...") by their marks.
#include <nccl.h>
#include <ginrs_bootstrap.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <string>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

enum Case { COUNT, RESET, BARRIER, HYBRID, LSA, LL, COUNTER, CYCLE, NESTED, IDLE, BLOCKS, FLUSH, SLEEP, SPIN, PAUSE, PIPE, ELSEWHERE, UNCOUNTED, PEER, TAKEN, RING, LOOP, WORD, NAPS, ATOMIC, CASES };
static const char* const names[CASES] = {"count", "reset", "barrier", "hybrid", "lsa", "ll", "counter", "cycle", "nested",
                                         "idle", "blocks", "flush", "sleep", "spin", "pause", "pipe", "elsewhere", "uncounted", "peer", "taken", "ring", "loop", "word", "naps", "atomic"};

struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
  ncclLLA2AHandle ll;
};

// A helper of the user's: the line is that of the call in it.
template <typename Coop>
__device__ void receive(ncclGin const& gin, Coop coop, uint64_t least) {
  gin.waitSignal(coop, 2, least);  // wait of: nested
}

__device__ void spinFor(double seconds) {
  long long begin = clock64();
  volatile int work = 0;
  while (clock64() - begin < (long long)(seconds * 1e9)) work = work + 1;
}

__global__ void kernel(Job job, int which) {
  ncclDevComm const& comm = job.comm;
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  int rank = comm.rank, next = (rank + 1) % comm.nRanks;
  bool isFirst = rank == 0, isLast = rank == comm.nRanks - 1;
  switch (which) {
    case COUNT:  // sends one, waits for two
      if (isFirst) gin.put(ncclTeamWorld(comm), next, job.window, 0, job.window, 0, 64, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
      if (rank == 1) {
        gin.waitSignal(cta, 0, 2);  // wait of: count
      }
      break;
    case RESET:  // the sender waits for an answer to a signal that was taken away
      if (isFirst) {
        gin.waitSignal(cta, 1, 1);  // wait of: reset
      }
      break;
    case BARRIER:  // all but the last come
      if (!isLast) {
        ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamWorld(comm), comm.railGinBarrier, 0);
        bar.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);  // wait of: barrier
      }
      break;
    case HYBRID:
      if (!isLast) {
        ncclBarrierSession<ncclCoopCta> bar(cta, ncclTeamTagWorld(), gin, 0);
        bar.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);  // wait of: hybrid
      }
      break;
    case LSA:
      if (!isLast) {
        ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 1);
        bar.sync(cta, cuda::memory_order_acq_rel);  // wait of: lsa
      }
      break;
    case LL: {
      ncclLLA2ASession<ncclCoopCta> a2a(cta, comm, ncclTeamLsa(comm), job.ll, 0, comm.nRanks);
      if (!isLast) {
        int got = a2a.template recv<int>(comm.nRanks - 1);  // wait of: ll
        if (got == 77) printf("77\n");
      }
      break;
    }
    case COUNTER:  // no put has it
      if (isFirst) {
        gin.waitCounter(cta, 0, 1);  // wait of: counter
      }
      break;
    case CYCLE:  // each waits before it sends
      gin.waitSignal(cta, 3, 1);  // wait of: cycle
      gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{3}, cta);
      break;
    case NESTED:
      if (isFirst) receive(gin, cta, 1);
      break;
    case BLOCKS:  // one of four blocks has nobody to wait for
      gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{blockIdx.x % 3}, cta);
      gin.waitSignal(cta, blockIdx.x, blockIdx.x == 3 ? 5 : 1);  // wait of: blocks
      break;
    case FLUSH:  // the last rank's process stands still
      if (isFirst) {
        for (int i = 0; i < 128; i++) gin.put(ncclTeamWorld(comm), comm.nRanks - 1, job.window, 0, job.window, 0, 1 << 16, ncclGin_None{}, ncclGin_None{}, cta);
        gin.flush(cta);  // wait of: flush
      }
      break;
    case SLEEP:
    case PAUSE:
    case PIPE:  // the first rank's host takes its time before it launches
      gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{0}, cta);
      gin.waitSignal(cta, 0, 1);  // wait of: sleep
      break;
    case SPIN:  // the first rank's kernel does
      if (isFirst) spinFor(4);
      gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{0}, cta);
      gin.waitSignal(cta, 0, 1);
      break;
    case ELSEWHERE:  // all that is raised is another signal than the one that is awaited, or one of another context
      if (isFirst && blockIdx.x == 0) {
        gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalAdd{2, 3}, cta);
        gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{0}, cta);
        ncclGin(comm, 1).signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{1}, cta);
      }
      if (rank == 1 && blockIdx.x == 0) {
        gin.waitSignal(cta, 1, 1);  // wait of: elsewhere
      }
      if (rank == 1 && blockIdx.x == 1) {
        spinFor(2.5);
        gin.waitSignal(cta, 0, 2);
      }
      break;
    case UNCOUNTED:  // the put has another counter
      if (isFirst) {
        gin.put(ncclTeamWorld(comm), next, job.window, 0, job.window, 0, 64, ncclGin_None{}, ncclGin_CounterInc{1}, cta);
        gin.waitCounter(cta, 0, 1);  // wait of: uncounted
      }
      break;
    case PEER:  // the signal goes to another rank than the one that waits
      if (isFirst) gin.signal(ncclTeamWorld(comm), 2, ncclGin_SignalInc{1}, cta);
      if (rank == 1) {
        gin.waitSignal(cta, 1, 1);  // wait of: peer
      }
      break;
    case TAKEN:  // a reset takes away what has come of the next round
      if (isFirst) {
        gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalAdd{0, 2}, cta);
        gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{0}, cta);
      }
      if (rank == 1) {
        gin.waitSignal(cta, 0, 3);
        gin.resetSignal(0);
        gin.waitSignal(cta, 0, 1);  // wait of: taken
      }
      break;
    case LOOP:  // it looks by itself, for what nobody sends
      if (isFirst) gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{2}, cta);
      if (rank == 1) {
        while (gin.readSignal(2) < 2) {  // loop
        }
      }
      break;
    case WORD:  // it looks at memory of a window
    case NAPS:
    case ATOMIC:
      if (rank == 1 && threadIdx.x == 0) {
        int* word = static_cast<int*>(ncclGetLocalPointer(job.window, 64));
        if (which == WORD) {
          while (*static_cast<volatile int*>(word) == 0) {}  // look of: word
        } else if (which == NAPS) {
          while (*static_cast<volatile int*>(word) == 0) __nanosleep(100);
        } else {
          while (atomicAdd(word, 0) == 0) {}  // look of: atomic
        }
      }
      break;
    case RING:  // one of the ranks of a ring sends one less than it is to
      for (int round = 1; round <= 3; round++) {
        if (!isFirst || round < 3) gin.signal(ncclTeamWorld(comm), next, ncclGin_SignalInc{0}, cta);
        if (rank == 1) {
          gin.waitSignal(cta, 0, round);  // wait of: ring
        } else if (isLast) {
          while (gin.readSignal(0) < uint64_t(round)) {
          }
        } else {
          gin.waitSignal(cta, 0, round);
        }
      }
      break;
  }
}

static int which, stays, pairs;

static void runRank(int rank, int ranks, ncclUniqueId id, int device) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  if (pairs) {
    CHECK(ncclCommSplit(comm, rank / 2, rank, &comm, NULL));  // the parent stays, idle
    rank %= 2, ranks = 2;
  }
  void* memory;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  ncclDevResourceRequirements list = {};
  CHECK(ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(ranks, sizeof(int)), &job.ll, &list));
  needs.resourceRequirementsList = &list;
  needs.ginSignalCount = 4, needs.ginCounterCount = 2;
  needs.railGinBarrierCount = 2, needs.barrierCount = 2, needs.lsaBarrierCount = 2, needs.ginForceEnable = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  bool isIdle = which == IDLE && rank == 0;
  if (rank == 0 && which == SLEEP) {
    const char* seconds = getenv("HANG_SECONDS");
    for (int left = seconds ? atoi(seconds) : 4; left > 0;) left = sleep(left);
  }
  if (rank == 0 && which == PAUSE) {  // a program that only takes a lock, but whose other thread lets it go
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    std::thread opener([&] { sleep(4), pthread_mutex_unlock(&lock); });
    pthread_mutex_lock(&lock);
    opener.join();
  }
  if (rank == 0 && which == PIPE) {  // or reads what another thread writes
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends));
    std::thread writer([&] {
      sleep(4);
      CHECK(write(ends[1], "x", 1) != 1);
    });
    CHECK(read(ends[0], &byte, 1) != 1);
    writer.join();
  }
  if (rank == ranks - 1 && which == FLUSH) {
    if (fork() == 0) sleep(40), kill(getppid(), SIGCONT), _exit(0);
    raise(SIGSTOP);
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  if (!isIdle) kernel<<<which == BLOCKS ? 4 : which == ELSEWHERE ? 2 : 1, 32, 0, stream>>>(job, which == IDLE ? int(COUNT) : which);  // launch
  CHECK(cudaStreamSynchronize(stream));
  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(comm, &state));
  if (state == ncclSuccess && stays && rank == 0) {  // it neither leaves nor does anything any more
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    printf("rank %d: stays\n", rank), fflush(stdout);
    pthread_mutex_lock(&lock);
  }
  printf("rank %d: %s\n", rank, state == ncclSuccess ? "ok" : "ended"), fflush(stdout);
  if (state == ncclSuccess) CHECK(ncclCommDestroy(comm));
  else CHECK(ncclCommAbort(comm));
}

int main(int argc, char** argv) {
  for (which = 0; which < CASES && (argc < 2 || strcmp(argv[1], names[which]) != 0);) which++;
  if (which == CASES) return fprintf(stderr, "hang CASE [threads N [pairs] | stays]\n"), 2;
  ncclUniqueId id;
  if (argc > 3) {
    int ranks = atoi(argv[3]);
    pairs = argc > 4;
    CHECK(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) threads.emplace_back(runRank, rank, ranks, id, rank);
    for (auto& thread : threads) thread.join();
    return 0;
  }
  stays = argc > 2;
  ginrsBootstrap boot;
  CHECK(ginrsBootstrapInit(&boot));
  CHECK(ginrsBootstrapUniqueId(&boot, &id));
  runRank(boot.rank, boot.nRanks, id, boot.rank);
}
