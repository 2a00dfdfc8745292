// Large puts from rank 0 to rank 1, many in flight, beside plain copies of the runtime's.
#pragma once
#include "floors.cuh"

// Puts go to the same place again and again; the receiver answers when the last one's signal is there.
__global__ void __launch_bounds__(1024) putStream(ncclDevComm devComm, ncclWindow_t window, size_t to, size_t from, size_t bytes, int warm, int puts,
                          uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  uint64_t used = *gin.getSignalShadowPtr(1), start = 0;
  int rounds[2] = {warm, puts}, peer = world.rank ^ 1;
  uint64_t seen = used;
  for (int timed = 0; timed < 2; timed++) {
    start = nanoseconds();
    if (world.rank == 0) {
      for (int i = 0; i < rounds[timed]; i++) gin.put(world, peer, window, to, window, from, bytes, ncclGin_SignalInc{1}, ncclGin_None{}, cta);
      seen += 1;
      gin.waitSignal(cta, 1, seen);
    } else {
      seen += rounds[timed];
      gin.waitSignal(cta, 1, seen);
      gin.signal(world, peer, ncclGin_SignalInc{1}, cta);
    }
  }
  if (threadIdx.x == 0 && world.rank == 0) out[0] = nanoseconds() - start;
  gin.flush(cta);
  if (threadIdx.x == 0) gin.increaseSignalShadow(1, seen - used);
}

static void benchPutBandwidth(Rank& rk) {
  if (!rk.gin()) return rk.table.note("put_bandwidth", rk.ginWhy);
#ifdef __GINRS_CPU__
  auto list = sizes(rk, 65536, 4 << 20, 4);
  const int threads = 32;
#else
  auto list = sizes(rk, 65536, 256 << 20, 4);
  const int threads = 1024;
#endif
  size_t most = (list.back() + 4095) / 4096 * 4096;
  Window window(rk, 2 * most);
  std::vector<char*> peers;
  if (rk.lsa()) peers = peerAddresses(rk, window, most);
  for (size_t bytes : list) {
    int n = iterations(rk, (int)std::min<size_t>(64, std::max<size_t>(8, (1ull << 30) / bytes))), w = warmup(rk, 2);
    long wrong = -1;
    auto put = [&] {
      if (rk.rank > 1) return 0.0;
      return timedKernel(rk, [&] { putStream<<<1, threads, 0, rk.stream>>>(*rk.gin(), window.window, most, 0, bytes, w, n, rk.out); }) / n;
    };
    if (rk.options.check) {
      fill(rk, window.at(0), bytes, bytes + rk.rank);
      fill(rk, window.at(most), bytes, ~bytes);
      rk.barrier();
      put();
      wrong = rk.sum(rk.rank == 1 ? compare(rk, window.at(most), bytes, bytes) : 0);
    }
    auto medians = interleaved(rk, repeats(rk), {
        [&] { return peers.empty() ? 0 : peerCopy(rk, peers[1 % rk.nRanks], window.at(0), bytes, false, w, n); },
        put,
    });
    Row r = row("put_bandwidth", "put + signal", bytes, medians[1]);
    r.count = bytes;
    r.algbw = r.busbw = bytes / medians[1];
    r.wrong = wrong;
    r.floorUs = medians[0] * 1e-3;
    if (medians[0] > 0) r.floor = "cudaMemcpyAsync to the peer";
    rk.table.add(r);
  }
}
