// Heat on a plate cut into rows of ranks: interior and border kernels on two streams, halos by GIN puts whose signals
// count steps, the norm by warp sums and an atomic, two steps in a CUDA graph that is launched again and again; a thread
// per rank.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace cg = cooperative_groups;
using Real = double;
constexpr int kWide = 96, kHigh = 20, kSteps = 12; // columns, rows of a rank, steps (even)

template <typename Code>
void must(Code code, std::string_view what, int line) {
  if (static_cast<int>(code) == 0) return;
  std::fprintf(stderr, "line %d: %.*s: %d\n", line, (int)what.size(), what.data(), (int)code);
  std::exit(1);
}
#define MUST(call) must((call), #call, __LINE__)

struct Plate { // both grids lie in one window: grid g of row r begins at ((g * (kHigh + 2)) + r) * kWide
  ncclWindow_t window;
  __host__ __device__ static constexpr size_t at(int grid, int row, int column = 0) {
    return ((size_t)grid * (kHigh + 2) + row) * kWide + column;
  }
};

__device__ Real relaxed(const Real* from, int row, int column) {
  return 0.25 * (from[Plate::at(0, row - 1, column)] + from[Plate::at(0, row + 1, column)] + from[Plate::at(0, row, column - 1)] +
                 from[Plate::at(0, row, column + 1)]);
}

__device__ void addSquares(Real difference, Real* norm) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  Real sum = cg::reduce(warp, difference * difference, cg::plus<Real>());
  if (warp.thread_rank() == 0) atomicAdd(norm, sum);
}

__global__ void interior(Plate plate, int from, Real* norm) {
  Real* base = (Real*)ncclGetLocalPointer(plate.window, 0);
  const Real* old = base + Plate::at(from, 0);
  Real change = 0;
  for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < (kHigh - 2) * (kWide - 2); cell += gridDim.x * blockDim.x) {
    const int row = 2 + cell / (kWide - 2), column = 1 + cell % (kWide - 2);
    const Real value = relaxed(old, row, column);
    change += fabs(value - old[Plate::at(0, row, column)]);
    base[Plate::at(1 - from, row, column)] = value;
  }
  addSquares(change, norm);
}

// One block: waits for the halos of this step, computes the outer rows, sends them for the next.
__global__ void __launch_bounds__(128) border(ncclDevComm comm, Plate plate, int from, uint64_t* step, Real* norm) {
  ncclGin gin{comm, 0};
  ncclTeam world = ncclTeamWorld(comm);
  Real* base = (Real*)ncclGetLocalPointer(plate.window, 0);
  const Real* old = base + Plate::at(from, 0);
  const uint64_t done = *step;
  if (world.rank > 0) gin.waitSignal(ncclCoopCta(), 0, done);
  if (world.rank < world.nRanks - 1) gin.waitSignal(ncclCoopCta(), 1, done);
  Real change = 0;
  for (int cell = threadIdx.x; cell < 2 * (kWide - 2); cell += blockDim.x) {
    const int row = cell < kWide - 2 ? 1 : kHigh, column = 1 + cell % (kWide - 2);
    const Real value = relaxed(old, row, column);
    change += fabs(value - old[Plate::at(0, row, column)]);
    base[Plate::at(1 - from, row, column)] = value;
  }
  addSquares(change, norm);
  __syncthreads();
  constexpr size_t bytes = kWide * sizeof(Real);
  ncclSymPtr<Real> grid(plate.window);
  if (world.rank > 0)
    gin.put(world, world.rank - 1, plate.window, Plate::at(1 - from, kHigh + 1) * sizeof(Real), plate.window,
            Plate::at(1 - from, 1) * sizeof(Real), bytes, ncclGin_SignalInc{1}, ncclGin_None{}, ncclCoopCta());
  if (world.rank < world.nRanks - 1)
    gin.put(world, world.rank + 1, grid + Plate::at(1 - from, 0), grid + Plate::at(1 - from, kHigh), kWide, ncclGin_SignalInc{0},
            ncclGin_None{}, ncclCoopCta());
  gin.flush(ncclCoopCta());
  if (threadIdx.x == 0) *step = done + 1;
}

Real start(int row, int column) { return row == 0 ? 100 : (row * 7 + column * 3) % 11; }

