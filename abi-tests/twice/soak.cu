// For SOAK_SECONDS (5): rounds of random puts, values, signals and LSA stores over all ranks, between random barriers; every
// byte of every window, every signal and every counter is compared after every round, on the GPUs. Where there is no GIN:
// stores and LSA barriers alone.
//
// SOAK="seconds=5 blocks=8 threads=128 strip=65536 seed=1" says how much.
#include <time.h>
#include "soak_plan.h"
#include "twice.h"

static const int kBatch = 16;  // rounds between two looks at the clock
static const int kClosing = kSoakSignals, kSignalsHere = kSoakSignals + 1;  // per block; one more in all says when to stop

struct Buffers {
  ncclWindow_t send, recv;
  unsigned char *sent, *received, *wanted;
  unsigned long long *signals, *counters, *done;  // done: pieces, bytes
};

__global__ void fill(Soak soak, Buffers buffers, int rank, unsigned round) {
  size_t n = soak.blocks * soak.strip;
  for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
    buffers.sent[at] = soakByte(soak, rank, round, at);
  }
}

// What this round brings here: block (worker, from) follows that worker's walk.
__global__ void expect(Soak soak, Buffers buffers, ncclDevComm devComm, unsigned round) {
  int worker = blockIdx.x, from = blockIdx.y, nRanks = devComm.nRanks;
  SoakWalk walk(soak, round, from, worker, nRanks, devComm.lsaSize);
  SoakPiece piece;
  while (walk.next(&piece)) {
    if (threadIdx.x == 0 && from == devComm.rank) {
      if (piece.counted) atomicAdd(&buffers.counters[worker], 1ull);
      atomicAdd(&buffers.done[0], 1ull);
      atomicAdd(&buffers.done[1], (unsigned long long)piece.bytes);
    }
    if (piece.peer != devComm.rank) continue;
    if (threadIdx.x == 0 && piece.signal >= 0) {
      atomicAdd(&buffers.signals[worker * kSignalsHere + piece.signal], piece.add);
    }
    size_t own = worker * soak.strip + piece.offset, base = from * soak.blocks * soak.strip;
    for (size_t i = threadIdx.x; i < piece.bytes; i += blockDim.x) {
      buffers.wanted[base + own + i] = soakByte(soak, from, round, own + i);
    }
  }
}

__global__ void compare(Soak soak, Buffers buffers, int nRanks, Found* found) {
  size_t n = nRanks * soak.blocks * soak.strip;
  for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
    if (((volatile unsigned char*)buffers.received)[at] != buffers.wanted[at]) {
      DEVICE_EXPECT(found, (unsigned long long)at << 8 | buffers.received[at], (unsigned long long)at << 8 | buffers.wanted[at]);
    }
  }
}

__device__ void store(unsigned char* to, const unsigned char* from, size_t bytes) {
  size_t step = ((size_t)to | (size_t)from | bytes) % 16 == 0 ? 16 : 1;
  for (size_t i = threadIdx.x * step; i < bytes; i += blockDim.x * step) {
    if (step == 16) *(int4*)(to + i) = *(const int4*)(from + i);
    else to[i] = from[i];
  }
}

template <typename T>
__device__ void value(const ncclGin& gin, int peer, ncclWindow_t window, size_t to, const unsigned char* from,
                      const SoakPiece& piece, ncclGinSignal_t first) {
  T value;
  memcpy(&value, from, sizeof value);
  ncclTeam world = ncclTeamWorld(gin.comm);
  if (piece.signal < 0) gin.putValue(world, peer, window, to, value);
  else gin.putValue(world, peer, window, to, value, ncclGin_SignalAdd{first + piece.signal, piece.add});
}

template <typename Coop>
__device__ void put(const ncclGin& gin, const Buffers& buffers, size_t to, size_t from, const SoakPiece& piece,
                    ncclGinSignal_t first, ncclGinCounter_t counter, Coop coop) {
  ncclTeam world = ncclTeamWorld(gin.comm);
  ncclGin_SignalAdd add{first + (piece.signal < 0 ? 0 : piece.signal), piece.add};
  ncclGin_CounterInc inc{counter};
  if (piece.signal < 0 && !piece.counted) {
    gin.put(world, piece.peer, buffers.recv, to, buffers.send, from, piece.bytes, ncclGin_None{}, ncclGin_None{}, coop);
  } else if (piece.signal < 0) {
    gin.put(world, piece.peer, buffers.recv, to, buffers.send, from, piece.bytes, ncclGin_None{}, inc, coop);
  } else if (!piece.counted) {
    gin.put(world, piece.peer, buffers.recv, to, buffers.send, from, piece.bytes, add, ncclGin_None{}, coop);
  } else {
    gin.put(world, piece.peer, buffers.recv, to, buffers.send, from, piece.bytes, add, inc, coop);
  }
}

