// All-to-all by stores: rank r's block for p goes to p's place r. The size is what one rank sends in all.
#pragma once
#include "floors.cuh"

__global__ void __launch_bounds__(512) lsaAllToAll(ncclDevComm devComm, ncclWindow_t window, size_t from, size_t to, size_t words) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed); // everybody's target is free
  int n = devComm.lsaSize, rank = devComm.lsaRank;
  const uint64_t* source = (const uint64_t*)ncclGetLocalPointer(window, from);
  size_t worker = threadIdx.x + (size_t)blockDim.x * blockIdx.x, workers = (size_t)blockDim.x * gridDim.x;
  for (int step = 0; step < n; step++) {
    int peer = (rank + step) % n; // not all to one at a time
    uint64_t* target = (uint64_t*)ncclGetLsaPointer(window, to, peer) + rank * words;
    const uint64_t* block = source + peer * words;
    if (words % 2 == 0) {
      for (size_t i = worker; i < words / 2; i += workers) ((ulonglong2*)target)[i] = ((const ulonglong2*)block)[i];
    } else {
      for (size_t i = worker; i < words; i += workers) target[i] = block[i];
    }
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static void benchLsaAllToAll(Rank& rk) {
  if (!rk.lsa()) return rk.table.note("lsa_alltoall", rk.lsaWhy);
#ifdef __GINRS_CPU__
  const int blocks = 4, threads = 64;
  auto list = sizes(rk, 1024, 1 << 20, 4);
#else
  const int blocks = kLsaBlocks, threads = 512;
  auto list = sizes(rk, 1024, 256 << 20, 4);
#endif
  size_t most = (list.back() / rk.nRanks + 4096) / 4096 * 4096 * rk.nRanks;
  Window window(rk, 2 * most);
  auto peers = peerAddresses(rk, window, most);
  for (size_t bytes : list) {
    size_t words = std::max<size_t>(1, bytes / rk.nRanks / 8), block = words * 8;
    int n = iterations(rk, bytes <= 1 << 20 ? 100 : bytes <= 32 << 20 ? 20 : 5), w = warmup(rk, 5);
    auto launch = [&] { lsaAllToAll<<<blocks, threads, 0, rk.stream>>>(*rk.lsa(), window.window, 0, most, words); };
    long wrong = -1;
    if (rk.options.check) {
      for (int p = 0; p < rk.nRanks; p++) fill(rk, window.at(p * block), block, bytes + rk.rank * 64 + p);
      rk.barrier();
      launch();
      CUDACHECK(cudaGetLastError());
      CUDACHECK(cudaStreamSynchronize(rk.stream));
      wrong = 0;
      for (int p = 0; p < rk.nRanks; p++) wrong += compare(rk, window.at(most + p * block), block, bytes + p * 64 + rk.rank);
      wrong = rk.sum(wrong);
    }
    auto medians = interleaved(rk, repeats(rk), {
        [&] { return peerCopy(rk, peers[(rk.rank + 1) % rk.nRanks], window.at(0), block * rk.nRanks, true, w, n); },
        [&] { return timedStream(rk, w, n, launch); },
    });
    Row r = row("lsa_alltoall", "stores and two barriers", block * rk.nRanks, medians[1]);
    r.count = block * rk.nRanks;
    r.algbw = block * rk.nRanks / medians[1];
    r.busbw = r.algbw * (rk.nRanks - 1) / rk.nRanks;
    r.wrong = wrong;
    r.floorUs = medians[0] * 1e-3;
    r.floor = "copy of the size to the next rank";
    rk.table.add(r);
  }
}
