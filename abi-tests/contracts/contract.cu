// Calls of the device API that name what there is not, one for each mistake, and mended: `contract CASE`, `contract CASE mended`. Two ranks
// as threads. tests/contracts.rs runs them, and finds the marked lines ("call of: ...") by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <atomic>
#include <thread>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

enum Case { SIGNAL, OWN, WAIT, RESET, READ, COUNTER, PEER, TARGET, SOURCE, VALUE, NULL_TARGET, NULL_VALUE, FOREIGN, GONE, LSA, HYBRID, SLOT, GIN, ENTRY, RAIL, BLOCK, FOREIGN_BLOCK, POINTER, BEFORE, SYMPTR, NULL_POINTER, GONE_POINTER, DESTROYED, DESTROYED_LSA, DESTROYED_LL, THERE, VALUE_THERE, ELSEWHERE, ELSEWHERE_LSA, ELSEWHERE_LL, CASES };
static const char* const names[CASES] = {"signal", "own", "wait", "reset", "read", "counter", "peer", "target", "source",
                                         "value", "null-target", "null-value", "foreign", "gone", "lsa", "hybrid", "slot",
                                         "gin", "entry", "rail", "block", "foreign-block", "pointer", "before", "symptr", "null-pointer", "gone-pointer",
                                         "destroyed", "destroyed-lsa", "destroyed-ll", "there", "value-there", "elsewhere", "elsewhere-lsa", "elsewhere-ll"};
static const int signals = 4, counters = 2, barriers = 2, slots = 4, blocks = 3;
static const size_t bytes = 10000;

struct Job {
  ncclDevComm comm, destroyed;
  ncclWindow_t window, none, foreign, gone; // the latter two: of another communicator, and deregistered
  ncclLLA2AHandle ll, foreignLl; // the latter: of another device communicator
  ncclGinBarrierHandle entry;
};