// One worker's pieces; pieces of a thread or a warp are spread over the block's threads or warps.
__device__ void carryOut(const Soak& soak, const Buffers& buffers, const ncclGin* gin, const ncclDevComm& devComm, unsigned round) {
  int rank = devComm.rank, worker = blockIdx.x, shape = soakMix(soak.seed + 3 * round) % 3, turn = 0;
  size_t own = worker * soak.strip, there = (size_t)rank * soak.blocks * soak.strip + own;
  ncclGinSignal_t first = worker * kSignalsHere;
  SoakWalk walk(soak, round, rank, worker, devComm.nRanks, devComm.lsaSize);
  SoakPiece piece;
  while (walk.next(&piece)) {
    size_t from = own + piece.offset, to = there + piece.offset;
    turn++;
    if (piece.kind == SOAK_STORE) {
      store((unsigned char*)ncclGetPeerPointer(buffers.recv, to, piece.peer), buffers.sent + from, piece.bytes);
    } else if (piece.kind == SOAK_PUT && shape == 2) {
      put(*gin, buffers, to, from, piece, first, worker, ncclCoopCta());
    } else if (piece.kind == SOAK_PUT && shape == 1) {
      if (turn % (blockDim.x / 32) == threadIdx.x / 32) put(*gin, buffers, to, from, piece, first, worker, ncclCoopWarp());
    } else if (turn % blockDim.x == threadIdx.x) {
      const unsigned char* mine = buffers.sent + from;
      if (piece.kind == SOAK_PUT) put(*gin, buffers, to, from, piece, first, worker, ncclCoopThread());
      else if (piece.kind == SOAK_SIGNAL) gin->signal(ncclTeamWorld(devComm), piece.peer, ncclGin_SignalAdd{first + piece.signal, piece.add});
      else if (piece.bytes == 1) value<uint8_t>(*gin, piece.peer, buffers.recv, to, mine, piece, first);
      else if (piece.bytes == 2) value<uint16_t>(*gin, piece.peer, buffers.recv, to, mine, piece, first);
      else if (piece.bytes == 4) value<uint32_t>(*gin, piece.peer, buffers.recv, to, mine, piece, first);
      else value<uint64_t>(*gin, piece.peer, buffers.recv, to, mine, piece, first);
    }
  }
}

// All ranks' kernels meet; which kind of barrier is the round's.
__device__ void meetAll(const ncclGin* gin, const ncclDevComm& devComm, int kind) {
  bool oneNode = devComm.lsaSize == devComm.nRanks;
  if (gin == NULL || (oneNode && kind % 3 == 0)) {
    ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, gridDim.x + blockIdx.x};
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  } else if (kind % 3 == 1 && oneNode) {
    ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), *gin, ncclTeamWorld(devComm), devComm.railGinBarrier, gridDim.x + blockIdx.x);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  } else {
    ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), *gin, blockIdx.x);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
}

