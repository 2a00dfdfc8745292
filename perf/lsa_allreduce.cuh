// All-reduce by loads and stores: the kernel of examples-c/05-lsa-allreduce, with as many CTAs as a GPU likes.
#pragma once
#include "floors.cuh"

template <typename T>
__global__ void __launch_bounds__(512) lsaAllReduce(ncclDevComm devComm, ncclWindow_t window, size_t offset, size_t count) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);

  int nRanks = devComm.lsaSize;
  size_t worker = threadIdx.x + (size_t)blockDim.x * (blockIdx.x + gridDim.x * (size_t)devComm.lsaRank);
  size_t workers = (size_t)blockDim.x * gridDim.x * nRanks;
  for (size_t i = worker; i < count; i += workers) {
    T sum = 0;
    for (int peer = 0; peer < nRanks; peer++) sum += ((const T*)ncclGetLsaPointer(window, offset, peer))[i];
    for (int peer = 0; peer < nRanks; peer++) ((T*)ncclGetLsaPointer(window, offset, peer))[i] = sum;
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

__global__ void fillElements(float* data, size_t count, int rank) {
  for (size_t i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < count; i += (size_t)blockDim.x * gridDim.x) data[i] = (float)((i * 31 + rank * 17) % 1024);
}
__global__ void compareSums(const float* data, size_t count, int nRanks, uint64_t* out) {
  unsigned long long wrong = 0;
  for (size_t i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < count; i += (size_t)blockDim.x * gridDim.x) {
    float sum = 0; // exact: integers below 2^24
    for (int r = 0; r < nRanks; r++) sum += (float)((i * 31 + r * 17) % 1024);
    wrong += data[i] != sum;
  }
  if (wrong) atomicAdd((unsigned long long*)out + 1, wrong);
}

static void benchLsaAllReduce(Rank& rk) {
  if (!rk.lsa()) return rk.table.note("lsa_allreduce", rk.lsaWhy);
#ifdef __GINRS_CPU__
  const int blocks = 4, threads = 64;
  auto list = sizes(rk, 4096, 1 << 20, 4);
#else
  const int blocks = kLsaBlocks, threads = 512;
  auto list = sizes(rk, 4096, 256 << 20, 2);
#endif
  Window window(rk, list.back());
  auto peers = peerAddresses(rk, window, 0);
  Window copies(rk, list.back());
  auto copyPeers = peerAddresses(rk, copies, 0);
  float* data = (float*)window.memory;
  for (size_t bytes : list) {
    size_t count = bytes / sizeof(float);
    int n = iterations(rk, bytes <= 1 << 20 ? 100 : bytes <= 32 << 20 ? 20 : 5), w = warmup(rk, 5);
    auto launch = [&] { lsaAllReduce<float><<<blocks, threads, 0, rk.stream>>>(*rk.lsa(), window.window, 0, count); };
    long wrong = -1;
    if (rk.options.check) {
      fillElements<<<32, 256, 0, rk.stream>>>(data, count, rk.rank);
      CUDACHECK(cudaStreamSynchronize(rk.stream));
      rk.barrier();
      launch();
      rk.out[1] = 0;
      compareSums<<<32, 256, 0, rk.stream>>>(data, count, rk.nRanks, rk.out);
      CUDACHECK(cudaGetLastError());
      CUDACHECK(cudaStreamSynchronize(rk.stream));
      wrong = rk.sum((long)rk.out[1]);
    }
    CUDACHECK(cudaMemset(data, 0, bytes)); // sums of sums would overflow
    CUDACHECK(cudaDeviceSynchronize());
    auto medians = interleaved(rk, repeats(rk), {
        [&] { return peerCopy(rk, copyPeers[(rk.rank + 1) % rk.nRanks], copies.at(0), bytes, true, w, n); },
        [&] { return timedStream(rk, w, n, launch); },
    });
    Row r = row("lsa_allreduce", "kernel of examples-c/05", bytes, medians[1]);
    r.count = count;
    r.algbw = bytes / medians[1];
    r.busbw = r.algbw * 2 * (rk.nRanks - 1) / rk.nRanks;
    r.wrong = wrong;
    r.floorUs = medians[0] * 1e-3;
    r.floor = "copy of the size to the next rank";
    rk.table.add(r);
  }
}