// `past`: by how much the call is beyond what there is; 0 in the mended ones.
__global__ void kernel(Job job, int which, int past) {
  ncclDevComm const& comm = job.comm;
  ncclGin gin(comm, 0);
  ncclTeam world = ncclTeamWorld(comm);
  int peer = 1 - comm.rank;
  ncclWindow_t window = past ? job.none : job.window;
  switch (which) {
    case SIGNAL:
      gin.signal(world, peer, ncclGin_SignalInc{ncclGinSignal_t(signals - 1 + past)});  // call of: signal
      break;
    case OWN:
      gin.putValue(world, peer, job.window, 8, 7, ncclGin_SignalInc{ncclGinSignal_t(signals - 1 + past)});  // call of: own
      break;
    case WAIT:
      gin.waitSignal(ncclCoopThread(), signals - 1 + past, 0);  // call of: wait
      break;
    case RESET:
      gin.resetSignal(signals - 1 + past);  // call of: reset
      break;
    case READ:
      if (gin.readCounter(counters - 1 + past) != 0) printf("not 0\n");  // call of: read
      break;
    case COUNTER:
      gin.put(world, peer, job.window, 0, job.window, 0, 8, ncclGin_None{}, ncclGin_CounterInc{ncclGinCounter_t(counters - 1 + past)});  // call of: counter
      break;
    case PEER:
      gin.signal(world, past ? 2 : peer, ncclGin_SignalInc{0});  // call of: peer
      break;
    case TARGET:
      gin.put(world, peer, job.window, bytes - 64 + past, job.window, 0, 64);  // call of: target
      break;
    case SOURCE:
      gin.put(world, peer, job.window, 0, job.window, bytes - 64 + past, 64);  // call of: source
      break;
    case VALUE:
      gin.putValue(world, peer, job.window, bytes - 8 + past, 7ull);  // call of: value
      break;
    case NULL_TARGET:
      gin.put(world, peer, window, 0, job.window, 0, 64);  // call of: null-target
      break;
    case NULL_VALUE:
      gin.putValue(world, peer, window, 0, 7);  // call of: null-value
      break;
    case FOREIGN:
      gin.put(world, peer, job.window, 0, past ? job.foreign : job.window, 0, 64);  // call of: foreign
      break;
    case GONE:
      gin.putValue(world, peer, past ? job.gone : job.window, 0, 7);  // call of: gone
      break;
    case LSA: {
      ncclLsaBarrierSession<ncclCoopThread> bar(ncclCoopThread(), comm, ncclTeamTagLsa(), barriers - 1 + past);  // call of: lsa
      break;
    }
    case HYBRID: {
      ncclBarrierSession<ncclCoopThread> bar(ncclCoopThread(), ncclTeamTagLsa(), comm, barriers - 1 + past);  // call of: hybrid
      break;
    }
    case SLOT: {
      ncclLLA2ASession<ncclCoopThread> a2a(ncclCoopThread(), comm, ncclTeamLsa(comm), job.ll, 0, slots);
      a2a.send(peer, slots - 1 + past, 1);  // call of: slot
      break;
    }
    case GIN: {
      ncclGinBarrierSession<ncclCoopThread> bar(ncclCoopThread(), gin, ncclTeamTagWorld(), barriers - 1 + past);  // call of: gin
      break;
    }
    case ENTRY: {
      ncclGinBarrierSession<ncclCoopThread> bar(ncclCoopThread(), gin, world, job.entry, past);  // call of: entry
      break;
    }
    case RAIL: {  // the LSA half is there
      ncclBarrierSession<ncclCoopThread> bar(ncclCoopThread(), ncclTeam{1, 0, 1}, world, gin, comm.lsaBarrier, job.entry, past);  // call of: rail
      break;
    }
    case BLOCK: {
      ncclLLA2ASession<ncclCoopThread> a2a(ncclCoopThread(), comm, ncclTeamLsa(comm), job.ll, blocks - 1 + past, slots);  // call of: block
      break;
    }
    case FOREIGN_BLOCK: {
      ncclLLA2ASession<ncclCoopThread> a2a(ncclCoopThread(), comm, ncclTeamLsa(comm), past ? job.foreignLl : job.ll, 0, slots);  // call of: foreign-block
      break;
    }
    case POINTER: {  // one past the end is a pointer, too
      char* end = static_cast<char*>(ncclGetLsaPointer(job.window, bytes + past, peer));  // call of: pointer
      if (end == nullptr) printf("null\n");
      break;
    }
    case BEFORE: {
      char* begin = static_cast<char*>(ncclGetLocalPointer(job.window, size_t(0) - past));  // call of: before
      if (begin == nullptr) printf("null\n");
      break;
    }
    case SYMPTR: {
      ncclSymPtr<char> place(job.window, bytes / 2);
      if ((place + (bytes / 2 + past)).peerPtr(peer) == nullptr) printf("null\n");  // call of: symptr
      break;
    }
    case NULL_POINTER:
      if (ncclGetLocalPointer(window, 0) == nullptr) printf("null\n");  // call of: null-pointer
      break;
    case DESTROYED: {
      ncclGin other(past ? job.destroyed : comm, 0);  // call of: destroyed
      if (other.nContexts == 0) printf("no context\n");
      break;
    }
    case DESTROYED_LSA: {
      ncclLsaBarrierSession<ncclCoopThread> bar(ncclCoopThread(), past ? job.destroyed : comm, ncclTeamTagLsa(), 0);  // call of: destroyed-lsa
      break;
    }
    case DESTROYED_LL: {
      ncclLLA2ASession<ncclCoopThread> a2a(ncclCoopThread(), past ? job.destroyed : comm, ncclTeamLsa(comm), job.ll, 0, slots);  // call of: destroyed-ll
      break;
    }
    case THERE:  // the target has deregistered the window, this rank has not
      gin.put(world, peer, past ? job.gone : job.window, 64, job.window, 0, 64, ncclGin_SignalInc{0});  // call of: there
      break;
    case VALUE_THERE:
      gin.putValue(world, peer, past ? job.gone : job.window, 64, 7ull, ncclGin_SignalInc{0});  // call of: value-there
      break;
    case GONE_POINTER:
      if (ncclGetPeerPointer(past ? job.gone : job.foreign, 0, peer) == nullptr) printf("null\n");  // call of: gone-pointer
      break;
  }
  gin.flush(ncclCoopThread());
}

// On another device than that of its communicator.
__global__ void onDevice(Job job, int which) {
  ncclDevComm const& comm = job.comm;
  switch (which) {
    case ELSEWHERE: {
      ncclGin gin(comm, 0);  // call of: elsewhere
      if (gin.nContexts == 0) printf("no context\n");
      break;
    }
    case ELSEWHERE_LSA: {
      ncclLsaBarrierSession<ncclCoopThread> bar(ncclCoopThread(), comm, ncclTeamTagLsa(), 0);  // call of: elsewhere-lsa
      break;
    }
    case ELSEWHERE_LL: {
      ncclLLA2ASession<ncclCoopThread> a2a(ncclCoopThread(), comm, ncclTeamLsa(comm), job.ll, 0, slots);  // call of: elsewhere-ll
      break;
    }
  }
}
// Each by another call.
static cudaError_t launch(Job& job, int which) {
  void* arguments[] = {&job, &which};
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  if (which == ELSEWHERE) return cudaLaunchKernelEx(&config, onDevice, job, which);  // launch of: elsewhere
  if (which == ELSEWHERE_LSA) return cudaLaunchKernel(onDevice, 1, 1, arguments);  // launch of: elsewhere-lsa
  if (which == ELSEWHERE_LL) return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(onDevice), 1, 1, arguments, 0, 0);  // launch of: elsewhere-ll
  return cudaSuccess;
}

