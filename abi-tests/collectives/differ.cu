// Ranks that call different collectives: CASE says how rank 1 differs from the others. Both calls are told, before a kernel begins.
//   count, op, type, kind, root (of a reduce), broadcast root; left out: rank 1 makes the first call alone
//   order: rank 0 broadcasts first, the others add up first: each call is one that waits for no other in its place
//   group: as order, in groups of three calls, which are numbered as they are launched
//   same: all call alike, in the ways that look different: other types of the same bytes, groups, captured graphs
#include <string.h>

#include "../../examples-c/common/example.h"
#include "../common/said.h"

static ncclResult_t inGraph(Example& ex, float* at, size_t n) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDACHECK(cudaStreamBeginCapture(ex.stream, cudaStreamCaptureModeThreadLocal));
  ncclResult_t result = ncclAllReduce(at, at, n, ncclFloat, ncclSum, ex.comm, ex.stream);
  CUDACHECK(cudaStreamEndCapture(ex.stream, &graph));
  CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) CUDACHECK(cudaGraphLaunch(exec, ex.stream));
  return result;
}

static ncclResult_t call(Example& ex, const char* what, float* at, size_t n) {
  bool odd = ex.rank == 1;
  float* out = at + n;
  auto is = [&](const char* name) { return strcmp(what, name) == 0; };
  auto sum = [&] { return ncclAllReduce(at, out, n, ncclFloat, ncclSum, ex.comm, ex.stream); };
  auto broadcast = [&](int root) { return ncclBroadcast(at, out, n, ncclFloat, root, ex.comm, ex.stream); };
  if (is("count")) return ncclAllReduce(at, out, odd ? n / 2 : n, ncclFloat, ncclSum, ex.comm, ex.stream);
  if (is("op")) return ncclAllReduce(at, out, n, ncclFloat, odd ? ncclMax : ncclSum, ex.comm, ex.stream);
  if (is("type")) return ncclAllReduce(at, out, n, odd ? ncclInt32 : ncclFloat, ncclSum, ex.comm, ex.stream);
  if (is("kind")) return odd ? sum() : ncclAllGather(at, out, n, ncclFloat, ex.comm, ex.stream);
  if (is("root")) return ncclReduce(at, out, n, ncclFloat, ncclSum, odd, ex.comm, ex.stream);
  if (is("broadcast root")) return broadcast(odd);
  if (is("left out") && odd) return ncclAllGather(at, out, n, ncclFloat, ex.comm, ex.stream);
  if (is("left out")) return sum();
  if (is("order")) {
    ncclResult_t first = ex.rank == 0 ? broadcast(0) : sum();
    return first != ncclSuccess ? first : ex.rank == 0 ? sum() : broadcast(0);
  }
  if (is("group")) {
    NCCLCHECK(ncclGroupStart());
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 3 && result == ncclSuccess; i++) result = (i == 1) == odd ? ncclBroadcast(at, out + n, n, ncclFloat, 0, ex.comm, ex.stream) : ncclAllReduce(at + i * 16, out + i * 16, 16, ncclFloat, ncclSum, ex.comm, ex.stream);
    ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
  }
  // Nothing of this is a mistake.
  ncclResult_t results[] = {
      odd ? ncclAllGather(at, out, n, ncclFloat, ex.comm, ex.stream) : ncclAllGather(at, out, 4 * n, ncclUint8, ex.comm, ex.stream),
      odd ? ncclBcast(out, n, ncclInt32, 0, ex.comm, ex.stream) : ncclBroadcast(out, out, n / 2, ncclDouble, 0, ex.comm, ex.stream),
      ncclAllReduce(at, out, 0, ncclFloat, ncclSum, ex.comm, ex.stream)};
  for (ncclResult_t result : results) NCCLCHECK(result);
  for (int round = 0; round < 40; round++) NCCLCHECK(broadcast(0));  // the root is far ahead
  NCCLCHECK(ncclGroupStart());
  for (int root = 0; root < ex.nRanks; root++) NCCLCHECK(ncclBroadcast(at, out + root * n, n, ncclFloat, root, ex.comm, ex.stream));
  NCCLCHECK(ncclAllReduce(at, at, n, ncclFloat, ncclMax, ex.comm, ex.stream));
  NCCLCHECK(ncclGroupEnd());
  NCCLCHECK(inGraph(ex, at, n));
  return sum();
}

int runRank(Example& ex) {
  const char* what = getenv("CASE");
  for (size_t n : {64, 100000}) {
    float* memory;
    CUDACHECK(cudaMalloc(&memory, n * 4 * (ex.nRanks + 1)));
    CUDACHECK(cudaMemset(memory, 0, n * 4 * (ex.nRanks + 1)));
    ncclResult_t called = call(ex, what, memory, n);
    cudaError_t state = cudaStreamSynchronize(ex.stream);
    ncclResult_t later = ncclSuccess;
    // Who called first hears of it.
    for (int i = 0; i < 6000 && called == ncclSuccess && later == ncclSuccess && strcmp(what, "same") != 0; i++) {
      NCCLCHECK(ncclCommGetAsyncError(ex.comm, &later));
      if (later == ncclSuccess) usleep(10000);
    }
    if (called == ncclSuccess) called = later;
    if (called != ncclSuccess) {
      printf("rank %d: %s, %s: %s\n", ex.rank, ncclGetErrorString(called), cudaGetErrorString(state), ncclGetLastError(ex.comm));
      fflush(stdout);
      waitUntilAllHaveSaid(ex.rank, ex.nRanks, ex.nRanks);
      _exit(0);
    }
    CUDACHECK(cudaFree(memory));
  }
  return 0;
}
