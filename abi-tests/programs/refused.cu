// What must not be done ends the communicator by name, and nothing of it is done. REFUSED chooses:
//   bounds   puts that leave their windows, ids that the device communicator was not given: GINRS-E051
//   foreign  operations of kernels of other headers in direct contexts: GINRS-E081
//   fine     the same operations, where they are all right
//   reads    those of them in which rank 0 starts nothing: its kernels may be of other headers than direct contexts ask for
// The last rank operates on rank 0. Each case has a communicator of its own, split from the job's.
#include <stdint.h>
#include "../../examples-c/common/example.h"

static const size_t kAllocation = 2 << 20, kStart = 1 << 20, kSize = 64 << 10;  // the window lies in the middle
static const size_t kFar = ~(size_t)0 - 4095;                                   // 4096 before the window

enum Operation { kPut, kValue, kSignal, kPutSignal, kValueSignal, kPutCounter, kBarrier, kBadSignal, kBadCounter, kResetSignal, kResetCounter, kWaitSignal };
struct Case {
  const char* name;
  Operation operation;
  size_t to, from, bytes;
};
static const Case operations[] = {
  {"put", kPut, 0, 64, 8}, {"putValue", kValue, 0, 0, 8}, {"signal", kSignal, 0, 0, 0}, {"put and signal", kPutSignal, 0, 64, 8},
  {"putValue and signal", kValueSignal, 0, 0, 8}, {"put and counter", kPutCounter, 0, 64, 8}, {"barrier", kBarrier, 0, 0, 0},
};
static const Case bounds[] = {
  {"target 1 beyond the end", kPutSignal, kSize - 7, 0, 8}, {"target behind the end", kPut, kSize, 0, 1}, {"target before the start", kPutSignal, kFar, 0, 8},
  {"target wraps", kPut, ~(size_t)0 - 3, 0, 8}, {"source 1 beyond the end", kPutSignal, 0, kSize - 7, 8}, {"source before the start", kPutSignal, 0, kFar, 8},
  {"1 byte too many", kPutSignal, 0, 0, kSize + 1}, {"far too many", kPut, 8, 8, ~(size_t)0 - 7},
  {"value beyond the end", kValueSignal, kSize - 4, 0, 8}, {"value before the start", kValue, kFar, 0, 8},
#ifdef GINRS_DEVICE_MARKER_H_  // our headers know which ids their device communicator has
  {"target at 2^63", kPut, (size_t)1 << 63, 0, 8},  // a descriptor of NVIDIA's headers has 63 bits of it: it is offset 0
  {"signal", kBadSignal, 0, 64, 8}, {"counter", kBadCounter, 0, 64, 8}, {"reset of a signal", kResetSignal, 0, 0, 0}, {"reset of a counter", kResetCounter, 0, 0, 0},
  {"wait for a signal", kWaitSignal, 0, 0, 0},
#endif
};