// `rounds`: how many there have been, this one included.
__global__ void traffic(Soak soak, Buffers buffers, ncclDevComm devComm, unsigned round, unsigned rounds, Found* found) {
  ncclGin made(devComm, soak.gin ? blockIdx.x : 0);
  const ncclGin* gin = soak.gin ? &made : NULL;
  int worker = blockIdx.x, nRanks = devComm.nRanks;
  ncclGinSignal_t first = worker * kSignalsHere;
  unsigned long long choice = soakMix(soak.seed ^ round * 77ull);
  meetAll(gin, devComm, choice & 0xff);  // all have compared the last round
  carryOut(soak, buffers, gin, devComm, round);
  __syncthreads();
  if (gin != NULL) {
    // A signal arrives after the puts that went before it to the same peer, so these need none of their own.
    for (int peer = threadIdx.x; peer < nRanks; peer += blockDim.x) {
      gin->signal(ncclTeamWorld(devComm), peer, ncclGin_SignalInc{first + kClosing});
    }
    int bits = 33 + (choice >> 8) % 32;
    gin->waitSignal(ncclCoopCta(), first + kClosing, (unsigned long long)nRanks * rounds, bits);
    gin->waitCounter(ncclCoopCta(), worker, buffers.counters[worker]);
    // Within a node the last barrier says that all puts have arrived; else the source may still be read.
    if ((choice >> 16 & 1) || devComm.lsaSize < nRanks) gin->flush(ncclCoopCta());
    for (int s = threadIdx.x; s < kSoakSignals; s += blockDim.x) {
      DEVICE_EXPECT(found, gin->readSignal(first + s), buffers.signals[worker * kSignalsHere + s]);
    }
    if (threadIdx.x == 0) DEVICE_EXPECT(found, gin->readCounter(worker), buffers.counters[worker]);
  }
  // What was stored is announced by a barrier over the node.
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// Rank 0 says whether there is another batch; the answer stands in *more.
__global__ void vote(Soak soak, ncclDevComm devComm, ncclWindow_t window, size_t at, int more, unsigned batch, unsigned* answer) {
  ncclTeam world = ncclTeamWorld(devComm);
  if (soak.gin) {
    ncclGin gin(devComm, 0);
    ncclGinSignal_t signal = soak.blocks * kSignalsHere;
    if (world.rank == 0 && threadIdx.x == 0) {
      for (int peer = 0; peer < world.nRanks; peer++) {
        gin.signal(world, peer, ncclGin_SignalAdd{signal, more ? 1ull : 1ull + (1ull << 32)});
      }
    }
    gin.waitSignal(ncclCoopCta(), signal, batch, 32);
    if (threadIdx.x == 0) *answer = gin.readSignal(signal) >> 32 == 0;
    return;
  }
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamTagLsa{}, 0};
  if (world.rank == 0 && threadIdx.x < world.nRanks) *(unsigned*)ncclGetPeerPointer(window, at, (int)threadIdx.x) = more;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (threadIdx.x == 0) *answer = *(volatile unsigned*)ncclGetLocalPointer(window, at);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static Soak soakFromEnvironment(double* seconds) {
  Soak soak = {1, 8, 128, 0, 65536};
  *seconds = 5;
  const char* text = getenv("SOAK");
  if (text == NULL) return soak;
  char *copy = strdup(text), *save;
  for (char* word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    int ok = sscanf(word, "seconds=%lf", seconds);
    if (ok != 1) ok = sscanf(word, "blocks=%d", &soak.blocks);
    if (ok != 1) ok = sscanf(word, "threads=%d", &soak.threads);
    if (ok != 1) ok = sscanf(word, "strip=%zu", &soak.strip);
    if (ok != 1) ok = sscanf(word, "seed=%llu", &soak.seed);
    if (ok != 1) {
      fprintf(stderr, "SOAK: %s is none of seconds=, blocks=, threads= (32 or more), strip=, seed=\n", word);
      exit(2);
    }
  }
  free(copy);
  return soak;
}

int test(Example& ex) {
  double seconds;
  Soak soak = soakFromEnvironment(&seconds);
  size_t own = soak.blocks * soak.strip, all = ex.nRanks * own;
  Buffers b;
  b.sent = (unsigned char*)windowNew(ex, own, &b.send);
  b.received = (unsigned char*)windowNew(ex, all + 16, &b.recv);
  int ids = soak.blocks * kSignalsHere;
  CUDACHECK(cudaMalloc(&b.wanted, all));
  CUDACHECK(cudaMalloc(&b.signals, ids * sizeof(long long)));
  CUDACHECK(cudaMalloc(&b.counters, soak.blocks * sizeof(long long)));
  CUDACHECK(cudaMalloc(&b.done, 2 * sizeof(long long)));
  unsigned *answer, more = 1;
  CUDACHECK(cudaMalloc(&answer, sizeof *answer));
  CUDACHECK(cudaMemsetAsync(b.wanted, 0, all, ex.stream));
  CUDACHECK(cudaMemsetAsync(b.signals, 0, ids * sizeof(long long), ex.stream));
  CUDACHECK(cudaMemsetAsync(b.counters, 0, soak.blocks * sizeof(long long), ex.stream));
  CUDACHECK(cudaMemsetAsync(b.done, 0, 2 * sizeof(long long), ex.stream));
  // First what does without GIN: NVIDIA's library makes it no more after it has been asked for GIN.
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 2 * soak.blocks;
  ncclDevComm devComm = devCommOf(ex, reqs);
  soak.gin = ginHere(ex);
  if (soak.gin) {
    reqs.barrierCount = 2 * soak.blocks;
    reqs.ginSignalCount = ids + 1;
    reqs.ginCounterCount = soak.blocks;
    devCommGone(ex, devComm);
    devComm = devCommOf(ex, reqs);
  }
  Found* found = foundNew(ex);
  double began = now();
  unsigned round = 0;
  for (unsigned batch = 1; more; batch++) {
    for (int i = 0; i < kBatch; i++, round++) {
      fill<<<soak.blocks, soak.threads, 0, ex.stream>>>(soak, b, ex.rank, round);
      expect<<<dim3(soak.blocks, ex.nRanks), soak.threads, 0, ex.stream>>>(soak, b, devComm, round);
      traffic<<<soak.blocks, soak.threads, 0, ex.stream>>>(soak, b, devComm, round, round + 1, found);
      compare<<<soak.blocks, soak.threads, 0, ex.stream>>>(soak, b, ex.nRanks, found);
    }
    vote<<<1, 64, 0, ex.stream>>>(soak, devComm, b.recv, all, now() - began < seconds, batch, answer);
    finish(ex);
    CUDACHECK(cudaMemcpyAsync(&more, answer, sizeof more, cudaMemcpyDeviceToHost, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  foundReport(ex, found, "soak");
  unsigned long long done[2];
  CUDACHECK(cudaMemcpyAsync(done, b.done, sizeof done, cudaMemcpyDeviceToHost, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  printf("rank %d: %llu pieces in %u rounds, seed %llu\n", ex.rank, done[0], round, soak.seed);
  ex.bytesMoved = done[1];
  ex.elementsChecked = (size_t)round * all;
  devCommGone(ex, devComm);
  hostBarrier(ex);
  for (void* memory : {(void*)b.wanted, (void*)b.signals, (void*)b.counters, (void*)b.done, (void*)answer}) CUDACHECK(cudaFree(memory));
  windowGone(ex, b.received, b.recv);
  windowGone(ex, b.sent, b.send);
  return twiceWrong != 0;
}
