// What every example needs around its kernel: ranks as processes or as threads, a communicator, checks, one closing line.
//
// An example includes this file and defines
//     int runRank(Example& ex);      // 0 if everything was right
// The same source runs
//     ginrs-run -n 4 ./example       one process per rank (also under torchrun, srun and mpirun)
//     ./example --threads 4          one thread per rank in one process
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "exit_once.h"
#include "ginrs_bootstrap.h"

#define CUDACHECK(call)                                                                             \
  do {                                                                                              \
    cudaError_t error_ = (call);                                                                    \
    if (error_ != cudaSuccess) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));    \
      exitOnce(EXIT_FAILURE);                                                                       \
    }                                                                                               \
  } while (0)

#define NCCLCHECK(call)                                                                             \
  do {                                                                                              \
    ncclResult_t result_ = (call);                                                                  \
    if (result_ != ncclSuccess) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(result_), \
              ncclGetLastError(NULL));                                                              \
      exitOnce(EXIT_FAILURE);                                                                       \
    }                                                                                               \
  } while (0)

struct Example {
  int rank, nRanks, device;
  ncclComm_t comm;
  cudaStream_t stream;
  const char* name;

  size_t bytesMoved = 0;      // set by the example: payload that this rank sent
  size_t elementsChecked = 0; // and what it compared afterwards

  // Window memory: `bytes` of device memory that peers can reach, filled with zero.
  void* allocWindow(size_t bytes, ncclWindow_t* window) {
    void* memory;
    NCCLCHECK(ncclMemAlloc(&memory, bytes));
    CUDACHECK(cudaMemset(memory, 0, bytes));
    CUDACHECK(cudaStreamSynchronize(NULL)); // zero before a peer can write
    NCCLCHECK(ncclCommWindowRegister(comm, memory, bytes, window, NCCL_WIN_COLL_SYMMETRIC));
    return memory;
  }

  void freeWindow(void* memory, ncclWindow_t window) {
    NCCLCHECK(ncclCommWindowDeregister(comm, window));
    NCCLCHECK(ncclMemFree(memory));
  }
};

int runRank(Example& ex);

// One rank from communicator to closing line.
static int exampleRank(const char* name, int rank, int nRanks, int device, ncclUniqueId id) {
  Example ex;
  ex.name = name;
  ex.rank = rank;
  ex.nRanks = nRanks;
  ex.device = device;
  CUDACHECK(cudaSetDevice(device));
  CUDACHECK(cudaStreamCreate(&ex.stream));
  NCCLCHECK(ncclCommInitRank(&ex.comm, nRanks, id, rank));
  int failed = runRank(ex);
  CUDACHECK(cudaStreamDestroy(ex.stream));
  NCCLCHECK(ncclCommFinalize(ex.comm));
  NCCLCHECK(ncclCommDestroy(ex.comm));
  printf("%s rank %d of %d: %s, %zu bytes moved, %zu elements checked\n", name, rank, nRanks, failed ? "WRONG" : "ok",
         ex.bytesMoved, ex.elementsChecked);
  fflush(stdout);
  return failed;
}

struct ExampleThread {
  const char* name;
  int rank, nRanks, failed;
  ncclUniqueId id;
};

static void* exampleThread(void* argument) {
  ExampleThread* self = (ExampleThread*)argument;
  int devices;
  CUDACHECK(cudaGetDeviceCount(&devices));
  self->failed = exampleRank(self->name, self->rank, self->nRanks, self->rank % devices, self->id);
  return NULL;
}

int main(int argc, char** argv) {
  const char* slash = strrchr(argv[0], '/');
  const char* name = slash ? slash + 1 : argv[0];
  if (argc == 3 && strcmp(argv[1], "--threads") == 0) {
    int nRanks = atoi(argv[2]);
    if (nRanks < 1) {
      fprintf(stderr, "--threads %s: want a number of ranks, 1 or more\n", argv[2]);
      return 2;
    }
    ncclUniqueId id;
    NCCLCHECK(ncclGetUniqueId(&id));
    std::vector<pthread_t> threads(nRanks);
    std::vector<ExampleThread> ranks(nRanks);
    for (int r = 0; r < nRanks; r++) {
      ranks[r] = ExampleThread{name, r, nRanks, 1, id};
      if (pthread_create(&threads[r], NULL, exampleThread, &ranks[r]) != 0) {
        perror("pthread_create");
        return 1;
      }
    }
    int failed = 0;
    for (int r = 0; r < nRanks; r++) {
      pthread_join(threads[r], NULL);
      failed |= ranks[r].failed;
    }
    return failed;
  }
  if (argc != 1) {
    fprintf(stderr, "usage: ginrs-run -n RANKS %s | %s --threads RANKS\n", argv[0], argv[0]);
    return 2;
  }
  ginrsBootstrap boot;
  ncclUniqueId id;
  if (ginrsBootstrapInit(&boot) != 0) return 1;
  if (ginrsBootstrapUniqueId(&boot, &id) != 0) return 1;
  return exampleRank(name, boot.rank, boot.nRanks, boot.localRank, id);
}
