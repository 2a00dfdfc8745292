// skewed HOW: of two ranks that have done a collective, one calls ncclCommAbort and the other goes on asking ncclCommGetAsyncError, as a
// watchdog does. It says what it was told, after how long, and what a collective came to then. HOW:
//   exit      nothing is under way, and the process that aborts ends
//   end       likewise, and the other calls ncclCommAbort, too, instead of a collective
//   destroy   likewise, ncclCommDestroy
//   stays     nothing is under way, and the process that aborts lives on
//   busy      the rank that aborts is in a collective that the other has not joined
//   waiting   the other is in a collective that the rank that aborts has not joined
//   captured  the other has captured a collective, which may be replayed at any time
//   midway    the other has not joined either, and the process calls exit(0) and nothing else
//   late      likewise, and a destructor that runs last calls ncclCommDestroy
//   joined    as midway, but the other has joined
//   devcomm   both have a device communicator, whose kernels nobody sees
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ncclComm_t comm;
static cudaStream_t stream;
static int* sum;

static bool is(const char* how, const char* name) { return strcmp(how, name) == 0; }

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void need(bool ok, const char* what) {
  if (ok) return;
  printf("%s failed: %s\n", what, ncclGetLastError(NULL));
  exit(2);
}

static ncclResult_t reduce() { return ncclAllReduce(sum, sum, 1, ncclInt, ncclSum, comm, stream); }

static void begin(const char* how, ncclUniqueId id, int rank) {
  need(cudaSetDevice(rank) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
  need(cudaMalloc((void**)&sum, sizeof *sum) == cudaSuccess, "cudaMalloc");
  need(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess, "ncclCommInitRank");
  if (is(how, "devcomm")) {
    ncclDevCommRequirements reqs;
    ncclDevComm devComm;
    memset(&reqs, 0, sizeof reqs);
    reqs.lsaBarrierCount = 1;
    need(ncclDevCommCreate(comm, &reqs, &devComm) == ncclSuccess, "ncclDevCommCreate");
  }
  if (is(how, "captured")) {
    cudaGraph_t graph;
    need(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess && reduce() == ncclSuccess &&
             cudaStreamEndCapture(stream, &graph) == cudaSuccess,
         "the capture");
  }
  need(reduce() == ncclSuccess && cudaStreamSynchronize(stream) == cudaSuccess, "ncclAllReduce");
}

static void abortInExit() { ncclCommAbort(comm); }

static void destroyInExit() { ncclCommDestroy(comm); }

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "exit";
  int ids[2], ends[2], status = 0;
  ncclUniqueId id;
  char byte = 0;
  need(pipe(ids) == 0 && pipe(ends) == 0, "pipe");
  pid_t other = fork();
  if (other == 0) {
    need(read(ids[0], &id, sizeof id) == sizeof id, "read");
    if (is(how, "late")) atexit(destroyInExit);
    begin(how, id, 0);
    need(read(ends[0], &byte, 1) == 1, "read");
    if (is(how, "busy") || is(how, "midway") || is(how, "late") || is(how, "joined")) need(reduce() == ncclSuccess, "ncclAllReduce");
    if (is(how, "stays")) {
      ncclCommAbort(comm);
      pause();
    }
    if (!is(how, "midway") && !is(how, "late") && !is(how, "joined")) atexit(abortInExit);
    exit(0);
  }
  need(ncclGetUniqueId(&id) == ncclSuccess && write(ids[1], &id, sizeof id) == sizeof id, "ncclGetUniqueId");
  begin(how, id, 1);
  usleep(300000); // what has ended is known to have ended
  if (is(how, "waiting") || is(how, "joined")) need(reduce() == ncclSuccess, "ncclAllReduce");
  need(write(ends[1], &byte, 1) == 1, "write");
  if (!is(how, "stays")) waitpid(other, &status, 0);
  ncclResult_t state = ncclSuccess, later = ncclSuccess;
  double start = seconds();
  while (state == ncclSuccess && seconds() - start < (is(how, "stays") ? 30 : 3)) {
    usleep(10000);
    ncclCommGetAsyncError(comm, &state);
  }
  printf("state %d after %.1f s", state, seconds() - start);
  if (is(how, "end")) {
    printf(", then %d\n", ncclCommAbort(comm));
  } else if (is(how, "destroy")) {
    printf(", then %d\n", ncclCommDestroy(comm));
  } else {
    ncclResult_t result = reduce();
    ncclCommGetAsyncError(comm, &later);
    printf(", then %d, state %d: %s\n", result, later, ncclGetLastError(comm));
    ncclCommAbort(comm);
  }
  fflush(stdout);
  kill(other, SIGKILL);
  return 0;
}