int runRank(int rank, int ranks, ncclUniqueId id, std::barrier<>& all, std::vector<Real>& norms) {
  ncclComm_t comm;
  cudaStream_t main, side;
  cudaEvent_t fork, join;
  MUST(cudaSetDevice(rank));
  MUST(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  MUST(ncclCommInitRank(&comm, ranks, id, rank));
  constexpr size_t cells = 2 * (kHigh + 2) * kWide;
  void* memory;
  Plate plate;
  MUST(ncclMemAlloc(&memory, cells * sizeof(Real)));
  MUST(ncclCommWindowRegister(comm, memory, cells * sizeof(Real), &plate.window, NCCL_WIN_COLL_SYMMETRIC));
  std::vector<Real> host(cells);
  for (size_t i = 0; i < cells; i++) host[i] = start(rank * kHigh + (int)(i / kWide) % (kHigh + 2), (int)(i % kWide));
  MUST(cudaMemcpy(memory, host.data(), cells * sizeof(Real), cudaMemcpyHostToDevice));
  ncclDevCommRequirements needs{};
  needs.ginForceEnable = true;
  needs.ginSignalCount = 2;
  ncclDevComm device;
  MUST(ncclDevCommCreate(comm, &needs, &device));
  uint64_t* step;
  Real* norm;
  MUST(cudaMalloc((void**)&step, sizeof *step));
  MUST(cudaMemset(step, 0, sizeof *step));
  MUST(cudaHostAlloc((void**)&norm, sizeof *norm, cudaHostAllocMapped));
  *norm = 0;

  cudaGraph_t graph;
  cudaGraphExec_t two; // steps from grid 0 to 1 and back
  MUST(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  for (int from = 0; from < 2; from++) {
    MUST(cudaEventRecord(fork, main));
    MUST(cudaStreamWaitEvent(side, fork, 0));
    interior<<<4, 64, 0, side>>>(plate, from, norm);
    border<<<1, 128, 0, main>>>(device, plate, from, step, norm);
    MUST(cudaEventRecord(join, side));
    MUST(cudaStreamWaitEvent(main, join));
  }
  MUST(cudaStreamEndCapture(main, &graph));
  MUST(cudaGraphInstantiate(&two, graph, nullptr, nullptr, 0));
  MUST(cudaGraphDestroy(graph));
  all.arrive_and_wait();
  for (int s = 0; s < kSteps; s += 2) MUST(cudaGraphLaunch(two, main));
  MUST(cudaMemcpyAsync(host.data(), memory, cells * sizeof(Real), cudaMemcpyDeviceToHost, main));
  MUST(cudaStreamSynchronize(main));
  norms[rank] = *norm;

  // The whole plate on the host.
  const int high = ranks * kHigh + 2;
  std::vector<Real> now((size_t)high * kWide), next;
  for (size_t i = 0; i < now.size(); i++) now[i] = start((int)(i / kWide), (int)(i % kWide));
  for (int s = 0; s < kSteps; s++) {
    next = now;
    for (int r = 1; r < high - 1; r++)
      for (int c = 1; c < kWide - 1; c++)
        next[r * kWide + c] = 0.25 * (now[(r - 1) * kWide + c] + now[(r + 1) * kWide + c] + now[r * kWide + c - 1] + now[r * kWide + c + 1]);
    now.swap(next);
  }
#ifdef PLANT
  host[Plate::at(0, 3, 3)] *= 1.5;
#endif
  int wrong = 0;
  for (int r = 1; r <= kHigh; r++)
    for (int c = 0; c < kWide; c++) wrong += std::fabs(host[Plate::at(0, r, c)] - now[(rank * kHigh + r) * kWide + c]) > 1e-9;
  all.arrive_and_wait();
  MUST(cudaGraphExecDestroy(two));
  MUST(ncclDevCommDestroy(comm, &device));
  MUST(ncclCommWindowDeregister(comm, plate.window));
  MUST(ncclMemFree(memory));
  MUST(cudaFree(step));
  MUST(cudaFreeHost(norm));
  MUST(cudaEventDestroy(fork));
  MUST(cudaEventDestroy(join));
  MUST(cudaStreamDestroy(side));
  MUST(cudaStreamDestroy(main));
  MUST(ncclCommDestroy(comm));
  if (wrong) std::fprintf(stderr, "rank %d: %d cells differ\n", rank, wrong);
  return wrong;
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  std::barrier<> all(ranks);
  std::vector<int> wrong(ranks);
  std::vector<Real> norms(ranks);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; r++) threads.emplace_back([&, r] { wrong[r] = runRank(r, ranks, id, all, norms); });
  }
  int bad = 0;
  for (int r = 0; r < ranks; r++) bad |= wrong[r] != 0 || !(norms[r] > 0);
  std::puts(bad ? "stencil: WRONG" : "stencil: ok");
  return bad;
}
