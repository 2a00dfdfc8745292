// The LSA barrier: every rank tells every other one, by loads and stores.
#pragma once
#include "floors.cuh"

template <typename Coop>
__global__ void lsaBarriers(ncclDevComm devComm, int index, cuda::memory_order order, int warm, int turns, uint64_t* out) {
  if (!isOurs()) return;
  uint64_t start = 0;
  ncclLsaBarrierSession<Coop> barrier(Coop(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, index);
  for (int turn = 0; turn < warm + turns; turn++) {
    if (turn == warm) start = nanoseconds();
    barrier.sync(Coop(), order);
  }
  if (threadIdx.x == 0) out[0] = nanoseconds() - start;
}

// Lane p stores the round to rank p's word of ours and waits for p's: what a barrier of one warp has to do.
struct Peers {
  char* at[kMaxRanks];
};
__global__ void flagBarriers(Peers peers, size_t offset, int rank, int nRanks, uint64_t used, int warm, int turns, uint64_t* out) {
  if (!isOurs()) return;
  uint64_t start = 0;
  bool met = true;
  for (int turn = 1; turn <= warm + turns; turn++) {
    if (turn == warm + 1) start = nanoseconds();
    for (int p = threadIdx.x; p < nRanks; p += 32) storeRelease((uint64_t*)(peers.at[p] + offset) + rank, used + turn);
    for (int p = threadIdx.x; p < nRanks; p += 32) met &= awaitFlag((uint64_t*)(peers.at[rank] + offset) + p, used + turn);
    __syncwarp();
    if (__any_sync(0xffffffffu, !met)) return;
  }
  if (threadIdx.x == 0) out[0] = nanoseconds() - start;
}

// What the barrier promises: a word stored before it by any rank is there after it.
__global__ void lsaBarrierCheck(ncclDevComm devComm, ncclWindow_t window, int rounds, uint64_t* out) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, 0);
  uint64_t wrong = 0;
  int n = devComm.lsaSize;
  volatile uint64_t* mine = (volatile uint64_t*)ncclGetLocalPointer(window, 0);
  for (int round = 1; round <= rounds; round++) {
    for (int p = threadIdx.x; p < n; p += blockDim.x) *((volatile uint64_t*)ncclGetLsaPointer(window, 0, p) + devComm.lsaRank) = round;
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    for (int p = threadIdx.x; p < n; p += blockDim.x) wrong += mine[p] != (uint64_t)round;
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
  if (wrong) atomicAdd((unsigned long long*)out + 1, (unsigned long long)wrong);
}

template <typename Coop>
static double lsaBarrierTime(Rank& rk, int threads, cuda::memory_order order, int warm, int turns) {
  return overPlaces([&](int place) {
    int index = place * (kLsaBarriers / kPlaces);
    return timedKernel(rk, [&] { lsaBarriers<Coop><<<gridOf(place), threads, 0, rk.stream>>>(*rk.lsa(), index, order, warm, turns, rk.out); }) / turns;
  });
}

static void benchLsaBarrier(Rank& rk) {
  if (!rk.lsa()) return rk.table.note("lsa_barrier", rk.lsaWhy);
  int n = iterations(rk, 8000) / kPlaces, w = warmup(rk, 100);
  const size_t step = kMaxRanks * sizeof(uint64_t);
  Window window(rk, 4096 + kPlaces * step);
  auto found = peerAddresses(rk, window, 4096);
  Peers peers{};
  for (int p = 0; p < rk.nRanks; p++) peers.at[p] = found[p];
  uint64_t used = 0;
  const auto acqRel = cuda::memory_order_acq_rel, relaxed = cuda::memory_order_relaxed;

  long wrong = -1;
  if (rk.options.check) {
    rk.out[1] = 0;
    lsaBarrierCheck<<<1, 64, 0, rk.stream>>>(*rk.lsa(), window.window, 50, rk.out);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(rk.stream));
    wrong = rk.sum((long)rk.out[1]);
  }
  auto floor = [&] {
    double ns = overPlaces([&](int place) {
      return timedKernel(rk, [&] {
               flagBarriers<<<gridOf(place), 32, 0, rk.stream>>>(peers, place * step, rk.rank, rk.nRanks, used, w, n, rk.out);
             }) / n;
    });
    used += w + n;
    return ns;
  };
  auto medians = interleaved(rk, repeats(rk), {
      floor,
      [&] { return lsaBarrierTime<ncclCoopWarp>(rk, 32, acqRel, w, n); },
      [&] { return lsaBarrierTime<ncclCoopWarp>(rk, 32, relaxed, w, n); },
      [&] { return lsaBarrierTime<ncclCoopCta>(rk, 256, acqRel, w, n); },
  });
  const char* names[] = {"", "acq_rel, one warp", "relaxed, one warp", "acq_rel, CTA of 256"};
  for (int i = 1; i < 4; i++) {
    Row r = row("lsa_barrier", names[i], 0, medians[i]);
    r.wrong = i == 1 ? wrong : -1;
    r.floorUs = medians[0] * 1e-3;
    r.floor = "raw flags, release and acquire";
    rk.table.add(r);
  }
}
