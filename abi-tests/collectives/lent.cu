// Buffers in no window that ranks of other processes may have opened: they are freed, and come again at the same addresses with other bytes, while
// others still have what was there before; captured calls; and what was freed is the device's again in the end.
// LENT="rounds=36 calls=36 bytes=4194304 windows=1 captured=1 pieces=3 messages=1 unchecked=1"; windows: all are ncclMemAlloc's, else every other one. pieces: every
// other one is mapped in so many by the program, and some of them are exchanged. messages: by sends and receives. unchecked: no kernel of the library runs here.
#include "../programs/children.h"
#include "pieces.h"
#include <unistd.h>

// "name=value", or the default.
static long option(const char* name, long otherwise) {
  const char* text = getenv("LENT");
  const char* found = text ? strstr(text, name) : NULL;
  return found ? atol(found + strlen(name) + 1) : otherwise;
}

__global__ void fill(uint32_t* at, size_t count, uint32_t salt) {
  for (size_t i = threadIdx.x + blockIdx.x * (size_t)blockDim.x; i < count; i += blockDim.x * (size_t)gridDim.x) at[i] = salt + (uint32_t)i;
}
__global__ void check(const uint32_t* at, size_t part, int nRanks, uint32_t salt, int* wrong) {
  for (size_t i = threadIdx.x + blockIdx.x * (size_t)blockDim.x; i < part * nRanks; i += blockDim.x * (size_t)gridDim.x)
    if (at[i] != salt + (uint32_t)(i / part) * 1000003u + (uint32_t)(i % part)) atomicAdd(wrong, 1);
}

struct Buffers {
  bool windows; // ncclMemAlloc's, else cudaMalloc's
  Pieces* pieces; // or there
  uint32_t *send, *recv;

  Buffers(bool windows, Pieces* pieces, size_t bytes, int nRanks) : windows(windows), pieces(pieces) {
    if (pieces) {
      // So that both begin and end in the midst of a piece.
      send = (uint32_t*)(pieces->base + 4096);
      recv = (uint32_t*)(pieces->base + 4096 + bytes);
    } else if (windows) {
      NCCLCHECK(ncclMemAlloc((void**)&send, bytes));
      NCCLCHECK(ncclMemAlloc((void**)&recv, bytes * nRanks));
    } else {
      CUDACHECK(cudaMalloc((void**)&send, bytes));
      CUDACHECK(cudaMalloc((void**)&recv, bytes * nRanks));
    }
  }
  void end() const {
    if (pieces) {
      pieces->exchange();
    } else if (windows) {
      NCCLCHECK(ncclMemFree(send));
      NCCLCHECK(ncclMemFree(recv));
    } else {
      CUDACHECK(cudaFree(send));
      CUDACHECK(cudaFree(recv));
    }
  }
};

// As an all-gather, or as messages of all to all, oneself among them.
static void all(Example& ex, const Buffers& buffers, size_t count) {
  if (!option("messages", 0)) {
    NCCLCHECK(ncclAllGather(buffers.send, buffers.recv, count, ncclUint32, ex.comm, ex.stream));
    return;
  }
  NCCLCHECK(ncclGroupStart());
  for (int peer = 0; peer < ex.nRanks; peer++) {
    NCCLCHECK(ncclSend(buffers.send, count, ncclUint32, peer, ex.comm, ex.stream));
    NCCLCHECK(ncclRecv(buffers.recv + peer * count, count, ncclUint32, peer, ex.comm, ex.stream));
  }
  NCCLCHECK(ncclGroupEnd());
}

// On the host alone: a rank whose kernel waits for another closes nothing.
static void meet(Example& ex) {
  ncclComm_t none;
  NCCLCHECK(ncclCommSplit(ex.comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
}

static size_t freeMemory() {
  size_t free, total;
  CUDACHECK(cudaMemGetInfo(&free, &total));
  return free;
}

int runRank(Example& ex) {
  size_t count = option("bytes", 4 << 20) / sizeof(uint32_t);
  long rounds = option("rounds", 36), calls = option("calls", 36), captured = option("captured", 0), windows = option("windows", 0);
  bool checked = !option("unchecked", 0);
  Pieces* pieces = NULL;
  if (option("pieces", 0)) pieces = new Pieces(ex.device, option("pieces", 0), 8192 + count * sizeof(uint32_t) * (1 + ex.nRanks));
  int* wrong;
  CUDACHECK(cudaMallocHost((void**)&wrong, sizeof *wrong));
  *wrong = 0;
  size_t before = 0;
  for (long round = 0; round < rounds; round++) {
    // Rank 0 keeps what it has for three rounds.
    static Buffers* kept = NULL;
    bool keeps = ex.rank == 0 && round % 3 != 2;
    Buffers* buffers = kept;
    if (!kept) buffers = new Buffers(windows || round % 2 == 1, round % 2 ? NULL : pieces, count * sizeof(uint32_t), ex.nRanks);
    kept = keeps ? buffers : NULL;
    uint32_t salt = 77777u * (uint32_t)round;
    CUDACHECK(cudaMemsetAsync(buffers->recv, 0xff, count * sizeof(uint32_t) * ex.nRanks, ex.stream));
    fill<<<32, 256, 0, ex.stream>>>(buffers->send, count, salt + ex.rank * 1000003u);
    for (long call = 0; call < calls; call++) all(ex, *buffers, count);
    if (checked) check<<<32, 256, 0, ex.stream>>>(buffers->recv, count, ex.nRanks, salt, wrong);
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    WANT(*wrong == 0, "rank %d, round %ld: %d words", ex.rank, round, *wrong);
    if (!keeps) {
      buffers->end();
      delete buffers;
    }
    if (round == 0) before = freeMemory();
  }
  // Nobody is on his way: what was freed comes back.
  long waited = 0;
  for (; freeMemory() + (1 << 20) < before && waited < 10000; waited += 20) usleep(20000);
  size_t after = freeMemory();
  WANT(after + (1 << 20) >= before, "rank %d: %zu MiB are not free again", ex.rank, (before - after) >> 20);

  if (captured) {
    // Who has captured closes nothing any more: not before the others have their memory back.
    meet(ex);
    Buffers buffers(windows, pieces, count * sizeof(uint32_t), ex.nRanks);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDACHECK(cudaStreamBeginCapture(ex.stream, cudaStreamCaptureModeGlobal));
    all(ex, buffers, count);
    CUDACHECK(cudaStreamEndCapture(ex.stream, &graph));
    CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (uint32_t replay = 0; replay < 5; replay++) {
      fill<<<32, 256, 0, ex.stream>>>(buffers.send, count, replay + ex.rank * 1000003u);
      CUDACHECK(cudaGraphLaunch(exec, ex.stream));
      if (checked) check<<<32, 256, 0, ex.stream>>>(buffers.recv, count, ex.nRanks, replay, wrong);
      CUDACHECK(cudaStreamSynchronize(ex.stream));
      WANT(*wrong == 0, "rank %d, replay %u: %d words", ex.rank, replay, *wrong);
    }
    CUDACHECK(cudaGraphExecDestroy(exec));
    CUDACHECK(cudaGraphDestroy(graph));
    // For as long as the communicator lives others have it open.
    buffers.end();
  }
  printf("rank %d: %ld rounds, free again after %ld ms\n", ex.rank, rounds, waited);
  CUDACHECK(cudaFreeHost(wrong));
  return 0;
}
