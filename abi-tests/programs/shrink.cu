// ncclCommShrink, by SHRINK:
//   default   some ranks are left out; all live, and the parent goes on
//   abort     NCCL_SHRINK_ABORT while kernels wait for ranks that never come
//   kill      the ranks that are left out are killed while the others wait for them in kernels
//   dead      likewise, and they shrink after they have heard of it
//   during    rank 1 is killed while the others shrink: they are told, by name, and shrink without it
//   late      rank 2 is killed, rank 0 hears of it in its shrink and leaves, rank 1 shrinks then: it is told of rank 2
//   split     rank 1 is killed while the others split: they are told, by name
//   beside    all revoke, rank 1 is killed, the others split: they are told, by name
//   unaware   rank 0 revokes and all split: who was told of the revoke splits again
//   lists     ranks that leave out different ranks are told so
//   revoke    ncclCommRevoke, then shrink and split
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "children.h"

__global__ void waitForever(ncclDevComm devComm) {
  ncclGin gin(devComm, 0);
  gin.waitSignal(ncclCoopCta(), 0, 1ull << 40);
}

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Its kernels wait; all ranks have come so far.
static void keepWaiting(Example& ex, Traffic& traffic) {
  traffic.open(ex.comm);
  traffic.start(1);
  traffic.check(ex);
  waitForever<<<1, 32, 0, traffic.stream>>>(traffic.devComm);
  CUDACHECK(cudaGetLastError());
}

static void talkOn(Example& ex, ncclComm_t comm) {
  Traffic traffic;
  traffic.open(comm);
  traffic.start(3);
  traffic.check(ex);
  traffic.close();
}

// Left out: rank 0 and the last one, said twice and out of order. Their places are taken by the others.
static void withoutEnds(Example& ex, int flags) {
  if (ex.rank == 0 || ex.rank == ex.nRanks - 1) return;
  int list[3] = {ex.nRanks - 1, 0, 0};
  ncclComm_t child = (ncclComm_t)0x1;
  NCCLCHECK(ncclCommShrink(ex.comm, list, 3, &child, NULL, flags));
  WANT(list[0] == 0 && list[1] == 0 && list[2] == ex.nRanks - 1, "%d %d %d", list[0], list[1], list[2]);
  wantPlace(child, ex.rank - 1, ex.nRanks - 2);
  talkOn(ex, child);
  // Again, of the child.
  if (ex.nRanks > 3 && ex.rank != 1) {
    int first[1] = {0};
    ncclComm_t smaller;
    NCCLCHECK(ncclCommShrink(child, first, 1, &smaller, NULL, NCCL_SHRINK_DEFAULT));
    wantPlace(smaller, ex.rank - 2, ex.nRanks - 3);
    talkOn(ex, smaller);
    NCCLCHECK(ncclCommDestroy(smaller));
  }
  NCCLCHECK(ncclCommDestroy(child));
}

static void refused(Example& ex) {
  ncclComm_t child;
  int none[1] = {ex.nRanks}, self[1] = {ex.rank}, negative[1] = {-1};
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, NULL, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, self, 0, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, self, -1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, self, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, none, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, negative, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, none, 1, &child, NULL, 2));
  RETURNS(ncclInvalidArgument, ncclCommShrink(ex.comm, none, 1, NULL, NULL, NCCL_SHRINK_DEFAULT));
}

// Kernels of all ranks wait; then the ranks shrink. `dies`: this rank.
static void aborting(Example& ex, bool dies, int flags) {
  Traffic parent;
  keepWaiting(ex, parent);
  if (dies) {
    usleep(200000);
    raise(SIGKILL);
  }
  if (flags == NCCL_SHRINK_DEFAULT) CUDACHECK(cudaStreamSynchronize(parent.stream));
  bool out = ex.rank == ex.nRanks - 1;
  if (!out) {
    int list[1] = {ex.nRanks - 1};
    ncclComm_t child;
    double begin = seconds();
    NCCLCHECK(ncclCommShrink(ex.comm, list, 1, &child, NULL, flags));
    WANT(seconds() - begin < 50, "shrink took %.1f s", seconds() - begin);
    wantPlace(child, ex.rank, ex.nRanks - 1);
    talkOn(ex, child);
    NCCLCHECK(ncclCommDestroy(child));
  }
  // The kernels have left, also on a rank that was left out.
  CUDACHECK(cudaStreamSynchronize(parent.stream));
  ncclResult_t state;
  NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
  WANT(state == ncclRemoteError, "%s", ncclGetErrorString(state));
  RETURNS(ncclRemoteError, ncclCommFinalize(ex.comm));
  parent.close();
}

