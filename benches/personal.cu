// All-to-all, gather and scatter over several LSA teams, one line for a kind and size: the time of a call by the slowest rank's clock, and the
// processor time of a rank. GINRS_COLLECTIVE asks for the way (staged, ring, tree): run the ways in turns.
//
//   benches/rails.sh build/personal 2x4 1gbit            machines with limited links between them, as root
//   GINRS_FAKE_MACHINES=0,0,1,1 ginrs-run -n 4 ./personal      LEAST=64 BYTES=of a rank for another, at most; TURNS=9; KIND=Gather
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "../examples-c/common/example.h"

static double processorTime() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Seconds of `work` by the slowest rank, and of the processors by the mean of the ranks.
static void timed(Example& ex, float* meeting, std::function<void()> work, float took[2]) {
  NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  auto start = std::chrono::steady_clock::now();
  double before = processorTime();
  work();
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  took[0] = std::chrono::duration<float>(std::chrono::steady_clock::now() - start).count();
  took[1] = (float)(processorTime() - before);
  CUDACHECK(cudaMemcpyAsync(meeting, took, 8, cudaMemcpyHostToDevice, ex.stream));
  NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
  NCCLCHECK(ncclAllReduce(meeting + 1, meeting + 1, 1, ncclFloat, ncclAvg, ex.comm, ex.stream));
  CUDACHECK(cudaMemcpyAsync(took, meeting, 8, cudaMemcpyDeviceToHost, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
}

int runRank(Example& ex) {
  size_t largest = getenv("BYTES") ? strtoull(getenv("BYTES"), NULL, 0) : 256 << 10;
  size_t least = getenv("LEAST") ? strtoull(getenv("LEAST"), NULL, 0) : 64;
  int turns = getenv("TURNS") ? atoi(getenv("TURNS")) : 9;
  char *send, *recv;
  float* meeting;
  CUDACHECK(cudaMalloc(&send, largest * ex.nRanks));
  CUDACHECK(cudaMalloc(&recv, largest * ex.nRanks));
  CUDACHECK(cudaMalloc(&meeting, 8));
  CUDACHECK(cudaMemset(meeting, 0, 8));
  CUDACHECK(cudaMemset(send, 1, largest * ex.nRanks));
  const char* const names[] = {"AlltoAll", "Gather", "Scatter"};
  const char* only = getenv("KIND");
  for (int kind = 0; kind < 3; kind++) {
    if (only && strcmp(only, names[kind]) != 0) continue;
    for (size_t bytes = least; bytes <= largest; bytes *= 4) {
      int calls = bytes <= 16 << 10 ? 8 : 2;
      std::vector<float> all[2];
      for (int turn = -1; turn < turns; turn++) {
        float took[2];
        timed(ex, meeting, [&] {
          for (int i = 0; i < calls; i++) {
            if (kind == 0) NCCLCHECK(ncclAlltoAll(send, recv, bytes, ncclChar, ex.comm, ex.stream));
            if (kind == 1) NCCLCHECK(ncclGather(send, recv, bytes, ncclChar, 0, ex.comm, ex.stream));
            if (kind == 2) NCCLCHECK(ncclScatter(send, recv, bytes, ncclChar, 0, ex.comm, ex.stream));
          }
        }, took);
        for (int i = 0; i < 2 && turn >= 0; i++) all[i].push_back(1e6f * took[i] / calls);
      }
      for (auto& one : all) std::sort(one.begin(), one.end());
      if (ex.rank != 0) continue;
      printf("%-8s %7zu bytes: median %9.1f us, least %9.1f, processor time of a rank %9.1f\n", names[kind], bytes, all[0][turns / 2], all[0][0], all[1][turns / 2]);
      fflush(stdout);
    }
  }
  CUDACHECK(cudaFree(send));
  CUDACHECK(cudaFree(recv));
  CUDACHECK(cudaFree(meeting));
  return 0;
}
