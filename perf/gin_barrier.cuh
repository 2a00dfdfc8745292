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

// A barrier's promise for puts: what a rank has put to another rank p before it is at p after it. out[1] counts words that are
// still old, out[3] words that are already of a later round: then the barrier let somebody pass.
template <bool value>
__global__ void ginBarrierCheck(ncclDevComm devComm, ncclGinBarrierHandle handle, ncclWindow_t window, size_t from, int rounds, uint64_t* out) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, world, handle, 0);
  volatile uint64_t *words = (volatile uint64_t*)ncclGetLocalPointer(window, 0), *source = (volatile uint64_t*)ncclGetLocalPointer(window, from);
  unsigned long long old = 0, early = 0;
  for (int round = 1; round <= rounds; round++) {
    for (int p = threadIdx.x; p < world.nRanks; p += blockDim.x) {
      if (p == world.rank) continue;
      size_t to = world.rank * sizeof(uint64_t);
      source[p] = round;
      if (value) gin.putValue(world, p, window, to, (uint64_t)round);
      else gin.put(world, p, window, to, window, from + p * sizeof(uint64_t), sizeof(uint64_t));
    }
    barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int p = threadIdx.x; p < world.nRanks; p += blockDim.x) {
      uint64_t found = p == world.rank ? round : words[p];
      old += found < (uint64_t)round;
      early += found > (uint64_t)round;
    }
    gin.flush(cta); // the sources change in the next round
    barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  for (int p = threadIdx.x; p < world.nRanks; p += blockDim.x) words[p] = 0;
  barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  gin.flush(cta);
  if (old) atomicAdd((unsigned long long*)out + 1, old);
  if (early) atomicAdd((unsigned long long*)out + 3, early);
}

static void benchGinBarrier(Rank& rk) {
  if (!rk.gin()) return rk.table.note("gin_barrier", rk.ginWhy);
  Window window(rk, 4096);
  FlagFloor flags(rk);
  int n = iterations(rk, 1000), w = warmup(rk, 50);
  long wrong = -1;
  if (rk.options.check) {
    wrong = 0;
    for (int value = 0; value < 2; value++) {
      rk.out[1] = rk.out[3] = 0;
      rk.barrier();
      int rounds = iterations(rk, 1000);
      if (value) ginBarrierCheck<true><<<1, 32, 0, rk.stream>>>(*rk.gin(), rk.ginBarrier, window.window, 2048, rounds, rk.out);
      else ginBarrierCheck<false><<<1, 32, 0, rk.stream>>>(*rk.gin(), rk.ginBarrier, window.window, 2048, rounds, rk.out);
      CUDACHECK(cudaGetLastError());
      CUDACHECK(cudaStreamSynchronize(rk.stream));
      long old = rk.sum((long)rk.out[1]), early = rk.sum((long)rk.out[3]);
      if (old + early && rk.rank == 0) fprintf(stderr, "ginrs-perf: gin_barrier: %s: %ld words old after the barrier, %ld early\n", value ? "putValue" : "put", old, early);
      wrong += old + early;
    }
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
