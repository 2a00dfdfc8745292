// A ring with known puts: in each of 3 rounds each of 2 blocks puts 64 bytes to the next rank, with a signal of its own, and waits for the
// previous rank's. `ring [CASE]` under ginrs-run, `ring CASE threads N` as threads of one process; CASE says how it ends.
// tests/timeline.rs runs it and finds the marked lines.
#include <nccl.h>
#include <ginrs_bootstrap.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                            \
  do {                                                                                         \
    int result = int(call);                                                                    \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

constexpr int rounds = 3;

__global__ void ring(ncclDevComm comm, ncclWindow_t window) {
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  int next = (comm.rank + 1) % comm.nRanks;
  for (int round = 1; round <= rounds; round++) {
    gin.put(ncclTeamWorld(comm), next, window, 1024 + 64 * blockIdx.x, window, 64 * blockIdx.x, 64,
            ncclGin_SignalInc{blockIdx.x}, ncclGin_None{}, cta);
    gin.waitSignal(cta, blockIdx.x, round);  // the wait
  }
  gin.flush(cta);  // the flush
}

static std::string how;

static void runRank(int rank, int ranks, ncclUniqueId id, int device) {
  ncclComm_t comm;
  CHECK(cudaSetDevice(device));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  ncclWindow_t window;
  CHECK(ncclMemAlloc(&memory, 1 << 12));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 12, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 2, needs.ginForceEnable = true;
  ncclDevComm device_comm;
  CHECK(ncclDevCommCreate(comm, &needs, &device_comm));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  ring<<<2, 32, 0, stream>>>(device_comm, window);
  CHECK(cudaStreamSynchronize(stream));
  if (how == "fork") {  // the child's calls stand in no file, and it ends without harm
    pid_t child = fork();
    if (child == 0) {
      ncclUniqueId other;
      ncclGetUniqueId(&other);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  if (how == "exec") execl("/proc/self/exe", "ring", "again", nullptr);
  if (rank == 0) {
    if (how == "abort") abort();
    if (how == "exit") exit(0);
    if (how == "quick_exit") quick_exit(0);
    if (how == "term") raise(SIGTERM);
    if (how == "kill") raise(SIGKILL);
  }
  if (how == "exit" || how == "quick_exit") return;
  CHECK(ncclDevCommDestroy(comm, &device_comm));
  CHECK(ncclCommWindowDeregister(comm, window));
  CHECK(ncclMemFree(memory));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: ok\n", rank);
}

int main(int argc, char** argv) {
  how = argc > 1 ? argv[1] : "";
  ncclUniqueId id;
  if (argc > 3) {
    int ranks = atoi(argv[3]);
    CHECK(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) threads.emplace_back(runRank, rank, ranks, id, rank);
    for (auto& thread : threads) thread.join();
    return 0;
  }
  if (how == "again") return 0;
  ginrsBootstrap boot;
  CHECK(ginrsBootstrapInit(&boot));
  CHECK(ginrsBootstrapUniqueId(&boot, &id));
  runRank(boot.rank, boot.nRanks, id, boot.rank);
}
