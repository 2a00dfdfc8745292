// Random puts with signals, every byte and every signal checked.
//
// Each CTA (or each of its warps or threads) of each rank walks its own strip of the send window in pieces of random size;
// each piece goes by GIN to a random peer, at the same offset of that peer's receive window, and adds a random value to a
// random signal there. The plan is a pure function of the seed, so a receiver knows what it must find.
//
// TORTURE="contexts=4 blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=3 seed=1" says how much.
#include "../../examples-c/common/example.h"

struct Plan {
  int contexts, blocks, threads, coop; // coop: 0 thread, 1 warp, 2 cta
  size_t strip, largest;
  int rounds, signals;
  unsigned long long seed;
};

struct Piece {
  size_t offset, bytes;
  int peer, signal;
  unsigned long long add;
};

__host__ __device__ inline unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Walks the strip of one worker; next() is the plan.
struct Walk {
  unsigned long long state;
  size_t at;
  __host__ __device__ Walk(const Plan& plan, int rank, int worker, int round)
      : state(mix(plan.seed ^ mix(rank * 1000003ull + worker) ^ mix(round + 77ull))), at(0) {}
  __host__ __device__ bool next(const Plan& plan, int nRanks, Piece* piece) {
    if (at >= plan.strip) return false;
    state = mix(state);
    size_t bytes = state % (plan.largest + 1); // zero-sized puts are legal and still signal
    if (bytes > plan.strip - at) bytes = plan.strip - at;
    state = mix(state);
    piece->offset = at;
    piece->bytes = bytes;
    piece->peer = (int)(state % nRanks);
    piece->signal = (int)((state >> 20) % plan.signals);
    piece->add = 1 + (state >> 40) % 1000;
    at += bytes ? bytes : 1;
    return true;
  }
};

__host__ __device__ inline int workersPerBlock(const Plan& plan) {
  return plan.coop == 2 ? 1 : plan.coop == 1 ? (plan.threads + 31) / 32 : plan.threads;
}

template <typename Coop>
__device__ void walk(const ncclGin& gin, ncclTeam world, ncclSymPtr<char> send, ncclSymPtr<char> recv, const Plan& plan, int worker,
                     int round, Coop coop) {
  Walk path(plan, world.rank, worker, round);
  size_t strip = ((size_t)world.rank * plan.blocks * workersPerBlock(plan) + worker) * plan.strip;
  size_t own = (size_t)worker * plan.strip;
  Piece piece;
  while (path.next(plan, world.nRanks, &piece))
    gin.put(world, piece.peer, recv + (strip + piece.offset), send + (own + piece.offset), piece.bytes,
            ncclGin_SignalAdd{(ncclGinSignal_t)piece.signal, piece.add}, ncclGin_None{}, coop);
}

// expected[context * signals + signal]: what this rank's signals must have reached after this round.
__global__ void torture(ncclDevComm devComm, ncclSymPtr<char> send, ncclSymPtr<char> recv, Plan plan, int round,
                        const unsigned long long* expected) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  int perBlock = workersPerBlock(plan);
  { // a rank comes here when its host has checked the last round: only then may its window change
    ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, world, devComm.railGinBarrier, blockIdx.x);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
  if (plan.coop == 2)
    walk(gin, world, send, recv, plan, blockIdx.x, round, ncclCoopCta());
  else if (plan.coop == 1)
    walk(gin, world, send, recv, plan, blockIdx.x * perBlock + threadIdx.x / 32, round, ncclCoopWarp());
  else
    walk(gin, world, send, recv, plan, blockIdx.x * perBlock + threadIdx.x, round, ncclCoopThread());
  __syncthreads();
  // One CTA waits for each context; with fewer CTAs than contexts nothing was sent on the others.
  if (blockIdx.x < (unsigned)gin.nContexts)
    for (int s = 0; s < plan.signals; s++)
      gin.waitSignal(ncclCoopCta(), s, expected[gin.contextId * plan.signals + s]);
  gin.flush(ncclCoopCta());
}

static char byteOf(const Plan& plan, int rank, size_t at, int round) { return (char)mix(plan.seed + rank * 31 + round * 7 + (at << 8)); }

