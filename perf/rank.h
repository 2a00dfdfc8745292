// One rank: its GPU, its communicator and the device communicators that the benchmarks share.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "meeting.h"
#include "options.h"
#include "table.h"

#define CUDACHECK(call)                                                                                               \
  do {                                                                                                                \
    cudaError_t error_ = (call);                                                                                      \
    if (error_ != cudaSuccess) rk.fail(__FILE__, __LINE__, #call, cudaGetErrorString(error_));                        \
  } while (0)
#define NCCLCHECK(call)                                                                                               \
  do {                                                                                                                \
    ncclResult_t result_ = (call);                                                                                    \
    if (result_ != ncclSuccess) rk.fail(__FILE__, __LINE__, #call, std::string(ncclGetErrorString(result_)) + ": " + ncclGetLastError(NULL)); \
  } while (0)

constexpr int kLsaBlocks = 64, kLsaBarriers = 256, kLlBlocks = 8, kSignals = 8, kCounters = 4;

struct Rank {
  const Options& options;
  Meeting& meeting;
  Table& table;
  int rank, nRanks, device;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  uint64_t* out = nullptr; // pinned: what kernels report, nanoseconds first

  ncclDevComm lsaComm, ginComm;
  ncclLLA2AHandle ll;
  ncclGinBarrierHandle ginBarrier;
  enum { Unknown, Ready, Missing } lsaState = Unknown, ginState = Unknown;
  std::string lsaWhy, ginWhy;

  [[noreturn]] void fail(const char* file, int line, const std::string& what, const std::string& why) {
    fprintf(stderr, "ginrs-perf: rank %d: %s:%d: %s: %s\n", rank, file, line, what.c_str(), why.c_str());
    fflush(stderr);
    meeting.failed = 1;
    _exit(1);
  }
  void barrier() { meeting.barrier(nRanks); }
  double max(double mine) { return meeting.max(rank, nRanks, mine); }
  long sum(long mine) { return (long)meeting.sum(rank, nRanks, (double)mine); }

  ncclComm_t newComm() {
    Rank& rk = *this;
    ncclUniqueId id;
    if (rank == 0) NCCLCHECK(ncclGetUniqueId(&id));
    meeting.broadcast(rank, nRanks, &id, sizeof id);
    ncclComm_t made;
    NCCLCHECK(ncclCommInitRank(&made, nRanks, id, rank));
    return made;
  }
  void endComm(ncclComm_t gone) {
    Rank& rk = *this;
    NCCLCHECK(ncclCommFinalize(gone));
    NCCLCHECK(ncclCommDestroy(gone));
  }
  ncclComm_t useComm() {
    if (!comm) comm = newComm();
    return comm;
  }

  // Barriers and LL slots over the LSA team; null if the ranks do not share memory.
  ncclDevComm* lsa() {
    if (lsaState == Unknown) {
      ncclDevResourceRequirements resource{};
      ncclDevCommRequirements reqs{};
      reqs.lsaBarrierCount = kLsaBarriers;
      reqs.resourceRequirementsList = &resource;
      ncclResult_t result = ncclLLA2ACreateRequirement(kLlBlocks, ncclLLA2ACalcSlots(nRanks, 8), &ll, &resource);
      if (result == ncclSuccess) result = ncclDevCommCreate(useComm(), &reqs, &lsaComm);
      lsaState = result == ncclSuccess && lsaComm.lsaSize == nRanks ? Ready : Missing;
      if (result != ncclSuccess) lsaWhy = ncclGetLastError(NULL);
      else if (lsaState == Missing) lsaWhy = "not all ranks share memory (LSA)";
    }
    return lsaState == Ready ? &lsaComm : nullptr;
  }
  // Signals, counters and a barrier of the world; null if the library has no GIN here.
  ncclDevComm* gin() {
    if (ginState == Unknown) {
      ncclDevResourceRequirements resource{};
      ncclDevCommRequirements reqs = ginRequirements();
      reqs.resourceRequirementsList = &resource;
      ncclComm_t on = useComm();
      ncclResult_t result = ncclGinBarrierCreateRequirement(on, ncclTeamWorld(on), 1, &ginBarrier, &resource);
      if (result == ncclSuccess) result = ncclDevCommCreate(on, &reqs, &ginComm);
      ginState = result == ncclSuccess ? Ready : Missing;
      if (result != ncclSuccess) ginWhy = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(NULL);
    }
    return ginState == Ready ? &ginComm : nullptr;
  }
  static ncclDevCommRequirements ginRequirements() {
    ncclDevCommRequirements reqs{};
    reqs.ginForceEnable = true;
    reqs.ginSignalCount = kSignals;
    reqs.ginCounterCount = kCounters;
    return reqs;
  }
  void close() {
    Rank& rk = *this;
    if (lsaState == Ready) NCCLCHECK(ncclDevCommDestroy(comm, &lsaComm));
    if (ginState == Ready) NCCLCHECK(ncclDevCommDestroy(comm, &ginComm));
    lsaState = ginState = Unknown;
    if (comm) endComm(comm);
    comm = nullptr;
  }
};

// Memory that all ranks can put to and, where they share memory, load and store.
struct Window {
  Rank& rk;
  void* memory;
  ncclWindow_t window;
  size_t bytes;
  Window(Rank& rank, size_t size) : rk(rank), bytes(size) {
    rk.useComm();
    NCCLCHECK(ncclMemAlloc(&memory, bytes));
    CUDACHECK(cudaMemset(memory, 0, bytes));
    CUDACHECK(cudaDeviceSynchronize());
    NCCLCHECK(ncclCommWindowRegister(rk.comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  }
  ~Window() {
    NCCLCHECK(ncclCommWindowDeregister(rk.comm, window));
    NCCLCHECK(ncclMemFree(memory));
  }
  Window(const Window&) = delete;
  char* at(size_t offset) const { return (char*)memory + offset; }
};
