// What moves tokens on sm_90: 32-bit addresses of shared memory, elect.sync, mbarriers, bulk copies and cp.async, in the forms that
// communication kernels write them.
#include "check.h"
#include <cstdint>

__device__ __forceinline__ uint32_t narrow(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ bool electOne(uint32_t& leader, uint32_t mask = 0xffffffff) {
  uint32_t me = 0;
  asm volatile("{\n .reg .b32 %%rx;\n .reg .pred %%px;\n elect.sync %%rx|%%px, %2;\n@%%px mov.s32 %1, 1;\n mov.s32 %0, %%rx;\n}\n"
               : "+r"(leader), "+r"(me)
               : "r"(mask));
  return me;
}
__device__ __forceinline__ void init(uint64_t* b, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%1], %0;" ::"r"(count), "r"(narrow(b)));
}
__device__ __forceinline__ void inval(uint64_t* b) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(narrow(b))); }
__device__ __forceinline__ void arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0]; \n\t" ::"r"(narrow(b))); }
__device__ __forceinline__ void expect(uint64_t* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0; \n\t" ::"r"(bytes), "r"(narrow(b)));
}
// The loop inside of the assembly, with branches.
__device__ __forceinline__ void waitLoop(uint64_t* b, uint32_t parity) {
  asm volatile("{\n\t.reg .pred       P1; \n\tLAB_WAIT: \n\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, %2; \n\t"
               "@P1 bra DONE; \n\tbra     LAB_WAIT; \n\tDONE: \n\t}" ::"r"(narrow(b)), "r"(parity), "r"(0x989680));
}
// One look; the loop is C++.
__device__ __forceinline__ bool done(uint64_t* b, uint32_t parity) {
  uint32_t yes;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(yes) : "r"(narrow(b)), "r"(parity) : "memory");
  return yes;
}
__device__ __forceinline__ bool tried(uint64_t* b, uint64_t state) {
  uint32_t yes;
  asm volatile("{ .reg .pred %%p; mbarrier.try_wait.acquire.cta.shared::cta.b64 %%p, [%1], %2; selp.u32 %0, 1, 0, %%p; }" : "=r"(yes) : "r"(narrow(b)), "l"(state) : "memory");
  return yes;
}
__device__ __forceinline__ void load(void* to, const void* from, uint64_t* b, int bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;\n" ::"r"(narrow(to)), "l"(from), "r"(bytes), "r"(narrow(b)), "l"(0x12f0000000000000ull)
               : "memory");
}
__device__ __forceinline__ void store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(narrow(from)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;");
}

__shared__ extern __align__(1024) unsigned char dynamic[];

__global__ void addresses(uint32_t* out) {
  __shared__ uint32_t words[64];
  __shared__ alignas(16) uint32_t lone[4];
  const uint32_t i = threadIdx.x, at = narrow(words), far = narrow(dynamic);
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + 4 * i), "r"(i + 100) : "memory");
  asm volatile("st.shared::cta.u32 [%0+128], %1;" ::"r"(at + 4 * i), "r"(i + 200) : "memory");
  asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(far + 16 * i), "r"(i) : "memory");
  if (i < 4) lone[i] = 0;
  __syncthreads();
  uint32_t a, b, c, old;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(at + 4 * (31 - i)) : "memory");
  asm volatile("{ .reg .b64 wide; .reg .b32 low; cvta.to.shared.u64 wide, %1; cvt.u32.u64 low, wide; ld.shared.u32 %0, [low+128]; }" : "=r"(b) : "l"(&words[i]) : "memory");
  asm volatile("ld.shared.v2.u32 {%0, %0}, [%1];" : "=r"(c) : "r"(far + 16 * (31 - i)) : "memory");
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(old) : "r"(narrow(lone)) : "memory");
  int won;
  asm volatile("atom.acquire.cta.shared::cta.cas.b32 %0, [%1], %2, %3;" : "=r"(won) : "l"(&lone[1]), "r"(0), "r"(1) : "memory");
  asm volatile("red.shared.add.u32 [%0+8], %1;" ::"r"(narrow(lone)), "r"(won == 0 ? 1 : 0) : "memory");
  __syncthreads();
  CHECK(*(uint32_t*)__cvta_shared_to_generic(at + 4 * i) == i + 100);
  out[i] = a == 131 - i && b == i + 200 && c == 31 - i && old < 32 && lone[0] == 32 && lone[1] == 1 && lone[2] == 1 && at % 4 == 0 && far % 1024 == 0;
}

__global__ void elections(uint32_t* out) {
  uint32_t leader = 99;
  bool me = electOne(leader);
  CHECK(leader == 0 && me == (threadIdx.x == 0));
  if (threadIdx.x >= 8) {
    me = electOne(leader, 0xffffff00);
    CHECK(leader == 8 && me == (threadIdx.x == 8));
    uint32_t only = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; @p mov.u32 %0, 1; }" : "+r"(only) : "r"(0xffffff00));
    if (only) out[0] = threadIdx.x;
  }
}