__global__ void operate(ncclDevComm comm, ncclWindow_t w, Operation operation, size_t to, size_t from, size_t bytes, bool tells) {
  ncclGin gin(comm, 0);
  ncclTeam world = ncclTeamWorld(comm);
  ncclCoopWarp warp;
  uint32_t none = comm.ginSignalCount, noCounter = comm.ginCounterCount;
  if (operation == kPut) gin.put(world, 0, w, to, w, from, bytes, ncclGin_None{}, ncclGin_None{}, warp);
  if (operation == kValue && threadIdx.x == 0) gin.putValue(world, 0, w, to, (uint64_t)0x0706050403020100);
  if (operation == kSignal && threadIdx.x == 0) gin.signal(world, 0, ncclGin_SignalInc{0});
  if (operation == kPutSignal) gin.put(world, 0, w, to, w, from, bytes, ncclGin_SignalInc{0}, ncclGin_None{}, warp);
  if (operation == kValueSignal && threadIdx.x == 0) gin.putValue(world, 0, w, to, (uint64_t)0x0706050403020100, ncclGin_SignalInc{0});
  if (operation == kPutCounter) gin.put(world, 0, w, to, w, from, bytes, ncclGin_None{}, ncclGin_CounterInc{0}, warp);
  if (operation == kBadSignal) gin.put(world, 0, w, to, w, from, bytes, ncclGin_SignalInc{none}, ncclGin_None{}, warp);
  if (operation == kBadCounter) gin.put(world, 0, w, to, w, from, bytes, ncclGin_SignalInc{0}, ncclGin_CounterInc{noCounter}, warp);
  if (operation == kResetSignal && threadIdx.x == 0) gin.resetSignal(none);
  if (operation == kResetCounter && threadIdx.x == 0) gin.resetCounter(noCounter);
  if (operation == kWaitSignal) gin.waitSignal(warp, none, 1);
  if (operation == kBarrier) {
    ncclGinBarrierSession<ncclCoopWarp> barrier(warp, gin, world, comm.railGinBarrier, 0);
    barrier.sync(warp, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  if (tells) { // all is well: the other side hears of it, and the source may be reused
    if (operation == kPutCounter) gin.waitCounter(warp, 0, 1);
    gin.flush(warp);
    if (threadIdx.x == 0) gin.signal(world, 0, ncclGin_SignalInc{1});
  } else {
    gin.waitSignal(warp, 1, 1);
  }
}

// What kernels of either headers may do in a context of either kind: read, wait, reset, flush.
__global__ void receive(ncclDevComm comm, bool inBarrier, bool waits, uint64_t* out) {
  ncclGin gin(comm, 0);
  ncclCoopWarp warp;
  if (inBarrier) {
    ncclGinBarrierSession<ncclCoopWarp> barrier(warp, gin, ncclTeamWorld(comm), comm.railGinBarrier, 0);
    barrier.sync(warp, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  if (waits) gin.waitSignal(warp, 1, 1);
  gin.flush(warp);
  if (waits && threadIdx.x == 0) {
    out[0] = gin.readSignal(0), out[1] = gin.readSignal(1), out[2] = gin.readCounter(0);
    gin.resetSignal(1);
    out[3] = gin.readSignal(1);
  }
}

static unsigned char pattern(int rank, size_t at) { return (unsigned char)(at * 7 + at / 256 + rank * 100 + 1); }

// How many bytes of rank 0's allocation are not what they were, or what was put.
static size_t changed(Example& ex, const void* memory, const Case* put) {
  std::vector<unsigned char> now(kAllocation);
  CUDACHECK(cudaMemcpy(now.data(), memory, kAllocation, cudaMemcpyDefault));
  size_t wrong = 0;
  for (size_t at = 0; at < kAllocation; at++) {
    unsigned char expected = pattern(ex.rank, at);
    if (put && ex.rank == 0 && at >= kStart + put->to && at < kStart + put->to + put->bytes) {
      size_t byte = at - kStart - put->to;
      bool isValue = put->operation == kValue || put->operation == kValueSignal;
      expected = isValue ? (unsigned char)byte : pattern(ex.nRanks - 1, kStart + put->from + byte);
    }
    wrong += now[at] != expected;
  }
  return wrong;
}

struct Run {
  ncclComm_t comm;
  void* memory;
  uint64_t* out;
  size_t wrong;
};

// All ranks have come here.
static void meet(Example& ex) {
  ncclComm_t barrier;
  NCCLCHECK(ncclCommSplit(ex.comm, 0, ex.rank, &barrier, NULL));
  NCCLCHECK(ncclCommDestroy(barrier));
}

// One case up to its end: `expected` is the error that it must end in, or NULL.
static Run runCase(Example& ex, const Case& c, const char* expected) {
  Run run = {NULL, NULL, NULL, 0};
  NCCLCHECK(ncclCommSplit(ex.comm, 0, ex.rank, &run.comm, NULL));
  NCCLCHECK(ncclMemAlloc(&run.memory, kAllocation));
  std::vector<unsigned char> bytes(kAllocation);
  for (size_t at = 0; at < kAllocation; at++) bytes[at] = pattern(ex.rank, at);
  CUDACHECK(cudaMemcpy(run.memory, bytes.data(), kAllocation, cudaMemcpyDefault));
  uint64_t got[4] = {};
  CUDACHECK(cudaMalloc(&run.out, sizeof got));
  CUDACHECK(cudaMemset(run.out, 0, sizeof got));
  CUDACHECK(cudaDeviceSynchronize());
  ncclWindow_t window;
  NCCLCHECK(ncclCommWindowRegister(run.comm, (char*)run.memory + kStart, kSize, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 2, reqs.ginCounterCount = 1, reqs.railGinBarrierCount = 1;
  ncclDevComm devComm, others; // of `others` are the words behind the first one's
  NCCLCHECK(ncclDevCommCreate(run.comm, &reqs, &devComm));
  NCCLCHECK(ncclDevCommCreate(run.comm, &reqs, &others));
  meet(ex); // what one refuses ends the others' calls, too
  bool const operates = ex.rank == ex.nRanks - 1, receives = ex.rank == 0;
  if (operates) {
    operate<<<1, 32, 0, ex.stream>>>(devComm, window, c.operation, c.to, c.from, c.bytes, expected == NULL);
  } else if (receives || c.operation == kBarrier) {
    receive<<<1, 32, 0, ex.stream>>>(devComm, c.operation == kBarrier, receives, run.out);
  }
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 1000 && (expected != NULL) == (state == ncclSuccess); i++) { // a rank without a kernel hears of it when it does
    NCCLCHECK(ncclCommGetAsyncError(run.comm, &state));
    if (expected == NULL) break;
    if (state == ncclSuccess) usleep(10000);
  }
  // Nothing here waits for other ranks' kernels, which may be on this GPU, too, and still have to be ended.
  CUDACHECK(cudaMemcpyAsync(got, run.out, sizeof got, cudaMemcpyDefault, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  const char* said = ncclGetLastError(run.comm);
  bool isRight = state == ncclSuccess;
  if (expected) isRight = state != ncclSuccess && (!operates || strstr(said, expected));
  bool const isSignalled = c.operation == kSignal || c.operation == kPutSignal || c.operation == kValueSignal;
  if (!expected && receives) isRight &= got[0] == isSignalled && got[1] == 1 && got[2] == 0 && got[3] == 0;
  uint64_t const moved = 1ull << 62 | 1 << 30 | 1 << 14 | 1 << 6; // by the abort, once
  if (expected && receives) isRight &= got[0] == 0 || got[0] == moved;
  if (!isRight) {
    printf("refused rank %d, %s: want %s, got %s: %s; signals %llx %llx, counter %llx, reset %llx\n", ex.rank, c.name, expected ? expected : "no error",
           ncclGetErrorString(state), said, (unsigned long long)got[0], (unsigned long long)got[1], (unsigned long long)got[2], (unsigned long long)got[3]);
    run.wrong = 1;
  }
  if (!expected) {
    NCCLCHECK(ncclDevCommDestroy(run.comm, &others));
    NCCLCHECK(ncclDevCommDestroy(run.comm, &devComm));
    NCCLCHECK(ncclCommWindowDeregister(run.comm, window));
  }
  return run;
}

int runRank(Example& ex) {
  const char* which = getenv("REFUSED") ? getenv("REFUSED") : "fine";
  bool const isBounds = !strcmp(which, "bounds"), isReads = !strcmp(which, "reads"), isFine = isReads || !strcmp(which, "fine");
  const Case* cases = isBounds ? bounds : operations;
  int const count = isBounds ? sizeof bounds / sizeof *bounds : sizeof operations / sizeof *operations - isReads; // the barrier is last
  const char* only = getenv("REFUSED_ONLY");
  int failed = 0;
  for (int i = 0; i < count; i++) {
    if (only && strcmp(only, cases[i].name)) continue;
    Run run = runCase(ex, cases[i], isBounds ? "GINRS-E051" : isFine ? NULL : "GINRS-E081");
    NCCLCHECK(isFine ? ncclCommDestroy(run.comm) : ncclCommAbort(run.comm));
    meet(ex); // every rank's kernels have ended
    size_t wrong = changed(ex, run.memory, isFine ? &cases[i] : NULL);
    if (wrong) printf("refused rank %d, %s: %zu bytes are not what they should be\n", ex.rank, cases[i].name, wrong);
    failed |= run.wrong != 0 || wrong != 0;
    ex.elementsChecked += kAllocation;
    CUDACHECK(cudaFree(run.out));
    NCCLCHECK(ncclMemFree(run.memory));
  }
  return failed;
}
