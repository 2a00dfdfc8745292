// Breadth-first search over a graph whose vertices are spread over ranks: frontiers are claimed by remote atomics on the
// peers' windows where memory is shared, and by queues of putValue where it is not. Teams, windows looked up by address,
// device classes, ncclCommInitAll and one host thread for all devices.
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <vector>

#define CHECKED(expression)                                                                                  \
  [&] {                                                                                                      \
    const auto result = (expression);                                                                        \
    if (static_cast<int>(result) != 0) {                                                                     \
      std::fprintf(stderr, "%s:%d %s -> %d %s\n", __FILE__, __LINE__, #expression, static_cast<int>(result), ncclGetLastError(nullptr)); \
      std::exit(EXIT_FAILURE);                                                                               \
    }                                                                                                        \
  }()

using Vertex = int;
using Level = unsigned;
constexpr Level kUnseen = ~0u;
constexpr int kDegree = 4, kPerRank = 300, kQueue = 1 << 12; // vertices of a rank, entries of a queue for each pair

__host__ __device__ constexpr Vertex neighbour(Vertex v, int edge, int all) {
  return edge < 2 ? (v + (edge == 0 ? 1 : all - 1)) % all : (Vertex)(((long long)v * (edge == 2 ? 17 : 31) + edge) % all);
}

// Memory of a rank: levels, then for each sender how many entries it sent in all, then the queues.
struct Layout {
  int ranks;
  __host__ __device__ size_t levels() const { return 0; }
  __host__ __device__ size_t queue(int sender) const { return 8192 + (size_t)sender * kQueue * sizeof(unsigned long long); }
  __host__ __device__ size_t bytes() const { return queue(ranks); }
};

class Claimer {
 public:
  __device__ Claimer(const ncclDevComm& comm, ncclWindow_t window, Layout layout) : comm_(comm), window_(window), layout_(layout) {}
  // True for whoever brings the first level to a vertex of a rank with shared memory.
  __device__ bool claim(int lsaRank, int local, Level level) const {
    auto* at = static_cast<Level*>(ncclGetLsaPointer(window_, layout_.levels() + local * sizeof(Level), lsaRank));
    return atomicCAS_system(at, kUnseen, level) == kUnseen;
  }

 private:
  const ncclDevComm& comm_;
  ncclWindow_t window_;
  Layout layout_;
};

__device__ int found; // vertices that this rank reached first, one counter per device

__global__ void expand(ncclDevComm comm, void* memory, Layout layout, Level level, unsigned* sent) {
  const ncclWindow_t window = ncclFindWindow(ncclCoopCta(), comm, memory);
  const ncclTeam world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm);
  const Claimer claimer(comm, window, layout);
  ncclGin gin(comm, blockIdx.x % 2);
  auto* levels = static_cast<volatile Level*>(ncclGetLocalPointer(window, layout.levels()));
  for (int local = blockIdx.x * blockDim.x + threadIdx.x; local < kPerRank; local += gridDim.x * blockDim.x) {
    if (levels[local] != level) continue;
    for (int edge = 0; edge < kDegree; edge++) {
      const Vertex other = neighbour(world.rank * kPerRank + local, edge, world.nRanks * kPerRank);
      const int owner = other / kPerRank;
      if (ncclTeamRankIsMember(lsa, world, owner)) {
        if (claimer.claim(ncclTeamRankToTeam(lsa, world, owner), other % kPerRank, level + 1)) atomicAdd(&found, 1);
      } else {
        const unsigned slot = atomicAdd(sent + owner, 1u) % kQueue;
        gin.putValue(world, owner, window, layout.queue(world.rank) + slot * sizeof(unsigned long long),
                     (unsigned long long)(other % kPerRank) << 32 | (level + 1));
      }
    }
  }
  gin.flush(ncclCoopCta());
}

