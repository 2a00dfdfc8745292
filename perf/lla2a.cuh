// The LL all-to-all: 8 bytes from every rank to every rank, data and flag in one store.
#pragma once
#include "lsa_barrier.cuh"

// One warp. Thread p sends to rank p and takes what p has sent.
__global__ void llRounds(ncclDevComm devComm, ncclLLA2AHandle handle, int block, int warm, int turns, uint64_t* out) {
  if (!isOurs()) return;
  ncclTeam lsa = ncclTeamLsa(devComm);
  uint64_t start = 0, wrong = 0;
  ncclLLA2ASession<ncclCoopCta> a2a(ncclCoopCta(), devComm, lsa, handle, block, lsa.nRanks);
  for (int turn = 0; turn < warm + turns; turn++) {
    if (turn == warm) start = nanoseconds();
    for (int p = threadIdx.x; p < lsa.nRanks; p += blockDim.x) a2a.send(p, lsa.rank, pattern(lsa.rank, (size_t)turn * 64 + p));
    for (int p = threadIdx.x; p < lsa.nRanks; p += blockDim.x)
      wrong += a2a.recv<uint64_t>(p) != pattern(p, (size_t)turn * 64 + lsa.rank);
    a2a.endEpoch(ncclCoopCta());
  }
  if (threadIdx.x == 0) out[0] = nanoseconds() - start;
  if (wrong) atomicAdd((unsigned long long*)out + 1, (unsigned long long)wrong);
}

// The same by hand: value and round in one 16-byte store, two slots in turn.
__global__ void rawLines(Peers peers, size_t offset, int rank, int nRanks, uint32_t used, int warm, int turns, uint64_t* out) {
  if (!isOurs()) return;
  uint64_t start = 0;
  for (int turn = 1; turn <= warm + turns; turn++) {
    if (turn == warm + 1) start = nanoseconds();
    uint32_t round = used + turn;
    size_t slots = (size_t)(round % 2) * kMaxRanks;
    for (int p = threadIdx.x; p < nRanks; p += 32) {
      uint4* to = (uint4*)(peers.at[p] + offset) + slots + rank;
      asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(turn), "r"(round), "r"(p), "r"(round) : "memory");
    }
    for (int p = threadIdx.x; p < nRanks; p += 32) {
      uint4 got = {0, 0, 0, 0};
      const uint4* from = (const uint4*)(peers.at[rank] + offset) + slots + p;
      for (uint32_t polls = 0; (got.y != round || got.w != round) && polls < 1u << 27; polls++)
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w) : "l"(from) : "memory");
    }
    __syncwarp();
  }
  if (threadIdx.x == 0) out[0] = nanoseconds() - start;
}

static void benchLlA2A(Rank& rk) {
  if (!rk.lsa()) return rk.table.note("lla2a", rk.lsaWhy);
  static_assert(kPlaces <= kLlBlocks, "each place has a block of the handle");
  int n = iterations(rk, 8000) / kPlaces, w = warmup(rk, 100);
  const size_t step = 2 * kMaxRanks * sizeof(uint4);
  Window window(rk, kPlaces * step);
  auto found = peerAddresses(rk, window, 0);
  Peers peers{};
  for (int p = 0; p < rk.nRanks; p++) peers.at[p] = found[p];
  uint32_t used = 0;
  rk.out[1] = 0;
  auto medians = interleaved(rk, repeats(rk), {
      [&] {
        double ns = overPlaces([&](int place) {
          return timedKernel(rk, [&] {
                   rawLines<<<gridOf(place), 32, 0, rk.stream>>>(peers, place * step, rk.rank, rk.nRanks, used, w, n, rk.out);
                 }) / n;
        });
        used += w + n;
        return ns;
      },
      [&] {
        return overPlaces([&](int place) {
          return timedKernel(rk, [&] { llRounds<<<gridOf(place), 32, 0, rk.stream>>>(*rk.lsa(), rk.ll, place, w, n, rk.out); }) / n;
        });
      },
  });
  Row r = row("lla2a", "round of 8 B, one warp", 8, medians[1]);
  r.wrong = rk.sum((long)rk.out[1]);
  r.floorUs = medians[0] * 1e-3;
  r.floor = "raw 16-byte lines";
  rk.table.add(r);
}