// One warp loads the rows that the others add to and store: two stages, each with a full and an empty barrier.
constexpr int kStages = 2, kRow = 512;
__global__ void pipeline(const int* from, int* to, int rows) {
  __shared__ uint64_t full[kStages], empty[kStages];
  int* const stage[kStages] = {(int*)dynamic, (int*)(dynamic + kRow)};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, workers = blockDim.x - 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) init(&full[s], 1), init(&empty[s], workers);
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async.shared::cta;");
  }
  __syncthreads();
  uint32_t unused = 0;
  if (warp == 0) {
    if (electOne(unused)) {
      for (int row = 0; row < rows; row++) {
        const int s = row % kStages;
        if (row >= kStages) waitLoop(&empty[s], (row / kStages - 1) & 1);
        expect(&full[s], kRow);
        load(stage[s], from + row * (kRow / 4), &full[s], kRow);
      }
    }
  } else {
    for (int row = 0; row < rows; row++) {
      const int s = row % kStages;
      if (row % 3 == 0) waitLoop(&full[s], row / kStages & 1);
      else while (!done(&full[s], row / kStages & 1)) {}
      for (int i = threadIdx.x - 32; i < kRow / 4; i += workers) to[row * (kRow / 4) + i] = stage[s][i] + row;
      arrive(&empty[s]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) for (int s = 0; s < kStages; s++) inval(&full[s]), inval(&empty[s]);
  __syncwarp();
  (void)lane;
}

// Phases by state, counts of arrivals, drops, and the store of a row.
__global__ void phases(int* to, float* sums) {
  __shared__ uint64_t bar;
  __shared__ alignas(128) int row[32];
  __shared__ alignas(16) float ones[4];
  const int i = threadIdx.x;
  if (i == 0) {
    init(&bar, 33);
    for (int k = 0; k < 4; k++) ones[k] = 1 + k;
  }
  __syncthreads();
  uint64_t state;
  uint32_t pending;
  row[i] = i * i;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(narrow(&bar)) : "memory");
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
  CHECK(pending >= 1 && pending <= 33);
  if (i == 0) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(narrow(&bar)) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" ::"r"(narrow(&bar)) : "memory");
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(narrow(&bar)) : "memory");
  }
  while (!tried(&bar, state)) {}
  // The second phase takes 32 arrivals: one thread stands for 31.
  if (i == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 31;" ::"r"(narrow(&bar)) : "memory");
  if (i == 1) {
    store(to, row, sizeof row);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(sums), "r"(narrow(ones)), "r"(16) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(1) : "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    arrive(&bar);
  }
  waitLoop(&bar, 1);
  CHECK(to[i] == i * i);
}

__global__ void copies(const int4* from, int4* to) {
  __shared__ int4 staged[64];
  __shared__ uint64_t bar;
  const int i = threadIdx.x;
  if (i == 0) init(&bar, 32);
  __syncthreads();
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(narrow(&staged[i])), "l"(from + i) : "memory");
  asm volatile("cp.async.ca.shared::cta.global [%0], [%1], %2, %3;\n" ::"r"(narrow(&staged[i + 32])), "l"(from + i), "n"(16), "r"(i % 2 ? 4 : 16) : "memory");
  if (i < 16) asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
  else asm volatile("cp.async.wait_all;" ::: "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(narrow(&bar)) : "memory");
  waitLoop(&bar, 0);
  to[i] = staged[31 - i];
  to[i + 32] = staged[i + 32];
}

template <class T>
static T* managed(int n) {
  T* p;
  CUDA(cudaMallocManaged(&p, n * sizeof(T)));
  for (int i = 0; i < n; i++) p[i] = T();
  return p;
}

int main() {
  uint32_t* out = managed<uint32_t>(64);
  addresses<<<1, 32, 4096>>>(out);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 32; i++) CHECK(out[i] == 1);
  elections<<<1, 32>>>(out);
  CUDA(cudaDeviceSynchronize());
  CHECK(out[0] == 8);

  const int rows = 37, words = kRow / 4;
  int *from = managed<int>(rows * words), *to = managed<int>(rows * words);
  for (int i = 0; i < rows * words; i++) from[i] = i * 7;
  pipeline<<<3, 160, kStages * kRow>>>(from, to, rows);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < rows * words; i++) CHECK_AT(to[i] == i * 7 + i / words, i);

  float* sums = managed<float>(4);
  phases<<<1, 32>>>(to, sums);
  CUDA(cudaDeviceSynchronize());
  for (int k = 0; k < 4; k++) CHECK(sums[k] == 1 + k);

  int4 *source = managed<int4>(32), *copied = managed<int4>(64);
  for (int i = 0; i < 32; i++) source[i] = {i, i + 1, i + 2, i + 3};
  copies<<<1, 32>>>(source, copied);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 32; i++) {
    CHECK(copied[i].x == 31 - i && copied[i].w == 34 - i);
    const int4 half = copied[i + 32];
    CHECK(half.x == i && half.w == (i % 2 ? 0 : i + 3) && half.y == (i % 2 ? 0 : i + 1));
  }
  return finish("asynchronous");
}
