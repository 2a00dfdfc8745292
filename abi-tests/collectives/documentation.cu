// Programs as NCCL's documentation describes them, one after the other: plain user code that knows nothing of this project.
//
//   documentation [DEVICES]           one process with all devices, by one thread and by several
//   ginrs-run -n 4 ./documentation    a process for each device (also under torchrun, srun and mpirun)
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <functional>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"
#include "../../examples-c/common/ginrs_bootstrap.h"

#define OK(call)                                                                                                \
  do {                                                                                                          \
    int result_ = (int)(call);                                                                                  \
    if (result_ != 0) {                                                                                         \
      fprintf(stderr, "documentation.cu:%d: %s: %d: %s\n", __LINE__, #call, result_, ncclGetLastError(NULL));   \
      exitOnce(1);                                                                                              \
    }                                                                                                           \
  } while (0)

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) fprintf(stderr, "documentation.cu:%d: not %s\n", __LINE__, #condition), exitOnce(1); \
  } while (0)

static const size_t kCount = 1000;

// A device with what its rank uses.
struct Device {
  int device, rank, nRanks;
  ncclComm_t comm;
  cudaStream_t stream;
  float *send, *recv;

  void create(int itsDevice, int itsRank, int n) {
    device = itsDevice;
    rank = itsRank;
    nRanks = n;
    OK(cudaSetDevice(device));
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&send, (n + 1) * kCount * sizeof(float)));
    OK(cudaMalloc(&recv, (n + 1) * kCount * sizeof(float)));
    set([&](size_t) { return (float)(rank + 1); });
  }
  void set(std::function<float(size_t)> value) {
    std::vector<float> host(nRanks * kCount);
    for (size_t i = 0; i < host.size(); i++) host[i] = value(i);
    OK(cudaSetDevice(device));
    OK(cudaMemcpy(send, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemset(recv, 0, host.size() * sizeof(float)));
  }
  void check(size_t n, std::function<float(size_t)> value, const float* at = NULL) {
    std::vector<float> host(n);
    OK(cudaSetDevice(device));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(host.data(), at ? at : recv, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
      if (host[i] == value(i)) continue;
      fprintf(stderr, "documentation.cu: rank %d, element %zu: %g, expected %g\n", rank, i, host[i], value(i));
      exit(1);
    }
  }
  void destroy() {
    OK(cudaSetDevice(device));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(send));
    OK(cudaFree(recv));
  }
};

static float sumOfRanks(int n) { return n * (n + 1) / 2.0f; }

static std::vector<Device> devicesOf(int n) {
  std::vector<Device> all(n);
  std::vector<ncclComm_t> comms(n);
  OK(ncclCommInitAll(comms.data(), n, NULL));
  for (int i = 0; i < n; i++) {
    all[i].create(i, i, n);
    all[i].comm = comms[i];
  }
  return all;
}

static void goneWith(std::vector<Device>& all) {
  for (Device& d : all) {
    OK(cudaSetDevice(d.device));
    OK(cudaStreamSynchronize(d.stream));
  }
  for (Device& d : all) OK(ncclCommDestroy(d.comm));
  for (Device& d : all) d.destroy();
}

// One process, one thread, several devices.
static void oneThread(int n) {
  std::vector<Device> all = devicesOf(n);
  OK(ncclGroupStart());
  for (Device& d : all) OK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  OK(ncclGroupEnd());
  for (Device& d : all) d.check(kCount, [&](size_t) { return sumOfRanks(n); });
  // Several operations in one group, also of one communicator.
  OK(ncclGroupStart());
  for (Device& d : all) {
    OK(ncclBroadcast(d.send, d.recv, kCount, ncclFloat, n - 1, d.comm, d.stream));
    OK(ncclReduce(d.send, d.send, kCount, ncclFloat, ncclMax, 0, d.comm, d.stream));
  }
  OK(ncclGroupEnd());
  for (Device& d : all) d.check(kCount, [&](size_t) { return (float)n; });
  all[0].check(kCount, [&](size_t) { return (float)n; }, all[0].send);
  goneWith(all);
}

