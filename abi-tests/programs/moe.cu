// An expert-parallel exchange as MoE kernels do it: tokens in bfloat16 go to the ranks of their top-k experts, come back
// scaled and are added up with their gate weights. Plain stores where the peer is near, puts where it is not; counts by
// release stores and acquire loads in inline PTX; warps with different jobs; dynamic shared memory; templates.
#include <cuda_bf16.h>

#include "../../examples-c/common/example.h"

__device__ __forceinline__ void storeRelease(int* at, int value) {
  asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ int loadAcquire(const int* at) {
  int value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ int laneId() {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

constexpr int kTokens = 24, kTopK = 2, kExpertsPerRank = 3;

struct Slot { // where a token stands in the sender, so that it finds its way back
  int token, k;
};

// Symmetric memory of one rank, in units of its own; every member starts on 16 bytes.
template <int kHidden>
struct Layout {
  static constexpr size_t row = kHidden * sizeof(__nv_bfloat16);
  size_t nRanks;
  __host__ __device__ size_t capacity() const { return (size_t)kTokens * kTopK; }                       // from one rank
  __host__ __device__ size_t counts() const { return 0; }                                                // int[nRanks]: +1 = known
  __host__ __device__ size_t slots() const { return 4096; }                                              // Slot[nRanks][capacity]
  __host__ __device__ size_t inbox() const { return slots() + nRanks * capacity() * sizeof(Slot); }      // row[nRanks][capacity]
  __host__ __device__ size_t answers() const { return inbox() + nRanks * capacity() * row; }             // row[kTokens][kTopK]
  __host__ __device__ size_t staging() const { return answers() + kTokens * kTopK * row; }               // row[nRanks][capacity]
  __host__ __device__ size_t stagedSlots() const { return staging() + nRanks * capacity() * row; }       // Slot[nRanks][capacity]
  __host__ __device__ size_t stagedCounts() const { return stagedSlots() + nRanks * capacity() * sizeof(Slot); } // int[nRanks]
  __host__ __device__ size_t bytes() const { return stagedCounts() + 4096; }
};

__host__ __device__ inline int expertOf(int rank, int token, int k, int experts) {
  return (rank * 7 + token * 5 + k * (1 + token % (experts - 1 ? experts - 1 : 1))) % experts;
}

template <int kHidden>
__global__ void __launch_bounds__(256) moe(ncclDevComm devComm, ncclWindow_t window, const __nv_bfloat16* __restrict__ tokens,
                                           const float* __restrict__ gates, __nv_bfloat16* __restrict__ output) {
  extern __shared__ __align__(16) int shared[]; // how many tokens went to each rank
  const Layout<kHidden> layout{(size_t)devComm.nRanks};
  const int n = devComm.nRanks, rank = devComm.rank, warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = laneId();
  const int firstNear = rank - devComm.lsaRank;
  const int vectors = kHidden * sizeof(__nv_bfloat16) / sizeof(int4);
  int* sent = shared;
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  char* base = (char*)ncclGetLocalPointer(window, 0);
  auto near = [&](int peer) { return peer >= firstNear && peer < firstNear + devComm.lsaSize; };
  auto peerBase = [&](int peer) { return (char*)ncclGetLsaPointer(window, 0, peer - firstNear); };

  for (int i = threadIdx.x; i < n; i += blockDim.x) sent[i] = 0;
  __syncthreads();

  // Dispatch: a warp per token and choice.
  for (int job = warp; job < kTokens * kTopK; job += warps) {
    int token = job / kTopK, k = job % kTopK;
    int peer = expertOf(rank, token, k, kExpertsPerRank * n) / kExpertsPerRank;
    int place = 0;
    if (lane == 0) place = atomicAdd(&sent[peer], 1);
    place = __shfl_sync(0xffffffffu, place, 0);
    bool store = near(peer);
    size_t at = (store ? rank : peer) * layout.capacity() + place;
    char* to = store ? peerBase(peer) + layout.inbox() : base + layout.staging();
    Slot* slot = (Slot*)(store ? peerBase(peer) + layout.slots() : base + layout.stagedSlots()) + at;
    const int4* from = (const int4*)(tokens + (size_t)token * kHidden);
    for (int v = lane; v < vectors; v += 32) ((int4*)(to + at * layout.row))[v] = __ldg(from + v);
    if (lane == 0) *slot = Slot{token, k};
    __syncwarp();
  }
  __syncthreads();
  __threadfence_system();
  __syncthreads();
  for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
    size_t mine = rank * layout.capacity(), theirs = peer * layout.capacity();
    if (near(peer)) {
      storeRelease((int*)(peerBase(peer) + layout.counts()) + rank, sent[peer] + 1);
    } else {
      ((int*)(base + layout.stagedCounts()))[peer] = sent[peer] + 1;
      gin.put(world, peer, window, layout.inbox() + mine * layout.row, window, layout.staging() + theirs * layout.row,
              sent[peer] * layout.row);
      gin.put(world, peer, window, layout.slots() + mine * sizeof(Slot), window, layout.stagedSlots() + theirs * sizeof(Slot),
              sent[peer] * sizeof(Slot));
      gin.put(world, peer, window, layout.counts() + rank * sizeof(int), window, layout.stagedCounts() + peer * sizeof(int),
              sizeof(int), ncclGin_SignalInc{2 + (ncclGinSignal_t)rank});
    }
  }

  // Experts: wait for each rank's count, multiply, send back. Warps take the sources in turn.
  for (int source = warp; source < n; source += warps) {
    int count = 0;
    // Puts are in no order; what stood before a signal is there when the signal is. Near, the count itself was released.
    if (!near(source)) gin.waitSignal(ncclCoopWarp(), 2 + source, 1);
    if (lane == 0) {
      const int* word = (const int*)(base + layout.counts()) + source;
      while ((count = loadAcquire(word)) == 0) {
      }
    }
    count = __shfl_sync(0xffffffffu, count, 0) - 1;
    for (int i = 0; i < count; i++) {
      size_t at = source * layout.capacity() + i;
      Slot slot = ((Slot*)(base + layout.slots()))[at];
      float factor = 1.0f + expertOf(source, slot.token, slot.k, kExpertsPerRank * n);
      __nv_bfloat162* row = (__nv_bfloat162*)(base + layout.inbox() + at * layout.row);
      for (int v = lane; v < kHidden / 2; v += 32) {
        float2 pair = __bfloat1622float2(row[v]);
        row[v] = __floats2bfloat162_rn(pair.x * factor, pair.y * factor);
      }
      __syncwarp();
      size_t home = layout.answers() + ((size_t)slot.token * kTopK + slot.k) * layout.row;
      if (near(source)) {
        const int4* from = (const int4*)row;
        int4* to = (int4*)(peerBase(source) + home);
        for (int v = lane; v < vectors; v += 32) to[v] = from[v];
        __threadfence_system();
        __syncwarp();
      }
      // A near answer is announced with an empty put: the signal counts answers of both kinds.
      gin.put(world, source, window, home, window, layout.inbox() + at * layout.row, near(source) ? 0 : layout.row, ncclGin_SignalInc{1},
              ncclGin_None{}, ncclCoopWarp());
    }
  }
  gin.waitSignal(ncclCoopCta(), 1, kTokens * kTopK);

  // Combine.
  for (int token = warp; token < kTokens; token += warps)
    for (int v = lane; v < kHidden; v += 32) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kTopK; k++) {
        const __nv_bfloat16* row = (const __nv_bfloat16*)(base + layout.answers() + ((size_t)token * kTopK + k) * layout.row);
        sum += gates[token * kTopK + k] * __bfloat162float(row[v]);
      }
      output[(size_t)token * kHidden + v] = __float2bfloat16(sum);
    }
  gin.flush(ncclCoopCta());
}

