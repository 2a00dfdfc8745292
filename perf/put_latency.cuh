// Round trips between ranks 0 and 1: a put with a signal there, one back.
#pragma once
#include "floors.cuh"

enum { kSignalOnly, kPut, kPutValue };

template <int kind>
__device__ __forceinline__ void send(const ncclGin& gin, ncclTeam world, int peer, ncclWindow_t window, size_t to, size_t from, size_t bytes) {
  if (kind == kSignalOnly) gin.signal(world, peer, ncclGin_SignalInc{0}, ncclCoopCta());
  if (kind == kPut) gin.put(world, peer, window, to, window, from, bytes, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());
  if (kind == kPutValue) gin.putValue(world, peer, window, to, (uint64_t)from, ncclGin_SignalInc{0}, ncclCoopCta());
}

template <int kind>
__global__ void putRoundTrip(ncclDevComm devComm, ncclWindow_t window, size_t to, size_t from, size_t bytes, int warm, int turns, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  uint64_t used = *gin.getSignalShadowPtr(0), start = 0; // what earlier launches have waited for
  int peer = world.rank ^ 1;
  for (int turn = 1; turn <= warm + turns; turn++) {
    if (turn == warm + 1) start = nanoseconds();
    if (world.rank == 0) send<kind>(gin, world, peer, window, to, from, bytes);
    gin.waitSignal(cta, 0, used + turn);
    if (world.rank == 1) send<kind>(gin, world, peer, window, to, from, bytes);
  }
  if (threadIdx.x == 0 && world.rank == 0) out[0] = nanoseconds() - start;
  gin.flush(cta); // the window may go
  if (threadIdx.x == 0) gin.increaseSignalShadow(0, warm + turns);
}

// Each turn carries other bytes, written by the kernel right before the put and compared right after the wait.
__global__ void checkedRoundTrips(ncclDevComm devComm, ncclWindow_t window, size_t to, size_t from, size_t bytes, int turns, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  uint64_t used = *gin.getSignalShadowPtr(0);
  unsigned long long wrong = 0;
  int peer = world.rank ^ 1;
  uint64_t *source = (uint64_t*)ncclGetLocalPointer(window, from), *target = (uint64_t*)ncclGetLocalPointer(window, to);
  size_t words = bytes / 8;
  auto sendTurn = [&](int turn) {
    for (size_t i = threadIdx.x; i < words; i += blockDim.x) source[i] = pattern(2 * turn + world.rank, i);
    gin.put(world, peer, window, to, window, from, bytes, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
    gin.flush(cta);
  };
  for (int turn = 1; turn <= turns; turn++) {
    if (world.rank == 0) sendTurn(turn);
    gin.waitSignal(cta, 0, used + turn);
    for (size_t i = threadIdx.x; i < words; i += blockDim.x) wrong += target[i] != pattern(2 * turn + peer, i);
    __syncthreads();
    if (world.rank == 1) sendTurn(turn);
  }
  __syncthreads();
  if (threadIdx.x == 0) gin.increaseSignalShadow(0, turns);
  if (wrong) atomicAdd((unsigned long long*)out + 1, wrong);
}

template <int kind>
static double putRoundTrips(Rank& rk, const Window& w, size_t to, size_t from, size_t bytes, int warm, int turns) {
  if (rk.rank > 1) return 0;
  // One thread, as a latency-bound kernel would; from 4 KB on a CTA, which a put by the GPU itself copies with.
  int threads = kind == kPut && bytes >= 4096 ? 512 : 32;
#ifdef __GINRS_CPU__
  threads = 1;
#endif
  return timedKernel(rk, [&] { putRoundTrip<kind><<<1, threads, 0, rk.stream>>>(*rk.gin(), w.window, to, from, bytes, warm, turns, rk.out); }) / turns;
}

static void benchPutLatency(Rank& rk) {
  if (!rk.gin()) return rk.table.note("put_latency", rk.ginWhy);
  auto list = sizes(rk, 8, 1 << 20, 2);
  size_t most = (list.back() + 4095) / 4096 * 4096;
  Window window(rk, 2 * most);
  FlagFloor flags(rk);
  int w = warmup(rk, 50), reps = repeats(rk);
  auto add = [&](const char* what, size_t bytes, const std::vector<double>& medians, long wrong) {
    Row r = row("put_latency", what, bytes, medians[2]);
    r.count = bytes;
    r.algbw = r.busbw = 2 * bytes / medians[2];
    r.wrong = wrong;
    r.floorUs = (medians[0] > 0 ? medians[0] : medians[1]) * 1e-3;
    r.floor = medians[0] > 0 ? "flag between GPUs" : "flag through host memory";
    rk.table.add(r);
  };
  int n = iterations(rk, 1000);
  Arm gpuFlags = [&] { return flags.roundTrip(false, w, n); }, hostFlags = [&] { return flags.roundTrip(true, w, n); };
  auto medians = interleaved(rk, reps, {gpuFlags, hostFlags, [&] { return putRoundTrips<kSignalOnly>(rk, window, most, 0, 0, w, n); },
                                        [&] { return putRoundTrips<kPutValue>(rk, window, most, 0, 8, w, n); }});
  add("signal only", 0, medians, -1);
  medians[2] = medians[3];
  add("putValue + signal", 8, medians, -1);
  for (size_t bytes : list) {
    long wrong = -1;
    if (rk.options.check) {
      rk.out[1] = 0;
      if (rk.rank < 2) {
        checkedRoundTrips<<<1, 128, 0, rk.stream>>>(*rk.gin(), window.window, most, 0, bytes, 8, rk.out);
        CUDACHECK(cudaGetLastError());
        CUDACHECK(cudaStreamSynchronize(rk.stream));
      }
      wrong = rk.sum((long)rk.out[1]);
    }
    n = iterations(rk, bytes <= 65536 ? 500 : 200);
    add("put + signal", bytes,
        interleaved(rk, reps, {gpuFlags, hostFlags, [&] { return putRoundTrips<kPut>(rk, window, most, 0, bytes, w, n); }}), wrong);
  }
}
