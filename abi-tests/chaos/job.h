// What a rank of chaos.cu does, and the page on which it reports: a short life with everything that waits for other ranks.
#pragma once
#include <atomic>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

enum Phase { JOIN, INIT, WINDOW, DEVCOMM, KERNELS, COLLECTIVES, SPLIT, DESTROY, PHASES };
static const char* const phaseNames[] = {"before joining", "init", "window", "devcomm", "kernels", "collectives", "split", "destroy"};
// KILL and STOP come from outside. DECLINE: the rank's own ncclCommInitRank is wrong. LEAVE: it ends in good order, before the others do.
enum Fault { KILL, STOP, EXEC, CLOSE, EXIT, EXIT_NOW, LEAVE, DECLINE, FAULTS };
static const char* const faultNames[] = {"SIGKILL", "SIGSTOP and SIGCONT", "exec", "close of all descriptors", "exit(0) from a thread", "_exit(0)",
                                         "leave in good order", "wrong rank"};
enum Outcome { RUNNING, FINE, TOLD };

struct Board {
  struct Rank {
    std::atomic<int> phase, outcome, strike;
    double toldAt; // when that was
    char message[700];
  };
  std::atomic<int> idMade;
  ncclUniqueId id;
  Rank ranks[8];
};

struct Job {
  Board* board;
  int ranks, rank, fault, victim, strikeAt;
  Board::Rank& mine() { return board->ranks[rank]; }
  bool isVictim() const { return rank == victim; }
};

// A round: an LSA barrier, and a put with a signal to the next rank. `begin` is what the signals were before: ranks of other nodes may be
// ahead.
static __global__ void round(ncclDevComm comm, ncclWindow_t window, uint64_t begin, int rounds) {
  ncclCoopCta cta;
  ncclTeam world = ncclTeamWorld(comm);
  ncclGin gin(comm, 0);
  ncclLsaBarrierSession<ncclCoopCta> barrier(cta, comm, ncclTeamLsa(comm), comm.lsaBarrier, blockIdx.x);
  for (int i = 1; i <= rounds; i++) {
    barrier.sync(cta, cuda::memory_order_acq_rel);
    gin.put(world, (world.rank + 1) % world.nRanks, window, 4096 * (1 + blockIdx.x), window, 0, 512, ncclGin_SignalInc{blockIdx.x}, ncclGin_None(), cta);
    gin.waitSignal(cta, blockIdx.x, begin + i);
  }
  gin.flush(cta);
}

static void* saboteur(void* argument) {
  Job* job = (Job*)argument;
  while (job->mine().strike.load() == 0) usleep(100);
  if (job->fault == EXEC) execlp("sleep", "sleep", "300", (char*)NULL);
  if (job->fault == CLOSE) syscall(SYS_close_range, 3, ~0u, 0);
  if (job->fault == EXIT) exit(0);
  if (job->fault == EXIT_NOW) _exit(0);
  return NULL;
}

struct Life {
  Job job;
  ncclComm_t comm = NULL, child = NULL;
  cudaStream_t stream = NULL;
  void* memory = NULL;
  ncclWindow_t window = NULL;
  ncclDevComm devComm;
  bool hasDevComm = false;

  void enter(int phase) { job.mine().phase.store(phase); }
  // The first thing that went wrong, in the library's words; true if nothing did.
  bool told(const char* what, const char* text) {
    if (job.mine().outcome.load() == RUNNING) {
      job.mine().toldAt = now();
      snprintf(job.mine().message, sizeof job.mine().message, "%s: %s", what, text);
      job.mine().outcome.store(TOLD);
    }
    return false;
  }
  bool ok(ncclResult_t result, const char* what) {
    return result == ncclSuccess ? true : told(what, ncclGetLastError(comm));
  }
  bool synchronize(const char* what) {
    cudaError_t ended = cudaStreamSynchronize(stream);
    ncclResult_t state = ncclSuccess;
    if (comm && ncclCommGetAsyncError(comm, &state) == ncclSuccess && state != ncclSuccess) return told(what, ncclGetLastError(comm));
    return ended == cudaSuccess ? true : told(what, cudaGetErrorString(ended));
  }
  bool leaves(int phase) {
    enter(phase);
    return job.isVictim() && job.fault == LEAVE && phase > INIT && phase >= job.strikeAt;
  }

