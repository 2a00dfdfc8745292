// Where the ranks of one machine meet on the host: a page of shared memory with a barrier, a gather and a few bytes to hand
// on. Benchmarks of communicator creation need it before there is a communicator.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

constexpr int kMaxRanks = 64;

struct Meeting {
  std::atomic<uint32_t> arrived, phase, failed;
  double values[kMaxRanks];
  char bytes[256];
  alignas(4096) uint64_t flags[512]; // a page that floor kernels use

  static const char* folder() { return "/dev/shm/"; }

  // The first process makes it; `name` is what the others open.
  static Meeting* create(char (&name)[64]) {
    snprintf(name, sizeof name, "%sginrs-perf-XXXXXX", folder());
    int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, sizeof(Meeting)) != 0) return lost(name);
    return map(fd, name);
  }
  static Meeting* open(const char* name) {
    int fd = ::open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
      fprintf(stderr, "ginrs-perf: %s is not there: all ranks must be on one machine\n", name);
      exit(1);
    }
    return fd < 0 ? lost(name) : map(fd, name);
  }

  void barrier(int nRanks) {
    uint32_t was = phase.load();
    if (arrived.fetch_add(1) + 1 == (uint32_t)nRanks) {
      arrived = 0;
      phase++;
      return;
    }
    for (int spin = 0; phase.load() == was; spin++) {
      if (failed.load()) _exit(1); // that rank has said why
      if (spin > 2000) sched_yield();
    }
  }
  // The largest value of all ranks; every rank gets it.
  double max(int rank, int nRanks, double mine) {
    values[rank] = mine;
    barrier(nRanks);
    double most = values[0];
    for (int r = 1; r < nRanks; r++) most = values[r] > most ? values[r] : most;
    barrier(nRanks);
    return most;
  }
  double sum(int rank, int nRanks, double mine) {
    values[rank] = mine;
    barrier(nRanks);
    double all = 0;
    for (int r = 0; r < nRanks; r++) all += values[r];
    barrier(nRanks);
    return all;
  }
  // Bytes of rank 0 to everybody.
  void broadcast(int rank, int nRanks, void* data, size_t size) {
    if (rank == 0) memcpy(bytes, data, size);
    barrier(nRanks);
    memcpy(data, bytes, size);
    barrier(nRanks);
  }

private:
  static Meeting* lost(const char* name) {
    fprintf(stderr, "ginrs-perf: %s: %s\n", name, strerror(errno));
    exit(1);
  }
  static Meeting* map(int fd, const char* name) {
    void* at = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? lost(name) : (Meeting*)at; // zero is its first state
  }
};
