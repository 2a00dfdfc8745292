// Non-blocking communicators (ncclConfig_t.blocking = 0): everything that waits for peers returns ncclInProgress and goes on by
// itself. The communicators that example.h makes are blocking, and stand beside them.
#include <time.h>
#include <unistd.h>

#include "children.h"

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Until nothing is in progress; what it came to.
static ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  double begin = seconds();
  while (true) {
    NCCLCHECK(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) return state;
    WANT(seconds() - begin < 100, "in progress for 100 s");
    usleep(100);
  }
}

#define INPROGRESS(comm, call)                                                                        \
  do {                                                                                                \
    RETURNS(ncclInProgress, call);                                                                    \
    ncclResult_t end_ = settle(comm);                                                                 \
    WANT(end_ == ncclSuccess, "%s: %s: %s", #call, ncclGetErrorString(end_), ncclGetLastError(comm)); \
  } while (0)

// Until all ranks of `comm` have come here.
static void meet(Example& ex, ncclComm_t comm) {
  int* sum;
  CUDACHECK(cudaMalloc((void**)&sum, sizeof *sum));
  CUDACHECK(cudaMemset(sum, 0, sizeof *sum));
  NCCLCHECK(ncclAllReduce(sum, sum, 1, ncclInt, ncclSum, comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaFree(sum));
}

// A fresh id on every rank, over the blocking communicator's collectives.
static ncclUniqueId freshId(Example& ex) {
  ncclUniqueId id, *device;
  if (ex.rank == 0) NCCLCHECK(ncclGetUniqueId(&id));
  CUDACHECK(cudaMalloc((void**)&device, sizeof id));
  CUDACHECK(cudaMemcpy(device, &id, sizeof id, cudaMemcpyHostToDevice));
  NCCLCHECK(ncclBroadcast(device, device, sizeof id, ncclInt8, 0, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaMemcpy(&id, device, sizeof id, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(device));
  return id;
}

static ncclConfig_t nonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Rank 0 is late; the other ranks see that the call is in progress.
static void late(Example& ex) {
  if (ex.rank == 0) usleep(300000);
}

// The same, and rank 0 continues after all other ranks have called `seen`.
static void lateUntilSeen(Example& ex) {
  if (ex.rank == 0) meet(ex, ex.comm);
}

static void seen(Example& ex) {
  if (ex.rank != 0) meet(ex, ex.comm);
}

static void openInProgress(Example& ex, Traffic& traffic, ncclComm_t comm) {
  traffic.allocate(comm);
  ncclDevCommRequirements reqs = Traffic::needs();
  lateUntilSeen(ex);
  RETURNS(ncclInProgress, ncclCommWindowRegister(comm, traffic.memory, traffic.bytes(), &traffic.window, NCCL_WIN_COLL_SYMMETRIC));
  if (ex.rank == 1) {
    // Rank 0 is not there yet: nothing else can begin, and questions are answered.
    ncclResult_t state;
    NCCLCHECK(ncclCommGetAsyncError(comm, &state));
    WANT(state == ncclInProgress && traffic.window == NULL, "%s", ncclGetErrorString(state));
    ncclDevComm devComm;
    RETURNS(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, &devComm));
    RETURNS(ncclInvalidArgument, ncclCommFinalize(comm));
    int n;
    NCCLCHECK(ncclCommCount(comm, &n));
  }
  seen(ex);
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  WANT(traffic.window != NULL, "no window");
  late(ex);
  INPROGRESS(comm, ncclDevCommCreate(comm, &reqs, &traffic.devComm));
}

static void lifecycle(Example& ex) {
  ncclConfig_t config = nonBlocking();
  ncclComm_t comm = NULL;
  ncclUniqueId id = freshId(ex);
  lateUntilSeen(ex);
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, ex.nRanks, id, ex.rank, &config));
  WANT(comm != NULL, "no handle to ask about");
  if (ex.rank == 1 && ex.nRanks > 1) {
    ncclResult_t state;
    int n;
    NCCLCHECK(ncclCommGetAsyncError(comm, &state));
    WANT(state == ncclInProgress, "%s", ncclGetErrorString(state));
    RETURNS(ncclInvalidArgument, ncclCommCount(comm, &n));
    RETURNS(ncclInvalidArgument, ncclCommFinalize(comm));
  }
  seen(ex);
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  wantPlace(comm, ex.rank, ex.nRanks);
  Traffic traffic;
  openInProgress(ex, traffic, comm);
  traffic.start(3);
  traffic.check(ex);

  // Split: the parent is in progress, the child's handle comes when it is done. A collective alone waits for nobody.
  ncclComm_t half = (ncclComm_t)0x1;
  lateUntilSeen(ex);
  RETURNS(ncclInProgress, ncclCommSplit(comm, ex.rank % 2, 0, &half, NULL));
  WANT(ex.rank != 1 || half == NULL, "%p", (void*)half);
  seen(ex);
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  wantPlace(half, ex.rank / 2, (ex.nRanks + 1 - ex.rank % 2) / 2);
  meet(ex, half);

  // A group of several kinds of calls.
  Traffic other;
  other.allocate(half);
  ncclDevCommRequirements reqs = Traffic::needs();
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclCommWindowRegister(half, other.memory, other.bytes(), &other.window, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclDevCommCreate(half, &reqs, &other.devComm));
  INPROGRESS(half, ncclGroupEnd());
  other.start(2);
  traffic.start(2);
  other.check(ex);
  traffic.check(ex);
  other.close();
  // A blocking and a non-blocking communicator do not go into one group.
  NCCLCHECK(ncclGroupStart());
  ncclWindow_t window;
  NCCLCHECK(ncclCommWindowRegister(half, traffic.memory, 4, &window, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclCommWindowRegister(ex.comm, traffic.memory, 4, &window, NCCL_WIN_COLL_SYMMETRIC));
  RETURNS(ncclInvalidArgument, ncclGroupEnd());
  WANT(settle(half) == ncclInvalidArgument, "its ranks have been told: %s", ncclGetLastError(half));

  // A failure is the communicator's state until the next call.
  RETURNS(ncclInProgress, ncclCommWindowRegister(half, (char*)traffic.memory + 4, 4, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclResult_t failed = settle(half);
  WANT(failed == ncclInvalidArgument && window == NULL, "%s", ncclGetErrorString(failed));

  if (ex.nRanks > 2 && ex.rank > 0) {
    int list[1] = {0};
    ncclComm_t rest = (ncclComm_t)0x1;
    INPROGRESS(comm, ncclCommShrink(comm, list, 1, &rest, &config, NCCL_SHRINK_DEFAULT));
    wantPlace(rest, ex.rank - 1, ex.nRanks - 1);
    meet(ex, rest); // a revoke also ends what the others have not finished
    INPROGRESS(rest, ncclCommRevoke(rest, NCCL_REVOKE_DEFAULT));
    NCCLCHECK(ncclCommDestroy(rest));
  }
  traffic.close();
  ncclResult_t result = ncclCommFinalize(half);
  WANT(result == ncclInProgress, "%s", ncclGetErrorString(result));
  NCCLCHECK(ncclCommDestroy(half)); // safe while in progress
  INPROGRESS(comm, ncclCommFinalize(comm));
  NCCLCHECK(ncclCommDestroy(comm));
}

// A creation that nobody completes: aborted at once; and one that is destroyed while it goes on.
static void givenUp(Example& ex) {
  ncclConfig_t config = nonBlocking();
  ncclComm_t comm;
  ncclUniqueId id;
  NCCLCHECK(ncclGetUniqueId(&id));
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
  usleep(20000);
  double begin = seconds();
  NCCLCHECK(ncclCommAbort(comm));
  WANT(seconds() - begin < 30, "abort took %.1f s", seconds() - begin);
  ncclResult_t state;
  RETURNS(ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
  // The id is spent: whoever comes now is told so, and not left waiting.
  begin = seconds();
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 1, &config));
  WANT(settle(comm) != ncclSuccess && seconds() - begin < 60, "%s after %.1f s", ncclGetLastError(comm), seconds() - begin);
  NCCLCHECK(ncclCommDestroy(comm));

  id = freshId(ex);
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, ex.nRanks, id, ex.rank, &config));
  NCCLCHECK(ncclCommDestroy(comm)); // made, and then ended

  // An abort of the parent ends a child that is being made.
  id = freshId(ex);
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, ex.nRanks, id, ex.rank, &config));
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  if (ex.rank != 0) {
    ncclComm_t child = (ncclComm_t)0x1;
    RETURNS(ncclInProgress, ncclCommSplit(comm, 0, 0, &child, NULL));
    usleep(50000);
    begin = seconds();
    NCCLCHECK(ncclCommAbort(comm));
    WANT(seconds() - begin < 30 && child == NULL, "abort took %.1f s", seconds() - begin);
  } else {
    if (ex.nRanks > 1) {
      while (true) {
        NCCLCHECK(ncclCommGetAsyncError(comm, &state));
        if (state != ncclSuccess) break;
        usleep(1000);
      }
      WANT(state == ncclRemoteError, "%s", ncclGetErrorString(state));
    }
    NCCLCHECK(ncclCommAbort(comm));
  }
}