static Plan planFromEnvironment() {
  Plan plan = {4, 4, 64, 2, 65536, 5000, 3, 3, 1};
  if (const char* text = getenv("TORTURE")) {
    char *copy = strdup(text), *save;
    for (char* word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
      char* value = strchr(word, '=');
      if (!value) { fprintf(stderr, "TORTURE: %s has no value\n", word); exit(2); }
      *value++ = 0;
      if (!strcmp(word, "contexts")) plan.contexts = atoi(value);
      else if (!strcmp(word, "blocks")) plan.blocks = atoi(value);
      else if (!strcmp(word, "threads")) plan.threads = atoi(value);
      else if (!strcmp(word, "coop")) plan.coop = !strcmp(value, "cta") ? 2 : !strcmp(value, "warp") ? 1 : 0;
      else if (!strcmp(word, "strip")) plan.strip = strtoull(value, NULL, 0);
      else if (!strcmp(word, "largest")) plan.largest = strtoull(value, NULL, 0);
      else if (!strcmp(word, "rounds")) plan.rounds = atoi(value);
      else if (!strcmp(word, "seed")) plan.seed = strtoull(value, NULL, 0);
      else { fprintf(stderr, "TORTURE: unknown word %s\n", word); exit(2); }
    }
    free(copy);
  }
  return plan;
}

int runRank(Example& ex) {
  Plan plan = planFromEnvironment();
  int workers = plan.blocks * workersPerBlock(plan);
  size_t sendBytes = workers * plan.strip, recvBytes = sendBytes * ex.nRanks;
  ncclWindow_t sendWindow, recvWindow;
  char* send = (char*)ex.allocWindow(sendBytes, &sendWindow);
  char* recv = (char*)ex.allocWindow(recvBytes, &recvWindow);

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = plan.signals;
  reqs.ginContextCount = plan.contexts;
  reqs.railGinBarrierCount = plan.blocks;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  int contexts = devComm.ginContextCount;

  std::vector<unsigned long long> expected(contexts * plan.signals, 0);
  unsigned long long* deviceExpected;
  CUDACHECK(cudaMalloc(&deviceExpected, expected.size() * sizeof expected[0]));
  std::vector<char> host(sendBytes), got(recvBytes), want(recvBytes, 0);
  int wrong = 0;
  size_t puts = 0;
  for (int round = 0; round < plan.rounds && !wrong; round++) {
    for (size_t i = 0; i < sendBytes; i++) host[i] = byteOf(plan, ex.rank, i, round);
    CUDACHECK(cudaMemcpy(send, host.data(), sendBytes, cudaMemcpyHostToDevice));
    // What the others' plans bring here.
    for (int from = 0; from < ex.nRanks; from++)
      for (int worker = 0; worker < workers; worker++) {
        Walk path(plan, from, worker, round);
        Piece piece;
        int context = (worker / workersPerBlock(plan)) % contexts;
        while (path.next(plan, ex.nRanks, &piece)) {
          if (from == ex.rank) { ex.bytesMoved += piece.bytes; puts++; }
          if (piece.peer != ex.rank) continue;
          expected[context * plan.signals + piece.signal] += piece.add;
          size_t own = worker * plan.strip + piece.offset, at = from * sendBytes + own;
          for (size_t i = 0; i < piece.bytes; i++) want[at + i] = byteOf(plan, from, own + i, round);
        }
      }
    CUDACHECK(cudaMemcpy(deviceExpected, expected.data(), expected.size() * sizeof expected[0], cudaMemcpyHostToDevice));
    torture<<<plan.blocks, plan.threads, 0, ex.stream>>>(devComm, ncclSymPtr<char>(sendWindow), ncclSymPtr<char>(recvWindow), plan,
                                                         round, deviceExpected);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    CUDACHECK(cudaMemcpy(got.data(), recv, recvBytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < recvBytes; i++)
      if (got[i] != want[i]) {
        if (!wrong++) fprintf(stderr, "rank %d round %d: byte %zu is %d, not %d\n", ex.rank, round, i, got[i], want[i]);
      }
    ex.elementsChecked += recvBytes;
    if (round == 0) printf("rank %d: first round is done\n", ex.rank), fflush(stdout);
  }
  printf("rank %d: %zu puts over %d contexts\n", ex.rank, puts, contexts);
  CUDACHECK(cudaFree(deviceExpected));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(recv, recvWindow);
  ex.freeWindow(send, sendWindow);
  return wrong != 0;
}
