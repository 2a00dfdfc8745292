// How people write .cu files: dispatch macros, functors, thread-per-device mains, device tables, configuration helpers.
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include "check.h"

#define DIVUP(x, y) (((x) + (y)-1) / (y))
#define HD __host__ __device__ __forceinline__
#define CUDACHECK(cmd) do { cudaError_t e = cmd; if (e != cudaSuccess) { printf("Failed: Cuda error %s:%d '%s'\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(EXIT_FAILURE); } } while (0)
#define SWITCH_RANKS(case_macro) switch (ranks) { case 2: case_macro(2); case 4: case_macro(4); default: assert(false); }
#define LAUNCH_KERNEL(config, kernel, ...) kernel<<<(config).grid, (config).block, (config).shared, (config).stream>>>(__VA_ARGS__)

struct Config { dim3 grid, block; size_t shared; cudaStream_t stream; };

namespace detail {
template <typename T> struct Sum { HD T operator()(T a, T b) const { return a + b; } };
template <typename T> struct Max { HD T operator()(T a, T b) const { return a > b ? a : b; } };
HD constexpr int log2floor(int n) { return n <= 1 ? 0 : 1 + log2floor(n / 2); }

template <typename T, template <typename> class Op, int kThreads>
__global__ void __launch_bounds__(kThreads, 1) reduce(const T* __restrict__ in, T* __restrict__ out, int n, Op<T> op = Op<T>()) {
  __shared__ T parts[kThreads / 32];
  T sum = in[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum = i ? op(sum, in[i]) : sum;
  if (threadIdx.x >= (unsigned)n) sum = in[0];
  // Everybody started from in[0]: only Max may.
  static_assert(std::is_same<Op<T>, Max<T>>::value, "in this test");
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum = op(sum, __shfl_down_sync(0xffffffffu, sum, offset));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / 32; i++) sum = op(sum, parts[i]);
    *out = sum;
  }
}

template <int kRanks, bool kDouble, typename T>
__global__ void fill(T* p, int n) {
  extern __shared__ __align__(16) char smem[];
  T* staged = reinterpret_cast<T*>(smem);
  for (int i = threadIdx.x; i < n; i += blockDim.x) staged[i] = T(i * kRanks);
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    if constexpr (kDouble) p[i] = staged[n - 1 - i] * T(2);
    else p[i] = staged[n - 1 - i];
  }
}
}  // namespace detail

template <typename T>
void fillFor(int ranks, T* p, int n, const Config& config) {
#define FILL_CASE(R) { auto kernel = detail::fill<R, (R > 2), T>; CUDACHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)config.shared)); LAUNCH_KERNEL(config, kernel, p, n); } break
  SWITCH_RANKS(FILL_CASE);
#undef FILL_CASE
}

// A table of device functions, and a device-side class with state in global memory.
typedef int (*Operation)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int mul(int a, int b) { return a * b; }
__device__ Operation operations[] = {add, mul};
__global__ void useTable(int* out, int which) { *out = operations[which](6, 7); }

__device__ unsigned ringHead = 0;
class Ring {
 public:
  __host__ explicit Ring(int n) : n_(n) { CUDACHECK(cudaMalloc(&slots_, n * sizeof *slots_)); CUDACHECK(cudaMemset(slots_, 0, n * sizeof *slots_)); }
  __host__ void release() { CUDACHECK(cudaFree(slots_)); }
  __device__ void push(unsigned v) { unsigned at = atomicAdd(&ringHead, 1u) % n_; slots_[at] = v; }
  __device__ unsigned operator[](int i) const { return slots_[i]; }
 private:
  unsigned* slots_ = nullptr;
  int n_;
};
__global__ void pushAll(Ring ring, unsigned* total) {
  ring.push(threadIdx.x + 1);
  __syncthreads();
  if (threadIdx.x == 0) { unsigned s = 0; for (unsigned i = 0; i < blockDim.x; i++) s += ring[i]; *total = s * 1000 + ringHead; }
}

