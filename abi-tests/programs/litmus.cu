// Adds on signals, written into the queues of GDAKI contexts by whole warps as fast as they go, every element with another value: is one ever
// taken that was not wholly there? Each rank knows from the elements' indices what all ranks have added to its signals.
//
//   POSTS    elements in all (20000)
//
// How often the model looked at an element that was rung for and not wholly there is in NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET.
#include <stdint.h>
#include <time.h>
#include "../../examples-c/common/example.h"

static const int kSignals = 8, kClosing = kSignals;

// Of element `index` of a queue: which signal, in the low bits, and how much.
__device__ uint64_t valueOf(int from, int to, int context, uint64_t index) {
  uint64_t x = (uint64_t(from) << 56 | uint64_t(to) << 48 | uint64_t(context) << 40) + index * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Block (context, peer): its warps share the queue.
__global__ void post(ncclDevComm comm, uint64_t perQueue) {
  constexpr auto gpu = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU;
  int context = blockIdx.x, peer = blockIdx.y, lane = threadIdx.x % 32;
  auto* gdaki = static_cast<ncclGinGdakiGPUContext*>(comm.ginHandles[context]);
  doca_gpu_dev_verbs_qp* qp = &gdaki->gdqp[peer];
  uint32_t batch = qp->sq_wqe_num < 32 ? qp->sq_wqe_num : 32;
  for (;;) {
    uint64_t first = 0;
    if (lane == 0) first = doca_gpu_dev_verbs_reserve_wq_slots<gpu>(qp, batch);
    first = __shfl_sync(~0u, (unsigned long long)first, 0);
    if (lane < batch) {
      uint64_t index = first + lane, value = valueOf(comm.rank, peer, context, index);
      uint64_t at = 8 * (comm.ginSignalBase + value % kSignals);
      // Behind the last one elements add nothing.
      doca_gpu_dev_verbs_wqe_prepare_atomic(qp, doca_gpu_dev_verbs_get_wqe_ptr(qp, uint16_t(index)), uint16_t(index), DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA,
                                            DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE, at, gdaki->signals_table.rkeys[peer], 0, gdaki->sink_buffer_lkey, 8,
                                            index < perQueue ? value : 0, 0);
    }
    __syncwarp();
    if (lane == 0) {
      doca_gpu_dev_verbs_mark_wqes_ready<gpu>(qp, first, first + batch - 1);
      doca_gpu_dev_verbs_submit<gpu>(qp, first + batch);
    }
    __syncwarp();
    if (first + batch >= perQueue) break;
  }
  __syncthreads();
  ncclGin gin(comm, context);
  if (threadIdx.x == 0) gin.signal(ncclTeamWorld(comm), peer, ncclGin_SignalInc{kClosing});
}

// out: what stands in the signals of each context, and what should.
__global__ void check(ncclDevComm comm, uint64_t perQueue, unsigned long long* out) {
  int context = blockIdx.x, from = blockIdx.y;
  ncclGin gin(comm, context);
  gin.waitSignal(ncclCoopCta(), kClosing, comm.nRanks);
  unsigned long long sums[kSignals] = {};
  for (uint64_t index = threadIdx.x; index < perQueue; index += blockDim.x) {
    uint64_t value = valueOf(from, comm.rank, context, index);
    for (int id = 0; id < kSignals; id++) sums[id] += value % kSignals == id ? value : 0;
  }
  for (int id = 0; id < kSignals; id++) atomicAdd(&out[2 * (kSignals * context + id) + 1], sums[id]);
  if (from == 0 && threadIdx.x < kSignals) out[2 * (kSignals * context + threadIdx.x)] = gin.readSignal(threadIdx.x);
}

int runRank(Example& ex) {
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = kSignals + 1;
  ncclDevComm comm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &comm));
  if (comm.ginTypes[0] != NCCL_NET_DEVICE_GIN_GDAKI) return fprintf(stderr, "no GDAKI: NCCL_GIN_TYPE=3\n"), 1;
  int contexts = comm.ginContextCount, words = 2 * kSignals * contexts;
  uint64_t posts = getenv("POSTS") ? strtoull(getenv("POSTS"), nullptr, 10) : 20000;
  uint64_t perQueue = posts / (contexts * ex.nRanks * ex.nRanks);
  unsigned long long* out;
  CUDACHECK(cudaMalloc(&out, words * sizeof *out));
  CUDACHECK(cudaMemset(out, 0, words * sizeof *out));
  timespec t0, t1;
  clock_gettime(CLOCK_MONOTONIC, &t0);
#ifdef __GINRS_CPU__
  const int threads = 64;
#else
  const int threads = 128;
#endif
  post<<<dim3(contexts, ex.nRanks), threads, 0, ex.stream>>>(comm, perQueue);
  check<<<dim3(contexts, ex.nRanks), threads, 0, ex.stream>>>(comm, perQueue, out);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  clock_gettime(CLOCK_MONOTONIC, &t1);
  std::vector<unsigned long long> sums(words);
  CUDACHECK(cudaMemcpy(sums.data(), out, words * sizeof *out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < words; i += 2) {
    if (sums[i] != sums[i + 1]) return fprintf(stderr, "signal %d of context %d is %#llx, not %#llx\n", i / 2 % kSignals, i / 2 / kSignals, sums[i], sums[i + 1]), 1;
    ex.elementsChecked++;
  }
  double seconds = t1.tv_sec - t0.tv_sec + (t1.tv_nsec - t0.tv_nsec) * 1e-9;
  uint64_t all = perQueue * contexts * ex.nRanks * ex.nRanks;
  if (ex.rank == 0) printf("litmus: %llu elements of all ranks, each once and whole, in %.1f s\n", (unsigned long long)all, seconds);
  CUDACHECK(cudaFree(out));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
  return 0;
}
