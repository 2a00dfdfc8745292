// One rank's call is wrong, or its group drops it: the others, whose calls are right, hear of it within seconds, and the communicator
// goes on. 3 ranks and more; the last one is left out of what is shrunk.
#include <time.h>
#include <unistd.h>

#include "children.h"

static const double soon = 50;

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void meet(Example& ex, ncclComm_t comm) {
  int* sum;
  CUDACHECK(cudaMalloc((void**)&sum, sizeof *sum));
  NCCLCHECK(ncclAllReduce(sum, sum, 1, ncclInt, ncclSum, comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaFree(sum));
}

// What a rank's part of a call came to: the wrong rank's is its own fault, the others' names it.
static void told(Example& ex, const char* what, int wrong, ncclResult_t result, double begin, ncclResult_t others = ncclRemoteError) {
  ncclResult_t expected = ex.rank == wrong ? ncclInvalidArgument : others;
  double took = seconds() - begin;
  WANT(result == expected && took < soon, "%s: rank %d got %s after %.1f s: %s", what, ex.rank, ncclGetErrorString(result), took,
       ncclGetLastError(NULL));
  char name[20];
  snprintf(name, sizeof name, "rank %d", wrong);
  // The last error is the process's: among threads it may be the wrong rank's own.
  WANT(ex.rank == wrong || getenv("WORLD_SIZE") == NULL || strstr(ncclGetLastError(NULL), name) != NULL, "%s: %s", what, ncclGetLastError(NULL));
  meet(ex, ex.comm);
}

static void shrink(Example& ex, int wrong, bool inGroup, bool wrongList = false) {
  ncclComm_t rest = NULL;
  int list[1] = {ex.nRanks - 1};
  double begin = seconds();
  if (ex.rank == list[0]) return meet(ex, ex.comm);
  if (wrongList) {
    if (ex.rank == wrong) list[0] = ex.rank;
    ncclResult_t result = ncclCommShrink(ex.comm, list, 1, &rest, NULL, 0);
    if (ex.rank == wrong) usleep(6000000); // its next call is another one: it is seen until then
    return told(ex, "a shrink with a wrong list", wrong, result, begin, ncclInvalidArgument);
  }
  if (inGroup) NCCLCHECK(ncclGroupStart());
  ncclResult_t result = ncclCommShrink(ex.comm, list, 1, &rest, NULL, ex.rank == wrong && !inGroup ? 7 : 0);
  if (inGroup) {
    if (ex.rank == wrong) RETURNS(ncclInvalidArgument, ncclCommWindowRegister(ex.comm, &result, 0, NULL, 0));
    result = ncclGroupEnd();
  }
  told(ex, inGroup ? "a shrink in a group" : "a shrink", wrong, result, begin);
  WANT(rest == NULL, "%p", (void*)rest);
}

static void split(Example& ex, bool own) {
  ncclComm_t part = NULL, *where = own && ex.rank == 1 ? NULL : &part;
  double begin = seconds();
  NCCLCHECK(ncclGroupStart());
  ncclResult_t result = ncclCommSplit(ex.comm, 0, 0, where, NULL);
  if (!own && ex.rank == 1) RETURNS(ncclInvalidArgument, ncclCommWindowRegister(ex.comm, &result, 0, NULL, 0));
  result = ncclGroupEnd();
  told(ex, own ? "a wrong split in a group" : "a split in a group", 1, result, begin);
  WANT(part == NULL, "%p", (void*)part);
}

// Windows and device communicators, of which rank 1 has the first one wrong, or whose group fails there: all of a group are given up.
static void windows(Example& ex, bool inGroup, bool own) {
  const bool wrong = ex.rank == 1;
  void* memory;
  NCCLCHECK(ncclMemAlloc(&memory, 8192));
  ncclWindow_t first = NULL, second = NULL;
  ncclDevComm devComm;
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  double begin = seconds();
  if (inGroup) NCCLCHECK(ncclGroupStart());
  ncclResult_t result = ncclCommWindowRegister(ex.comm, memory, 4096, own && wrong ? NULL : &first, 0);
  if (inGroup) {
    NCCLCHECK(ncclCommWindowRegister(ex.comm, memory, 8192, &second, 0));
    NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
    if (!own && wrong) RETURNS(ncclInvalidArgument, ncclCommWindowRegister(ex.comm, memory, 0, NULL, 0));
    result = ncclGroupEnd();
  }
  told(ex, inGroup ? "windows in a group" : "a window", 1, result, begin, ncclInvalidArgument);
  WANT(first == NULL && second == NULL, "%p %p", (void*)first, (void*)second);
  begin = seconds();
  result = ncclDevCommCreate(ex.comm, wrong ? NULL : &reqs, &devComm);
  told(ex, "a device communicator", 1, result, begin, ncclInvalidArgument);
  // Their numbers are alike on all ranks.
  NCCLCHECK(ncclCommWindowRegister(ex.comm, memory, 4096, &first, 0));
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, first));
  NCCLCHECK(ncclMemFree(memory));
}

static void init(Example& ex) {
  ncclUniqueId id, *shared;
  if (ex.rank == 0) NCCLCHECK(ncclGetUniqueId(&id));
  CUDACHECK(cudaMalloc((void**)&shared, sizeof id));
  CUDACHECK(cudaMemcpy(shared, &id, sizeof id, cudaMemcpyHostToDevice));
  NCCLCHECK(ncclBroadcast(shared, shared, sizeof id, ncclInt8, 0, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaMemcpy(&id, shared, sizeof id, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(shared));
  ncclComm_t comm = NULL;
  double begin = seconds();
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclCommInitRank(&comm, ex.nRanks, id, ex.rank));
  if (ex.rank == 1) RETURNS(ncclInvalidArgument, ncclCommWindowRegister(ex.comm, &id, 0, NULL, 0));
  told(ex, "an init in a group", 1, ncclGroupEnd(), begin);
  NCCLCHECK(ncclCommDestroy(comm));
}

int runRank(Example& ex) {
  const char* what = getenv("DECLINED");
  const bool all = what == NULL;
  if (all || !strcmp(what, "init")) init(ex);
  if (all || !strcmp(what, "split")) split(ex, false), split(ex, true);
  if (all || !strcmp(what, "windows")) windows(ex, false, true), windows(ex, true, true), windows(ex, true, false);
  if (all || !strcmp(what, "shrink")) shrink(ex, 0, false), shrink(ex, 1, false), shrink(ex, 1, true), shrink(ex, 1, false, true);
  // Nothing of it is left: the same calls, right on all ranks.
  ncclComm_t rest = NULL, part = NULL;
  int list[1] = {ex.nRanks - 1};
  if (ex.rank != list[0]) {
    NCCLCHECK(ncclCommShrink(ex.comm, list, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
    meet(ex, rest);
    NCCLCHECK(ncclCommDestroy(rest));
  }
  NCCLCHECK(ncclCommSplit(ex.comm, 0, 0, &part, NULL));
  meet(ex, part);
  NCCLCHECK(ncclCommDestroy(part));
  return 0;
}
