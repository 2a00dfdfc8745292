// What the programs of this folder share: each runs on NVIDIA's library and on ours, with either's headers, and checks itself.
//
//   ginrs-run -n 4 ./program      a process for each rank
//   ./program --threads 4         a thread for each rank
//   ./program --one-thread 4      one thread for all of them
// A program defines `int test(Example& ex)`: 0 if all was right, kNotHere if this library can do none of it here, else 1. It
// calls the library through what stands here, which knows the mode. Exit 0, 77 or 1 likewise. A program with parts for LSA and
// parts for GIN leaves the latter out where there is no GIN, and says so. suite.cu is all of them in one program.
#pragma once
#define main exampleMain
#include "../../examples-c/common/example.h"
#undef main
#include <dlfcn.h>
#include "found.h"
#include "one_thread.h"

static const int kNotHere = 77;
static int twiceWrong = 0;  // over all ranks of the process

template <typename A, typename B>
static void twiceExpect(const char* what, A got, B wanted, const char* file, int line) {
  if ((long long)got == (long long)wanted) return;
  if (__sync_fetch_and_add(&twiceWrong, 1) < 20) {
    fprintf(stderr, "%s:%d: %s: %lld (%#llx), expected %lld\n", file, line, what, (long long)got, (long long)got,
            (long long)wanted);
  }
}
#define TWICE_EXPECT(got, wanted) twiceExpect(#got, (got), (wanted), __FILE__, __LINE__)

// One for each rank, made before any kernel runs: cudaMalloc and cudaFree may wait for kernels of all GPUs of a process, and
// these for a kernel that this thread has still to launch.
static std::vector<Found*> founds(1024);

static Found* foundNew(Example& ex) {
  CUDACHECK(cudaMemsetAsync(founds[ex.rank], 0, sizeof(Found), ex.stream));
  return founds[ex.rank];
}

