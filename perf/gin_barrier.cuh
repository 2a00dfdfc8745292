// The GIN barrier over all ranks.
#pragma once
#include "floors.cuh"

__global__ void ginBarriers(ncclDevComm devComm, ncclGinBarrierHandle handle, int warm, int turns, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclCoopCta cta;
  uint64_t start = 0;
  {
    ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, ncclTeamWorld(devComm), handle, 0);
    for (int turn = 0; turn < warm + turns; turn++) {
      if (turn == warm) start = nanoseconds();
      barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    }
    if (threadIdx.x == 0) out[0] = nanoseconds() - start;
  }
  gin.flush(cta);
}

// What the barrier promises: nobody leaves before all have come, so what a rank stored into p's memory before it is there after
// it. (Of puts it promises nothing with three ranks or more: arrivals are counted in one word, and the second arrival of a fast
// rank may stand for that of one whose put is still on its way.)
__global__ void ginBarrierCheck(ncclDevComm devComm, ncclGinBarrierHandle handle, ncclWindow_t window, int rounds, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, world, handle, 0);
  volatile uint64_t* words = (volatile uint64_t*)ncclGetLocalPointer(window, 0);
  unsigned long long wrong = 0;
  for (int round = 1; round <= rounds; round++) {
    for (int p = threadIdx.x; p < world.nRanks; p += blockDim.x) storeRelease((uint64_t*)ncclGetLsaPointer(window, 0, p) + world.rank, round);
    barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int p = threadIdx.x; p < world.nRanks; p += blockDim.x) wrong += words[p] != (uint64_t)round;
    barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  gin.flush(cta);
  if (wrong) atomicAdd((unsigned long long*)out + 1, wrong);
}

static void benchGinBarrier(Rank& rk) {
  if (!rk.gin()) return rk.table.note("gin_barrier", rk.ginWhy);
  Window window(rk, 4096);
  FlagFloor flags(rk);
  int n = iterations(rk, 1000), w = warmup(rk, 50);
  long wrong = -1;
  if (rk.options.check && rk.lsa()) {
    rk.out[1] = 0;
    rk.barrier();
    ginBarrierCheck<<<1, 32, 0, rk.stream>>>(*rk.gin(), rk.ginBarrier, window.window, n, rk.out);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(rk.stream));
    wrong = rk.sum((long)rk.out[1]);
  }
  auto medians = interleaved(rk, repeats(rk), {
      [&] { return flags.roundTrip(true, w, n); },
      [&] { return timedKernel(rk, [&] { ginBarriers<<<1, 32, 0, rk.stream>>>(*rk.gin(), rk.ginBarrier, w, n, rk.out); }) / n; },
  });
  Row r = row("gin_barrier", "acq_rel, one warp", 0, medians[1]);
  r.wrong = wrong;
  r.floorUs = medians[0] * 1e-3;
  r.floor = "flag round trip between GPUs through host memory";
  rk.table.add(r);
}
