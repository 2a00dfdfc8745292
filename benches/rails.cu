// All-reduce over several LSA teams beside a model of it: the bytes of the algorithm over the link as measured here, and its rounds times
// the latency as measured here. Latency and link are those of all rails at once, by kernels that only put: what the ranks of a rail have
// while all others use theirs, too.
//
//   GINRS_FAKE_MACHINES=0,0,0,0,1,1,1,1 ginrs-run -n 8 ./rails      also GINRS_FAKE_NODES, --threads 8, real machines; BYTES=largest
#include <algorithm>
#include <chrono>
#include <cmath>

#include "../examples-c/common/example.h"

static const int kStreams = 4, kRepeats = 5;
static const size_t kMessage = 64 << 10;

// Every rank puts to the next team's and waits for the one before it: `turns` times, each behind the other.
__global__ void around(ncclDevComm comm, ncclWindow_t window, int turns) {
  ncclGin gin(comm, 0);
  ncclTeam rail = ncclTeamRail(comm);
  uint64_t seen = *gin.getSignalShadowPtr(0);
  for (int turn = 1; turn <= turns; turn++) {
    gin.put(rail, (rail.rank + 1) % rail.nRanks, window, 64, window, 128, 8, ncclGin_SignalInc{0});
    gin.waitSignal(ncclCoopThread(), 0, seen + turn);
  }
  gin.increaseSignalShadow(0, turns);
}

// The same with large messages that do not wait for each other, on every context.
__global__ void stream(ncclDevComm comm, ncclWindow_t window, int messages) {
  ncclGin gin(comm, blockIdx.x);
  ncclTeam rail = ncclTeamRail(comm);
  uint64_t seen = *gin.getSignalShadowPtr(0);
  size_t to = 4096 + blockIdx.x * kMessage, from = to + kStreams * kMessage;
  for (int i = 0; i < messages; i++) gin.put(rail, (rail.rank + 1) % rail.nRanks, window, to, window, from, kMessage, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopThread(), 0, seen + messages);
  gin.flush(ncclCoopThread());
  gin.increaseSignalShadow(0, messages);
}

// Seconds; all ranks begin together, and the slowest counts.
template <typename Work>
static double median(Example& ex, float* meeting, Work work) {
  double all[kRepeats];
  for (double& one : all) {
    NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    auto start = std::chrono::steady_clock::now();
    work();
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    float took = std::chrono::duration<float>(std::chrono::steady_clock::now() - start).count();
    CUDACHECK(cudaMemcpy(meeting, &took, sizeof took, cudaMemcpyHostToDevice));
    NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
    CUDACHECK(cudaMemcpyAsync(&took, meeting, sizeof took, cudaMemcpyDeviceToHost, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    one = took;
  }
  std::sort(all, all + kRepeats);
  return all[kRepeats / 2];
}

int runRank(Example& ex) {
  size_t largest = getenv("BYTES") ? strtoull(getenv("BYTES"), NULL, 0) : 4 << 20;
  ncclWindow_t window;
  void* memory = ex.allocWindow(4096 + 2 * kStreams * kMessage, &window);
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  ncclDevComm comm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &comm));
  int ranks = comm.lsaSize, teams = ex.nRanks / ranks, streams = std::min<int>(kStreams, comm.ginContextCount);
  char* buffer;
  CUDACHECK(cudaMalloc(&buffer, largest));
  CUDACHECK(cudaMemset(buffer, 0, largest));
  float* meeting = (float*)buffer;

  const int turns = 200, messages = 64;
  around<<<1, 1, 0, ex.stream>>>(comm, window, 4);
  double latency = median(ex, meeting, [&] { around<<<1, 1, 0, ex.stream>>>(comm, window, turns); }) / turns;
  double link = streams * messages * kMessage / median(ex, meeting, [&] { stream<<<streams, 1, 0, ex.stream>>>(comm, window, messages); });
  if (ex.rank == 0) printf("%d teams of %d: latency %.1f us, link %.0f MB/s for each rank\n", teams, ranks, latency * 1e6, link / 1e6);
  for (size_t bytes = 64 << 10; bytes <= largest; bytes *= 4) {
    int calls = (int)std::max<size_t>(3, (4 << 20) / bytes);
    double took = median(ex, meeting, [&] {
      for (int i = 0; i < calls; i++) NCCLCHECK(ncclAllReduce(buffer, buffer, bytes / 4, ncclFloat, ncclMax, ex.comm, ex.stream));
    }) / calls;
    double piece = (double)bytes / ranks, doublings = ceil(log2(teams)), rounds = 2.0 * (teams - 1);
    double ring = rounds * latency + rounds / teams * piece / link, tree = doublings * (latency + piece / link), model = std::min(ring, tree);
    if (ex.rank == 0) printf("%9zu bytes: %9.1f us, model %9.1f us (%s), ratio %.2f\n", bytes, took * 1e6, model * 1e6, ring < tree ? "ring" : "tree", took / model);
  }
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
  CUDACHECK(cudaFree(buffer));
  ex.freeWindow(memory, window);
  return 0;
}