// Waits for the rank's stream and reports.
static void foundReport(Example& ex, Found* found, const char* what) {
  finish(ex);
  Found host;
  CUDACHECK(cudaMemcpyAsync(&host, found, sizeof host, cudaMemcpyDeviceToHost, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  if (host.wrong == 0) return;
  __sync_fetch_and_add(&twiceWrong, (int)host.wrong);
  fprintf(stderr, "rank %d: %s: %u differences, the first at line %u: %#llx, expected %#llx\n", ex.rank, what, host.wrong,
          host.line, host.got, host.wanted);
}

static ncclDevCommRequirements noRequirements() {
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  return reqs;
}

static bool saysNoGin(ncclResult_t result) {
  const char* why = ncclGetLastError(NULL);
  return result == ncclInvalidUsage && why != NULL && strstr(why, "GIN not supported") != NULL;
}

static ncclResult_t devCommCreate(Example& ex, const ncclDevCommRequirements& reqs, ncclDevComm* made) {
  return collective(ex, [&] { return ncclDevCommCreate(ex.comm, &reqs, made); });
}

static ncclDevComm devCommOf(Example& ex, const ncclDevCommRequirements& reqs) {
  ncclDevComm made;
  NCCLCHECK(devCommCreate(ex, reqs, &made));
  return made;
}

static void devCommGone(Example& ex, ncclDevComm& made) { NCCLCHECK(ncclDevCommDestroy(ex.comm, &made)); }

// Returns when every rank has called it.
static void hostBarrier(Example& ex) {
  ncclDevComm none = devCommOf(ex, noRequirements());
  devCommGone(ex, none);
}

static bool onNvidiasLibrary() { return dlsym(RTLD_DEFAULT, "ginrsGetVersionString") == NULL; }

// After a call in a group over several communicators has failed, NVIDIA's library crashes at the next one.
static bool mayProvokeErrors() { return oneThread == NULL || !onNvidiasLibrary(); }

// Is there GIN? Where there is not, NVIDIA's library makes nothing that needs new memory after having been asked: ask late.
static bool ginHere(Example& ex) {
  if (!mayProvokeErrors()) {
    if (ex.rank == 0) printf("%s without GIN: nobody asks for it by one thread\n", ex.name);
    return false;
  }
  ncclDevCommRequirements reqs = noRequirements();
  reqs.ginSignalCount = 1;
  ncclDevComm made;
  ncclResult_t result = devCommCreate(ex, reqs, &made);
  if (saysNoGin(result)) {
    if (ex.rank == 0) printf("%s without GIN: %s\n", ex.name, ncclGetLastError(NULL));
    return false;
  }
  NCCLCHECK(result);
  devCommGone(ex, made);
  return true;
}

static ncclResult_t windowRegister(Example& ex, void* memory, size_t bytes, ncclWindow_t* window,
                                   int flags = NCCL_WIN_COLL_SYMMETRIC) {
  return collective(ex, [&] { return ncclCommWindowRegister(ex.comm, memory, bytes, window, flags); });
}

// Memory full of zeros, before a peer can write there, with a window over it.
static void* windowNew(Example& ex, size_t bytes, ncclWindow_t* window) {
  void* memory;
  NCCLCHECK(ncclMemAlloc(&memory, bytes));
  CUDACHECK(cudaMemsetAsync(memory, 0, bytes, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  NCCLCHECK(windowRegister(ex, memory, bytes, window));
  return memory;
}

static void windowGone(Example& ex, void* memory, ncclWindow_t window) {
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, window));
  NCCLCHECK(ncclMemFree(memory));
}

struct TwiceTest {
  const char* name;
  int (*test)(Example& ex);
};

// What runs now, and what it came to.
static struct {
  TwiceTest test;
  int nRanks;
  ncclUniqueId id;
} twiceNow;
static std::vector<int> twiceResults(1024);

// With GINRS_SHARE_DEVICE=1 ranks may have to share GPUs.
static bool twiceShared() {
  const char* share = getenv("GINRS_SHARE_DEVICE");
  return share != NULL && strcmp(share, "1") == 0;
}

// One rank from communicator to closing line.
static void twiceRank(int rank, int device) {
  Example ex;
  ex.name = twiceNow.test.name;
  ex.rank = rank;
  ex.device = device;
  ex.nRanks = twiceNow.nRanks;
  CUDACHECK(cudaSetDevice(device));
  // On a device that ranks share, copies on the default stream would wait for the other ranks' kernels, and they for this rank.
  CUDACHECK(cudaStreamCreateWithFlags(&ex.stream, twiceShared() ? cudaStreamNonBlocking : cudaStreamDefault));
  NCCLCHECK(collective(ex, [&] { return ncclCommInitRank(&ex.comm, ex.nRanks, twiceNow.id, rank); }));
  CUDACHECK(cudaMalloc(&founds[rank], sizeof(Found)));
  hostBarrier(ex);
  int result = twiceResults[rank] = twiceNow.test.test(ex);
  hostBarrier(ex);  // no rank takes memory away that another still looks at
  CUDACHECK(cudaFree(founds[rank]));
  CUDACHECK(cudaStreamDestroy(ex.stream));
  NCCLCHECK(collective(ex, [&] { return ncclCommFinalize(ex.comm); }));
  NCCLCHECK(ncclCommDestroy(ex.comm));
  if (result == kNotHere) {
    printf("%s rank %d of %d: not here\n", ex.name, rank, ex.nRanks);
  } else {
    printf("%s rank %d of %d: %s, %zu bytes moved, %zu elements checked\n", ex.name, rank, ex.nRanks, result ? "WRONG" : "ok",
           ex.bytesMoved, ex.elementsChecked);
  }
  fflush(stdout);
}

static int twiceDevice(int rank) {
  int devices;
  CUDACHECK(cudaGetDeviceCount(&devices));
  return twiceShared() ? rank % devices : rank;
}

static void twiceOneThread(int rank) { twiceRank(rank, twiceDevice(rank)); }
static void* twiceThread(void* rank) {
  twiceOneThread((int)(size_t)rank);
  return NULL;
}

// 0, 1 or kNotHere, over the ranks of this process.
static int twiceRun(TwiceTest test, int threads, int oneThreadRanks, ginrsBootstrap* boot) {
  twiceNow.test = test;
  twiceWrong = 0;
  twiceResults.assign(twiceResults.size(), 0);
  int nRanks = twiceNow.nRanks = threads > 0 ? threads : oneThreadRanks > 0 ? oneThreadRanks : boot->nRanks;
  if (boot == NULL || boot->rank == 0) {
    printf("%s starts\n", test.name);
    fflush(stdout);
    NCCLCHECK(ncclGetUniqueId(&twiceNow.id));
  }
  if (threads > 0) {
    std::vector<pthread_t> handles(threads);
    for (int rank = 0; rank < threads; rank++) {
      if (pthread_create(&handles[rank], NULL, twiceThread, (void*)(size_t)rank) != 0) return perror("pthread_create"), 1;
    }
    for (pthread_t handle : handles) pthread_join(handle, NULL);
  } else if (oneThreadRanks > 0) {
    oneThreadRun(oneThreadRanks, twiceOneThread);
  } else {
    if (ginrsBootstrapBroadcast(boot, &twiceNow.id, sizeof twiceNow.id) != 0) return 1;
    twiceRank(boot->rank, twiceDevice(boot->localRank));
  }
  int worst = 0;
  for (int rank = 0; rank < nRanks; rank++) {
    if (worst == 0 || (twiceResults[rank] != 0 && twiceResults[rank] != kNotHere)) worst = twiceResults[rank];
  }
  return worst;
}

static int twiceUsage(const char* program) {
  fprintf(stderr, "usage: ginrs-run -n RANKS %s [NAME..] | %s --threads RANKS [NAME..] | %s --one-thread RANKS [NAME..]\n", program,
          program, program);
  return 2;
}

// All of `tests` that the command line names, one after the other, each on a communicator of its own.
static int twiceMain(int argc, char** argv, std::vector<TwiceTest> tests) {
  int threads = 0, oneThreadRanks = 0, at = 1, result = 0, ran = 0;
  if (argc > 1 && strncmp(argv[1], "--", 2) == 0) {
    int nRanks = argc > 2 ? atoi(argv[2]) : 0;
    if (nRanks < 1 || (strcmp(argv[1], "--threads") != 0 && strcmp(argv[1], "--one-thread") != 0)) return twiceUsage(argv[0]);
    (strcmp(argv[1], "--threads") == 0 ? threads : oneThreadRanks) = nRanks;
    at = 3;
  }
  ginrsBootstrap boot, *processes = threads == 0 && oneThreadRanks == 0 ? &boot : NULL;
  if (processes != NULL && ginrsBootstrapInit(processes) != 0) return 1;
  for (TwiceTest& test : tests) {
    bool wanted = at == argc;
    for (int i = at; i < argc; i++) wanted |= strcmp(argv[i], test.name) == 0;
    if (!wanted) continue;
    int got = twiceRun(test, threads, oneThreadRanks, processes);
    result = ran++ == 0 || (got != 0 && got != kNotHere) ? got : result == kNotHere ? got : result;
  }
  return ran == 0 ? twiceUsage(argv[0]) : result;
}

#ifndef TWICE_SUITE
int test(Example& ex);
int runRank(Example& ex) { return test(ex); }  // for example.h's own main, which nothing calls

int main(int argc, char** argv) {
  const char* slash = strrchr(argv[0], '/');
  return twiceMain(argc, argv, {{slash ? slash + 1 : argv[0], test}});
}
#endif
