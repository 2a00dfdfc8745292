// What starting an operation costs the GPU thread, with room in the queue.
#pragma once
#include "floors.cuh"

enum { kCostDefault, kCostReleased, kCostSignal, kCostPutSignal, kCostPutSignalReleased };
constexpr int kBurst = 64; // fits into the shortest queue that a library makes for one host's ranks

// Only the posts are timed; a flush empties the queue before each burst.
template <int kind>
__global__ void putCost(ncclDevComm devComm, ncclWindow_t window, size_t to, int bursts, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopThread one;
  int peer = world.rank ^ 1;
  uint64_t spent = 0;
  const auto released = cuda::thread_scope_system;
  for (int burst = 0; burst < bursts; burst++) {
    uint64_t start = nanoseconds();
    for (int i = 0; i < kBurst; i++) {
      if (kind == kCostDefault) gin.put(world, peer, window, to + 8 * i, window, 8 * i, 8);
      if (kind == kCostReleased) gin.put(world, peer, window, to + 8 * i, window, 8 * i, 8, ncclGin_None{}, ncclGin_None{}, one, ncclGin_None{}, released);
      if (kind == kCostSignal) gin.signal(world, peer, ncclGin_SignalInc{4}, one, ncclGin_None{}, released);
      if (kind == kCostPutSignal) gin.put(world, peer, window, to + 8 * i, window, 8 * i, 8, ncclGin_SignalInc{4});
      if (kind == kCostPutSignalReleased)
        gin.put(world, peer, window, to + 8 * i, window, 8 * i, 8, ncclGin_SignalInc{4}, ncclGin_None{}, one, ncclGin_None{}, released);
    }
    if (burst > 0) spent += nanoseconds() - start;
    gin.flush(one);
  }
  out[0] = spent;
}

static void benchPutCost(Rank& rk) {
  if (!rk.gin()) return rk.table.note("put_cost", rk.ginWhy);
  Window window(rk, 4096);
  PostFloor posts(rk);
  int bursts = std::max(2, iterations(rk, 2048) / kBurst);
  auto run = [&](auto kernel) {
    if (rk.rank != 0) return 0.0;
    return timedKernel(rk, [&] { kernel<<<1, 1, 0, rk.stream>>>(*rk.gin(), window.window, 2048, bursts, rk.out); }) / (bursts - 1) / kBurst;
  };
  auto medians = interleaved(rk, repeats(rk), {
      [&] { return posts.post<0, true>(bursts * kBurst); },
      [&] { return posts.post<1, true>(bursts * kBurst); },
      [&] { return posts.post<2, true>(bursts * kBurst); },
      [&] { return run(putCost<kCostReleased>); },
      [&] { return run(putCost<kCostDefault>); },
      [&] { return run(putCost<kCostSignal>); },
      [&] { return run(putCost<kCostPutSignalReleased>); },
      [&] { return run(putCost<kCostPutSignal>); },
  });
  const char* names[] = {"put, already released to the system", "put", "signal, already released to the system",
                         "put + signal, already released to the system", "put + signal"};
  // What a signal follows is published to the peer, so a fence of this GPU is not enough there.
  const char* floorNames[] = {"claim and 64-byte post", "claim and 64-byte post, fence of this GPU", "claim and 64-byte post, fence of the system"};
  const int floors[] = {0, 1, 0, 0, 2};
  for (int i = 0; i < 5; i++) {
    Row r = row("put_cost", names[i], i == 2 ? 0 : 8, medians[3 + i]);
    r.floorUs = medians[floors[i]] * 1e-3;
    r.floor = floorNames[floors[i]];
    rk.table.add(r);
  }
}
