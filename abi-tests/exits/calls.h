/* What destructors call at the end of a process or thread: on communicators that live, that are gone and that never were. */
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An exit status set in a destructor that runs inside exit() counts for nothing: _exit does. */
#define WANT(expected, call)                                                                                     \
  do {                                                                                                           \
    int got_ = (int)(call);                                                                                      \
    if (got_ != (int)(expected)) {                                                                               \
      fprintf(stderr, "%s:%d: %s: %d, expected %d: %s\n", __FILE__, __LINE__, #call, got_, (int)(expected),      \
              ncclGetLastError(NULL));                                                                           \
      _exit(3);                                                                                                  \
    }                                                                                                            \
  } while (0)

/* A communicator of one rank and what was made on it. */
struct Things {
  ncclComm_t comm = nullptr;
  ncclDevComm devComm;
  ncclWindow_t window = nullptr;
  ncclRedOp_t op;
  void *memory = nullptr, *buffer = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;

  void make() {
    ncclUniqueId id;
    static float two = 2;
    ncclDevCommRequirements reqs;
    memset(&reqs, 0, sizeof reqs);
    reqs.lsaBarrierCount = reqs.railGinBarrierCount = reqs.ginSignalCount = reqs.ginCounterCount = 1;
    reqs.ginForceEnable = true;
    WANT(cudaSuccess, cudaSetDevice(0));
    WANT(ncclSuccess, ncclGetUniqueId(&id));
    WANT(ncclSuccess, ncclCommInitRank(&comm, 1, id, 0));
    WANT(ncclSuccess, ncclMemAlloc(&memory, 1 << 16));
    WANT(ncclSuccess, ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
    WANT(ncclSuccess, ncclDevCommCreate(comm, &reqs, &devComm));
    WANT(ncclSuccess, ncclCommRegister(comm, memory, 4096, &buffer));
    WANT(ncclSuccess, ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, comm));
    WANT(cudaSuccess, cudaStreamCreate(&stream));
    WANT(cudaSuccess, cudaEventCreate(&event));
  }

  /* Everything that gives back what was made on it: also right after the communicator has gone, which took it along. */
  void giveBack() {
    WANT(ncclSuccess, ncclDevCommDestroy(comm, &devComm));
    WANT(ncclSuccess, ncclCommWindowDeregister(comm, window));
    WANT(ncclSuccess, ncclCommDeregister(comm, buffer));
    WANT(ncclSuccess, ncclRedOpDestroy(op, comm));
    WANT(ncclSuccess, ncclMemFree(memory));
  }

  void runtime() {
    int n;
    WANT(cudaSuccess, cudaGetDevice(&n));
    WANT(cudaSuccess, cudaSetDevice(0));
    WANT(cudaSuccess, cudaEventRecord(event, cudaStreamPerThread));
    WANT(cudaSuccess, cudaStreamSynchronize(cudaStreamPerThread));
    WANT(cudaSuccess, cudaStreamSynchronize(stream));
    WANT(cudaSuccess, cudaEventDestroy(event));
    WANT(cudaSuccess, cudaStreamDestroy(stream));
    WANT(cudaSuccess, cudaGetLastError());
  }

  /* Questions: `code` is what they return. */
  void ask(ncclResult_t code) {
    int n = -1;
    ncclResult_t state;
    WANT(code, ncclCommCount(comm, &n));
    WANT(code, ncclCommUserRank(comm, &n));
    WANT(code, ncclCommCuDevice(comm, &n));
    WANT(code, ncclCommGetAsyncError(comm, &state));
    WANT(code == ncclSuccess ? 1 : 0, ncclTeamWorld(comm).nRanks);
    WANT(code == ncclSuccess ? 1 : 0, ncclTeamLsa(comm).nRanks);
  }

  /* A collective in a group, as a destructor may still make. */
  void work() {
    float* at = (float*)memory;
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclSuccess, ncclAllReduce(at, at, 16, ncclFloat, op, comm, stream));
    WANT(ncclSuccess, ncclSend(at, 16, ncclFloat, 0, comm, stream));
    WANT(ncclSuccess, ncclRecv(at + 16, 16, ncclFloat, 0, comm, stream));
    WANT(ncclSuccess, ncclGroupEnd());
    WANT(cudaSuccess, cudaStreamSynchronize(stream));
  }
};

/* One of each; the destructors of their holder end them. */
struct Set {
  Things finalized, destroyed, aborted, revoked, grouped, gone;
  ncclComm_t never = nullptr;
  bool made = false;
  const bool launches = getenv("NO_KERNELS") == nullptr;

  void make() {
    for (Things* things : {&finalized, &destroyed, &aborted, &revoked, &grouped, &gone}) things->make();
    WANT(ncclSuccess, ncclCommDestroy(gone.comm));
    made = true;
  }

  /* Every call that is right here: nothing may be said of them. */
  void end() {
    int version;
    WANT(ncclSuccess, ncclGetVersion(&version));
    for (Things* things : {&finalized, &destroyed, &aborted, &revoked, &grouped}) things->ask(ncclSuccess);
    if (launches) destroyed.work();
    gone.giveBack();
    gone.runtime();
    finalized.giveBack();
    finalized.runtime();
    WANT(ncclSuccess, ncclCommFinalize(finalized.comm));
    WANT(ncclSuccess, ncclCommDestroy(finalized.comm));
    destroyed.giveBack();
    WANT(ncclSuccess, ncclCommDestroy(destroyed.comm));
    WANT(ncclSuccess, ncclCommAbort(aborted.comm));
    aborted.giveBack();
    WANT(ncclSuccess, ncclCommRevoke(revoked.comm, NCCL_REVOKE_DEFAULT));
    WANT(ncclSuccess, ncclCommDestroy(revoked.comm));
    revoked.giveBack();
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclSuccess, ncclCommDestroy(grouped.comm));
    WANT(ncclSuccess, ncclGroupEnd());
    grouped.giveBack();
    WANT(ncclSuccess, ncclCommFinalize(never));
    WANT(ncclSuccess, ncclCommRevoke(never, NCCL_REVOKE_DEFAULT));
    WANT(ncclSuccess, ncclCommDestroy(never));
    WANT(ncclSuccess, ncclCommAbort(never));
    WANT(ncclSuccess, ncclMemFree(nullptr));
  }

  /* And what is wrong: a code and a line each, no crash. */
  void misuse() {
    ncclComm_t garbage = (ncclComm_t)(size_t)0xdeadbeef0;
    ncclUniqueId id;
    gone.ask(ncclInvalidArgument);
    memset(&id, 0, sizeof id);
    for (ncclComm_t comm : {gone.comm, garbage}) {
      WANT(ncclInvalidArgument, ncclCommFinalize(comm));
      WANT(ncclInvalidArgument, ncclCommDestroy(comm));
      WANT(ncclInvalidArgument, ncclCommAbort(comm));
      WANT(ncclInvalidArgument, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    }
    WANT(ncclInvalidArgument, ncclDevCommDestroy(garbage, &gone.devComm));
    WANT(ncclInvalidArgument, ncclDevCommDestroy(never, &gone.devComm));
    WANT(ncclInvalidUsage, ncclGroupEnd());
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclInvalidArgument, ncclCommDestroy(gone.comm));
    WANT(ncclInvalidArgument, ncclGroupEnd());
    WANT(ncclInvalidArgument, ncclCommInitRank(&never, 1, id, 0));
  }
};
