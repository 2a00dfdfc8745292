// Mistakes that a kind network forgives: in a ring, each rank sends rounds of words to the next and checks what comes.
//   MISTAKE=flush ginrs-run -n 2 ./mistakes            the mistake: "ok" as long as the network is kind
//   MISTAKE=flush MENDED=1 ginrs-run -n 2 ./mistakes   its mended twin: "ok" on every lawful network
// tests/lawful.rs runs both under seeds of GINRS_CHAOS.
#include "../../examples-c/common/example.h"

enum Mistake { SOURCE, FLAG, POLL, CONTEXT, HALVES, FLUSH, PRESSURE, MISTAKES };
static const char* const names[MISTAKES] = {"source", "flag", "poll", "context", "halves", "flush", "pressure"};

constexpr int kWords = 64, kRounds = 16;
constexpr size_t kRow = kWords * sizeof(uint64_t);

// Symmetric memory of a rank: what it sends, a row for each round; what it gets; a word for each round that says that it has come.
constexpr size_t kSend = 0, kRecv = kRounds * kRow, kFlags = 2 * kRounds * kRow, kBytes = kFlags + kRounds * sizeof(uint64_t);

__device__ uint64_t word(int rank, int round, int i) { return (uint64_t)(rank + 1) << 32 | (uint64_t)(round + 1) << 16 | (i + 1); }

__global__ void __launch_bounds__(kWords) ring(ncclDevComm comm, ncclWindow_t window, int mistake, bool mended, int* wrong) {
  ncclCoopCta cta;
  ncclGin gin(comm, 0), other(comm, 1);
  ncclTeam world = ncclTeamWorld(comm);
  int next = (comm.rank + 1) % comm.nRanks, previous = (comm.rank + comm.nRanks - 1) % comm.nRanks, i = threadIdx.x;
  uint64_t* send = (uint64_t*)ncclGetLocalPointer(window, kSend);
  volatile uint64_t* recv = (uint64_t*)ncclGetLocalPointer(window, kRecv);
  volatile uint64_t* flags = (uint64_t*)ncclGetLocalPointer(window, kFlags);
  auto check = [&](int row, int round) {
    if (recv[row * kWords + i] != word(previous, round, i)) atomicAdd(wrong, 1);
  };

  for (int round = 0; round < kRounds; round++) {
    // One row for all rounds, where the next put may only follow when the last one was read.
    bool oneRow = mistake == SOURCE;
    size_t from = kSend + (oneRow ? 0 : round * kRow), to = kRecv + (mistake == PRESSURE ? 0 : round * kRow);
    send[from / sizeof(uint64_t) + i] = word(comm.rank, round, i);
    __syncthreads();
    switch (mistake) {
      case SOURCE:  // the next round overwrites the row that this put may not have read
        gin.put(world, next, window, to, window, from, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
        if (mended) gin.flush(cta);
        break;
      case FLAG:  // a second put says that the first has landed
        if (mended) {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
          gin.waitSignal(cta, 0, round + 1);
        } else {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_None{}, ncclGin_None{}, cta);
          gin.putValue(world, next, window, kFlags + round * sizeof(uint64_t), (uint64_t)1, ncclGin_None{}, cta);
          while (i == 0 && flags[round] == 0) __nanosleep(100);
          __syncthreads();
        }
        check(round, round);
        break;
      case POLL:  // its last word says that all of it has landed
        if (mended) {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
          gin.waitSignal(cta, 0, round + 1);
        } else {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_None{}, ncclGin_None{}, cta);
          while (i == 0 && recv[round * kWords + kWords - 1] == 0) __nanosleep(100);
          __syncthreads();
        }
        check(round, round);
        break;
      case CONTEXT:  // the signal of one context for the put of another
        gin.put(world, next, window, to, window, from, kRow, ncclGin_None{}, ncclGin_None{}, cta);
        (mended ? gin : other).signal(world, next, ncclGin_SignalInc{0}, cta);
        (mended ? gin : other).waitSignal(cta, 0, round + 1);
        check(round, round);
        break;
      case HALVES:  // two halves on two contexts, and the signal of the second for both
        if (mended) {
          gin.put(world, next, window, to, window, from, kRow / 2, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
        } else {
          gin.put(world, next, window, to, window, from, kRow / 2, ncclGin_None{}, ncclGin_None{}, cta);
        }
        other.put(world, next, window, to + kRow / 2, window, from + kRow / 2, kRow / 2, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
        if (mended) gin.waitSignal(cta, 0, round + 1);
        other.waitSignal(cta, 0, round + 1);
        check(round, round);
        break;
      case FLUSH: {  // a flush says that the source may be used again, not that the payload is there
        if (mended) {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
          gin.waitSignal(cta, 0, round + 1);
        } else {
          gin.put(world, next, window, to, window, from, kRow, ncclGin_None{}, ncclGin_None{}, cta);
          gin.flush(cta);
          ncclLsaBarrierSession<ncclCoopCta> bar(cta, comm, ncclTeamTagLsa(), 0);
          bar.sync(cta, cuda::memory_order_acq_rel);
        }
        check(round, round);
        break;
      }
      case PRESSURE:  // one row at the target, and nobody asks whether it has been read
        gin.put(world, next, window, to, window, from, kRow, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
        gin.waitSignal(cta, 0, round + 1);
        check(0, round);
        __syncthreads();
        if (mended) {
          gin.signal(world, previous, ncclGin_SignalInc{1}, cta);
          gin.waitSignal(cta, 1, round + 1);
        }
        break;
    }
  }
  if (mistake == SOURCE) {
    gin.waitSignal(cta, 0, kRounds);
    for (int round = 0; round < kRounds; round++) check(round, round);
  }
}

int runRank(Example& ex) {
  const char* name = getenv("MISTAKE");
  int mistake = 0;
  while (mistake < MISTAKES && (!name || strcmp(name, names[mistake]) != 0)) mistake++;
  if (mistake == MISTAKES) return fprintf(stderr, "MISTAKE is none: %s\n", name ? name : "unset"), 1;
  ncclWindow_t window;
  void* memory = ex.allocWindow(kBytes, &window);
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginForceEnable = true;
  needs.ginSignalCount = 2;
  needs.lsaBarrierCount = 1;
  ncclDevComm comm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &needs, &comm));
  int* wrong;
  CUDACHECK(cudaMallocHost(&wrong, sizeof *wrong));
  *wrong = 0;
  ring<<<1, kWords, 0, ex.stream>>>(comm, window, mistake, getenv("MENDED") != NULL, wrong);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  int failed = *wrong != 0;
  ex.bytesMoved = kRounds * kRow;
  ex.elementsChecked = kRounds * kWords;
  CUDACHECK(cudaFreeHost(wrong));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
  ex.freeWindow(memory, window);
  return failed;
}
