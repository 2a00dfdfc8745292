// Every operation of ncclGin, on all contexts of two device communicators at once, and again on two new ones that get the same
// ids: values and puts of all sizes and alignments, signals, counters, shadows, resets, widths of waits, groups of threads,
// teams, scopes and descriptors.
#include "twice.h"

static const int kBlocks = 4, kThreads = 96;
static const int kSignals = 7, kCounters = 3;  // of each block: blocks may share a context
static const size_t kSlot = 8192, kLargest = 70000, kSend = 128 << 10, kRegion = 512 << 10;
__constant__ unsigned kSizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 100, 1000, 4096, 4097, 8000, 70000};
static const int kPuts = 21;

struct Places {
  ncclWindow_t send, recv;
  size_t region;  // of this device communicator in `recv`
};

__host__ __device__ static inline unsigned char byteOf(int rank, size_t at) {
  return (unsigned char)((at * 2654435761u >> 13) + at + rank * 37 + 1);
}

struct Worker {
  ncclGin& gin;
  Places places;
  Found* found;
  ncclTeam world;
  int n, rank, right, left;
  ncclGinSignal_t signal;
  ncclGinCounter_t counter;
  size_t region;  // of this block

  __device__ Worker(ncclGin& gin, Places places, Found* found) : gin(gin), places(places), found(found) {
    world = ncclTeamWorld(gin.comm);
    n = world.nRanks;
    rank = world.rank;
    right = (rank + 1) % n;
    left = (rank + n - 1) % n;
    signal = blockIdx.x * kSignals;
    counter = blockIdx.x * kCounters;
    region = places.region + blockIdx.x * kRegion;
  }
  __device__ unsigned char* received(size_t at) const { return (unsigned char*)ncclGetLocalPointer(places.recv, region + at); }
};

__device__ void values(Worker& w) {
  if (threadIdx.x == 0) {
    unsigned long long mine = 0xfedcba9876543210ull + w.rank * 0x0101010101010101ull;
    for (int size = 1; size <= 8; size *= 2) {
      // A value must not touch what stands beside it.
      size_t at = w.region + size * 16;
      ncclGinSignal_t signal = w.signal;
      if (size == 1) w.gin.putValue(w.world, w.right, w.places.recv, at, (uint8_t)mine);
      if (size == 2) w.gin.putValue(w.world, w.right, w.places.recv, at, (uint16_t)mine);
      if (size == 4) w.gin.putValue(w.world, w.right, w.places.recv, at, (uint32_t)mine, ncclGin_SignalAdd{signal, 10});
      if (size == 8) w.gin.putValue(w.world, w.right, w.places.recv, at, (uint64_t)mine, ncclGin_SignalAdd{signal, 100});
    }
  }
  w.gin.waitSignal(ncclCoopCta(), w.signal, 110);
  unsigned long long theirs = 0xfedcba9876543210ull + w.left * 0x0101010101010101ull;
  for (int size = 1; size <= 8; size *= 2) {
    volatile unsigned long long* got = (volatile unsigned long long*)w.received(size * 16);
    unsigned long long mask = size == 8 ? ~0ull : (1ull << 8 * size) - 1;
    DEVICE_EXPECT(w.found, got[0], theirs & mask);
    DEVICE_EXPECT(w.found, got[1], 0);
  }
}

// By turns one thread, a warp and the block put; every byte around is looked at.
__device__ void sizes(Worker& w) {
  unsigned long long sum = 0;
  for (int i = 0; i < kPuts; i++) {
    size_t from = i % 16, to = w.region + 4096 + i * kSlot + i * 7 % 16;
    ncclGin_SignalAdd add{w.signal + 1, (uint64_t)i + 1};
    ncclGin_CounterInc inc{w.counter};
    if (i % 3 == 0 && threadIdx.x == 1) {
      w.gin.put(w.world, w.right, w.places.recv, to, w.places.send, from, kSizes[i], add, inc);
    } else if (i % 3 == 1 && threadIdx.x / 32 == 1) {
      w.gin.put(w.world, w.right, w.places.recv, to, w.places.send, from, kSizes[i], add, inc, ncclCoopWarp());
    } else if (i % 3 == 2) {
      w.gin.put(w.world, w.right, w.places.recv, to, w.places.send, from, kSizes[i], add, inc, ncclCoopCta());
    }
    sum += i + 1;
  }
  w.gin.waitSignal(ncclCoopCta(), w.signal + 1, sum);
  w.gin.waitCounter(ncclCoopCta(), w.counter, kPuts);
  DEVICE_EXPECT(w.found, w.gin.readCounter(w.counter), kPuts);
  for (int i = 0; i < kPuts; i++) {
    size_t room = i == kPuts - 1 ? kLargest + 64 : kSlot;
    for (size_t at = threadIdx.x; at < room; at += blockDim.x) {
      size_t first = i * 7 % 16;
      bool inside = at >= first && at < first + kSizes[i];
      unsigned char wanted = inside ? byteOf(w.left, at - first + i % 16) : 0;
      DEVICE_EXPECT(w.found, *(volatile unsigned char*)w.received(4096 + i * kSlot + at), wanted);
    }
  }
}

