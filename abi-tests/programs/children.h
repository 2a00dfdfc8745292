// Traffic on any communicator, checked: puts to all ranks, stores to the LSA team, their barriers. Several communicators of one
// rank may have theirs at the same time, each on a stream of its own.
#pragma once
#include "../../examples-c/common/example.h"

#define WANT(condition, ...)                                             \
  do {                                                                   \
    if (!(condition)) {                                                  \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
      fprintf(stderr, __VA_ARGS__);                                      \
      fprintf(stderr, "\n");                                             \
      exitOnce(EXIT_FAILURE);                                            \
    }                                                                    \
  } while (0)

// A call that is to end in `code`.
#define RETURNS(code, call)                                                                          \
  do {                                                                                               \
    ncclResult_t got_ = (call);                                                                      \
    WANT(got_ == (code), "%s (%s)", ncclGetErrorString(got_), ncclGetLastError(NULL));               \
  } while (0)

// Window: one int per rank for puts, then one per LSA rank for stores. `before`: rounds of earlier launches.
__global__ void talk(ncclDevComm devComm, ncclSymPtr<int> inbox, int salt, int before, int rounds, int* wrong) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm), lsa = ncclTeamLsa(devComm);
  ncclSymPtr<int> stores = inbox + world.nRanks;
  for (int round = before; round < before + rounds; round++) {
    for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x)
      gin.putValue(world, peer, inbox + world.rank, salt + 1000 * round + 10 * world.rank + peer, ncclGin_SignalInc{0});
    for (int peer = threadIdx.x; peer < lsa.nRanks; peer += blockDim.x)
      stores.lsaPtr(peer)[lsa.rank] = salt + 7 * round + lsa.rank - peer;
    ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    gin.waitSignal(ncclCoopCta(), 0, (uint64_t)world.nRanks * (round + 1));
    for (int from = threadIdx.x; from < world.nRanks; from += blockDim.x)
      if (inbox.localPtr()[from] != salt + 1000 * round + 10 * from + world.rank) atomicAdd(wrong, 1);
    for (int from = threadIdx.x; from < lsa.nRanks; from += blockDim.x)
      if (stores.localPtr()[from] != salt + 7 * round + from - lsa.rank) atomicAdd(wrong, 1);
    // Nobody overwrites what another has not read.
    __syncthreads();
    for (int peer = threadIdx.x; peer < world.nRanks; peer += blockDim.x) gin.signal(world, peer, ncclGin_SignalInc{1});
    gin.waitSignal(ncclCoopCta(), 1, (uint64_t)world.nRanks * (round + 1));
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
}

struct Traffic {
  ncclComm_t comm;
  int rank, nRanks, rounds = 0;
  int *memory, *wrong;
  ncclWindow_t window;
  ncclDevComm devComm;
  cudaStream_t stream;

  static ncclDevCommRequirements needs() {
    ncclDevCommRequirements reqs;
    memset(&reqs, 0, sizeof reqs);
    reqs.lsaBarrierCount = 1;
    reqs.ginSignalCount = 2;
    return reqs;
  }

  void allocate(ncclComm_t of) {
    comm = of;
    NCCLCHECK(ncclCommUserRank(comm, &rank));
    NCCLCHECK(ncclCommCount(comm, &nRanks));
    CUDACHECK(cudaStreamCreate(&stream));
    NCCLCHECK(ncclMemAlloc((void**)&memory, bytes()));
    CUDACHECK(cudaMemset(memory, 0, bytes()));
    CUDACHECK(cudaMalloc((void**)&wrong, sizeof(int)));
    CUDACHECK(cudaMemset(wrong, 0, sizeof(int)));
    CUDACHECK(cudaStreamSynchronize(NULL));
  }

  size_t bytes() const { return 2 * sizeof(int) * nRanks; }

  // Collective.
  void open(ncclComm_t of) {
    allocate(of);
    ncclDevCommRequirements reqs = needs();
    NCCLCHECK(ncclCommWindowRegister(comm, memory, bytes(), &window, NCCL_WIN_COLL_SYMMETRIC));
    NCCLCHECK(ncclDevCommCreate(comm, &reqs, &devComm));
  }

  void start(int count) {
    talk<<<1, 32, 0, stream>>>(devComm, ncclSymPtr<int>(window), 100000 * (nRanks + 1), rounds, count, wrong);
    CUDACHECK(cudaGetLastError());
    rounds += count;
  }

  void check(Example& ex) {
    int bad;
    CUDACHECK(cudaStreamSynchronize(stream));
    CUDACHECK(cudaMemcpy(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost));
    WANT(bad == 0, "%d wrong values on rank %d of %d", bad, rank, nRanks);
    ex.bytesMoved += (size_t)rounds * bytes();
    ex.elementsChecked += (size_t)rounds * 2 * nRanks;
  }

  // Not collective; `collectiveState` false: the communicator has failed and only memory is to go.
  void close() {
    NCCLCHECK(ncclDevCommDestroy(comm, &devComm));
    NCCLCHECK(ncclCommWindowDeregister(comm, window));
    free();
  }

  void free() {
    NCCLCHECK(ncclMemFree(memory));
    CUDACHECK(cudaFree(wrong));
    CUDACHECK(cudaStreamDestroy(stream));
  }
};

static inline void wantPlace(ncclComm_t comm, int rank, int nRanks) {
  int r, n;
  NCCLCHECK(ncclCommUserRank(comm, &r));
  NCCLCHECK(ncclCommCount(comm, &n));
  WANT(r == rank && n == nRanks, "rank %d of %d, expected %d of %d", r, n, rank, nRanks);
}
