// A rank that leaves in good order while the others still call collectives or messages: `leaving CASE FILE` as processes under ginrs-run,
// `leaving CASE FILE threads N` as threads of one process. The last rank leaves early and lives on until FILE is there, which rank 0 makes
// when it is done. Prints "rank R: ok" where all went well, "rank R: ended" where a wait was ended. tests/leaving.rs runs it.
#include <cuda_runtime.h>
#include <ginrs_bootstrap.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <string>
#include <thread>
#include <vector>
#include "../../examples-c/common/exit_once.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exitOnce(2); \
  } while (0)

enum Case { ALLREDUCE, GATHER, MESSAGES, GROUP, MATCHED, LOST, REFUSED, ABORTED, EXIT, CASES };
static const char* const names[CASES] = {"allreduce", "gather", "messages", "group", "matched", "lost", "refused", "aborted", "exit"};
static int which;
static std::string file;

static const size_t COUNT = 3000;

struct Rank {
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
  float *send, *recv;
  bool isLast() const { return rank == ranks - 1; }

  void allReduce() { CHECK(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream)); }

  // What all do, before the last one leaves.
  void together() {
    for (int i = 0; i < 2; i++) allReduce();
    if (which == MESSAGES || which == GROUP) {
      if (isLast()) CHECK(ncclSend(send, COUNT, ncclFloat, 0, comm, stream));
      if (rank == 0) CHECK(ncclRecv(recv, COUNT, ncclFloat, ranks - 1, comm, stream));
    }
    // Rank 0 receives one of two.
    if (which >= LOST) {
      for (int i = 0; i < 2 && isLast(); i++) CHECK(ncclSend(send, COUNT, ncclFloat, 0, comm, stream));  // lost
      if (rank == 0) CHECK(ncclRecv(recv, COUNT, ncclFloat, ranks - 1, comm, stream));
      if (rank == 0 && which == REFUSED && ncclRecv(nullptr, COUNT, ncclFloat, ranks - 1, comm, stream) == ncclSuccess) exitOnce(4);
    }
    // The last one gives its part of both and leaves, whenever the others come to it.
    if (which == MATCHED) {
      if (!isLast()) {
        CHECK(cudaStreamSynchronize(stream));
        sleep(3);
      }
      CHECK(ncclBroadcast(send, recv, COUNT, ncclFloat, ranks - 1, comm, stream));
      CHECK(ncclGroupStart());
      if (isLast()) CHECK(ncclSend(send, COUNT, ncclFloat, 0, comm, stream));
      if (rank == 0) CHECK(ncclRecv(recv, COUNT, ncclFloat, ranks - 1, comm, stream));
      CHECK(ncclGroupEnd());
    }
  }

  // And what the others do without it.
  void alone() {
    if (which == ALLREDUCE) allReduce();
    if (which == GATHER) CHECK(ncclAllGather(send, recv, 8, ncclFloat, comm, stream));
    if (rank != 0 || which < MESSAGES || which >= MATCHED) return;
    CHECK(ncclGroupStart());
    if (which == GROUP) CHECK(ncclSend(send, COUNT, ncclFloat, ranks - 1, comm, stream));
    CHECK(ncclRecv(recv, COUNT, ncclFloat, ranks - 1, comm, stream));
    CHECK(ncclGroupEnd());
  }
};

static void runRank(int rank, int ranks, ncclUniqueId id) {
  Rank my = {rank, ranks};
  CHECK(cudaSetDevice(rank));
  CHECK(ncclCommInitRank(&my.comm, ranks, id, rank));
  CHECK(cudaStreamCreate(&my.stream));
  CHECK(cudaMalloc((void**)&my.send, COUNT * sizeof(float)));
  CHECK(cudaMalloc((void**)&my.recv, COUNT * ranks * sizeof(float)));
  std::vector<float> values(COUNT, float(rank + 1));
  CHECK(cudaMemcpy(my.send, values.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
  my.together();
  if (!my.isLast()) my.alone();
  CHECK(cudaStreamSynchronize(my.stream));
  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(my.comm, &state));
  CHECK(cudaMemcpy(values.data(), my.recv, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
  if (which == MATCHED && values[COUNT - 1] != float(ranks)) fprintf(stderr, "rank %d has %g\n", rank, values[COUNT - 1]), exitOnce(3);
  printf("rank %d: %s\n", rank, state == ncclSuccess ? "ok" : "ended"), fflush(stdout);
  if (which == EXIT) return;
  // The others are to have left by then.
  if (which == ABORTED && rank == 0) sleep(2);
  if (state == ncclSuccess && (which != ABORTED || rank != 0)) CHECK(ncclCommDestroy(my.comm));
  else CHECK(ncclCommAbort(my.comm));
  if (rank == 0) fclose(fopen(file.c_str(), "w"));
  // Not parked: as a program that goes on with something else.
  while (my.isLast() && access(file.c_str(), F_OK) != 0) usleep(10000);
}

int main(int argc, char** argv) {
  for (which = 0; which < CASES && (argc < 3 || strcmp(argv[1], names[which]) != 0);) which++;
  if (which == CASES) return fprintf(stderr, "leaving CASE FILE [threads N]\n"), 2;
  file = argv[2];
  ncclUniqueId id;
  if (argc > 4) {
    int ranks = atoi(argv[4]);
    CHECK(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) threads.emplace_back(runRank, rank, ranks, id);
    for (auto& thread : threads) thread.join();
    return 0;
  }
  ginrsBootstrap boot;
  CHECK(ginrsBootstrapInit(&boot));
  CHECK(ginrsBootstrapUniqueId(&boot, &id));
  runRank(boot.rank, boot.nRanks, id);
}