// A communicator that has failed tells of the shrink that was asked for; a revoke ends one that the others do not come to.
static void outlived(Example& ex) {
  if (ex.nRanks < 3) return;
  ncclConfig_t config = nonBlocking();
  ncclComm_t comm, rest = NULL, never = (ncclComm_t)0x1;
  int list[1] = {ex.nRanks - 1};
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, ex.nRanks, freshId(ex), ex.rank, &config));
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  meet(ex, ex.comm); // an abort also ends the creation of the others
  if (ex.rank != list[0]) {
    while (settle(comm) == ncclSuccess) usleep(1000);
    WANT(settle(comm) == ncclRemoteError, "%s", ncclGetLastError(comm));
    INPROGRESS(comm, ncclCommShrink(comm, list, 1, &rest, &config, NCCL_SHRINK_DEFAULT));
    wantPlace(rest, ex.rank, ex.nRanks - 1);
    NCCLCHECK(ncclCommDestroy(rest));
  } else {
    NCCLCHECK(ncclCommAbort(comm));
  }
  if (ex.rank == 0) {
    RETURNS(ncclInProgress, ncclCommShrink(comm, list, 1, &never, &config, NCCL_SHRINK_DEFAULT));
    usleep(50000);
    ncclResult_t state;
    NCCLCHECK(ncclCommGetAsyncError(comm, &state));
    WANT(state == ncclInProgress, "%s", ncclGetErrorString(state));
    double begin = seconds();
    RETURNS(ncclInProgress, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    settle(comm); // of the shrink, or of the revoke if that began when the shrink had ended
    WANT(never == NULL && seconds() - begin < 30, "revoke took %.1f s", seconds() - begin);
  }
  meet(ex, ex.comm);
  if (ex.rank != list[0]) NCCLCHECK(ncclCommAbort(comm));
}

// Finalized, destroyed, and the process ends, with its finalize perhaps still in progress: no death to the others.
static void leave(Example& ex) {
  ncclConfig_t config = nonBlocking();
  ncclComm_t comm;
  ncclUniqueId id = freshId(ex);
  RETURNS(ncclInProgress, ncclCommInitRankConfig(&comm, ex.nRanks, id, ex.rank, &config));
  WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
  if (ex.rank != 0) {
    usleep(300000);
    RETURNS(ncclInProgress, ncclCommFinalize(comm));
    WANT(settle(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
    NCCLCHECK(ncclCommDestroy(comm));
  } else {
    printf("nonblocking rank 0: ok, and gone\n");
    fflush(stdout);
    NCCLCHECK(ncclCommDestroy(ex.comm));
    RETURNS(ncclInProgress, ncclCommFinalize(comm));
    NCCLCHECK(ncclCommDestroy(comm));
    _exit(0);
  }
}

int runRank(Example& ex) {
  if (getenv("LEAVE")) {
    if (getenv("RANK")) leave(ex); // not where ranks are threads
    return 0;
  }
  lifecycle(ex);
  givenUp(ex);
  outlived(ex);
  return 0;
}
