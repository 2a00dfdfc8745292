// Collectives between kernels of the device API, on the same stream and beside them on another; on parts of a communicator.
#include "world.h"

static const int kRounds = 20;
static const uint64_t kLargest = 3000;

// Puts own values into all peers' windows and waits for theirs.
__global__ void storeAll(ncclDevComm devComm, ncclWindow_t window, unsigned round, Finding* found) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
  int peer = threadIdx.x, n = devComm.lsaSize;
  if (peer < n) ((unsigned*)ncclGetLsaPointer(window, 0, peer))[devComm.lsaRank] = round * 100 + devComm.lsaRank;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  Case c = {};
  c.number = round;
  if (peer < n) {
    unsigned got = ((volatile unsigned*)ncclGetLocalPointer(window, 0))[peer];
    if (got != round * 100 + peer) finding(found, c, 0, peer, got, round * 100 + peer);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// The right neighbour's word, with a signal; all have looked before the next round.
__global__ void putNext(ncclDevComm devComm, ncclWindow_t window, unsigned round, Finding* found) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  int right = (world.rank + 1) % world.nRanks, left = (world.rank + world.nRanks - 1) % world.nRanks;
  if (threadIdx.x == 0) gin.putValue(world, right, window, 1024, round * 1000 + (unsigned)world.rank, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopCta(), 0, round + 1);
  Case c = {};
  c.number = round;
  if (threadIdx.x == 0) {
    unsigned got = *(volatile unsigned*)ncclGetLocalPointer(window, 1024);
    if (got != round * 1000 + left) finding(found, c, 0, left, got, round * 1000 + left);
    gin.signal(world, left, ncclGin_SignalInc{1});
  }
  gin.waitSignal(ncclCoopCta(), 1, round + 1);
  gin.flush(ncclCoopCta());
}

struct Mixed {
  Example& ex;
  World& world;
  ncclDevComm devComm;
  ncclWindow_t window;
  bool gin;
  unsigned round = 0;

  void deviceApi(cudaStream_t stream) {
    if (gin) putNext<<<1, 64, 0, stream>>>(devComm, window, round, world.found);
    else storeAll<<<1, 64, 0, stream>>>(devComm, window, round, world.found);
    round++;
  }
  void hostApi(cudaStream_t stream, unsigned key) {
    Case c = someCase(ex, key, kLargest);
    world.placeAt(c, key % kMemories, 0, 1);
    prepareCase(c, stream);
    NCCLCHECK(collective(ex, [&] { return callCase(c, world.operations.of(c), ex.comm, stream); }));
    verifyCase(c, world.found, stream);
    world.cases.push_back(c);
  }
};

static void interleaved(Example& ex, World& world, bool gin) {
  Mixed m = {ex, world, {}, NULL, gin};
  void* memory = windowNew(ex, 4096, &m.window);
  ncclDevCommRequirements reqs = noRequirements();
  if (gin) reqs.ginSignalCount = 2;
  else reqs.lsaBarrierCount = 1;
  m.devComm = devCommOf(ex, reqs);
  cudaStream_t other;
  CUDACHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (int i = 0; i < kRounds; i++) {  // one stream
    m.deviceApi(ex.stream);
    m.hostApi(ex.stream, 11000 + i);
  }
  finish(ex);
  for (int i = 0; i < kRounds; i++) {  // side by side
    m.deviceApi(other);
    m.hostApi(ex.stream, 11000 + i);
  }
  finish(ex, other);
  finish(ex);
  if (!gin) {  // a graph's rounds repeat: no signal counts
    beginCapture(ex, ex.stream);
    m.deviceApi(ex.stream);
    m.hostApi(ex.stream, 11000);
    m.deviceApi(ex.stream);
    cudaGraphExec_t exec = endCapture(ex, ex.stream);
    for (int i = 0; i < 10; i++) CUDACHECK(cudaGraphLaunch(exec, ex.stream));
    finish(ex);
    CUDACHECK(cudaGraphExecDestroy(exec));
  }
  world.report(ex, gin ? "collectives and GIN" : "collectives and LSA");
  hostBarrier(ex);
  CUDACHECK(cudaStreamDestroy(other));
  devCommGone(ex, m.devComm);
  windowGone(ex, memory, m.window);
}

