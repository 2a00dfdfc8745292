// A window and a device communicator end where they end: every operation of the table is one step past an edge, or just inside.
// Refused ones must end the communicator with a reason and move nothing of the neighbours: windows in the same allocation,
// signals and counters of other device communicators.
//
// ./bounds threads|processes [case...]   two ranks, in child processes of their own for each case; without names: all cases
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CUDACHECK(call)                                                                                        \
  do {                                                                                                         \
    cudaError_t error_ = (call);                                                                               \
    if (error_ != cudaSuccess) fail(#call, cudaGetErrorString(error_));                                        \
  } while (0)
#define NCCLCHECK(call)                                                                                        \
  do {                                                                                                         \
    if ((call) != ncclSuccess) fail(#call, ncclGetLastError(NULL));                                            \
  } while (0)

static const size_t allocation = 2 << 20, start = 64 << 10, size = 10000, next = 128 << 10;

enum What { PUT_SRC, PUT_DST, VALUE_DST, SIGNAL, COUNTER };
struct Case {
  const char* name;
  What what;
  long long at; // offset in the window, or the id
  size_t bytes;
  bool good, first; // first: the window is the first of its allocation
};

// The windows are [0, 10000), [64 Ki, 64 Ki + 10000) and [128 Ki, ...): the middle one is meant unless `first`.
static const Case cases[] = {
#define EDGES(name, what)                                                                                         \
  {name " at the end", what, (long long)size - 8, 8, true, false}, {name " at the start", what, 0, 8, true, false}, \
      {name " one past the end", what, (long long)size - 7, 8, false, false},                                      \
      {name " behind the end", what, (long long)size, 8, false, false},                                            \
      {name " before the start", what, -8, 8, false, false}, {name " over the start", what, -4, 8, false, false},  \
      {name " before the allocation", what, -8, 8, false, true},                                                   \
      {name " far below", what, -(1ll << 40), 8, false, false},                                                    \
      {name " in the next window", what, (long long)(next - start), 8, false, false},                              \
      {name " in the last window", what, -(long long)start, 8, false, false}
    EDGES("put from", PUT_SRC),
    EDGES("put to", PUT_DST),
    EDGES("value to", VALUE_DST),
    {"no bytes from the end", PUT_SRC, (long long)size, 0, true, false},
    {"no bytes to the end", PUT_DST, (long long)size, 0, true, false},
    {"the whole window from", PUT_SRC, 0, size, true, false},
    {"the whole window to", PUT_DST, 0, size, true, false},
    {"a byte more than the window from", PUT_SRC, 0, size + 1, false, false},
    {"a byte more than the window to", PUT_DST, 0, size + 1, false, false},
    // The device communicator has 4 signals and 2 counters; others of the same communicator have the ids around them.
    {"the first signal", SIGNAL, 0, 0, true, false},
    {"the last signal", SIGNAL, 3, 0, true, false},
    {"the signal before the first", SIGNAL, -1, 0, false, false},
    {"the signal behind the last", SIGNAL, 4, 0, false, false},
    {"a far signal", SIGNAL, 30000, 0, false, false},
    {"the last counter", COUNTER, 1, 0, true, false},
    {"the counter before the first", COUNTER, -1, 0, false, false},
    {"the counter behind the last", COUNTER, 2, 0, false, false},
};

__global__ void operate(ncclDevComm devComm, ncclWindow_t window, ncclWindow_t spare, Case c, int peer) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  size_t at = (size_t)c.at;
  ncclGin_SignalInc done{0};
  if (c.what == PUT_SRC) gin.put(world, peer, spare, 0, window, at, c.bytes, done);
  if (c.what == PUT_DST) gin.put(world, peer, window, at, spare, 0, c.bytes, done);
  if (c.what == VALUE_DST) gin.putValue(world, peer, window, at, (uint64_t)0x1111111111111111ull, done);
  if (c.what == SIGNAL) gin.signal(world, peer, ncclGin_SignalAdd{(ncclGinSignal_t)c.at, 3});
  if (c.what == COUNTER) gin.put(world, peer, spare, 0, spare, 8, 8, ncclGin_None{}, ncclGin_CounterInc{(ncclGinCounter_t)c.at});
  gin.signal(world, peer, ncclGin_SignalInc{1}); // must not arrive behind what was refused
  gin.flush(ncclCoopThread());
}

// Each id's word, whatever the abort added to it: the low bits tell whether anybody counted.
__global__ void look(ncclDevComm devComm, int signals, int counters, unsigned* seen) {
  ncclGin gin(devComm, 0);
  for (int i = 0; i < signals; i++) seen[i] = gin.readSignal(i) & 0x3f;
  for (int i = 0; i < counters; i++) seen[signals + i] = gin.readCounter(i) & 0x3f;
}

__global__ void wait(ncclDevComm devComm) {
  ncclGin gin(devComm, 0);
  gin.waitSignal(ncclCoopThread(), 1, 1);
}

static const Case* chosen;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s: %s\n", chosen->name, what, why);
  _exit(EXIT_FAILURE);
}