// Only the low bits count, in reads and in waits.
__device__ void widths(Worker& w) {
  const unsigned long long value = (0x5aull << 56) + (1ull << 40) + 0x8badf00d;
  ncclGinSignal_t signal = w.signal + 2;
  if (threadIdx.x == 0) w.gin.signal(w.world, w.right, ncclGin_SignalAdd{signal, value});
  w.gin.waitSignal(ncclCoopCta(), signal, value);
  for (int bits = 1; bits <= 64; bits++) {
    unsigned long long mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    DEVICE_EXPECT(w.found, w.gin.readSignal(signal, bits), value & mask);
    w.gin.waitSignal(ncclCoopWarp(), signal, value & mask, bits);
    if (bits > 1) w.gin.waitSignal(ncclCoopThread(), signal, (value - (mask >> 1)) & mask, bits);
  }
  w.gin.waitSignal(ncclCoopCta(), signal, value, 64, cuda::memory_order_relaxed);
}

__device__ void shadows(Worker& w) {
  ncclGinSignal_t signal = w.signal + 3;
  if (threadIdx.x == 0) {
    w.gin.increaseSignalShadow(signal, 2);
    w.gin.signal(w.world, w.right, ncclGin_SignalInc{signal});
    w.gin.signal(w.world, w.right, ncclGin_SignalInc{signal});
  }
  w.gin.waitSignalMeetShadow(ncclCoopCta(), signal);
  DEVICE_EXPECT(w.found, *w.gin.getSignalShadowPtr(signal), 2);
  if (threadIdx.x == 0) w.gin.signal(w.world, w.right, ncclGin_SignalInc{signal});
  uint64_t before, delta;
  uint32_t before32, delta32;
  w.gin.waitSignalFollowShadow(ncclCoopCta(), signal, (uint64_t)1, &before, &delta);
  DEVICE_EXPECT(w.found, before, 2);
  DEVICE_EXPECT(w.found, delta, 1);
  w.gin.waitSignalFollowShadow(ncclCoopWarp(), signal, (uint32_t)1, &before32, &delta32, 32);
  DEVICE_EXPECT(w.found, before32, 2);
  DEVICE_EXPECT(w.found, delta32, 1);
}

// Back to zero, and counted from there.
__device__ void resets(Worker& w) {
  ncclGinSignal_t signal = w.signal + 4;
  for (int turn = 0; turn < 3; turn++) {
    if (threadIdx.x == 0) {
      w.gin.put(w.world, w.rank, w.places.recv, w.region, w.places.send, 0, 0, ncclGin_SignalAdd{signal, 7},
                ncclGin_CounterInc{w.counter + 1});
    }
    w.gin.waitSignal(ncclCoopCta(), signal, 7);
    w.gin.waitCounter(ncclCoopCta(), w.counter + 1, 1);
    DEVICE_EXPECT(w.found, w.gin.readSignal(signal), 7);
    DEVICE_EXPECT(w.found, w.gin.readCounter(w.counter + 1), 1);
    __syncthreads();
    if (threadIdx.x == 0) {
      w.gin.resetSignal(signal);
      w.gin.resetCounter(w.counter + 1);
      __threadfence_system();
    }
    __syncthreads();
    DEVICE_EXPECT(w.found, w.gin.readSignal(signal), 0);
    DEVICE_EXPECT(w.found, w.gin.readCounter(w.counter + 1), 0);
    __syncthreads();
  }
}

// Everybody to everybody, through every team that holds the peer; then flushes of every kind.
__device__ void teams(Worker& w) {
  ncclTeam lsa = ncclTeamLsa(w.gin.comm), rail = ncclTeamRail(w.gin.comm);
  for (int peer = threadIdx.x; peer < w.n; peer += blockDim.x) w.gin.signal(w.world, peer, ncclGin_SignalInc{w.signal + 5});
  for (int peer = threadIdx.x; peer < lsa.nRanks; peer += blockDim.x) w.gin.signal(lsa, peer, ncclGin_SignalInc{w.signal + 5});
  for (int peer = threadIdx.x; peer < rail.nRanks; peer += blockDim.x) w.gin.signal(rail, peer, ncclGin_SignalInc{w.signal + 5});
  w.gin.waitSignal(ncclCoopCta(), w.signal + 5, w.n + lsa.nRanks + rail.nRanks);
  w.gin.flush(ncclCoopCta());
  if (threadIdx.x < 32) w.gin.flush(ncclCoopWarp());
  if (threadIdx.x == 0) w.gin.flush(ncclCoopThread());
}

