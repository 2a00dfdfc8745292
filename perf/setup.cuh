// What a program pays before its first kernel: communicators, windows, device communicators. Host wall clock, slowest rank.
#pragma once
#include "device.cuh"

static void benchSetup(Rank& rk) {
#ifdef __GINRS_CPU__
  const size_t bytes = 16 << 20;
#else
  const size_t bytes = 256 << 20;
#endif
  int reps = std::max(1, (repeats(rk) + 1) / 2);
  enum { kInit, kFirst, kNext, kLsa, kGinFirst, kGinNext, kDestroy, kKinds };
  const char* names[] = {"communicator init", "first window", "next window", "device communicator, LSA only",
                         "first device communicator with GIN", "next device communicator with GIN", "communicator destroy"};
  std::vector<double> samples[kKinds];
  std::string ginWhy;
  for (int rep = 0; rep < reps; rep++) {
    auto take = [&](int kind, double ns) { samples[kind].push_back(rk.max(ns)); };
    void* memory[2];
    ncclWindow_t windows[2];
    for (auto& m : memory) NCCLCHECK(ncclMemAlloc(&m, bytes));
    ncclComm_t comm;
    ncclUniqueId id;
    if (rk.rank == 0) NCCLCHECK(ncclGetUniqueId(&id));
    rk.meeting.broadcast(rk.rank, rk.nRanks, &id, sizeof id);
    take(kInit, timedHost([&] { NCCLCHECK(ncclCommInitRank(&comm, rk.nRanks, id, rk.rank)); }));
    for (int i = 0; i < 2; i++) {
      rk.barrier();
      take(i ? kNext : kFirst, timedHost([&] { NCCLCHECK(ncclCommWindowRegister(comm, memory[i], bytes, &windows[i], NCCL_WIN_COLL_SYMMETRIC)); }));
    }
    ncclDevComm made[4];
    int used = 0;
    ncclDevCommRequirements lsa{};
    lsa.lsaBarrierCount = 16;
    ncclDevCommRequirements gin = Rank::ginRequirements();
    const int kinds[] = {kLsa, kGinFirst, kGinNext};
    for (int kind : kinds) {
      ncclResult_t result;
      rk.barrier();
      double ns = timedHost([&] { result = ncclDevCommCreate(comm, kind == kLsa ? &lsa : &gin, &made[used]); });
      if (result == ncclSuccess) {
        take(kind, ns);
        used++;
      } else if (kind == kLsa) {
        NCCLCHECK(result);
      } else {
        ginWhy = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(NULL);
        break; // on all ranks alike
      }
    }
    while (used--) NCCLCHECK(ncclDevCommDestroy(comm, &made[used]));
    for (auto w : windows) NCCLCHECK(ncclCommWindowDeregister(comm, w));
    rk.barrier();
    take(kDestroy, timedHost([&] { rk.endComm(comm); }));
    for (auto m : memory) NCCLCHECK(ncclMemFree(m));
  }
  for (int kind = 0; kind < kKinds; kind++) {
    auto& s = samples[kind];
    if (s.empty()) continue;
    std::sort(s.begin(), s.end());
    bool window = kind == kFirst || kind == kNext;
    std::string what = names[kind];
    if (window) what += " of " + std::to_string(bytes >> 20) + " MB";
    rk.table.add(row("setup", what, window ? bytes : 0, s[s.size() / 2]));
  }
  if (!ginWhy.empty()) rk.table.note("setup with GIN", ginWhy);
}
