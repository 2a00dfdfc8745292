// How long until the source of a put may be used again: by flush, and by a counter.
#pragma once
#include "floors.cuh"

enum { kFlushIdle, kFlushPut, kCounterPut };

template <int kind>
__global__ void putAndWait(ncclDevComm devComm, ncclWindow_t window, size_t to, size_t bytes, uint64_t used, int warm, int turns, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopThread one;
  uint64_t start = 0;
  int peer = world.rank ^ 1;
  for (int turn = 1; turn <= warm + turns; turn++) {
    if (turn == warm + 1) start = nanoseconds();
    if (kind == kFlushPut) gin.put(world, peer, window, to, window, 0, bytes);
    if (kind == kCounterPut) gin.put(world, peer, window, to, window, 0, bytes, ncclGin_None{}, ncclGin_CounterInc{0});
    if (kind == kCounterPut) gin.waitCounter(one, 0, used + turn);
    else gin.flush(one);
  }
  out[0] = nanoseconds() - start;
}

static void benchFlush(Rank& rk) {
  if (!rk.gin()) return rk.table.note("flush", rk.ginWhy);
  Window window(rk, 4096);
  FlagFloor flags(rk);
  int n = iterations(rk, 1000), w = warmup(rk, 50);
  uint64_t used = 0;
  auto run = [&](auto kernel) {
    if (rk.rank != 0) return 0.0;
    return timedKernel(rk, [&] { kernel<<<1, 1, 0, rk.stream>>>(*rk.gin(), window.window, 2048, 8, used, w, n, rk.out); }) / n;
  };
  auto medians = interleaved(rk, repeats(rk), {
      [&] { return flags.hostToGpu(w, n); },
      [&] { return run(putAndWait<kFlushIdle>); },
      [&] { return run(putAndWait<kFlushPut>); },
      [&] {
        double ns = run(putAndWait<kCounterPut>);
        used += w + n;
        return ns;
      },
  });
  const char* names[] = {"flush, nothing outstanding", "put of 8 B and flush", "put of 8 B with a counter, and wait for it"};
  for (int i = 0; i < 3; i++) {
    Row r = row("flush", names[i], i ? 8 : 0, medians[1 + i]);
    r.floorUs = medians[0] * 1e-3;
    r.floor = "flag between GPU and host thread";
    rk.table.add(r);
  }
}
