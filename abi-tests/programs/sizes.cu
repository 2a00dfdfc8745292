// Puts of every awkward size at odd offsets, over four contexts at once: each with a signal and a counter, and the last one of a context
// with a flush. What lies between them stays as it was. Sizes stand around 128 KiB, in which transports cut.
#include "../../examples-c/common/example.h"

static const size_t kCut = 128 << 10;
static const size_t sizes[] = {0, 1, 7, 8, 4096, kCut - 1, kCut, kCut + 1, 3 * 8 * kCut + 5, 2, 33};
static const int kSizes = sizeof sizes / sizeof sizes[0], kContexts = 4, kGap = 3;

__host__ __device__ inline char byteOf(int rank, size_t at) { return (char)(1 + (rank * 31 + at * 7 + at / 251) % 253); }

// Block b puts on context b; plan[2 * i] is where, plan[2 * i + 1] how much.
__global__ void putAll(ncclDevComm devComm, ncclWindow_t send, ncclWindow_t recv, const size_t* plan, size_t strip, int rounds) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  ncclCoopCta cta;
  int peer = (world.rank + 1) % world.nRanks;
  size_t base = blockIdx.x * strip;
  for (int round = 0; round < rounds; round++) {
    ncclGinBarrierSession<ncclCoopCta> barrier(cta, gin, world, devComm.railGinBarrier, blockIdx.x);
    barrier.sync(cta, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    for (int i = 0; i < kSizes; i++) {
      size_t at = base + plan[2 * i];
      gin.put(world, peer, recv, at, send, at ^ 1, plan[2 * i + 1], ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, cta);
    }
    if (threadIdx.x == 0) {
      gin.putValue(world, peer, recv, base, (char)(7 + round), ncclGin_SignalAdd{1, 5});
      gin.putValue(world, peer, recv, base + 2, (uint16_t)(0x101 * (7 + round)));
      gin.putValue(world, peer, recv, base + 4, (uint32_t)(0x1010101 * (7 + round)));
      gin.putValue(world, peer, recv, base + 8, (uint64_t)(0x101010101010101 * (7 + round)), ncclGin_SignalInc{0});
    }
    gin.waitCounter(cta, 0, (uint64_t)(round + 1) * kSizes);
    gin.waitSignal(cta, 0, (uint64_t)(round + 1) * (kSizes + 1));
    gin.waitSignal(cta, 1, (uint64_t)(round + 1) * 5);
    gin.flush(cta);
  }
}

int runRank(Example& ex) {
  std::vector<size_t> plan;
  size_t strip = 16 + kGap;
  for (size_t bytes : sizes) {
    plan.push_back(strip | 1), plan.push_back(bytes);
    strip = (strip | 1) + bytes + kGap;
  }
  strip = (strip + 15) / 16 * 16;
  size_t all = strip * kContexts;
  ncclWindow_t sendWindow, recvWindow;
  char *send = (char*)ex.allocWindow(all, &sendWindow), *recv = (char*)ex.allocWindow(all, &recvWindow);
  size_t* devicePlan;
  CUDACHECK(cudaMalloc(&devicePlan, plan.size() * sizeof plan[0]));
  CUDACHECK(cudaMemcpy(devicePlan, plan.data(), plan.size() * sizeof plan[0], cudaMemcpyHostToDevice));
  std::vector<char> host(all), want(all, 0);
  for (size_t i = 0; i < all; i++) host[i] = byteOf(ex.rank, i);
  CUDACHECK(cudaMemcpy(send, host.data(), all, cudaMemcpyHostToDevice));

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 2, reqs.ginCounterCount = 1, reqs.ginContextCount = kContexts, reqs.railGinBarrierCount = kContexts;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  const int rounds = 2;
  putAll<<<devComm.ginContextCount, 64, 0, ex.stream>>>(devComm, sendWindow, recvWindow, devicePlan, strip, rounds);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  int left = (ex.rank + ex.nRanks - 1) % ex.nRanks, wrong = 0;
  for (int context = 0; context < devComm.ginContextCount; context++) {
    size_t base = context * strip;
    for (int i = 0; i < 16; i++) want[base + i] = i == 1 ? 0 : 6 + rounds;
    for (int i = 0; i < kSizes; i++)
      for (size_t j = 0; j < sizes[i]; j++) want[base + plan[2 * i] + j] = byteOf(left, ((base + plan[2 * i]) ^ 1) + j);
  }
  CUDACHECK(cudaMemcpy(host.data(), recv, all, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < all; i++)
    if (host[i] != want[i] && !wrong++) fprintf(stderr, "rank %d: byte %zu is %d, not %d\n", ex.rank, i, host[i], want[i]);
  ex.elementsChecked = all;
  for (size_t bytes : sizes) ex.bytesMoved += bytes * devComm.ginContextCount * rounds;
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  CUDACHECK(cudaFree(devicePlan));
  ex.freeWindow(recv, recvWindow);
  ex.freeWindow(send, sendWindow);
  return wrong != 0;
}
