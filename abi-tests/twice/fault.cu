// Waits must end: in kernels, and on the host. Starts its ranks itself (one process and one device each), lets one of them
// fail in every way that there is, and says how long the others took to hear of it.
//
//   fault [--ranks N] [--jobs J] [--blind] [FAULT:WAIT | FAULT | WAIT ..]      default: everything, 2 ranks, 1 at a time
//
// --blind hides the abort words from kernels compiled with our headers; they then wait as those with NVIDIA's headers do.
// Built with either header set; runs on libginrs only: on NVIDIA's library these waits last for ever.
#include "fault.h"

static __device__ __forceinline__ void announce(int* running) {
  if (threadIdx.x == 0) {
    *(volatile int*)running = 1;
    __threadfence_system();
  }
}

// Every wait lacks what the last rank would have to do. Rounds after the first are the later waits of an aborted kernel.
static __global__ void waitFor(ncclDevComm comm, Handles h, int wait, int rounds, int* running, int* stop) {
  ncclCoopCta cta;
  ncclTeam world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm);
  int const absent = world.nRanks - 1;
  announce(running);
  if (wait == SPIN) {
    while (*(volatile int*)stop == 0) {
    }
  } else if (wait == LSA || wait == LSA_HELPER) {
    ncclLsaBarrierSession<ncclCoopCta> barrier(cta, comm, lsa, wait == LSA ? comm.lsaBarrier : h.lsa, 1);
    for (int i = 0; i < rounds; i++) barrier.sync(cta, cuda::memory_order_acq_rel);
  } else if (wait == LL) {
    ncclLLA2ASession<ncclCoopCta> a2a(cta, comm, lsa, h.ll, 1, lsa.nRanks);
    for (int i = 0; i < rounds; i++) {
      if (threadIdx.x == 0) {
        a2a.bcast(lsa.rank, i);
        for (int peer = 0; peer < lsa.nRanks; peer++) (void)a2a.recv<int>(peer);
      }
      a2a.endEpoch(cta);
    }
  } else {
    ncclGin gin(comm, 0);
    if (wait == SIGNAL_ALL) { // nobody is absent
      ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, world, comm.railGinBarrier, 3);
      for (int i = 0; i < rounds; i++) barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    } else
    if (wait == SIGNAL) {
      for (int i = 0; i < rounds; i++) gin.waitSignal(cta, 0, 1000000 + i);
    } else if (wait == RESET) {
      for (int i = 0; i < rounds; i++) {
        gin.waitSignal(cta, 1, 1000);
        if (threadIdx.x == 0) gin.resetSignal(1);
        __syncthreads();
      }
    } else if (wait == COUNTER) {
      for (int i = 0; i < rounds; i++) gin.waitCounter(cta, 0, 1000 + i);
    } else if (wait == GIN || wait == GIN_HELPER) {
      ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, world, wait == GIN ? comm.railGinBarrier : h.gin, 1);
      for (int i = 0; i < rounds; i++) barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    } else if (wait == HYBRID) {
      ncclBarrierSession<ncclCoopCta> barrier(cta, ncclTeamTagWorld(), gin, 2);
      for (int i = 0; i < rounds; i++) barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    } else { // TRAFFIC: credit and flush, until the host has heard of the end, and then some
      for (int left = rounds; left > 0; left -= *(volatile int*)stop) {
        for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
          gin.put(world, absent, h.window, 4096, h.window, 8 * (world.rank + 8 * (i % 64)), 8);
        }
        gin.flush(cta);
      }
    }
  }
}

static __global__ void misbehave(int how, int* nowhere) {
  if (how == ILLEGAL) *nowhere = 1;
  if (how == TRAP) __trap();
  assert(how != ASSERT);
}

struct Rank {
  Board* board;
  Plan plan;
  int rank;
  cudaStream_t stream;
  ncclComm_t comm;
  ncclDevComm devComm;
  Handles handles;
  void* memory;
  int *running, *stop; // in pinned memory