// A thread for each device, or for several; the id is made by one.
static void severalThreads(int n, int perThread) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int first = 0; first < n; first += perThread) {
    threads.emplace_back([=] {
      std::vector<Device> mine(first + perThread <= n ? perThread : n - first);
      for (size_t i = 0; i < mine.size(); i++) mine[i].create(first + (int)i, first + (int)i, n);
      OK(ncclGroupStart());
      for (Device& d : mine) {
        OK(cudaSetDevice(d.device));
        OK(ncclCommInitRank(&d.comm, n, id, d.rank));
      }
      OK(ncclGroupEnd());
      for (int round = 0; round < 3; round++) {
        if (mine.size() > 1) OK(ncclGroupStart());
        for (Device& d : mine) OK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
        if (mine.size() > 1) OK(ncclGroupEnd());
      }
      for (Device& d : mine) d.check(kCount, [&](size_t) { return sumOfRanks(n); });
      goneWith(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A process for each device.
static void processes(ginrsBootstrap& boot) {
  ncclUniqueId id;
  if (boot.rank == 0) OK(ncclGetUniqueId(&id));
  EXPECT(ginrsBootstrapBroadcast(&boot, &id, sizeof id) == 0);
  Device d;
  d.create(boot.localRank, boot.rank, boot.nRanks);
  OK(ncclCommInitRank(&d.comm, boot.nRanks, id, boot.rank));
  OK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  d.check(kCount, [&](size_t) { return sumOfRanks(boot.nRanks); });
  OK(ncclCommFinalize(d.comm));
  OK(ncclCommDestroy(d.comm));
  d.destroy();
}

// Patterns of point-to-point messages.
static void patterns(int n) {
  std::vector<Device> all = devicesOf(n);
  for (Device& d : all) d.set([&](size_t i) { return (float)(d.rank * 100 + i / kCount); });
  // Exchange of two
  OK(ncclGroupStart());
  for (Device& d : all) {
    int peer = d.rank ^ 1;
    if (peer >= n) continue;
    OK(ncclSend(d.send, kCount, ncclFloat, peer, d.comm, d.stream));
    OK(ncclRecv(d.recv, kCount, ncclFloat, peer, d.comm, d.stream));
  }
  OK(ncclGroupEnd());
  for (Device& d : all) {
    if ((d.rank ^ 1) < n) d.check(kCount, [&](size_t) { return (float)((d.rank ^ 1) * 100); });
  }
  // One to all
  OK(ncclGroupStart());
  for (int r = 0; r < n; r++) OK(ncclSend(all[0].send + r * kCount, kCount, ncclFloat, r, all[0].comm, all[0].stream));
  for (Device& d : all) OK(ncclRecv(d.recv, kCount, ncclFloat, 0, d.comm, d.stream));
  OK(ncclGroupEnd());
  for (Device& d : all) d.check(kCount, [&](size_t) { return (float)d.rank; });
  // All to one
  OK(ncclGroupStart());
  for (Device& d : all) OK(ncclSend(d.send, kCount, ncclFloat, 0, d.comm, d.stream));
  for (int r = 0; r < n; r++) OK(ncclRecv(all[0].recv + r * kCount, kCount, ncclFloat, r, all[0].comm, all[0].stream));
  OK(ncclGroupEnd());
  all[0].check(n * kCount, [&](size_t i) { return (float)(i / kCount * 100); });
  // All to all
  OK(ncclGroupStart());
  for (Device& d : all) {
    for (int r = 0; r < n; r++) {
      OK(ncclSend(d.send + r * kCount, kCount, ncclFloat, r, d.comm, d.stream));
      OK(ncclRecv(d.recv + r * kCount, kCount, ncclFloat, r, d.comm, d.stream));
    }
  }
  OK(ncclGroupEnd());
  for (Device& d : all) d.check(n * kCount, [&](size_t i) { return (float)(i / kCount * 100 + d.rank); });
  // Neighbours in a ring, both ways
  OK(ncclGroupStart());
  for (Device& d : all) {
    int next = (d.rank + 1) % n, before = (d.rank + n - 1) % n;
    OK(ncclSend(d.send, kCount, ncclFloat, next, d.comm, d.stream));
    OK(ncclRecv(d.recv, kCount, ncclFloat, before, d.comm, d.stream));
    OK(ncclSend(d.send, kCount / 2, ncclFloat, before, d.comm, d.stream));
    OK(ncclRecv(d.recv + kCount, kCount / 2, ncclFloat, next, d.comm, d.stream));
  }
  OK(ncclGroupEnd());
  for (Device& d : all) {
    d.check(kCount, [&](size_t) { return (float)((d.rank + n - 1) % n * 100); });
    d.check(kCount / 2, [&](size_t) { return (float)((d.rank + 1) % n * 100); }, d.recv + kCount);
  }
  goneWith(all);
}

// Communicators that are made in the background: every call is polled.
static void nonBlocking(int n) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<Device> all(n);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.minCTAs = 1;
  config.maxCTAs = 4;
  auto ready = [&](ncclResult_t result) {
    EXPECT(result == ncclSuccess || result == ncclInProgress);
    for (Device& d : all) {
      ncclResult_t state;
      do OK(ncclCommGetAsyncError(d.comm, &state));
      while (state == ncclInProgress);
      OK(state);
    }
  };
  OK(ncclGroupStart());
  for (int i = 0; i < n; i++) {
    all[i].create(i, i, n);
    ncclResult_t result = ncclCommInitRankConfig(&all[i].comm, n, id, i, &config);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
  }
  ready(ncclGroupEnd());
  OK(ncclGroupStart());
  for (Device& d : all) {
    ncclResult_t result = ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
  }
  ready(ncclGroupEnd());
  for (Device& d : all) d.check(kCount, [&](size_t) { return sumOfRanks(n); });
  OK(ncclGroupStart());
  for (Device& d : all) {
    ncclResult_t result = ncclCommFinalize(d.comm);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
  }
  ready(ncclGroupEnd());
  for (Device& d : all) OK(ncclCommDestroy(d.comm));
  for (Device& d : all) d.destroy();
}

// What NCCL refuses, says why, and survives.
static void refusals() {
  std::vector<Device> all = devicesOf(1);
  Device& d = all[0];
  EXPECT(ncclBroadcast(d.send, d.recv, kCount, ncclFloat, 7, d.comm, d.stream) == ncclInvalidArgument);
  EXPECT(strlen(ncclGetLastError(d.comm)) > 10);
  EXPECT(ncclAllReduce(d.send, d.recv, kCount, (ncclDataType_t)99, ncclSum, d.comm, d.stream) == ncclInvalidArgument);
  EXPECT(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, (ncclRedOp_t)99, d.comm, d.stream) == ncclInvalidArgument);
  EXPECT(ncclSend(d.send, kCount, ncclFloat, -1, d.comm, d.stream) == ncclInvalidArgument);
  EXPECT(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, NULL, d.stream) == ncclInvalidArgument);
  OK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  d.check(kCount, [](size_t) { return 1.0f; });
  goneWith(all);
}

// Rank 0 waits in a collective that the others never join; all give up, and meet again on a new communicator.
static void abortAndAgain(int n) {
  if (n < 2) return;
  std::vector<Device> all = devicesOf(n);
  OK(ncclGroupStart());
  for (Device& d : all) OK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  OK(ncclGroupEnd());
  for (Device& d : all) d.check(kCount, [&](size_t) { return sumOfRanks(n); });
  OK(cudaSetDevice(0));
  OK(ncclAllReduce(all[0].send, all[0].recv, kCount, ncclFloat, ncclSum, all[0].comm, all[0].stream));
  usleep(50000);
  EXPECT(cudaStreamQuery(all[0].stream) == cudaErrorNotReady);
  std::vector<std::thread> threads;
  for (Device& d : all) {
    threads.emplace_back([&d] {
      OK(cudaSetDevice(d.device));
      OK(ncclCommAbort(d.comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
  OK(cudaSetDevice(0));
  OK(cudaStreamSynchronize(all[0].stream));
  for (Device& d : all) d.destroy();
  oneThread(n);
}

// A factor for each rank before the sum; buffers of NCCL's, registered; a captured call.
static void operationsAndGraphs(int n) {
  std::vector<Device> all = devicesOf(n);
  std::vector<ncclRedOp_t> ops(n);
  std::vector<void*> buffers(n), handles(n);
  float half = 0.5f;
  for (Device& d : all) {
    OK(cudaSetDevice(d.device));
    OK(ncclRedOpCreatePreMulSum(&ops[d.rank], &half, ncclFloat, ncclScalarHostImmediate, d.comm));
    OK(ncclMemAlloc(&buffers[d.rank], kCount * sizeof(float)));
    OK(ncclCommRegister(d.comm, buffers[d.rank], kCount * sizeof(float), &handles[d.rank]));
    OK(cudaMemcpyAsync(buffers[d.rank], d.send, kCount * sizeof(float), cudaMemcpyDeviceToDevice, d.stream));
    OK(cudaStreamSynchronize(d.stream));
  }
  std::vector<cudaGraph_t> graphs(n);
  std::vector<cudaGraphExec_t> execs(n);
  auto reduceAll = [&] {
    OK(ncclGroupStart());
    for (Device& d : all) OK(ncclAllReduce(buffers[d.rank], d.recv, kCount, ncclFloat, ops[d.rank], d.comm, d.stream));
    OK(ncclGroupEnd());
  };
  reduceAll();  // the first call may have to connect
  for (Device& d : all) OK(cudaStreamSynchronize(d.stream));
  for (Device& d : all) OK(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeThreadLocal));
  reduceAll();
  for (Device& d : all) OK(cudaStreamEndCapture(d.stream, &graphs[d.rank]));
  for (Device& d : all) {
    OK(cudaGraphInstantiate(&execs[d.rank], graphs[d.rank], NULL, NULL, 0));
    OK(cudaGraphDestroy(graphs[d.rank]));
  }
  for (int i = 0; i < 3; i++) {
    for (Device& d : all) OK(cudaGraphLaunch(execs[d.rank], d.stream));
  }
  for (Device& d : all) d.check(kCount, [&](size_t) { return sumOfRanks(n) / 2; });
  for (Device& d : all) {
    OK(cudaGraphExecDestroy(execs[d.rank]));
    OK(ncclCommDeregister(d.comm, handles[d.rank]));
    OK(ncclMemFree(buffers[d.rank]));
    OK(ncclRedOpDestroy(ops[d.rank], d.comm));
  }
  goneWith(all);
}

int main(int argc, char** argv) {
  ginrsBootstrap boot;
  EXPECT(ginrsBootstrapInit(&boot) == 0);
  int version, n = argc > 1 ? atoi(argv[1]) : 0;
  OK(ncclGetVersion(&version));
  EXPECT(version >= 22800 && strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
  if (boot.nRanks > 1) {
    processes(boot);
    printf("documentation rank %d of %d: ok,\n", boot.rank, boot.nRanks);
    return 0;
  }
  if (n == 0) OK(cudaGetDeviceCount(&n));
  const struct {
    const char* name;
    std::function<void()> run;
  } parts[] = {{"one thread", [=] { oneThread(n); }},
               {"a thread per device", [=] { severalThreads(n, 1); }},
               {"two devices per thread", [=] { severalThreads(n, 2); }},
               {"patterns", [=] { patterns(n); }},
               {"operations, graphs", [=] { operationsAndGraphs(n); }},
               {"refusals", [=] { refusals(); }},
               {"non-blocking", [=] { nonBlocking(n); }},
               {"abort", [=] { abortAndAgain(n); }}};
  for (auto& part : parts) {
    part.run();
    printf("documentation: %s: ok\n", part.name);
    fflush(stdout);
  }
  printf("documentation of %d: ok\n", n);
  return 0;
}