// What ends in an error that says `text`, on every rank that lives.
template <typename Call>
static void fails(ncclResult_t code, const char* text, Call call) {
  ncclComm_t child = (ncclComm_t)0x1;
  double begin = seconds();
  ncclResult_t result = call(&child);
  const char* said = ncclGetLastError(NULL);
  WANT(result == code && strstr(said, text), "%s: %s", ncclGetErrorString(result), said);
  WANT(child == NULL && seconds() - begin < 50, "%p after %.1f s", (void*)child, seconds() - begin);
}

// Rank 1 dies instead of coming to the shrink.
static void during(Example& ex) {
  talkOn(ex, ex.comm);
  int last = ex.nRanks - 1;
  int list[2] = {last, 1};
  if (ex.rank == last) {
    usleep(3000000);
    return;
  }
  if (ex.rank == 1) {
    usleep(500000);
    raise(SIGKILL);
  }
  fails(ncclRemoteError, "rank 1",
        [&](ncclComm_t* child) { return ncclCommShrink(ex.comm, list, 1, child, NULL, NCCL_SHRINK_ABORT); });
  ncclComm_t child;
  NCCLCHECK(ncclCommShrink(ex.comm, list, 2, &child, NULL, NCCL_SHRINK_ABORT));
  wantPlace(child, ex.rank == 0 ? 0 : ex.rank - 1, ex.nRanks - 2);
  talkOn(ex, child);
  NCCLCHECK(ncclCommDestroy(child));
}

// Who has died is told, not who has left because of it.
static void late(Example& ex) {
  talkOn(ex, ex.comm);
  int last = ex.nRanks - 1;
  if (ex.rank == last) return (void)usleep(3000000);
  if (ex.rank == 2) {
    usleep(200000);
    raise(SIGKILL);
  }
  if (ex.rank == 1) usleep(1000000);
  fails(ncclRemoteError, "rank 2 (pid ",
        [&](ncclComm_t* child) { return ncclCommShrink(ex.comm, &last, 1, child, NULL, NCCL_SHRINK_ABORT); });
}

static void splitting(Example& ex) {
  talkOn(ex, ex.comm);
  if (ex.rank == 1) {
    usleep(300000);
    raise(SIGKILL);
  }
  fails(ncclRemoteError, "rank 1", [&](ncclComm_t* child) { return ncclCommSplit(ex.comm, ex.rank % 2, 0, child, NULL); });
  ncclResult_t state; // at once
  NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
  WANT(state == ncclRemoteError, "%s", ncclGetErrorString(state));
  RETURNS(ncclRemoteError, ncclCommFinalize(ex.comm));
}

static void besideTheDead(Example& ex) {
  talkOn(ex, ex.comm);
  usleep(200000); // all have left the kernel
  NCCLCHECK(ncclCommRevoke(ex.comm, NCCL_REVOKE_DEFAULT));
  if (ex.rank == 1) {
    usleep(300000);
    raise(SIGKILL);
  }
  fails(ncclRemoteError, "rank 1", [&](ncclComm_t* child) { return ncclCommSplit(ex.comm, ex.rank % 2, 0, child, NULL); });
  usleep(3000000); // the other rank learns of the death before this rank aborts
}