  Board::Rank& shown() { return board->ranks[rank]; }
  bool isLast() const { return rank == plan.ranks - 1; }
  // A wait of this rank has no say in how the others end.
  bool isAbsent() const { return isLast(); }

  void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t used = strlen(shown().text);
    vsnprintf(shown().text + used, sizeof shown().text - used, format, arguments);
    va_end(arguments);
  }
  void wrong(const char* what, const char* detail) {
    shown().failed = 1;
    say(" WRONG %s: %s;", what, detail);
  }
  bool check(cudaError_t error, const char* what) {
    if (error != cudaSuccess) wrong(what, cudaGetErrorString(error));
    return error == cudaSuccess;
  }
  bool check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess) wrong(what, ncclGetLastError(NULL));
    return result == ncclSuccess;
  }
  void stage(int to) { shown().stage.store(to); }

  bool join() {
    if (!check(cudaSetDevice(rank), "cudaSetDevice") || !check(cudaStreamCreate(&stream), "cudaStreamCreate")) return false;
    check(cudaHostAlloc((void**)&running, 4096, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
    memset(running, 0, 4096);
    stop = running + 16;
    if (rank == 0) {
      if (!check(ncclGetUniqueId(&board->id), "ncclGetUniqueId")) return false;
      board->idMade.store(1);
    }
    while (board->idMade.load() == 0) usleep(500);
    return true;
  }

  // Communicator, window, device communicator. A host fault happens on the way; then the error is what is wanted.
  ncclResult_t setUp() {
    if (plan.fault == INIT) stage(WAITING);
    ncclResult_t result = ncclCommInitRank(&comm, plan.ranks, board->id, rank);
    if (result != ncclSuccess) return result;
    check(ncclMemAlloc(&memory, 1 << 20), "ncclMemAlloc");
    check(cudaMemset(memory, 0, 1 << 20), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (plan.fault == REGISTER) {
      stage(WAITING);
      if (isLast()) pause();
    }
    result = ncclCommWindowRegister(comm, memory, 1 << 20, &handles.window, NCCL_WIN_COLL_SYMMETRIC);
    if (result != ncclSuccess) return result;
    ncclDevResourceRequirements lists[3];
    ncclDevCommRequirements reqs;
    memset(&reqs, 0, sizeof reqs);
    check(ncclLLA2ACreateRequirement(4, 2 * ncclLLA2ACalcSlots(plan.ranks, sizeof(int)), &handles.ll, &lists[0]), "LLA2A");
    check(ncclLsaBarrierCreateRequirement(ncclTeamLsa(comm), 4, &handles.lsa, &lists[1]), "LSA barrier");
    check(ncclGinBarrierCreateRequirement(comm, ncclTeamWorld(comm), 4, &handles.gin, &lists[2]), "GIN barrier");
    for (int i = 0; i < 3; i++) lists[i].next = i < 2 ? &lists[i + 1] : NULL;
    reqs.resourceRequirementsList = lists;
    reqs.barrierCount = 4;
    reqs.ginSignalCount = 4;
    reqs.ginCounterCount = 2;
    if (plan.fault == DEVCOMM) {
      stage(WAITING);
      if (isLast()) pause();
    }
    result = ncclDevCommCreate(comm, &reqs, &devComm);
    // The marker by which our headers know our library: three bytes of padding.
    if (plan.blind) memset((char*)&devComm + 141, 0, 3);
    return result;
  }

  void launch(int wait, int rounds) {
    *(volatile int*)running = 0;
    (void)cudaGetLastError(); // "not ready" of an earlier query
    if (wait == RECV || wait == REDUCE) {
      // Once the communicator has failed the call says so.
      char* to = (char*)memory + (1 << 19);
      if (wait == RECV) (void)ncclRecv(to, 1 << 18, ncclUint8, plan.ranks - 1, comm, stream);
      else (void)ncclAllReduce(to, to, 1 << 16, ncclInt32, ncclSum, comm, stream);
      return;
    }
    waitFor<<<1, 64, 0, stream>>>(devComm, handles, wait, rounds, running, stop);
    check(cudaGetLastError(), "launch");
    Patience patience(bound());
    while (*(volatile int*)running == 0 && patience.lasts()) usleep(100);
  }

  // Milliseconds until the stream is done; never waits inside CUDA.
  double finish(const char* what) {
    double begin = now();
    for (Patience patience(bound()); patience.lasts();) {
      cudaError_t error = cudaStreamQuery(stream);
      if (error != cudaErrorNotReady) {
        check(error, what);
        return (now() - begin) * 1e3;
      }
      usleep(50);
    }
    wrong(what, "the kernel does not end");
    stage(STUCK);
    pause();
    return 0;
  }

  // Waits for the communicator's error and looks for `who` in its text.
  void hear(const char* who) {
    ncclResult_t state = ncclSuccess;
    for (Patience patience(bound()); state == ncclSuccess && patience.lasts(); usleep(100)) {
      if (!check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError")) return;
    }
    shown().heardAt = now();
    const char* text = ncclGetLastError(comm);
    if (state == ncclSuccess) wrong("ncclCommGetAsyncError", "tells of no error");
    else if (who && !strstr(text, who)) wrong("the message does not name the rank", text);
    snprintf(shown().message, sizeof shown().message, "%s", text);
  }

  void end() {
    double begin = now();
    check(ncclCommAbort(comm), "ncclCommAbort");
    double took = (now() - begin) * 1e3;
    say(" abort call %.1f ms;", took);
    if (took > 1000) wrong("ncclCommAbort", "took more than a second");
    // Whatever CUDA says after a failed kernel: the calls must come back.
    ncclMemFree(memory);
    cudaStreamDestroy(stream);
  }

  // What a rank does that hears of another's failure.
  void survive() {
    char who[32];
    snprintf(who, sizeof who, "rank %d", plan.fault == ABORT_THREAD || plan.fault == ABORT_SAME ? 0 : plan.ranks - 1);
    bool waits = !isAbsent();
    if (waits) launch(plan.wait, 3);
    stage(WAITING);
    if (plan.wait == TRAFFIC || !waits) {
      hear(who);
      *(volatile int*)stop = 1;
      if (waits) say(" kernel %.1f ms later;", finish("the kernel"));
      shown().releasedAt = now();
    } else {
      finish("the kernel");
      shown().releasedAt = now();
      hear(who);
    }
    if (waits) {
      *(volatile int*)stop = 1;
      launch(plan.wait, 3);
      say(" later kernel %.1f ms;", finish("the later kernel"));
    }
    end();
  }

  static void* callAbort(void* argument) {
    Rank* self = (Rank*)argument;
    while (self->board->go.load() == 0) usleep(100);
    double begin = now();
    self->check(ncclCommAbort(self->comm), "ncclCommAbort");
    self->shown().heardAt = now();
    self->say(" abort call %.1f ms;", (now() - begin) * 1e3);
    if (now() - begin > 1) self->wrong("ncclCommAbort", "took more than a second");
    return NULL;
  }

  void abortIt() {
    launch(plan.wait, 3);
    stage(WAITING);
    pthread_t thread;
    if (plan.fault == ABORT_THREAD) pthread_create(&thread, NULL, callAbort, this);
    else callAbort(this);
    *(volatile int*)stop = plan.wait == TRAFFIC; // that kernel goes on until it is told
    finish("the kernel");
    shown().releasedAt = now();
    if (plan.fault == ABORT_THREAD) pthread_join(thread, NULL);
    check(ncclMemFree(memory), "ncclMemFree");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }

  // A kernel of this rank fails for good: a process that ignores it must still tell the others.
  void fail() {
    stage(WAITING);
    while (board->go.load() == 0) usleep(100);
    misbehave<<<1, 1, 0, stream>>>(plan.fault, (int*)8);
    cudaError_t error;
    while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) usleep(50);
    if (error == cudaSuccess) wrong("the kernel", "did not fail");
    say(" CUDA says %s;", cudaGetErrorName(error));
    char who[32];
    snprintf(who, sizeof who, "rank %d", rank);
    hear(who);
    shown().releasedAt = now();
    end();
  }

  // All that a rank ends in good order.
  void leave() {
    check(ncclDevCommDestroy(comm, &devComm), "ncclDevCommDestroy");
    check(ncclCommWindowDeregister(comm, handles.window), "ncclCommWindowDeregister");
    check(ncclMemFree(memory), "ncclMemFree");
    check(ncclCommFinalize(comm), "ncclCommFinalize");
    check(ncclCommDestroy(comm), "ncclCommDestroy");
  }

  // The last rank goes its way.
  void goAway() {
    stage(WAITING);
    while (board->go.load() == 0) usleep(100);
    if (plan.fault == EXEC) execlp("sleep", "sleep", "100", (char*)NULL);
    if (plan.fault == CLOSE) syscall(SYS_close_range, 3, ~0u, 0);
    if (plan.fault == EXEC || plan.fault == CLOSE) pause();
    leave();
    // As a program that goes on with other things: its end must not be what the others are told of.
    for (Patience patience(bound()); plan.fault == LEAVE_STAY && patience.lasts() && board->ranks[0].stage.load() < DONE;) usleep(1000);
  }

  // Longer than GINRS_TIMEOUT, and then all is as it was.
  void workOn() {
    launch(SPIN, 1);
    stage(WAITING);
    while (board->go.load() == 0) usleep(100);
    usleep(7500000);
    ncclResult_t state = ncclSuccess;
    if (check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError") && state != ncclSuccess) wrong("a kernel that waits for nobody", ncclGetLastError(comm));
    *(volatile int*)stop = 1;
    finish("the kernel");
    leave();
  }

  // The launcher dies; the ranks do not care.
  void carryOn() {
    stage(WAITING);
    while (board->go.load() == 0) usleep(100);
    usleep(200000);
    launch(SIGNAL_ALL, 3);
    finish("barriers after the launcher's death");
    shown().releasedAt = now();
    leave();
  }

  void run() {
    if (!join()) return;
    if (plan.fault == INIT && isLast()) {
      stage(WAITING);
      pause();
    }
    ncclResult_t made = setUp();
    if (isHostFault(plan.fault)) {
      shown().releasedAt = shown().heardAt = now();
      snprintf(shown().message, sizeof shown().message, "%s", ncclGetLastError(NULL));
      char who[32];
      snprintf(who, sizeof who, "%d", plan.ranks - 1);
      if (made == ncclSuccess) wrong("the collective call", "succeeded without the last rank");
      else if (!strstr(shown().message, who)) wrong("the message does not name the rank", shown().message);
      if (plan.fault != INIT) end();
      return;
    }
    if (!check(made, "set-up")) return;
    if (plan.fault == PARENT) carryOn();
    else if (isLast() && (isLeave(plan.fault) || plan.fault == EXEC || plan.fault == CLOSE || plan.fault == LONG)) goAway();
    else if (plan.fault == LONG) workOn();
    else if ((plan.fault == ABORT_THREAD || plan.fault == ABORT_SAME) && rank == 0) abortIt();
    else if ((plan.fault == KILL || plan.fault == STOP) && isLast()) {
      launch(SPIN, 1);
      stage(WAITING);
      pause();
    } else if (isDeviceFault(plan.fault) && isLast()) fail();
    else survive();
  }
};

int runRank(Board* board, Plan plan, int rank) {
  Rank* self = new Rank();
  self->board = board;
  self->plan = plan;
  self->rank = rank;
  self->run();
  self->stage(self->shown().failed ? STUCK : DONE);
  return self->shown().failed;
}

int main(int argc, char** argv) { return faultMain(argc, argv); }
