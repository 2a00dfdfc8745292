// Streams of every kind, two streams of one communicator, several calls in a group, several communicators.
#include "world.h"

static const int kSlots = 6;
static const uint64_t kLargest = 3000;

// Holds a stream up.
__global__ void spin(long long nanoseconds) {
  long long passed = 0;
  for (long long begin = clock64(); passed < nanoseconds * 2; passed = clock64() - begin) __nanosleep(200);
}

static void onStream(Example& ex, World& world, cudaStream_t stream, unsigned key) {
  for (unsigned i = 0; i < 6; i++) {
    Case c = someCase(ex, key + i, kLargest);
    world.placeAt(c, i % kMemories, 0, kSlots);
    prepareCase(c, stream);
    NCCLCHECK(collective(ex, [&] { return callCase(c, world.operations.of(c), ex.comm, stream); }));
    verifyCase(c, world.found, stream);
    world.cases.push_back(c);
  }
  finish(ex, stream);
  world.report(ex, "streams");
}

// The second call reads what the first one, on another stream and held up, writes: calls on one communicator run in their order.
static void twoStreams(Example& ex, World& world, cudaStream_t* streams) {
  cudaEvent_t before, behind;
  CUDACHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
  CUDACHECK(cudaEventCreateWithFlags(&behind, cudaEventDisableTiming));
  for (unsigned i = 0; i < 12; i++) {
    cudaStream_t first = streams[i & 1], second = streams[~i & 1];
    Case reduce = someCase(ex, 5000 + i, kLargest, kAllReduce), copy = reduce;
    reduce.inPlace = false;
    world.placeAt(reduce, i % 3 ? kSymmetric : kPlain, 0, kSlots);
    copy.kind = kBroadcast;
    copy.root = i % ex.nRanks;
    copy.send = reduce.recv;
    copy.recv = world.memory[kSymmetric].recv + (world.memory[kSymmetric].half / 2 & ~(size_t)4095) + 256;
    prepareCase(reduce, first);
    CUDACHECK(cudaEventRecord(before, first));
    CUDACHECK(cudaStreamWaitEvent(second, before, 0));
    if (i % 4 < 2) spin<<<1, 1, 0, first>>>(200000);
    NCCLCHECK(collective(ex, [&] { return callCase(reduce, world.operations.of(reduce), ex.comm, first); }));
    NCCLCHECK(collective(ex, [&] { return callCase(copy, ncclSum, ex.comm, second); }));
    Case all = reduce;
    all.recv = copy.recv;
    all.inPlace = true;  // no guards there
    verifyCase(all, world.found, second);
    world.cases.push_back(all);
    CUDACHECK(cudaEventRecord(behind, second));
    CUDACHECK(cudaStreamWaitEvent(first, behind, 0));
  }
  finish(ex, streams[0]);
  finish(ex, streams[1]);
  world.report(ex, "two streams of one communicator");
  CUDACHECK(cudaEventDestroy(before));
  CUDACHECK(cudaEventDestroy(behind));
}

// Several calls in one group, over one stream or several, on one communicator or in turn on two.
static void inGroups(Example& ex, World& world, ncclComm_t* comms, cudaStream_t* streams, int nStreams, const char* what) {
  for (unsigned round = 0; round < 8; round++) {
    Case cases[kSlots];
    int calls = 1 + round % kSlots;
    for (int i = 0; i < calls; i++) {
      // Handles of pre-mul-sum belong to one communicator.
      unsigned key = 6000 + (round * kSlots + i) * 64;
      do cases[i] = someCase(ex, key++, kLargest);
      while (comms[0] != comms[1] && cases[i].values.op == kPreMul);
      world.placeAt(cases[i], (round + i) % kMemories, i, kSlots);
      prepareCase(cases[i], streams[i % nStreams]);
    }
    grouped(ex, [&] {
      for (int i = 0; i < calls; i++) {
        NCCLCHECK(callCase(cases[i], world.operations.of(cases[i]), comms[i % 2], streams[i % nStreams]));
      }
      return ncclSuccess;
    });
    for (int i = 0; i < calls; i++) {
      verifyCase(cases[i], world.found, streams[i % nStreams]);
      world.cases.push_back(cases[i]);
    }
    // The next round uses the same places on other streams.
    for (int i = 0; i < nStreams; i++) finish(ex, streams[i]);
  }
  world.report(ex, what);
}

// The id travels by a collective of the first communicator.
static ncclComm_t another(Example& ex, World& world) {
  ncclUniqueId id;
  char* place = world.memory[kPlain].send;
  if (ex.rank == 0) {
    NCCLCHECK(ncclGetUniqueId(&id));
    CUDACHECK(cudaMemcpyAsync(place, &id, sizeof id, cudaMemcpyHostToDevice, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  NCCLCHECK(collective(ex, [&] { return ncclBroadcast(place, place, sizeof id, ncclUint8, 0, ex.comm, ex.stream); }));
  CUDACHECK(cudaMemcpyAsync(&id, place, sizeof id, cudaMemcpyDeviceToHost, ex.stream));
  finish(ex);
  ncclComm_t comm;
  NCCLCHECK(collective(ex, [&] { return ncclCommInitRank(&comm, ex.nRanks, id, ex.rank); }));
  return comm;
}

// A communicator's last call, and its end before the call has run.
static void destroyedInGroup(Example& ex, World& world, ncclComm_t comm, cudaStream_t stream) {
  Case c = someCase(ex, 6900, kLargest, kAllReduce);
  c.values.op = kSum;
  world.placeAt(c, kPlain, 0, kSlots);
  prepareCase(c, stream);
  grouped(ex, [&] {
    NCCLCHECK(callCase(c, ncclSum, comm, stream));
    return ncclCommDestroy(comm);
  });
  verifyCase(c, world.found, stream);
  world.cases.push_back(c);
  finish(ex, stream);
  world.report(ex, "a communicator destroyed in a group");
}

int test(Example& ex) {
  World world;
  world.create(ex, kSlots * (kLargest * ex.nRanks * 8 + 8192));
  cudaStream_t streams[2];
  CUDACHECK(cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking));
  CUDACHECK(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, -1));
  onStream(ex, world, streams[0], 1000);
  onStream(ex, world, cudaStreamPerThread, 2000);
  onStream(ex, world, cudaStreamLegacy, 3000);
  onStream(ex, world, NULL, 4000);
  twoStreams(ex, world, streams);
  ncclComm_t comms[2] = {ex.comm, ex.comm};
  inGroups(ex, world, comms, streams, 1, "groups");
  inGroups(ex, world, comms, streams, 2, "groups over two streams");
  comms[1] = another(ex, world);
  inGroups(ex, world, comms, streams, 1, "two communicators");
  inGroups(ex, world, comms, streams, 2, "two communicators over two streams");
  hostBarrier(ex);
  if (onNvidiasLibrary()) {
    NCCLCHECK(collective(ex, [&] { return ncclCommFinalize(comms[1]); }));
    NCCLCHECK(ncclCommDestroy(comms[1]));
  } else {
    destroyedInGroup(ex, world, comms[1], streams[0]);
  }
  for (cudaStream_t stream : streams) CUDACHECK(cudaStreamDestroy(stream));
  world.destroy(ex);
  return twiceWrong != 0;
}