// What the caller has released already, and a descriptor in shared memory.
__device__ void options(Worker& w) {
  __shared__ ncclGinDescriptorSmem descriptor;
  size_t at = w.region + 4096 + kPuts * kSlot + kLargest + 1024;
  // Of its own: the other device communicator's kernel runs beside.
  size_t from = (w.places.region == 0 ? kSend : 2 * kSend) - kBlocks * 1024 + blockIdx.x * 1024;
  unsigned* source = (unsigned*)ncclGetLocalPointer(w.places.send, from);
  for (int i = threadIdx.x; i < 128; i += blockDim.x) source[i] = w.rank * 1000 + i;
  __threadfence_system();
  __syncthreads();
  w.gin.put(w.world, w.right, w.places.recv, at, w.places.send, from, 512,
            ncclGin_SignalInc{w.signal + 6}, ncclGin_CounterInc{w.counter + 2}, ncclCoopCta(),
            ncclGin_DescriptorSmem{&descriptor}, cuda::thread_scope_system, cuda::thread_scope_device);
  w.gin.waitSignal(ncclCoopCta(), w.signal + 6, 1);
  w.gin.waitCounter(ncclCoopCta(), w.counter + 2, 1, 8);
  for (int i = threadIdx.x; i < 128; i += blockDim.x) {
    DEVICE_EXPECT(w.found, *(volatile unsigned*)w.received(at - w.region + 4 * i), w.left * 1000 + i);
  }
}

// A new device communicator's ids start from zero, whoever had them before.
__global__ void zeros(ncclDevComm devComm, Found* found) {
  for (int context = 0; context < devComm.ginContextCount; context++) {
    ncclGin gin(devComm, context);
    for (int id = threadIdx.x; id < devComm.ginSignalCount; id += blockDim.x) {
      DEVICE_EXPECT(found, gin.readSignal(id), 0);
      DEVICE_EXPECT(found, *gin.getSignalShadowPtr(id), 0);
    }
    for (int id = threadIdx.x; id < devComm.ginCounterCount; id += blockDim.x) DEVICE_EXPECT(found, gin.readCounter(id), 0);
  }
}

__global__ void everything(ncclDevComm devComm, Places places, Found* found) {
  ncclGin gin(devComm, blockIdx.x);
  Worker w(gin, places, found);
  DEVICE_EXPECT(found, gin.nContexts, devComm.ginContextCount);
  DEVICE_EXPECT(found, gin.contextId, blockIdx.x % devComm.ginContextCount);
  values(w);
  sizes(w);
  widths(w);
  shadows(w);
  resets(w);
  teams(w);
  options(w);
}

int test(Example& ex) {
  if (!ginHere(ex)) return kNotHere;
  ncclWindow_t sendWindow, recvWindow;
  size_t regions = 2 * kBlocks * kRegion;
  unsigned char* send = (unsigned char*)windowNew(ex, 2 * kSend, &sendWindow);
  void* recv = windowNew(ex, regions, &recvWindow);
  std::vector<unsigned char> bytes(kSend);
  for (size_t i = 0; i < kSend; i++) bytes[i] = byteOf(ex.rank, i);
  CUDACHECK(cudaMemcpyAsync(send, bytes.data(), kSend, cudaMemcpyHostToDevice, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  cudaStream_t beside;
  CUDACHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));

  for (int again = 0; again < 2; again++) {
    ncclDevComm made[2];
    ncclGinSignal_t listedSignals = 0;
    ncclGinCounter_t listedCounters = 0;
    for (int i = 0; i < 2; i++) {
      ncclDevCommRequirements reqs = noRequirements();
      reqs.ginSignalCount = kBlocks * kSignals;
      reqs.ginCounterCount = kBlocks * kCounters;
      ncclDevResourceRequirements more;
      memset(&more, 0, sizeof more);
      more.ginSignalCount = 3;
      more.ginCounterCount = 1;
      more.outGinSignalStart = &listedSignals;
      more.outGinCounterStart = &listedCounters;
      reqs.resourceRequirementsList = &more;
      made[i] = devCommOf(ex, reqs);
      TWICE_EXPECT(listedSignals, kBlocks * kSignals);
      TWICE_EXPECT(listedCounters, kBlocks * kCounters);
      TWICE_EXPECT(made[i].ginSignalCount, kBlocks * kSignals + 3);
    }
    CUDACHECK(cudaMemsetAsync(recv, 0, regions, ex.stream));
    Found* found = foundNew(ex);
    for (ncclDevComm& devComm : made) zeros<<<1, 32, 0, ex.stream>>>(devComm, found);
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    hostBarrier(ex);
    everything<<<kBlocks, kThreads, 0, beside>>>(made[0], Places{sendWindow, recvWindow, 0}, found);
    everything<<<kBlocks, kThreads, 0, ex.stream>>>(made[1], Places{sendWindow, recvWindow, kBlocks * kRegion}, found);
    finish(ex, beside);
    foundReport(ex, found, again ? "with ids used before" : "with new ids");
    hostBarrier(ex);
    devCommGone(ex, made[0]);
    devCommGone(ex, made[1]);
  }
  CUDACHECK(cudaStreamDestroy(beside));
  windowGone(ex, recv, recvWindow);
  windowGone(ex, send, sendWindow);
  ex.bytesMoved = 4 * kBlocks * (kLargest + 30000);
  ex.elementsChecked = 4 * kBlocks * (kPuts * kSlot + kLargest);
  return twiceWrong != 0;
}
