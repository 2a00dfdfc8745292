// What the machine can do without any library in between. Other benchmarks use these as the floor beside their rows.
#pragma once
#include "device.cuh"

// One thread on each of two ranks hands a number to and fro; `start` is what earlier rounds have used up.
__global__ void flagRoundTrip(uint64_t* mine, uint64_t* theirs, bool first, uint64_t start, int warm, int turns, uint64_t* out) {
  uint64_t since = 0;
  bool met = true;
  for (int turn = 1; turn <= warm + turns && met; turn++) {
    if (turn == warm + 1) since = nanoseconds();
    if (first) storeRelease(theirs, start + turn);
    met = awaitFlag(mine, start + turn);
    if (!first) storeRelease(theirs, start + turn);
  }
  if (first && met) out[0] = nanoseconds() - since;
}

// Flags in GPU memory or, with `host`, in pinned host memory; ranks 0 and 1.
struct FlagFloor {
  Rank& rk;
  Window window;
  std::vector<char*> peers;
  uint64_t *hostMine = nullptr, *hostTheirs = nullptr;
  uint64_t usedGpu = 0, usedHost = 0;
  bool registered = false;

  explicit FlagFloor(Rank& rank) : rk(rank), window(rank, 4096) {
    if (rk.lsa()) peers = peerAddresses(rk, window, 0);
    cudaError_t error = cudaHostRegister(rk.meeting.flags, sizeof rk.meeting.flags, cudaHostRegisterPortable | cudaHostRegisterMapped);
    registered = error == cudaSuccess;
    if (!registered && error != cudaErrorHostMemoryAlreadyRegistered) CUDACHECK(error); // by another thread of this process
    cudaGetLastError();
    rk.barrier();
    uint64_t* flags;
    CUDACHECK(cudaHostGetDevicePointer(&flags, rk.meeting.flags, 0));
    if (rk.rank == 0) memset(rk.meeting.flags, 0, sizeof rk.meeting.flags);
    rk.barrier();
    hostMine = flags + 16 * rk.rank;
    hostTheirs = flags + 16 * (rk.rank ^ 1);
  }
  ~FlagFloor() {
    rk.barrier();
    if (registered) CUDACHECK(cudaHostUnregister(rk.meeting.flags));
    rk.barrier();
  }

  double roundTrip(bool host, int warm, int turns) {
    if (rk.rank > 1 || (!host && peers.empty())) return 0;
    uint64_t *mine = host ? hostMine : (uint64_t*)peers[rk.rank], *theirs = host ? hostTheirs : (uint64_t*)peers[rk.rank ^ 1];
    uint64_t& used = host ? usedHost : usedGpu;
    double ns = timedKernel(rk, [&] { flagRoundTrip<<<1, 1, 0, rk.stream>>>(mine, theirs, rk.rank == 0, used, warm, turns, rk.out); });
    used += warm + turns;
    if (rk.rank == 0 && ns == 0) rk.fail(__FILE__, __LINE__, host ? "flags through host memory" : "flags between GPUs", "the other GPU did not answer");
    return ns / turns;
  }

  // This GPU and this host thread, through pinned memory.
  double hostToGpu(int warm, int turns) {
    if (rk.rank != 0) return 0;
    uint64_t *down = rk.meeting.flags + 128, *up = rk.meeting.flags + 144; // the host's view
    uint64_t *downGpu = hostMine + 128, *upGpu = hostMine + 144;
    uint64_t start = __atomic_load_n(up, __ATOMIC_ACQUIRE);
    return timedKernel(rk, [&] {
             flagRoundTrip<<<1, 1, 0, rk.stream>>>(downGpu, upGpu, true, start, warm, turns, rk.out);
             for (int turn = 1; turn <= warm + turns; turn++) {
               auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
               for (uint32_t polls = 1; __atomic_load_n(up, __ATOMIC_ACQUIRE) < start + turn; polls++) {
#ifdef __GINRS_CPU__
                 sched_yield();
#endif
                 if (polls % 65536 == 0 && std::chrono::steady_clock::now() > deadline)
                   rk.fail(__FILE__, __LINE__, "flags between GPU and host", "the GPU did not answer");
               }
               __atomic_store_n(down, start + turn, __ATOMIC_RELEASE);
             }
           }) / turns;
  }
};