static int which, past;
static std::atomic<bool> isGone, hasRun;

static void runRank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(rank));
  CHECK(ncclCommInitRank(&comm, 2, id, rank));
  void* memory;
  Job job = {};
  CHECK(ncclMemAlloc(&memory, bytes));
  CHECK(ncclCommWindowRegister(comm, memory, bytes, &job.window, NCCL_WIN_COLL_SYMMETRIC));
  void* more;
  ncclComm_t another;
  CHECK(ncclCommSplit(comm, 0, rank, &another, nullptr));
  CHECK(ncclCommWindowRegister(another, memory, bytes, &job.foreign, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(ncclMemAlloc(&more, bytes));
  CHECK(ncclCommWindowRegister(comm, more, bytes, &job.gone, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  ncclDevResourceRequirements list = {};
  CHECK(ncclLLA2ACreateRequirement(blocks, slots, &job.ll, &list));
  ncclDevResourceRequirements listed = {};
  CHECK(ncclGinBarrierCreateRequirement(comm, ncclTeamWorld(comm), 1, &job.entry, &listed));
  // Its signal follows the program's, too.
  if (which == ENTRY || which == RAIL) list.next = &listed;
  needs.resourceRequirementsList = &list;
  needs.ginSignalCount = signals, needs.ginCounterCount = counters, needs.lsaBarrierCount = barriers, needs.ginForceEnable = true;
  // The signals of GIN barriers follow the program's.
  needs.railGinBarrierCount = which == OWN || which == GIN ? barriers : 0;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  // Another one's words lie behind those of the first.
  ncclDevComm other;
  ncclDevResourceRequirements large = {};
  large.bufferSize = 1 << 20;
  ncclDevResourceRequirements others = {};
  CHECK(ncclLLA2ACreateRequirement(1, slots, &job.foreignLl, &others));
  large.next = &others;
  needs.resourceRequirementsList = &large;
  CHECK(ncclDevCommCreate(comm, &needs, &other));
  CHECK(ncclDevCommCreate(comm, &needs, &job.destroyed));
  CHECK(ncclDevCommDestroy(comm, &job.destroyed));
  if (which == DESTROYED || which == DESTROYED_LSA) { // the place of its resource window is another one's by now
    for (ncclDevComm next = {}; next.resourceWindow != job.destroyed.resourceWindow;) {
      if (next.resourceWindow != nullptr) CHECK(ncclDevCommDestroy(comm, &next));
      CHECK(ncclDevCommCreate(comm, &needs, &next));
    }
  }
  bool const keeps = (which == THERE || which == VALUE_THERE) && rank == 0;
  if (!keeps) CHECK(ncclCommWindowDeregister(comm, job.gone));
  if (!keeps) isGone = true;
  while (!isGone) std::this_thread::yield();
  // Behind a kernel that fails on it the other rank's device would refuse that rank's.
  while (which >= ELSEWHERE && rank == 0 && !hasRun) std::this_thread::yield();
  if (which >= ELSEWHERE && past && rank == 0) CHECK(cudaSetDevice(1));
  CHECK(launch(job, which));
  if (which < ELSEWHERE) kernel<<<1, 1>>>(job, which, rank == 0 ? past : 0);
  cudaError_t error = cudaStreamSynchronize(0);
  if (rank == 1) hasRun = true;
  // What was refused is told to the host, which looks now and then.
  ncclResult_t state = ncclSuccess;
  for (int turn = 0; past && !error && !state && which < POINTER && turn < 10000; turn++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(ncclCommGetAsyncError(comm, &state));
  }
  if (keeps) CHECK(ncclCommWindowDeregister(comm, job.gone));
  printf("rank %d: %s\n", rank, error || state ? "ended" : "ok"), fflush(stdout);
  CHECK(error || state ? ncclCommAbort(another) : ncclCommDestroy(another));
  CHECK(error || state ? ncclCommAbort(comm) : ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  for (which = 0; which < CASES && (argc < 2 || strcmp(argv[1], names[which]) != 0);) which++;
  if (which == CASES) return fprintf(stderr, "contract CASE [mended]\n"), 2;
  past = argc > 2 ? 0 : 1;
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  std::thread other(runRank, 1, id);
  runRank(0, id);
  other.join();
}