// One pthread per device, each with a counter of its own.
__device__ unsigned long long ticks;
__constant__ float scale[2];
static __global__ void tick(int times) { for (int i = 0; i < times; i++) atomicAdd(&ticks, 1ull); }
static __global__ void readBack(unsigned long long* out, float* f) { *out = ticks; *f = scale[1]; }
struct ThreadArgs { int device, times; unsigned long long ticks; float scale; };
static void* threadMain(void* argument) {
  ThreadArgs* args = (ThreadArgs*)argument;
  CUDACHECK(cudaSetDevice(args->device));
  float s[2] = {0, (float)args->device + 0.5f};
  CUDACHECK(cudaMemcpyToSymbol(scale, s, sizeof(s)));
  tick<<<4, 32>>>(args->times);
  unsigned long long* out; float* f;
  CUDACHECK(cudaMalloc(&out, sizeof *out)); CUDACHECK(cudaMalloc(&f, sizeof *f));
  readBack<<<1, 1>>>(out, f);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaMemcpy(&args->ticks, out, sizeof *out, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaMemcpy(&args->scale, f, sizeof *f, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(out)); CUDACHECK(cudaFree(f));
  return NULL;
}

// Lambdas: captured by value, generic, in a class template's member, calling back.
template <typename F> __global__ void forEach(int n, F f) { for (int i = threadIdx.x; i < n; i += blockDim.x) f(i); }
template <typename T> struct Buffer {
  T* data; int n;
  explicit Buffer(int count) : n(count) { CUDACHECK(cudaMallocManaged(&data, n * sizeof(T))); }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  void scaleBy(T by) { T* p = data; forEach<<<1, 64>>>(n, [p, by] __device__(int i) { p[i] *= by; }); CUDACHECK(cudaDeviceSynchronize()); }
};

template <typename T> __device__ __noinline__ T recursive(T n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }
__global__ void fibonacci(int* out, int n) { out[threadIdx.x] = recursive(n + (int)threadIdx.x % 2); }

// Plain spins: a flag that another thread of the block, and one that another block sets.
__global__ void spin(volatile int* flag, int* out) {
  if (blockIdx.x == 0 && threadIdx.x == 0) { while (*flag != 3) {} atomicAdd(out, 1); }
  else if (blockIdx.x == 0 && threadIdx.x == 1) { while (*flag != 2) {} *flag = 3; }
  else if (blockIdx.x == 1 && threadIdx.x == 0) { while (*flag != 1) {} *flag = 2; }
  else if (blockIdx.x == 2 && threadIdx.x == 0) *flag = 1;
}

union Bits { float f; uint32_t u; };
enum class Mode : int { kFirst = 1, kSecond };
__global__ void types(int* out, Mode mode, bool flag, char c, short s, float f, double d, int64_t l, __half h, const void* p, std::array<int, 3> a, Bits b, int (*matrix)[2], dim3 extents) {
  out[0] = (int)mode + flag + c + s + (int)f + (int)d + (int)l + (int)__half2float(h) + (p != nullptr) + a[2] + (int)b.f + matrix[1][1] + extents.y;
}

// Padding travels with a parameter: NCCL's library keeps marks of its own there.
struct Padded { char c; long l; char d; };
__global__ void padding(Padded p, unsigned char* out) { memcpy(out, &p, sizeof p); }

int main() {
  Padded padded; memset((void*)&padded, 0xab, sizeof padded); padded.c = 1; padded.l = 2; padded.d = 3;
  Buffer<unsigned char> image(sizeof padded);
  padding<<<1, 2>>>(padded, image.data); CUDA(cudaDeviceSynchronize());
  CHECK(image.data[0] == 1 && image.data[7] == 0xab && image.data[16] == 3 && image.data[23] == 0xab);

  Buffer<int> ints(256); Buffer<float> floats(256);
  std::vector<float> host(200);
  for (size_t i = 0; i < host.size(); i++) host[i] = (float)((i * 37) % 101);
  CUDACHECK(cudaMemcpy(floats.data, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  Buffer<float> result(1);
  detail::reduce<float, detail::Max, 128><<<1, 128>>>(floats.data, result.data, (int)host.size());
  CUDA(cudaDeviceSynchronize());
  CHECK(result.data[0] == *std::max_element(host.begin(), host.end()) && detail::log2floor(1000) == 9);

  Config config{dim3(DIVUP(100, 32)), dim3(32), 100 * sizeof(int), nullptr};
  CUDACHECK(cudaStreamCreate(&config.stream));
  for (int ranks : {2, 4}) {
    fillFor(ranks, ints.data, 100, config);
    CUDACHECK(cudaStreamSynchronize(config.stream));
    for (int i = 0; i < 100; i++) CHECK_AT(ints.data[i] == (99 - i) * ranks * (ranks > 2 ? 2 : 1), i);
  }
  CUDACHECK(cudaStreamDestroy(config.stream));

  for (int which = 0; which < 2; which++) { useTable<<<1, 1>>>(ints.data, which); CUDA(cudaDeviceSynchronize()); CHECK(ints.data[0] == (which ? 42 : 13)); }
  Ring ring(64); Buffer<unsigned> total(1);
  pushAll<<<1, 64>>>(ring, total.data);
  CUDA(cudaDeviceSynchronize()); ring.release();
  CHECK(total.data[0] == 64 * 65 / 2 * 1000 + 64);

  int devices = 0; CUDA(cudaGetDeviceCount(&devices));
  std::vector<pthread_t> threads(devices); std::vector<ThreadArgs> args(devices);
  for (int i = 0; i < devices; i++) { args[i] = ThreadArgs{i, 10 + i, 0, 0}; pthread_create(&threads[i], NULL, threadMain, &args[i]); }
  for (int i = 0; i < devices; i++) { pthread_join(threads[i], NULL); CHECK_AT(args[i].ticks == 128ull * (10 + i) && args[i].scale == i + 0.5f, i); }

  for (int i = 0; i < 256; i++) ints.data[i] = i;
  ints.scaleBy(3);
  auto offset = std::make_shared<int>(5);
  int by = *offset, *p = ints.data;
  auto lambda = [=] __host__ __device__(int i) { p[i] += by; };
  forEach<<<2, 16>>>(1, [=] __device__(int) { __shared__ int once; if (threadIdx.x == 0) { once = 2; atomicAdd(&p[0], once); } });
  CUDA(cudaDeviceSynchronize());
  forEach<<<1, 32>>>(256, lambda);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 256; i++) CHECK_AT(ints.data[i] == 3 * i + 5 + (i ? 0 : 4), i);

  fibonacci<<<1, 64>>>(ints.data, 12); CUDA(cudaDeviceSynchronize());
  CHECK(ints.data[0] == 144 && ints.data[63] == 233);

  ints.data[0] = ints.data[1] = 0;
  spin<<<3, 2>>>(ints.data, ints.data + 1); CUDA(cudaDeviceSynchronize());
  CHECK(ints.data[0] == 3 && ints.data[1] == 1);

  Bits bits; bits.f = 6; int (*matrix)[2] = reinterpret_cast<int (*)[2]>(ints.data + 16); matrix[1][1] = 100;
  types<<<1, 1>>>(ints.data, Mode::kSecond, true, 3, 4, 5.f, 6., 7, __float2half(8.f), &bits, {1, 2, 9}, bits, matrix, {1, 10});
  CUDA(cudaDeviceSynchronize());
  CHECK(ints.data[0] == 2 + 1 + 3 + 4 + 5 + 6 + 7 + 8 + 1 + 9 + 6 + 100 + 10);

  std::vector<std::thread> workers;
  std::atomic<int> done{0};
  for (int t = 0; t < 4; t++)
    workers.emplace_back([&, t] {
      CUDACHECK(cudaSetDevice(t % devices));
      Buffer<int> mine(32);
      for (int round = 0; round < 20; round++) { forEach<<<1, 32>>>(32, [q = mine.data, round] __device__(int i) { q[i] = i + round; }); CUDACHECK(cudaDeviceSynchronize()); if (mine.data[31] == 31 + round) done++; }
    });
  for (auto& w : workers) w.join();
  CHECK(done == 80);
  return finish("idioms");
}
