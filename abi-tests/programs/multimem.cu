// multimem instructions on windows of all ranks: ld_reduce, st and red of every type, LSA barriers that count by multicast, the LL
// all-to-all's broadcast, and plain PTX stores. Values are small whole numbers, exact in every type.
//
//   ginrs-run -n 3 ./multimem     also ./multimem --threads 4; TEAMS=halves: teams of every second rank of a node
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "../../examples-c/common/example.h"

#define REDUCTION(name, T, c, op, type)                                                                                    \
  __device__ T ld_##name(T* at) {                                                                                          \
    T value;                                                                                                               \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." op "." type " %0, [%1];" : "=" c(value) : "l"(at) : "memory"); \
    return value;                                                                                                          \
  }                                                                                                                        \
  __device__ void red_##name(T* at, T value) {                                                                             \
    asm volatile("multimem.red.release.sys.global." op "." type " [%0], %1;" ::"l"(at), c(value) : "memory");              \
  }
#define STORE(name, T, c, type) \
  __device__ void st_##name(T* at, T value) { asm volatile("multimem.st.relaxed.sys.global." type " [%0], %1;" ::"l"(at), c(value) : "memory"); }
#define NUMBERS(name, T, c, type)           \
  REDUCTION(add_##name, T, c, "add", type)  \
  REDUCTION(min_##name, T, c, "min", type)  \
  REDUCTION(max_##name, T, c, "max", type)  \
  STORE(name, T, c, type)
#define BITS(name, T, c, type)              \
  REDUCTION(and_##name, T, c, "and", type)  \
  REDUCTION(or_##name, T, c, "or", type)    \
  REDUCTION(xor_##name, T, c, "xor", type)  \
  STORE(name, T, c, type)

NUMBERS(u32, uint32_t, "r", "u32")
NUMBERS(s32, int32_t, "r", "s32")
NUMBERS(u64, unsigned long long, "l", "u64")
NUMBERS(s64, long long, "l", "s64")
NUMBERS(f16x2, uint32_t, "r", "f16x2")
NUMBERS(bf16x2, uint32_t, "r", "bf16x2")
NUMBERS(f16, unsigned short, "h", "f16")
NUMBERS(bf16, unsigned short, "h", "bf16")
BITS(b32, uint32_t, "r", "b32")
BITS(b64, unsigned long long, "l", "b64")
REDUCTION(add_f32, float, "f", "add", "f32")
REDUCTION(add_f64, double, "d", "add", "f64")
STORE(f32, float, "f", "f32")
STORE(f64, double, "d", "f64")

__device__ unsigned short f16Bits(float x) { return __half_as_ushort(__float2half(x)); }
__device__ unsigned short bf16Bits(float x) { return __bfloat16_as_ushort(__float2bfloat16(x)); }
struct AsHalf { __device__ unsigned short operator()(int x) { return f16Bits((float)x); } };
struct AsBhalf { __device__ unsigned short operator()(int x) { return bf16Bits((float)x); } };
struct AsHalves { __device__ uint32_t operator()(int x) { return f16Bits((float)x) | (uint32_t)f16Bits(2.0f * x) << 16; } };
struct AsBhalves { __device__ uint32_t operator()(int x) { return bf16Bits((float)x) | (uint32_t)bf16Bits(2.0f * x) << 16; } };
template <class T> struct As { __device__ T operator()(int x) { return (T)x; } };

struct Bench {
  ncclDevComm comm;
  ncclTeam team;
  ncclWindow_t window;
  ncclMultimemHandle multimem;
  ncclLsaBarrierHandle barrier;
  int* wrong;
};

template <class T>
__device__ void expect(Bench const& b, T found, T wanted, const char* what) {
  if (found == wanted) return;
  printf("rank %d: %s is wrong\n", b.comm.rank, what);
  atomicAdd(b.wrong, 1);
}

// Every rank's word `place` begins with encode(rank + 1); all read its reduction, all add theirs to the next word, and the first
// rank stores to the word behind it.
template <class T, class Encode, class Load, class Red, class Store>
__device__ void one(Bench const& b, const char* what, int place, int reduced, int start, Encode encode, Load load, Red red, Store store) {
  size_t at = place * 64;
  T* mine = (T*)ncclGetLocalPointer(b.window, at);
  T* all = (T*)ncclGetMultimemPointer(b.window, at, b.multimem);
  ncclLsaBarrierSession<ncclCoopThread> barrier(ncclCoopThread(), b.comm, b.team, b.barrier, 0, true, b.multimem);
  mine[0] = encode(b.team.rank + 1);
  mine[1] = encode(start);
  mine[2] = encode(0);
  mine[3] = encode(99);
  barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);
  expect(b, load(all), encode(reduced), what);
  red(all + 1, encode(b.team.rank + 1));
  if (b.team.rank == 0) store(all + 2, encode(7));
  barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);
  expect(b, mine[1], encode(reduced), what);
  expect(b, mine[2], encode(7), what);
  expect(b, mine[3], encode(99), what);
  barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);
}

__global__ void types(Bench b) {
  int n = b.team.nRanks, sum = n * (n + 1) / 2, place = 0, every = 0, any = 0, odd = 0;
  for (int i = 1; i <= n; i++) every = i == 1 ? i : every & i, any |= i, odd ^= i;
#define NUMBER_TESTS(name, T, encode)                                                                      \
  one<T>(b, "add." #name, place++, sum, 0, encode(), ld_add_##name, red_add_##name, st_##name);            \
  one<T>(b, "min." #name, place++, 1, 100, encode(), ld_min_##name, red_min_##name, st_##name);            \
  one<T>(b, "max." #name, place++, n, 0, encode(), ld_max_##name, red_max_##name, st_##name);
#define BIT_TESTS(name, T)                                                                                 \
  one<T>(b, "and." #name, place++, every, -1, As<T>(), ld_and_##name, red_and_##name, st_##name);          \
  one<T>(b, "or." #name, place++, any, 0, As<T>(), ld_or_##name, red_or_##name, st_##name);                \
  one<T>(b, "xor." #name, place++, odd, 0, As<T>(), ld_xor_##name, red_xor_##name, st_##name);
  NUMBER_TESTS(u32, uint32_t, As<uint32_t>)
  NUMBER_TESTS(s32, int32_t, As<int32_t>)
  NUMBER_TESTS(u64, unsigned long long, As<unsigned long long>)
  NUMBER_TESTS(s64, long long, As<long long>)
  NUMBER_TESTS(f16x2, uint32_t, AsHalves)
  NUMBER_TESTS(bf16x2, uint32_t, AsBhalves)
  NUMBER_TESTS(f16, unsigned short, AsHalf)
  NUMBER_TESTS(bf16, unsigned short, AsBhalf)
  BIT_TESTS(b32, uint32_t)
  BIT_TESTS(b64, unsigned long long)
  one<float>(b, "add.f32", place++, sum, 0, As<float>(), ld_add_f32, red_add_f32, st_f32);
  one<double>(b, "add.f64", place++, sum, 0, As<double>(), ld_add_f64, red_add_f64, st_f64);
}

// Vectors, by a block: a[i] = i * (rank + 1), summed up and stored to all; and a plain PTX store.
__global__ void vectors(Bench b) {
  const int floats = 1024;
  float* mine = (float*)ncclGetLocalPointer(b.window, 4096);
  float* all = (float*)ncclGetMultimemPointer(b.window, 4096, b.multimem);
  uint32_t* halves = (uint32_t*)ncclGetLocalPointer(b.window, 16384);
  uint32_t* allHalves = (uint32_t*)ncclGetMultimemPointer(b.window, 16384, b.multimem);
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), b.comm, b.team, b.barrier, 0, true, b.multimem);
  for (int i = threadIdx.x; i < floats; i += blockDim.x) mine[i] = (float)(i % 64 * (b.team.rank + 1)), halves[i] = AsHalves()(b.team.rank + 1 + i % 8);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  int n = b.team.nRanks, sum = n * (n + 1) / 2;
  // Each rank takes its part, as an all-reduce does.
  for (int i = 4 * (b.team.rank + n * threadIdx.x); i < floats; i += 4 * n * blockDim.x) {
    float x, y, z, w;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(all + i) : "memory");
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(all + i), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
    uint32_t p, q, r, s;
    asm volatile("multimem.ld_reduce.weak.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];" : "=r"(p), "=r"(q), "=r"(r), "=r"(s) : "l"(allHalves + i) : "memory");
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(allHalves + i), "r"(p), "r"(q), "r"(r), "r"(s) : "memory");
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = threadIdx.x; i < floats; i += blockDim.x) {
    expect(b, mine[i], (float)(i % 64 * sum), "v4.f32");
    expect(b, halves[i], AsHalves()(sum + n * (i % 8)), "v4.f16x2");
  }
}

#ifdef __GINRS_CPU__  // GPUs have these from sm_100a on.
// Four numbers of 8 bits: x, x/2, -x and what grows too large in sums.
template <class F>
__device__ uint32_t narrow4(float x, float large) {
  const float values[4] = {x, x / 2, -x, large};
  uint32_t word = 0;
  for (int i = 0; i < 4; i++) word |= (uint32_t)F(values[i]).__x << (8 * i);
  return word;
}

#define NARROW(name, F, largest, beyond)                                                                                         \
  __device__ void narrow_##name(Bench const& b) {                                                                                \
    int n = b.team.nRanks, rank = b.team.rank, sum = n * (n + 1) / 2;                                                            \
    ncclLsaBarrierSession<ncclCoopThread> barrier(ncclCoopThread(), b.comm, b.team, b.barrier, 0, true, b.multimem);             \
    uint32_t* mine = (uint32_t*)ncclGetLocalPointer(b.window, 0);                                                                \
    uint32_t* all = (uint32_t*)ncclGetMultimemPointer(b.window, 0, b.multimem);                                                  \
    for (int i = 0; i < 8; i++) mine[i] = narrow4<F>(rank + 1, largest);                                                         \
    mine[3] = narrow4<F>(rank == 0 ? 16 : 1, 0); /* rounded once: 16 + 1 alone is 16 again */                                    \
    barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);                                                                  \
    uint32_t w[4], least, most;                                                                                                  \
    unsigned short h[2];                                                                                                         \
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f16.v4." #name "x4 {%0, %1, %2, %3}, [%4];"                     \
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(all) : "memory");                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global.min." #name "x4 %0, [%1];" : "=r"(least) : "l"(all) : "memory");         \
    asm volatile("multimem.ld_reduce.relaxed.sys.global.max." #name "x4 %0, [%1];" : "=r"(most) : "l"(all) : "memory");          \
    asm volatile("multimem.ld_reduce.weak.global.add.v2." #name "x2 {%0, %1}, [%2];" : "=h"(h[0]), "=h"(h[1]) : "l"(all) : "memory"); \
    uint32_t summed = (narrow4<F>(sum, 0) & 0xffffffu) | beyond << 24;                                                              \
    expect(b, w[0], summed, "add.v4." #name "x4");                                                                               \
    expect(b, w[2], summed, "add.v4." #name "x4");                                                                               \
    expect(b, w[3] & 0xff, narrow4<F>(15 + n, 0) & 0xff, "add." #name "x4, rounded");                                            \
    expect(b, least, (narrow4<F>(1, largest) & 0xff00ffffu) | (narrow4<F>(n, largest) & 0xff0000u), "min." #name "x4");           \
    expect(b, most, (narrow4<F>(n, largest) & 0xff00ffffu) | (narrow4<F>(1, largest) & 0xff0000u), "max." #name "x4");            \
    expect(b, h[0] | (uint32_t)h[1] << 16, summed, "add.v2." #name "x2");                                                        \
    barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);                                                                  \
    if (rank == 0) asm volatile("multimem.st.relaxed.sys.global." #name "x4 [%0], %1;" ::"l"(all + 4), "r"(summed) : "memory");  \
    barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);                                                                  \
    expect(b, mine[4], summed, "st." #name "x4");                                                                                \
    expect(b, mine[5], narrow4<F>(rank + 1, largest), "st." #name "x4");                                                         \
    barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel);                                                                  \
  }
NARROW(e4m3, __nv_fp8_e4m3, 448, 0x7fu)     // NaN: it has no infinity
NARROW(e5m2, __nv_fp8_e5m2, 57344, 0x7cu)
__global__ void narrow(Bench b) { narrow_e4m3(b), narrow_e5m2(b); }
#endif

// Each rank's element to all, in two epochs.
__global__ void broadcast(Bench b, ncclLLA2AHandle handle) {
  ncclLLA2ASession<ncclCoopCta> a2a(ncclCoopCta(), b.comm, b.team, handle, 0, b.team.nRanks, true, b.multimem);
  for (int epoch = 0; epoch < 2; epoch++) {
    if (threadIdx.x == 0) a2a.bcast(b.team.rank, (uint64_t)(1000 * epoch + b.team.rank));
    for (int i = threadIdx.x; i < b.team.nRanks; i += blockDim.x) {
      expect(b, a2a.template recv<uint64_t>(i), (uint64_t)(1000 * epoch + i), "ncclLLA2ASession::bcast");
    }
    a2a.endEpoch(ncclCoopCta());
  }
}

// Multicast memory takes no plain access.
__global__ void plain(Bench b) { *(volatile int*)ncclGetMultimemPointer(b.window, 0, b.multimem) = 1; }

int runRank(Example& ex) {
  const char* text = getenv("TEAMS");
  const bool halves = text && strcmp(text, "halves") == 0;
  const ncclTeam lsa = ncclTeamLsa(ex.comm);
  if (lsa.nRanks < (halves ? 4 : 2)) {
    fprintf(stderr, "%d ranks, %d to a node: this program needs %d or more on one\n", ex.nRanks, lsa.nRanks, halves ? 4 : 2);
    return 1;
  }
  Bench b;
  ncclWindow_t window;
  void* memory = ex.allocWindow(64 << 10, &window);
  b.window = window;
  b.team = halves ? ncclTeam{lsa.nRanks / 2, lsa.rank / 2, 2} : lsa;
  b.multimem = {};
  ncclDevResourceRequirements resources[2];
  ncclLLA2AHandle a2a;
  ncclTeamRequirements team = {NULL, b.team, true, &b.multimem};
  NCCLCHECK(ncclLsaBarrierCreateRequirement(b.team, 1, &b.barrier, &resources[0]));
  NCCLCHECK(ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(ex.nRanks, 8), &a2a, &resources[1]));
  resources[0].next = &resources[1];
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.resourceRequirementsList = resources;
  reqs.teamRequirementsList = &team;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &b.comm));
  CUDACHECK(cudaMallocHost(&b.wrong, sizeof(int)));
  *b.wrong = 0;
  types<<<1, 1, 0, ex.stream>>>(b);
  vectors<<<1, 128, 0, ex.stream>>>(b);
#ifdef __GINRS_CPU__
  narrow<<<1, 1, 0, ex.stream>>>(b);
#endif
  broadcast<<<1, 32, 0, ex.stream>>>(b, a2a);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  int wrong = *b.wrong;
  if (getenv("FAULT")) {
    plain<<<1, 1, 0, ex.stream>>>(b);
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  ex.elementsChecked += 1;
  CUDACHECK(cudaFreeHost(b.wrong));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &b.comm));
  ex.freeWindow(memory, window);
  return wrong != 0;
}