  bool live() {
    enter(JOIN);
    if (!job.isVictim() && job.strikeAt == JOIN) usleep(20000);
    if (cudaSetDevice(job.rank) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) return told("cudaStreamCreate", "failed");
    if (job.rank == 0) {
      if (!ok(ncclGetUniqueId(&job.board->id), "ncclGetUniqueId")) return false;
      job.board->idMade.store(1);
    }
    while (job.board->idMade.load() == 0) usleep(200);
    if (job.isVictim() && job.strikeAt == JOIN && job.fault != DECLINE && job.fault != LEAVE) usleep(100000); // to be struck here
    enter(INIT);
    int named = job.isVictim() && job.fault == DECLINE ? job.ranks + 3 : job.rank;
    if (!ok(ncclCommInitRank(&comm, job.ranks, job.board->id, named), "ncclCommInitRank")) return false;
    if (leaves(WINDOW)) return true;
    if (!ok(ncclMemAlloc(&memory, 1 << 20), "ncclMemAlloc")) return false;
    if (!ok(ncclCommWindowRegister(comm, memory, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC), "ncclCommWindowRegister")) return false;
    if (leaves(DEVCOMM)) return true;
    ncclDevCommRequirements reqs;
    memset(&reqs, 0, sizeof reqs);
    reqs.lsaBarrierCount = 2;
    reqs.ginSignalCount = 2;
    reqs.ginForceEnable = true;
    if (!ok(ncclDevCommCreate(comm, &reqs, &devComm), "ncclDevCommCreate")) return false;
    hasDevComm = true;
    for (int i = 0; i < 6; i++) {
      if (leaves(KERNELS)) return true;
      round<<<2, 32, 0, stream>>>(devComm, window, 30 * i, 30);
      if (!synchronize("kernels")) return false;
    }
    char *send = (char*)memory, *recv = send + (1 << 19);
    for (int i = 0; i < 6; i++) {
      if (leaves(COLLECTIVES)) return true;
      if (!ok(ncclAllReduce(send, recv, 40000, ncclInt32, ncclSum, comm, stream), "ncclAllReduce")) return false;
      if (!ok(ncclGroupStart(), "ncclGroupStart")) return false;
      ncclResult_t sent = ncclSend(send, 100000, ncclUint8, (job.rank + 1) % job.ranks, comm, stream);
      ncclResult_t received = ncclRecv(recv, 100000, ncclUint8, (job.rank + job.ranks - 1) % job.ranks, comm, stream);
      ncclResult_t ended = ncclGroupEnd();
      if (!ok(sent, "ncclSend") || !ok(received, "ncclRecv") || !ok(ended, "ncclGroupEnd") || !synchronize("collectives")) return false;
    }
    if (leaves(SPLIT)) return true;
    if (!ok(ncclCommSplit(comm, job.rank % 2, 0, &child, NULL), "ncclCommSplit")) return false;
    if (child && !ok(ncclCommDestroy(child), "ncclCommDestroy of the child")) return false;
    child = NULL;
    enter(DESTROY);
    return true;
  }

  void run() {
    pthread_t thread;
    if (job.isVictim()) pthread_create(&thread, NULL, saboteur, new Job(job));
    bool fine = live();
    if (fine) {
      if (hasDevComm) ok(ncclDevCommDestroy(comm, &devComm), "ncclDevCommDestroy");
      if (window) ok(ncclCommWindowDeregister(comm, window), "ncclCommWindowDeregister");
      if (memory) ok(ncclMemFree(memory), "ncclMemFree");
      ok(ncclCommDestroy(comm), "ncclCommDestroy");
    } else if (comm) {
      ncclCommAbort(comm);
    }
    int running = RUNNING;
    job.mine().outcome.compare_exchange_strong(running, FINE);
    exit(0);
  }
};