// 64-byte descriptors into a ring in pinned host memory, as a proxied put posts them. fence: 0 none, 1 this GPU, 2 system.
// claim: each slot is claimed before by an atomic addition in this GPU's memory, as threads that share a queue must.
template <int fence, bool claim>
__global__ void rawPosts(uint4* ring, int slots, int posts, unsigned* claimed, uint64_t* out) {
  uint64_t start = nanoseconds();
  for (int i = 0; i < posts; i++) {
    if (fence == 1) __threadfence();
    if (fence == 2) __threadfence_system();
    unsigned at = claim ? atomicAdd(claimed, 1u) : (unsigned)i;
    uint4* slot = ring + (at % slots) * 4;
    for (int q = 0; q < 4; q++)
      asm volatile("st.global.wt.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot + q), "r"(i), "r"(q), "r"(i), "r"(q) : "memory");
  }
  out[0] = nanoseconds() - start;
}

struct PostFloor {
  Rank& rk;
  uint4* ring;
  unsigned* claimed;
  static constexpr int kSlots = 256;
  explicit PostFloor(Rank& rank) : rk(rank) {
    CUDACHECK(cudaHostAlloc(&ring, kSlots * 64, cudaHostAllocMapped));
    CUDACHECK(cudaMalloc(&claimed, sizeof *claimed));
    CUDACHECK(cudaMemset(claimed, 0, sizeof *claimed));
    CUDACHECK(cudaDeviceSynchronize());
  }
  ~PostFloor() {
    CUDACHECK(cudaFree(claimed));
    CUDACHECK(cudaFreeHost(ring));
  }
  template <int fence, bool claim>
  double post(int posts) {
    if (rk.rank != 0) return 0;
    return timedKernel(rk, [&] { rawPosts<fence, claim><<<1, 1, 0, rk.stream>>>(ring, kSlots, posts, claimed, rk.out); }) / posts;
  }
};

// A plain copy of the runtime's to the next rank's memory. `all`: every rank copies at once, else rank 0 alone.
static double peerCopy(Rank& rk, char* to, const char* from, size_t bytes, bool all, int warm, int times) {
  if (!all && rk.rank != 0) return 0;
  return timedStream(rk, warm, times, [&] { CUDACHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, rk.stream)); });
}

#if !defined(__GINRS_CPU__) && CUDART_VERSION >= 13000
// The same for many small copies at a time, in batches.
static double batchedCopy(Rank& rk, char* to, char* from, size_t bytes, int warm, int batches) {
  if (rk.rank != 0) return 0;
  constexpr int kBatch = 256;
  void *dsts[kBatch], *srcs[kBatch];
  size_t lengths[kBatch], attributeAt = 0;
  for (int i = 0; i < kBatch; i++) dsts[i] = to + i * bytes, srcs[i] = from + i * bytes, lengths[i] = bytes;
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  return timedStream(rk, warm, batches, [&] {
           CUDACHECK(cudaMemcpyBatchAsync(dsts, (const void**)srcs, lengths, kBatch, &attributes, &attributeAt, 1, rk.stream));
         }) / kBatch;
}
#endif

static void benchFloors(Rank& rk) {
  int n = iterations(rk, 2000), w = warmup(rk, 100), reps = repeats(rk);
  FlagFloor flags(rk);
  PostFloor posts(rk);
  std::vector<std::pair<std::string, Arm>> arms = {
      {"flag round trip between GPUs", [&] { return flags.roundTrip(false, w, n); }},
      {"flag round trip between GPUs through host memory", [&] { return flags.roundTrip(true, w, n); }},
      {"flag round trip between GPU and host thread", [&] { return flags.hostToGpu(w, n); }},
      {"64-byte post to host memory, no fence", [&] { return posts.post<0, false>(n * 4); }},
      {"64-byte post to host memory, fence of this GPU", [&] { return posts.post<1, false>(n * 4); }},
      {"64-byte post to host memory, fence of the system", [&] { return posts.post<2, false>(n * 4); }},
      {"claim and 64-byte post, no fence", [&] { return posts.post<0, true>(n * 4); }},
      {"claim and 64-byte post, fence of this GPU", [&] { return posts.post<1, true>(n * 4); }},
  };
  Window w1(rk, 1 << 20);
  if (rk.lsa()) {
    auto peers = peerAddresses(rk, w1, 0);
    char* to = peers[(rk.rank + 1) % rk.nRanks];
    arms.push_back({"8-byte peer copies one by one", [&rk, to, &w1, w, n] { return peerCopy(rk, to, w1.at(0), 8, false, w, n); }});
#if !defined(__GINRS_CPU__) && CUDART_VERSION >= 13000
    arms.push_back({"8-byte peer copies, 256 in a batch", [&rk, to, &w1, n] { return batchedCopy(rk, to, w1.at(0), 8, 2, n / 100 + 1); }});
    arms.push_back({"2-KB peer copies, 256 in a batch", [&rk, to, &w1, n] { return batchedCopy(rk, to, w1.at(0), 2048, 2, n / 100 + 1); }});
#endif
  }
  std::vector<Arm> only;
  for (auto& a : arms) only.push_back(a.second);
  auto medians = interleaved(rk, reps, only);
  for (size_t i = 0; i < arms.size(); i++)
    if (medians[i] > 0) rk.table.add(row("floors", arms[i].first, 0, medians[i]));
}