static void unaware(Example& ex) {
  talkOn(ex, ex.comm);
  if (ex.rank == 0) {
    usleep(200000); // the others are in their split
    NCCLCHECK(ncclCommRevoke(ex.comm, NCCL_REVOKE_DEFAULT));
  }
  ncclComm_t child;
  ncclResult_t first = ncclCommSplit(ex.comm, 0, 0, &child, NULL);
  if (first != ncclSuccess) {
    WANT(ex.rank != 0 && strstr(ncclGetLastError(NULL), "ncclCommRevoke was called"), "%s", ncclGetLastError(NULL));
    NCCLCHECK(ncclCommSplit(ex.comm, 0, 0, &child, NULL));
  }
  wantPlace(child, ex.rank, ex.nRanks);
  talkOn(ex, child);
  NCCLCHECK(ncclCommDestroy(child));
}

static void differentLists(Example& ex) {
  int list[1] = {ex.rank == 0 ? 1 : 2};
  if (ex.rank == 1 || ex.rank == 2) return (void)usleep(5000000);
  fails(ncclInvalidArgument, "leave out different ranks",
        [&](ncclComm_t* child) { return ncclCommShrink(ex.comm, list, 1, child, NULL, NCCL_SHRINK_DEFAULT); });
  usleep(3000000); // the other rank learns of the death before this rank aborts
}

static void revoking(Example& ex) {
  Traffic parent;
  keepWaiting(ex, parent);
  RETURNS(ncclInvalidArgument, ncclCommRevoke(ex.comm, 1));
  if (ex.rank == 0) usleep(200000);
  NCCLCHECK(ncclCommRevoke(ex.comm, NCCL_REVOKE_DEFAULT));
  CUDACHECK(cudaStreamSynchronize(parent.stream));
  ncclResult_t state;
  NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
  WANT(state == ncclSuccess, "%s", ncclGetErrorString(state));
  RETURNS(ncclInvalidArgument, ncclCommRevoke(ex.comm, NCCL_REVOKE_DEFAULT));
  RETURNS(ncclInvalidArgument, ncclCommFinalize(ex.comm));
  ncclWindow_t window;
  RETURNS(ncclInvalidArgument, ncclCommWindowRegister(ex.comm, parent.memory, 4, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevComm devComm;
  ncclDevCommRequirements reqs = Traffic::needs();
  RETURNS(ncclInvalidArgument, ncclDevCommCreate(ex.comm, &reqs, &devComm));
  for (int i = 0; i < 2; i++) {
    ncclComm_t half;
    NCCLCHECK(ncclCommSplit(ex.comm, ex.rank % 2, 0, &half, NULL));
    wantPlace(half, ex.rank / 2, (ex.nRanks + 1 - ex.rank % 2) / 2);
    talkOn(ex, half);
    NCCLCHECK(ncclCommDestroy(half));
  }
  withoutEnds(ex, NCCL_SHRINK_DEFAULT);
  parent.close();
}

// Ranks of this process, and those that are done: one thread ends the process.
static std::atomic<int> here{0}, done{0};

int runRank(Example& ex) {
  here++;
  const char* what = getenv("SHRINK");
  if (!what) what = "default";
  refused(ex);
  if (!strcmp(what, "default")) {
    withoutEnds(ex, NCCL_SHRINK_DEFAULT);
    talkOn(ex, ex.comm);
    return 0;
  }
  if (!strcmp(what, "revoke")) revoking(ex);
  else if (!strcmp(what, "during")) during(ex);
  else if (!strcmp(what, "late")) late(ex);
  else if (!strcmp(what, "split")) splitting(ex);
  else if (!strcmp(what, "beside")) besideTheDead(ex);
  else if (!strcmp(what, "unaware")) unaware(ex);
  else if (!strcmp(what, "lists")) differentLists(ex);
  else {
    bool dead = !strcmp(what, "dead"), kills = dead || !strcmp(what, "kill");
    aborting(ex, kills && ex.rank == ex.nRanks - 1, dead ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT);
  }
  // The parent is good for its end only.
  NCCLCHECK(!strcmp(what, "revoke") || !strcmp(what, "unaware") ? ncclCommDestroy(ex.comm) : ncclCommAbort(ex.comm));
  NCCLCHECK(ncclGetVersion(&ex.nRanks)); // the library stands
  printf("shrink rank %d: ok, %s, %zu elements checked\n", ex.rank, what, ex.elementsChecked);
  fflush(stdout);
  done++;
  while (done < here) usleep(1000);
  _exit(0);
}