template <int kHidden>
int exchange(Example& ex) {
  Layout<kHidden> layout{(size_t)ex.nRanks};
  ncclWindow_t window;
  char* memory = (char*)ex.allocWindow(layout.bytes(), &window);
  std::vector<__nv_bfloat16> tokens(kTokens * kHidden), output(kTokens * kHidden);
  std::vector<float> gates(kTokens * kTopK);
  for (size_t i = 0; i < tokens.size(); i++) tokens[i] = __float2bfloat16((float)((i * 3 + ex.rank) % 16));
  for (size_t i = 0; i < gates.size(); i++) gates[i] = i % 2 ? 0.5f : 0.25f;
  __nv_bfloat16 *deviceTokens, *deviceOutput;
  float* deviceGates;
  CUDACHECK(cudaMalloc(&deviceTokens, tokens.size() * sizeof tokens[0]));
  CUDACHECK(cudaMalloc(&deviceOutput, output.size() * sizeof output[0]));
  CUDACHECK(cudaMalloc(&deviceGates, gates.size() * sizeof gates[0]));
  CUDACHECK(cudaMemcpyAsync(deviceTokens, tokens.data(), tokens.size() * sizeof tokens[0], cudaMemcpyHostToDevice, ex.stream));
  CUDACHECK(cudaMemcpyAsync(deviceGates, gates.data(), gates.size() * sizeof gates[0], cudaMemcpyHostToDevice, ex.stream));

  ncclDevCommRequirements reqs = {};
  reqs.ginSignalCount = 2 + ex.nRanks;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  size_t sharedBytes = ex.nRanks * sizeof(int);
  CUDACHECK(cudaFuncSetAttribute(moe<kHidden>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sharedBytes));
  void* arguments[] = {&devComm, &window, &deviceTokens, &deviceGates, &deviceOutput};
  CUDACHECK(cudaLaunchKernel((const void*)moe<kHidden>, dim3(1), dim3(256), arguments, sharedBytes, ex.stream));
  CUDACHECK(cudaMemcpyAsync(output.data(), deviceOutput, output.size() * sizeof output[0], cudaMemcpyDeviceToHost, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  int wrong = 0;
  for (int token = 0; token < kTokens; token++)
    for (int h = 0; h < kHidden; h++) {
      float sum = 0;
      for (int k = 0; k < kTopK; k++) {
        float factor = 1.0f + expertOf(ex.rank, token, k, kExpertsPerRank * ex.nRanks);
        float scaled = __bfloat162float(__float2bfloat16(__bfloat162float(tokens[token * kHidden + h]) * factor));
        sum += gates[token * kTopK + k] * scaled;
      }
      wrong += __bfloat162float(output[token * kHidden + h]) != __bfloat162float(__float2bfloat16(sum));
    }
  ex.elementsChecked += output.size();
  ex.bytesMoved += 2 * kTokens * kTopK * layout.row;
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  CUDACHECK(cudaFree(deviceTokens));
  CUDACHECK(cudaFree(deviceOutput));
  CUDACHECK(cudaFree(deviceGates));
  ex.freeWindow(memory, window);
  return wrong;
}

int runRank(Example& ex) { return exchange<128>(ex) + exchange<1024>(ex); }
