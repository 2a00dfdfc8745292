// How many small operations a second pass from rank 0 to rank 1 when many threads start them.
#pragma once
#include "floors.cuh"

enum { kRatePuts, kRatePutsWithSignal, kRateSignals };

// `each` per thread; the receiver knows that all are there by thread 0's last signal, which follows all others to this peer.
template <int kind>
__global__ void __launch_bounds__(128) putRate(ncclDevComm devComm, ncclWindow_t window, size_t to, size_t bytes, int warm, int each, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  uint64_t used = *gin.getSignalShadowPtr(2), start = 0;
  int peer = world.rank ^ 1, rounds[2] = {warm, each}, seen = 0;
  for (int timed = 0; timed < 2; timed++) {
    __syncthreads();
    start = nanoseconds();
    if (world.rank == 0) {
      for (int i = 0; i < rounds[timed]; i++) {
        size_t at = threadIdx.x * bytes;
        if (kind == kRatePuts) gin.put(world, peer, window, to + at, window, at, bytes);
        if (kind == kRatePutsWithSignal) gin.put(world, peer, window, to + at, window, at, bytes, ncclGin_SignalInc{3});
        if (kind == kRateSignals) gin.signal(world, peer, ncclGin_SignalInc{3});
      }
      gin.signal(world, peer, ncclGin_SignalInc{2}, cta);
    }
    seen++;
    gin.waitSignal(cta, 2, used + seen);
    if (world.rank == 1) gin.signal(world, peer, ncclGin_SignalInc{2}, cta);
  }
  if (threadIdx.x == 0 && world.rank == 0) out[0] = nanoseconds() - start;
  gin.flush(cta);
  if (threadIdx.x == 0) {
    if (world.rank == 1 && kind != kRatePuts) out[2] = gin.readSignal(3);
    gin.increaseSignalShadow(2, seen);
  }
}

static void benchPutRate(Rank& rk) {
  if (!rk.gin()) return rk.table.note("put_rate", rk.ginWhy);
#ifdef __GINRS_CPU__
  const int threads = 8;
#else
  const int threads = 128;
#endif
  auto list = sizes(rk, 8, 2048, 4);
  size_t most = (threads * list.back() + 4095) / 4096 * 4096;
  Window window(rk, 2 * most);
  int each = std::max(1, iterations(rk, 20480) / threads), warm = std::max(1, each / 10);
  uint64_t counted = 0; // signal 3 of rank 1
  auto run = [&](auto kernel, size_t bytes, bool counts) {
    if (rk.rank > 1) return 0.0;
    double ns = timedKernel(rk, [&] { kernel<<<1, threads, 0, rk.stream>>>(*rk.gin(), window.window, most, bytes, warm, each, rk.out); });
    if (counts) counted += (uint64_t)threads * (warm + each);
    return ns / each / threads;
  };
  auto add = [&](const char* what, size_t bytes, double ns, long wrong) {
    char rate[64];
    snprintf(rate, sizeof rate, "%s (%.2f M/s)", what, 1e3 / ns);
    Row r = row("put_rate", what, bytes, ns);
    r.count = bytes;
    r.algbw = r.busbw = bytes / ns;
    r.wrong = wrong;
    rk.table.add(r, rate);
  };
  auto lost = [&] { return rk.sum(rk.rank == 1 && rk.out[2] != counted ? 1 : 0); };
  double signals = interleaved(rk, repeats(rk), {[&] { return run(putRate<kRateSignals>, 0, true); }})[0];
  add("signals", 0, signals, rk.options.check ? lost() : -1);
  for (size_t bytes : list) {
    long wrong = -1;
    if (rk.options.check) {
      fill(rk, window.at(0), threads * bytes, bytes);
      fill(rk, window.at(most), threads * bytes, ~bytes);
      rk.barrier();
    }
    auto medians = interleaved(rk, repeats(rk), {[&] { return run(putRate<kRatePuts>, bytes, false); },
                                                [&] { return run(putRate<kRatePutsWithSignal>, bytes, true); }});
    if (rk.options.check) {
      wrong = rk.sum(rk.rank == 1 ? compare(rk, window.at(most), threads * bytes, bytes) : 0);
    }
    add("puts", bytes, medians[0], wrong);
    add("puts, each with a signal", bytes, medians[1], rk.options.check ? lost() : -1);
  }
}