// One block: tells every peer how much it was sent, waits for theirs, takes the queues.
__global__ void collect(ncclDevComm comm, ncclWindow_t window, Layout layout, Level level, const unsigned* sent, unsigned* taken) {
  ncclGin gin(comm, 0), second(comm, 1);
  const ncclTeam world = ncclTeamWorld(comm);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, 0);
  __shared__ uint64_t arrived[64];
  for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x) {
    if (peer == world.rank) continue;
    // Puts of both contexts come before the signals of their own context.
    gin.put(world, peer, window, 0, window, 0, 0, ncclGin_SignalAdd{(ncclGinSignal_t)world.rank, 1ull << 32 | sent[peer]});
    second.put(world, peer, window, 0, window, 0, 0, ncclGin_SignalAdd{(ncclGinSignal_t)world.rank, 1});
  }
  for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x) {
    arrived[peer] = 0;
    if (peer == world.rank) continue;
    second.waitSignal(ncclCoopThread(), peer, level + 1);
    uint64_t value; // rounds above, sums of counts below
    while ((value = gin.readSignal(peer)) >> 32 < level + 1) __nanosleep(100);
    arrived[peer] = (unsigned)value - taken[world.nRanks + peer]; // sent[] counts up for good: the sum grows by it each round
    taken[world.nRanks + peer] = (unsigned)value;
  }
  __syncthreads();
  auto* levels = static_cast<Level*>(ncclGetLocalPointer(window, layout.levels()));
  for (int peer = 0; peer < world.nRanks; peer++) {
    auto* queue = static_cast<const volatile unsigned long long*>(ncclGetLocalPointer(window, layout.queue(peer)));
    for (unsigned i = taken[peer] + threadIdx.x; i < (unsigned)arrived[peer]; i += blockDim.x) {
      const unsigned long long entry = queue[i % kQueue];
      cuda::atomic_ref<Level, cuda::thread_scope_system> at(levels[entry >> 32]);
      Level unseen = kUnseen;
      if (at.compare_exchange_strong(unseen, (Level)entry, cuda::memory_order_relaxed)) atomicAdd(&found, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0 && arrived[peer] > taken[peer]) taken[peer] = (unsigned)arrived[peer];
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2, all = ranks * kPerRank;
  const Layout layout{ranks};
  struct PerRank {
    ncclComm_t comm;
    void* memory;
    ncclWindow_t window;
    ncclDevComm device;
    cudaStream_t stream;
    unsigned *sent, *taken;
  };
  std::vector<PerRank> rank(ranks);
  std::vector<ncclComm_t> comms(ranks);
  CHECKED(ncclCommInitAll(comms.data(), ranks, nullptr));
  const std::vector<Level> unseen(kPerRank, kUnseen);
  ncclDevCommRequirements needs{};
  needs.barrierCount = 1;
  needs.ginSignalCount = ranks;
  needs.ginForceEnable = true;
  for (int r = 0; r < ranks; r++) {
    PerRank& my = rank[r];
    my.comm = comms[r];
    CHECKED(cudaSetDevice(r));
    CHECKED(cudaStreamCreate(&my.stream));
    CHECKED(ncclMemAlloc(&my.memory, layout.bytes()));
    CHECKED(cudaMemset(my.memory, 0, layout.bytes()));
    CHECKED(cudaMemcpy(my.memory, unseen.data(), kPerRank * sizeof(Level), cudaMemcpyHostToDevice));
    CHECKED(cudaMalloc(&my.sent, ranks * sizeof(unsigned)));
    CHECKED(cudaMalloc(&my.taken, 2 * ranks * sizeof(unsigned)));
    CHECKED(cudaMemset(my.sent, 0, ranks * sizeof(unsigned)));
    CHECKED(cudaMemset(my.taken, 0, 2 * ranks * sizeof(unsigned)));
    CHECKED(cudaDeviceSynchronize());
  }
  CHECKED(ncclGroupStart());
  for (PerRank& my : rank) CHECKED(ncclCommWindowRegister(my.comm, my.memory, layout.bytes(), &my.window, NCCL_WIN_COLL_SYMMETRIC));
  CHECKED(ncclGroupEnd());
  CHECKED(ncclGroupStart());
  for (PerRank& my : rank) CHECKED(ncclDevCommCreate(my.comm, &needs, &my.device));
  CHECKED(ncclGroupEnd());

  const Level start = 0;
  CHECKED(cudaMemcpy(rank[0].memory, &start, sizeof start, cudaMemcpyHostToDevice));
  constexpr int kLevels = 40;
  for (Level level = 0; level < kLevels; level++) {
    for (int r = 0; r < ranks; r++) {
      PerRank& my = rank[r];
      CHECKED(cudaSetDevice(r));
      expand<<<dim3(3), dim3(64), 0, my.stream>>>(my.device, my.memory, layout, level, my.sent);
      collect<<<1, 64, 0, my.stream>>>(my.device, my.window, layout, level, my.sent, my.taken);
      CHECKED(cudaPeekAtLastError());
    }
  }
  std::vector<Level> expected(all, kUnseen);
  std::queue<Vertex> next({0});
  for (expected[0] = 0; !next.empty(); next.pop())
    for (int edge = 0; edge < kDegree; edge++) {
      const Vertex other = neighbour(next.front(), edge, all);
      if (expected[other] != kUnseen) continue;
      expected[other] = expected[next.front()] + 1;
      next.push(other);
    }
  int wrong = 0, reached = 1;
  for (int r = 0; r < ranks; r++) {
    std::array<Level, kPerRank> got;
    int mine;
    CHECKED(cudaSetDevice(r));
    CHECKED(cudaStreamSynchronize(rank[r].stream));
    CHECKED(cudaMemcpyFromSymbol(&mine, found, sizeof mine));
    CHECKED(cudaMemcpy(got.data(), rank[r].memory, sizeof got, cudaMemcpyDeviceToHost));
    reached += mine;
#ifdef PLANT
    got[9]++;
#endif
    for (int v = 0; v < kPerRank; v++) wrong += got[v] != expected[r * kPerRank + v];
  }
  wrong += reached != all;
  for (PerRank& my : rank) {
    CHECKED(ncclDevCommDestroy(my.comm, &my.device));
    CHECKED(ncclCommWindowDeregister(my.comm, my.window));
    CHECKED(ncclMemFree(my.memory));
    CHECKED(ncclCommDestroy(my.comm));
  }
  if (wrong) std::fprintf(stderr, "%d of %d vertices are wrong, %d reached\n", wrong, all, reached);
  std::puts(wrong ? "search: WRONG" : "search: ok");
  return wrong != 0;
}