struct Rank {
  int rank;
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t stream;
};

#define WANT(condition, ...)                                                               \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s: rank %d: %s: ", chosen->name, ex.rank, #condition);             \
      fprintf(stderr, __VA_ARGS__);                                                        \
      fprintf(stderr, "\n");                                                               \
      _exit(EXIT_FAILURE);                                                                 \
    }                                                                                      \
  } while (0)

static ncclDevComm makeDevComm(Rank& ex, int signals, int counters) {
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = signals;
  reqs.ginCounterCount = counters;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  return devComm;
}

static void untouched(Rank& ex, ncclDevComm const& devComm, int signals, int counters, unsigned const* want) {
  unsigned *seen, host[16];
  CUDACHECK(cudaMalloc((void**)&seen, sizeof host));
  look<<<1, 1, 0, ex.stream>>>(devComm, signals, counters, seen);
  CUDACHECK(cudaMemcpyAsync(host, seen, sizeof host, cudaMemcpyDefault, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  for (int i = 0; i < signals + counters; i++) WANT(host[i] == (want ? want[i] : 0), "word %d has %u", i, host[i]);
}

static void* allocWindow(Rank& ex, size_t bytes, int fill, ncclWindow_t* windows, int count) {
  void* memory;
  NCCLCHECK(ncclMemAlloc(&memory, bytes));
  CUDACHECK(cudaMemset(memory, fill, bytes));
  CUDACHECK(cudaStreamSynchronize(NULL));
  for (int i = 0; i < count; i++)
    NCCLCHECK(ncclCommWindowRegister(ex.comm, (char*)memory + i * start, size, &windows[i], NCCL_WIN_COLL_SYMMETRIC));
  return memory;
}

static void runRank(Rank& ex) {
  Case const& c = *chosen;
  int peer = 1 - ex.rank;
  CUDACHECK(cudaSetDevice(ex.rank));
  CUDACHECK(cudaStreamCreate(&ex.stream));
  NCCLCHECK(ncclCommInitRank(&ex.comm, 2, ex.id, ex.rank));
  ncclWindow_t windows[3], spare;
  void* memory = allocWindow(ex, allocation, 0xee, windows, 3);
  void* spareMemory = allocWindow(ex, allocation, 0x11, &spare, 1);
  unsigned char* copy = (unsigned char*)malloc(allocation);
  ncclDevComm before = makeDevComm(ex, 2, 2), mine = makeDevComm(ex, 4, 2), after = makeDevComm(ex, 2, 2);

  if (ex.rank == 0) {
    operate<<<1, 1, 0, ex.stream>>>(mine, windows[c.first ? 0 : 1], spare, c, peer);
  } else if (c.good) {
    wait<<<1, 1, 0, ex.stream>>>(mine);
  }
  ncclResult_t state = ncclSuccess;
  for (int ms = 0; !c.good && state == ncclSuccess && ms < 30000; ms++) {
    NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
    usleep(1000);
  }
  cudaError_t ended = cudaStreamSynchronize(ex.stream);
  NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
  WANT((state == ncclSuccess) == c.good, "%s: %s", ncclGetErrorString(state), ncclGetLastError(ex.comm));
  if (!c.good && ex.rank == 0) {
    const char* why = ncclGetLastError(ex.comm);
    // Where the kernel itself refuses, it has said why.
    WANT(ended != cudaSuccess || strstr(why, "GINRS-E051"), "%s", why);
  }
  if (ended != cudaSuccess) return; // this rank's device is no more

  // Own memory is never written; the peer's only where the window is.
  CUDACHECK(cudaMemcpy(copy, memory, allocation, cudaMemcpyDefault));
  bool written = c.good && ex.rank == 1 && (c.what == PUT_DST || c.what == VALUE_DST);
  for (size_t i = 0; i < allocation; i++) {
    bool inside = written && i >= start + (size_t)c.at && i < start + (size_t)c.at + c.bytes;
    WANT(copy[i] == (inside ? 0x11 : 0xee), "byte %zu has %#x", i, copy[i]);
  }
  CUDACHECK(cudaMemcpy(copy, spareMemory, allocation, cudaMemcpyDefault));
  for (size_t i = 0; i < allocation; i++) {
    bool inside = c.good && ex.rank == 1 && c.what == PUT_SRC && i < c.bytes;
    WANT(copy[i] == (inside ? 0xee : 0x11), "byte %zu of the other window has %#x", i, copy[i]);
  }
  untouched(ex, before, 2, 2, NULL);
  untouched(ex, after, 2, 2, NULL);
  unsigned want[6] = {0, 0, 0, 0, 0, 0};
  if (c.good && ex.rank == 1) {
    want[1] = 1; // the last signal
    if (c.what < SIGNAL) want[0] = 1;
    if (c.what == SIGNAL) want[c.at] += 3;
  }
  if (c.good && ex.rank == 0 && c.what == COUNTER) want[4 + c.at] = 1;
  untouched(ex, mine, 4, 2, want);
  if (c.good) {
    NCCLCHECK(ncclCommFinalize(ex.comm));
    NCCLCHECK(ncclCommDestroy(ex.comm));
  } else {
    NCCLCHECK(ncclCommAbort(ex.comm));
  }
}

static void* thread(void* rank) {
  runRank(*(Rank*)rank);
  return NULL;
}

static void inThreads() {
  Rank ranks[2] = {{0}, {1}};
  NCCLCHECK(ncclGetUniqueId(&ranks[0].id));
  ranks[1].id = ranks[0].id;
  pthread_t other;
  if (pthread_create(&other, NULL, thread, &ranks[1]) != 0) fail("pthread_create", "no thread");
  runRank(ranks[0]);
  pthread_join(other, NULL);
}

static bool ended(pid_t child) {
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void inProcesses() {
  int way[2];
  Rank self = {0};
  if (pipe(way) != 0) fail("pipe", "no pipe");
  pid_t child = fork();
  self.rank = child == 0;
  bool told = true;
  if (self.rank == 0) {
    NCCLCHECK(ncclGetUniqueId(&self.id));
    told = write(way[1], &self.id, sizeof self.id) == sizeof self.id;
  } else {
    told = read(way[0], &self.id, sizeof self.id) == sizeof self.id;
  }
  if (!told) fail("pipe", "no unique id");
  runRank(self);
  if (self.rank == 0 && !ended(child)) fail("rank 1", "failed");
}

int main(int argc, char** argv) {
  bool processes = argc > 1 && !strcmp(argv[1], "processes");
  if (!processes && !(argc > 1 && !strcmp(argv[1], "threads"))) {
    fprintf(stderr, "usage: %s threads|processes [case...]\n", argv[0]);
    return 2;
  }
  int run = 0, failed = 0;
  for (Case const& c : cases) {
    bool named = argc == 2;
    for (int i = 2; i < argc; i++) named |= !strcmp(argv[i], c.name);
    if (!named) continue;
    chosen = &c;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      processes ? inProcesses() : inThreads();
      _exit(0);
    }
    bool right = ended(child);
    run++;
    failed += !right;
    if (!right) printf("FAILED: %s\n", c.name);
  }
  printf("bounds: %d cases, %d failed\n", run, failed);
  return failed != 0;
}