__global__ void writeTwo(unsigned* at, unsigned rank) { *at = 1 << rank; }

// Reads all peers' results of a collective by LSA loads.
__global__ void readResults(ncclDevComm devComm, ncclWindow_t window, unsigned wanted, Finding* found) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, 0};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  Case c = {};
  for (int peer = threadIdx.x; peer < devComm.lsaSize; peer += blockDim.x) {
    unsigned got = *(volatile unsigned*)ncclGetLsaPointer(window, 256, peer);
    if (got != wanted) finding(found, c, 0, peer, got, wanted);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static void resultsSeenByPeers(Example& ex, World& world) {
  ncclWindow_t window;
  char* memory = (char*)windowNew(ex, 4096, &window);
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 1;
  ncclDevComm devComm = devCommOf(ex, reqs);
  for (int i = 0; i < 10; i++) {
    writeTwo<<<1, 1, 0, ex.stream>>>((unsigned*)memory, ex.rank);
    NCCLCHECK(collective(ex, [&] { return ncclAllReduce(memory, memory + 256, 1, ncclUint32, ncclSum, ex.comm, ex.stream); }));
    readResults<<<1, 32, 0, ex.stream>>>(devComm, window, (1u << ex.nRanks) - 1, world.found);
  }
  world.report(ex, "a collective's results, read by peers");
  hostBarrier(ex);
  devCommGone(ex, devComm);
  windowGone(ex, memory, window);
}

// Even and odd ranks, ranks in the opposite order; both at once.
static void halves(Example& ex, World& world) {
  ncclComm_t comm;
  Example part = ex;
  ncclResult_t made = collective(ex, [&] { return ncclCommSplit(ex.comm, ex.rank % 2, -ex.rank, &comm, NULL); });
  const char* why = made == ncclSuccess ? NULL : ncclGetLastError(NULL);
  if (why && strstr(why, "not implemented")) {
    if (ex.rank == 0) printf("mixed without parts of a communicator: %s\n", why);
    return;
  }
  NCCLCHECK(made);
  NCCLCHECK(ncclCommCount(comm, &part.nRanks));
  NCCLCHECK(ncclCommUserRank(comm, &part.rank));
  int members = (ex.nRanks + 1 - ex.rank % 2) / 2;
  TWICE_EXPECT(part.nRanks, members);
  TWICE_EXPECT(part.rank, members - 1 - ex.rank / 2);
  for (unsigned i = 0; i < 20; i++) {
    Case c = someCase(part, 14000 + i, kLargest);
    if (c.values.op == kPreMul) c.values.op = kSum;
    world.placeAt(c, kPlain, 0, 1);
    prepareCase(c, ex.stream);
    NCCLCHECK(collective(ex, [&] { return callCase(c, world.operations.of(c), comm, ex.stream); }));
    verifyCase(c, world.found, ex.stream);
    world.cases.push_back(c);
  }
  world.report(ex, "halves of a communicator");
  NCCLCHECK(collective(ex, [&] { return ncclCommFinalize(comm); }));
  NCCLCHECK(ncclCommDestroy(comm));
}

int test(Example& ex) {
  World world;
  world.create(ex, kLargest * ex.nRanks * 8);
  ncclTeam lsa = ncclTeamLsa(ex.comm);
  interleaved(ex, world, false);
  if (lsa.nRanks == ex.nRanks) resultsSeenByPeers(ex, world);
  halves(ex, world);
  if (ginHere(ex)) interleaved(ex, world, true);
  world.destroy(ex);
  return twiceWrong != 0;
}
