// One thread for all ranks: each rank is a coroutine that runs until it needs the others. What is collective is called for
// one rank after the other inside a group; a rank waits for its stream only when all have launched.
//
// In the other modes (a process or a thread for each rank) all of this is a plain call.
#pragma once
#include <ucontext.h>

struct OneThread {
  ucontext_t scheduler;
  std::vector<ucontext_t> ranks;
  std::vector<char> over;
  int arrived = 0;
  unsigned meetings = 0;
  ncclResult_t ended = ncclSuccess;  // what the last group came to
};
static OneThread* oneThread = NULL;

// Returns when all ranks are here; the last one runs `last` first.
template <typename Last>
static void meet(Example& ex, Last last) {
  if (oneThread == NULL) return;
  unsigned meeting = oneThread->meetings;
  if (++oneThread->arrived == ex.nRanks) {
    oneThread->arrived = 0;
    last();
    oneThread->meetings++;
  }
  while (oneThread->meetings == meeting) swapcontext(&oneThread->ranks[ex.rank], &oneThread->scheduler);
  CUDACHECK(cudaSetDevice(ex.device));
}

// A call that all ranks have to make. What it writes is there when this returns.
template <typename Call>
static ncclResult_t collective(Example& ex, Call call) {
  if (oneThread == NULL) return call();
  if (oneThread->arrived == 0) NCCLCHECK(ncclGroupStart());
  ncclResult_t own = call();
  meet(ex, [] { oneThread->ended = ncclGroupEnd(); });
  return own != ncclSuccess ? own : oneThread->ended;
}

// Waits for a stream whose kernels may wait for other ranks'.
static inline void finish(Example& ex, cudaStream_t stream) {
  CUDACHECK(cudaGetLastError());
  meet(ex, [] {});
  CUDACHECK(cudaStreamSynchronize(stream));
}
static inline void finish(Example& ex) { finish(ex, ex.stream); }

// Runs body(rank) for every rank, each on a stack of its own.
static void (*oneThreadBody)(int rank);

static void oneThreadStart(int rank) {
  oneThreadBody(rank);
  oneThread->over[rank] = 1;
}

static void oneThreadRun(int nRanks, void (*body)(int rank)) {
  const size_t stack = 16 << 20;
  OneThread all;
  oneThread = &all;
  oneThreadBody = body;
  all.ranks.resize(nRanks);
  all.over.assign(nRanks, 0);
  std::vector<void*> stacks;
  for (int rank = 0; rank < nRanks; rank++) {
    stacks.push_back(malloc(stack));
    getcontext(&all.ranks[rank]);
    all.ranks[rank].uc_stack.ss_sp = stacks[rank];
    all.ranks[rank].uc_stack.ss_size = stack;
    all.ranks[rank].uc_link = &all.scheduler;
    makecontext(&all.ranks[rank], (void (*)())oneThreadStart, 1, rank);
  }
  for (int left = nRanks; left > 0;) {
    left = 0;
    for (int rank = 0; rank < nRanks; rank++) {
      if (all.over[rank]) continue;
      swapcontext(&all.scheduler, &all.ranks[rank]);
      left++;
    }
  }
  for (void* memory : stacks) free(memory);
  oneThread = NULL;
}
