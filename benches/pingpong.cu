// An 8-byte put with a signal there and back between kernels of two ranks, beside the floor measured in the same run: the host
// threads of both ranks hand a flag to and fro in the same windows, with nothing in between.
#include <algorithm>
#include <chrono>

#include "../examples-c/common/example.h"

static const int kTurns = 20000, kRepeats = 5;

__global__ void pingPong(ncclDevComm devComm, ncclWindow_t window, int turns) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  uint64_t seen = *gin.getSignalShadowPtr(0); // what earlier launches have used up
  int peer = 1 - world.rank;
  for (int turn = 0; turn < turns; turn++) {
    if (world.rank == 0) gin.put(world, peer, window, 64, window, 128, 8, ncclGin_SignalInc{0});
    gin.waitSignal(ncclCoopThread(), 0, seen + turn + 1);
    if (world.rank == 1) gin.put(world, peer, window, 64, window, 128, 8, ncclGin_SignalInc{0});
  }
  gin.increaseSignalShadow(0, turns);
}

__global__ void peerAddress(ncclDevComm devComm, ncclWindow_t window, void** out) {
  out[0] = ncclGetLocalPointer(window, 0);
  out[1] = ncclGetLsaPointer(window, 0, 1 - devComm.rank);
}

template <typename Work>
static double medianNanoseconds(Work work) {
  double all[kRepeats];
  for (double& one : all) {
    auto start = std::chrono::steady_clock::now();
    work();
    one = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kTurns;
  }
  std::sort(all, all + kRepeats);
  return all[kRepeats / 2];
}

int runRank(Example& ex) {
  if (ex.nRanks != 2) {
    fprintf(stderr, "%d ranks: this benchmark wants 2\n", ex.nRanks);
    return 1;
  }
  ncclWindow_t window;
  void* memory = ex.allocWindow(4096, &window);
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));

  void** addresses;
  CUDACHECK(cudaMallocHost(&addresses, 2 * sizeof(void*)));
  peerAddress<<<1, 1, 0, ex.stream>>>(devComm, window, addresses);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  uint64_t *mine = (uint64_t*)addresses[0], *theirs = (uint64_t*)addresses[1], turn = 0;
  double floor = medianNanoseconds([&] {
    for (int i = 0; i < kTurns; i++) {
      turn++;
      if (ex.rank == 0) __atomic_store_n(theirs, turn, __ATOMIC_RELEASE);
      while (__atomic_load_n(mine, __ATOMIC_ACQUIRE) < turn) {
      }
      if (ex.rank == 1) __atomic_store_n(theirs, turn, __ATOMIC_RELEASE);
    }
  });
  double put = medianNanoseconds([&] {
    pingPong<<<1, 1, 0, ex.stream>>>(devComm, window, kTurns);
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  });
  if (ex.rank == 0)
    printf("kernel put+signal round trip, %s: %.0f ns; floor (two flags): %.0f ns; ratio %.2f, wanted at most 4\n",
           getenv("RANK") ? "processes" : "threads", put, floor, put / floor);
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  CUDACHECK(cudaFreeHost(addresses));
  ex.freeWindow(memory, window);
  return 0;
}
