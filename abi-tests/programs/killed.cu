// The last rank of a communicator is killed before a call that all make: `killed CASE` as processes; the others say what the call came to.
#include <fcntl.h>
#include <nccl_device.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "../common/ranks.h"

enum Case { SPLIT, SHRINK, WINDOW, DEVCOMM, CASES };
static const char* const names[CASES] = {"split", "shrink", "window", "devcomm"};
static int which;

static ncclResult_t call(ncclComm_t comm) {
  int leftOut = 0;
  ncclComm_t child = NULL;
  void* memory;
  ncclWindow_t window;
  ncclDevComm devComm;
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  switch (which) {
  case SPLIT: return ncclCommSplit(comm, 0, 0, &child, NULL);
  case SHRINK: return ncclCommShrink(comm, &leftOut, 1, &child, NULL, NCCL_SHRINK_DEFAULT);
  case WINDOW:
    CHECK(ncclMemAlloc(&memory, 4096));
    return ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
  default: return ncclDevCommCreate(comm, &requirements, &devComm);
  }
}

// A file of the job's folder: who is through with a call of all may be so before the others.
static std::string isThrough(int rank) { return std::string(getenv("GINRS_RUN_ID")) + "/through." + std::to_string(rank); }

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  ncclComm_t comm, none;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  // Behind it all have theirs.
  CHECK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  close(open(isThrough(rank).c_str(), O_CREAT | O_WRONLY, 0600));
  if (rank == ranks - 1) {
    for (int other = 0; other < rank; other++) {
      while (access(isThrough(other).c_str(), F_OK) != 0) usleep(1000);
    }
    raise(SIGKILL);
  }
  if (rank == 0 && which == SHRINK) {
    // Left out: its own end is not to be what the others are told of.
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) CHECK(ncclCommGetAsyncError(comm, &state));
  } else {
    ncclResult_t const result = call(comm);
    printf("rank %d: %d, %s\n", rank, result, ncclGetLastError(NULL)), fflush(stdout);
  }
  CHECK(ncclCommAbort(comm));
}

int main(int argc, char** argv) {
  which = whichOf(names, argc, argv);
  return which == CASES ? 2 : runRanks(0, runRank);
}
