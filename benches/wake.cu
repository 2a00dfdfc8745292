// How fast a put wakes the proxy of a communicator that has been idle, where nobody waits who would run its step; and what it costs
// while it is idle. Beside it an eventfd that wakes a thread, in the same run.
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "../examples-c/common/example.h"

static const int kWakes = 200;
static const useconds_t kQuiet = 150 * 1000; // longer than the proxy looks out for kernels after the last one

__device__ __host__ static double seconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Puts a number at offset 64 of the rank's own window, and says when it began to post that.
__global__ void post(ncclDevComm devComm, ncclWindow_t window, uint64_t number, double* at) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  *(uint64_t*)ncclGetLocalPointer(window, 0) = number;
  *at = seconds();
  gin.put(world, world.rank, window, 64, window, 0, 8);
}

__global__ void address(ncclWindow_t window, void** out) {
  *out = ncclGetLocalPointer(window, 64);
}

static void say(char const* what, std::vector<double> all) {
  std::sort(all.begin(), all.end());
  printf("%s: %.0f us, p99 %.0f us", what, 1e6 * all[all.size() / 2], 1e6 * all[all.size() * 99 / 100]);
}

int runRank(Example& ex) {
  ncclWindow_t window;
  void* memory = ex.allocWindow(4096, &window);
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  void** out;
  double* at;
  CUDACHECK(cudaMallocHost(&out, sizeof *out));
  CUDACHECK(cudaMallocHost(&at, sizeof *at));
  address<<<1, 1, 0, ex.stream>>>(window, out);
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  sleep(1);
  double used = seconds(CLOCK_PROCESS_CPUTIME_ID);
  sleep(1);
  double idle = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
  std::vector<double> wakes, floors;
  for (uint64_t i = 1; i <= kWakes; i++) {
    usleep(kQuiet);
    post<<<1, 1, 0, ex.stream>>>(devComm, window, i, at);
    while (__atomic_load_n((uint64_t*)*out, __ATOMIC_ACQUIRE) != i) {
    }
    double seen = seconds();
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    wakes.push_back(seen - *at);
  }

  int event = eventfd(0, 0);
  std::atomic<int> turn(0);
  std::thread sleeper([&] {
    for (int i = 1; i <= kWakes; i++) {
      uint64_t count;
      pollfd ready = {event, POLLIN, 0};
      poll(&ready, 1, -1);
      if (read(event, &count, 8) != 8) abort();
      turn = i;
    }
  });
  for (int i = 1; i <= kWakes; i++) {
    usleep(kQuiet / 10);
    uint64_t one = 1;
    double begin = seconds();
    if (write(event, &one, 8) != 8) abort();
    while (turn != i) {
    }
    floors.push_back(seconds() - begin);
  }
  sleeper.join();
  if (ex.rank == 0) {
    printf("idle for a second: %.2f %% of a core, wanted at most 5\n", 100 * idle);
    say("a put that nobody waits for, from post to landed", wakes);
    say(", wanted at most 100; an eventfd wakes a thread", floors);
    printf("\n");
  }
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(memory, window);
  return 0;
}
