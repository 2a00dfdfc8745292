// Calls of the library in a host function of a stream, where CUDA forbids its own: one line for each, its name and what it has returned. The
// communicators are whole behind them.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <functional>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utility>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    int result = int(call);                                                                    \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exit(2); \
  } while (0)

static ncclComm_t comm, made;
static float* data;
static void* memory;
static ncclWindow_t window;
static cudaStream_t other;
static ncclUniqueId id;
static ncclDevComm devComm;

static ncclResult_t group() {
  ncclGroupStart();
  ncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, other);
  return ncclGroupEnd();
}
static ncclDevCommRequirements requirements() {
  ncclDevCommRequirements some;
  memset(&some, 0, sizeof some);
  return some;
}

static const std::vector<std::pair<const char*, std::function<ncclResult_t()>>> calls = {
    {"ncclAllReduce", [] { return ncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, other); }},
    {"ncclBroadcast", [] { return ncclBroadcast(data, data, 4, ncclFloat, 0, comm, other); }},
    {"a group", group},
    {"ncclSend", [] { return ncclSend(data, 4, ncclFloat, 0, comm, other); }},
    {"ncclCommInitRank", [] { return ncclCommInitRank(&made, 1, id, 0); }},
    {"ncclCommInitAll", [] { return ncclCommInitAll(&made, 1, nullptr); }},
    {"ncclCommSplit", [] { return ncclCommSplit(comm, 0, 0, &made, nullptr); }},
    {"ncclCommFinalize", [] { return ncclCommFinalize(comm); }},
    {"ncclCommDestroy", [] { return ncclCommDestroy(comm); }},
    {"ncclCommAbort", [] { return ncclCommAbort(comm); }},
    {"ncclMemAlloc", [] { void* more; return ncclMemAlloc(&more, 4096); }},
    {"ncclMemFree", [] { return ncclMemFree(memory); }},
    {"ncclCommWindowRegister", [] { ncclWindow_t more; return ncclCommWindowRegister(comm, memory, 4096, &more, 0); }},
    {"ncclCommWindowDeregister", [] { return ncclCommWindowDeregister(comm, window); }},
    {"ncclDevCommCreate", [] { ncclDevComm more; auto some = requirements(); return ncclDevCommCreate(comm, &some, &more); }},
    {"ncclDevCommDestroy", [] { return ncclDevCommDestroy(comm, &devComm); }},
    {"ncclGetUniqueId", [] { return ncclGetUniqueId(&id); }},
    {"ncclCommCount", [] { int count; return ncclCommCount(comm, &count); }},
    {"ncclCommGetAsyncError", [] { ncclResult_t error; ncclResult_t result = ncclCommGetAsyncError(comm, &error); return result ? result : error; }},
    {"an empty group", [] { ncclGroupStart(); return ncclGroupEnd(); }},
};

int main() {
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  CHECK(cudaMalloc(&data, 64));
  CHECK(ncclMemAlloc(&memory, 4096));
  CHECK(ncclCommWindowRegister(comm, memory, 4096, &window, 0));
  auto some = requirements();
  CHECK(ncclDevCommCreate(comm, &some, &devComm));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&other));
  CHECK(ncclGetUniqueId(&id));
  std::vector<int> results(calls.size(), -1);
  for (size_t i = 0; i < calls.size(); i++) {
    std::function<void()> function = [&results, i] { results[i] = calls[i].second(); };
    CHECK(cudaLaunchHostFunc(stream, [](void* function) { (*static_cast<std::function<void()>*>(function))(); }, &function));
    CHECK(cudaStreamSynchronize(stream));
    printf("%s: %d\n", calls[i].first, results[i]);
  }
  CHECK(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(ncclDevCommDestroy(comm, &devComm));
  CHECK(ncclCommWindowDeregister(comm, window));
  CHECK(ncclMemFree(memory));
  CHECK(ncclCommDestroy(comm));
  printf("ok\n");
}
