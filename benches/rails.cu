// All-reduce over several LSA teams beside two floors of the same run, by plain sockets between the same processes.
//
//   model   the bytes of the algorithm over the link, and its rounds times the latency: both as a rank has them while all others use
//           their rails, too
//   tcp     the same bytes in the same rounds, nothing added up: where it is far above the model the machine's cores are the limit
//
// All of them are timed in turns; the median of each counts.
//
//   benches/rails.sh build/rails 2x4 1gbit               machines with limited links between them, as root
//   GINRS_FAKE_MACHINES=0,0,0,0,1,1,1,1 ginrs-run -n 8 ./rails      also GINRS_FAKE_NODES, --hosts; BYTES=largest, TURNS=15
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include "../examples-c/common/example.h"

// A socket to the next rank of the rail, and one from the rank before.
struct Sockets {
  int out, in;
  std::vector<char> memory;

  // Where other ranks reach this one: the first address that is not the loopback's, if there is one.
  static in_addr ownAddress() {
    in_addr own = {htonl(INADDR_LOOPBACK)};
    ifaddrs* all;
    if (getifaddrs(&all) != 0) return own;
    for (ifaddrs* one = all; one != NULL; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP)) continue;
      own = ((sockaddr_in*)one->ifa_addr)->sin_addr;
      break;
    }
    freeifaddrs(all);
    return own;
  }

  Sockets(Example& ex, ncclDevComm const& comm) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    sockaddr_in own = {};
    own.sin_family = AF_INET, own.sin_addr = ownAddress();
    socklen_t length = sizeof own;
    std::vector<sockaddr_in> all(ex.nRanks);
    if (bind(listener, (sockaddr*)&own, sizeof own) || listen(listener, 4) || getsockname(listener, (sockaddr*)&own, &length)) exampleFailed("listen");
    char* places;
    CUDACHECK(cudaMalloc(&places, ex.nRanks * sizeof own));
    CUDACHECK(cudaMemcpy(places + ex.rank * sizeof own, &own, sizeof own, cudaMemcpyHostToDevice));
    NCCLCHECK(ncclAllGather(places + ex.rank * sizeof own, places, sizeof own, ncclChar, ex.comm, ex.stream));
    CUDACHECK(cudaMemcpyAsync(all.data(), places, ex.nRanks * sizeof own, cudaMemcpyDeviceToHost, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    CUDACHECK(cudaFree(places));
    out = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(out, (sockaddr*)&all[(ex.rank + comm.lsaSize) % ex.nRanks], sizeof own)) exampleFailed("connect");
    in = accept(listener, NULL, NULL);
    if (in < 0) exampleFailed("accept");
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    close(listener);
  }
  ~Sockets() { close(out), close(in); }
  static void exampleFailed(const char* what) { perror(what), exit(1); }

  // So many bytes to the next, and as many from the one before.
  void round(size_t bytes) {
    memory.resize(std::max(memory.size(), 2 * bytes));
    for (size_t sent = 0, got = 0; sent < bytes || got < bytes;) {
      ssize_t put = sent < bytes ? send(out, &memory[sent], bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
      ssize_t took = got < bytes ? recv(in, &memory[bytes + got], bytes - got, MSG_DONTWAIT) : -1;
      if (took == 0) exampleFailed("the rank before has left");
      sent += std::max<ssize_t>(put, 0), got += std::max<ssize_t>(took, 0);
      if (put > 0 || took > 0) continue;
      pollfd both[2] = {{out, (short)(sent < bytes ? POLLOUT : 0), 0}, {in, (short)(got < bytes ? POLLIN : 0), 0}};
      poll(both, 2, 1000);
    }
  }
};

static double processorTime() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// What something took, in seconds: by the slowest rank's clock, and of the processors by the mean of the ranks.
struct Timed {
  std::vector<float> took[2];

  void time(Example& ex, std::function<void()> work) {
    float* meeting;
    CUDACHECK(cudaMalloc(&meeting, 8));
    NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    auto start = std::chrono::steady_clock::now();
    double before = processorTime();
    work();
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    float own[2] = {std::chrono::duration<float>(std::chrono::steady_clock::now() - start).count(), (float)(processorTime() - before)};
    CUDACHECK(cudaMemcpy(meeting, own, sizeof own, cudaMemcpyHostToDevice));
    NCCLCHECK(ncclAllReduce(meeting, meeting, 1, ncclFloat, ncclMax, ex.comm, ex.stream));
    NCCLCHECK(ncclAllReduce(meeting + 1, meeting + 1, 1, ncclFloat, ncclAvg, ex.comm, ex.stream));
    CUDACHECK(cudaMemcpyAsync(own, meeting, sizeof own, cudaMemcpyDeviceToHost, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    CUDACHECK(cudaFree(meeting));
    for (int i = 0; i < 2; i++) took[i].push_back(own[i]);
  }
  double median(int of = 0) {
    std::sort(took[of].begin(), took[of].end());
    return took[of][took[of].size() / 2];
  }
};

int runRank(Example& ex) {
  size_t largest = getenv("BYTES") ? strtoull(getenv("BYTES"), NULL, 0) : 4 << 20;
  int turns = getenv("TURNS") ? atoi(getenv("TURNS")) : 15;
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  ncclDevComm comm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &comm));
  int ranks = comm.lsaSize, teams = ex.nRanks / ranks;
  char* buffer;
  CUDACHECK(cudaMalloc(&buffer, largest));
  CUDACHECK(cudaMemset(buffer, 0, largest));
  {
    Sockets sockets(ex, comm);
    const int hops = 20;
    const size_t stream = 1 << 20;
    for (size_t bytes = 64 << 10; bytes <= largest; bytes *= 4) {
      double piece = (double)bytes / ranks, doublings = ceil(log2(teams)), rounds = 2.0 * (teams - 1);
      int calls = (int)std::max<size_t>(1, (1 << 20) / bytes); /* in a row: a launch is no part of either floor */
      Timed hop, put, tcp, ours;
      for (int turn = 0; turn < turns; turn++) {
        hop.time(ex, [&] {
          for (int i = 0; i < hops; i++) sockets.round(8);
        });
        put.time(ex, [&] { sockets.round(stream); });
        tcp.time(ex, [&] {
          for (int step = 0; step < rounds * calls; step++) sockets.round((size_t)(piece / teams));
        });
        ours.time(ex, [&] {
          for (int i = 0; i < calls; i++) NCCLCHECK(ncclAllReduce(buffer, buffer, bytes / 4, ncclFloat, ncclMax, ex.comm, ex.stream));
        });
      }
      double latency = hop.median() / hops, link = stream / put.median(), us = 1e6 / calls;
      double ring = rounds * latency + rounds / teams * piece / link, tree = doublings * (latency + piece / link), model = 1e6 * std::min(ring, tree);
      if (ex.rank != 0) continue;
      printf("%d x %d, %8zu bytes: %9.1f us, model %9.1f us (%s, %.1f us a hop, %.1f MB/s a rank) ratio %.2f, tcp %9.1f us ratio %.2f; ", teams, ranks,
             bytes, ours.median() * us, model, ring < tree ? "ring" : "tree", latency * 1e6, link / 1e6, ours.median() * us / model,
             tcp.median() * us, ours.median() / tcp.median());
      printf("processor time of a rank %.1f us, tcp's %.1f us\n", ours.median(1) * us, tcp.median(1) * us);
      fflush(stdout);
    }
  }
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
  CUDACHECK(cudaFree(buffer));
  return 0;
}
