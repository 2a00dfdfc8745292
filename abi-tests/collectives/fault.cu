// The last rank fails while the others are in a collective or wait for its message. FAULT: what they wait in; they print what
// the library told them, and how long it took.
//   allreduce, alltoall, gather (of all), rooted gather, scatter, recv, send: it is killed. `symmetric` in front: with registered buffers
//   abort: rank 0 aborts itself, out of an all-reduce that the last rank has not joined; with one of the above behind it out of that
//   sizes: rank 0 sends more than rank 1 receives (libginrs says so; NVIDIA's library is not asked)
//   counts: an all-gather of which rank 0 takes part in twice as much as the others, with `sum` in front an all-reduce (likewise);
//     of a captured graph, whose calls no host compares
#include <signal.h>
#include <unistd.h>

#include "../../examples-c/common/example.h"
#include "../common/said.h"

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static ncclResult_t wait(Example& ex, const char* fault, char* send, char* recv) {
  const size_t count = 100000;
  int last = ex.nRanks - 1;
  if (strstr(fault, "allreduce")) return ncclAllReduce(send, recv, count, ncclInt32, ncclSum, ex.comm, ex.stream);
  if (strstr(fault, "tiny")) return ncclAllReduce(send, recv, 2, ncclInt32, ncclSum, ex.comm, ex.stream);
  if (strstr(fault, "alltoall")) return ncclAlltoAll(send, recv, count, ncclInt32, ex.comm, ex.stream);
  if (strstr(fault, "rooted gather")) return ncclGather(send, recv, count, ncclInt32, 0, ex.comm, ex.stream);
  if (strstr(fault, "scatter")) return ncclScatter(send, recv, count, ncclInt32, last, ex.comm, ex.stream);
  if (strstr(fault, "gather")) return ncclAllGather(send, recv, count, ncclInt32, ex.comm, ex.stream);
  if (strstr(fault, "send")) return ncclSend(send, 16 << 20, ncclUint8, last, ex.comm, ex.stream);
  if (strstr(fault, "recv")) return ncclRecv(recv, count, ncclInt32, last, ex.comm, ex.stream);
  if (strstr(fault, "sum counts")) return ncclAllReduce(send, recv, ex.rank == 0 ? 2 * count : count, ncclInt32, ncclSum, ex.comm, ex.stream);
  if (strstr(fault, "counts")) return ncclAllGather(send, recv, ex.rank == 0 ? 2 * count : count, ncclInt32, ex.comm, ex.stream);
  if (strstr(fault, "sizes")) {
    if (ex.rank == 0) return ncclSend(send, 1000, ncclUint8, 1, ex.comm, ex.stream);
    return ex.rank == 1 ? ncclRecv(recv, 600, ncclUint8, 0, ex.comm, ex.stream) : ncclSuccess;
  }
  return ncclAllReduce(send, recv, count, ncclInt32, ncclSum, ex.comm, ex.stream);
}

static ncclResult_t waitInGraph(Example& ex, const char* fault, char* send, char* recv) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDACHECK(cudaStreamBeginCapture(ex.stream, cudaStreamCaptureModeThreadLocal));
  ncclResult_t result = wait(ex, fault, send, recv);
  CUDACHECK(cudaStreamEndCapture(ex.stream, &graph));
  CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDACHECK(cudaGraphLaunch(exec, ex.stream));
  return result;
}

int runRank(Example& ex) {
  const char* fault = getenv("FAULT");
  if (!fault) fault = "allreduce";
  const size_t bytes = 32 << 20;
  char* memory;
  ncclWindow_t window;
  NCCLCHECK(ncclMemAlloc((void**)&memory, bytes));
  CUDACHECK(cudaMemset(memory, 0, bytes));
  if (strstr(fault, "symmetric")) NCCLCHECK(ncclCommWindowRegister(ex.comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  char *send = memory, *recv = memory + bytes / 2;
  // All know that all are there.
  NCCLCHECK(ncclAllReduce(send, recv, 1, ncclInt32, ncclSum, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  bool abort = strstr(fault, "abort"), differs = strcmp(fault, "sizes") == 0 || strstr(fault, "counts") != NULL;
  bool victim = ex.rank == ex.nRanks - 1 && !differs;
  if (victim && !abort) {
    usleep(200000);
    raise(SIGKILL);
  }
  double begin = seconds();
  ncclResult_t called = victim ? ncclSuccess : strstr(fault, "counts") ? waitInGraph(ex, fault, send, recv) : wait(ex, fault, send, recv);
  if (called != ncclSuccess) printf("rank %d: %s: %s\n", ex.rank, ncclGetErrorString(called), ncclGetLastError(NULL));
  if (abort && ex.rank == 0) {
    usleep(100000);
    ncclResult_t result = ncclCommAbort(ex.comm);
    printf("rank 0 aborted: %s\n", ncclGetErrorString(result));
  }
  cudaError_t streamState = cudaStreamSynchronize(ex.stream);
  double took = seconds() - begin;
  ncclResult_t state = ncclSuccess;
  if (!(abort && ex.rank == 0)) {
    // A rank that waits in no kernel hears of it a little later.
    for (int i = 0; i < 6000 && state == ncclSuccess; i++) {
      NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
      if (state == ncclSuccess) usleep(10000);
    }
    printf("rank %d released after %.2f s: %s; %s: %s\n", ex.rank, took, cudaGetErrorString(streamState), ncclGetErrorString(state),
           ncclGetLastError(ex.comm));
    ncclCommAbort(ex.comm);
  }
  fflush(stdout);
  waitUntilAllHaveSaid(ex.rank, ex.nRanks, ex.nRanks - (!abort && !differs));
  _exit(state != ncclSuccess || (abort && ex.rank == 0) ? 0 : 3);
}
