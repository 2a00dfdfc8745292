// What a `.cu` file becomes, by hand: threads of one block that spin on plain volatile flags, compiled with
// -fsanitize-coverage=trace-pc. Without preemption the first one would spin for ever.
#include <cstdio>
#include <cstring>

#include "cuda_runtime_api.h"
#include "ginrs_cpu/runtime.h"

struct Chain {
  volatile int turn;
  volatile int order[256];
};

static __attribute__((noinline)) void chain_thread(Chain* chain) {
  int me = static_cast<int>(ginrs_cpu_threadIdx.x);
  int turn = static_cast<int>(ginrs_cpu_self->blockDim.x) - 1 - me;  // last thread first: nobody's turn at the start
  while (chain->turn != turn) {
  }
  chain->order[turn] = static_cast<int>(ginrs_cpu_threadIdx.x);  // read anew: others ran in between
  chain->turn = turn + 1;
}

static __thread int shared_counter;  // static __shared__ int

static void counter_thread(int* results) {
  static __thread int* shared;
  if (!shared) shared = static_cast<int*>(ginrs_cpu_dynamic_shared());
  unsigned i = ginrs_cpu_self->linear;
  if (ginrs_cpu_blockDim.x != 64 && ginrs_cpu_blockDim.x != 1) ginrs_cpu_trap("blockDim", __FILE__, __LINE__);
  if (i == 0) shared_counter = 0;
  shared[i] = static_cast<int>(i);
  ginrs_cpu_barrier(0, 0, "__syncthreads()", __FILE__, __LINE__);
  shared_counter += shared[ginrs_cpu_self->blockDim.x - 1 - i];
  ginrs_cpu_barrier(0, 0, "__syncthreads()", __FILE__, __LINE__);
  if (i == 0) results[ginrs_cpu_blockIdx.x] = shared_counter;
}

static int table[4] = {1, 2, 3, 4};  // __device__ int table[4]
static int* device_table() { return static_cast<int*>(ginrs_cpu_device_variable(table, sizeof table, "table")); }
static void table_thread(void*) {
  static thread_local int* t = device_table();
  __atomic_fetch_add(&t[ginrs_cpu_self->linear % 4], 10 + ginrs_cpu_self->device, __ATOMIC_RELAXED);
}

static void kernel_function() {}  // stands for the __global__ function: its address is the kernel's name
static void* pack(void** arguments) { return new int*(*static_cast<int**>(arguments[0])); }
static void unpack(void* packed) { delete static_cast<int**>(packed); }
static void invoke_counter(void* packed) { counter_thread(*static_cast<int**>(packed)); }

#define REQUIRE(x)                                                              \
  do {                                                                          \
    if (!(x)) {                                                                 \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #x);     \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

static int launch(void (*invoke)(void*), void* packed, unsigned grid, unsigned block) {
  ginrsCpuLaunch launch;
  std::memset(&launch, 0, sizeof launch);
  launch.kernel.name = "kernel";
  launch.kernel.invoke = invoke;
  launch.packed = packed;
  launch.grid = {grid, 1, 1};
  launch.block = {block, 1, 1};
  launch.file = __FILE__;
  launch.line = __LINE__;
  return ginrs_cpu_launch(&launch);
}

int main() {
  Chain chain;
  std::memset(&chain, 0, sizeof chain);
  REQUIRE(launch([](void* p) { chain_thread(static_cast<Chain*>(p)); }, &chain, 1, 256) == 0);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (int i = 0; i < 256; ++i) REQUIRE(chain.order[i] == 255 - i);

  ginrsCpuKernel kernel = {reinterpret_cast<const void*>(&kernel_function), "counter", pack, invoke_counter, unpack};
  ginrs_cpu_register_kernel(&kernel);
  int* results = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&results), 100 * sizeof(int)) == cudaSuccess);
  void* arguments[] = {&results};
  REQUIRE(cudaLaunchKernel(kernel.entry, dim3{100, 1, 1}, dim3{64, 1, 1}, arguments, 64 * sizeof(int), 0) == cudaSuccess);
  int host[100];
  REQUIRE(cudaMemcpy(host, results, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int i = 0; i < 100; ++i) REQUIRE(host[i] == 64 * 63 / 2);
  REQUIRE(cudaLaunchKernel(kernel.entry, dim3{1, 1, 1}, dim3{1, 1, 1}, arguments, 49153, 0) == cudaErrorInvalidValue);
  REQUIRE(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536) == cudaSuccess);
  REQUIRE(cudaLaunchKernel(kernel.entry, dim3{1, 1, 1}, dim3{1, 1, 1}, arguments, 49153, 0) == cudaSuccess);

  // A device variable: one copy per device, the master stays the host's.
  device_table();
  int start[4] = {5, 6, 7, 8}, got[4];
  REQUIRE(cudaMemcpyToSymbol(table, start, sizeof start) == cudaSuccess);
  for (int device = 0; device < 3; ++device) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    REQUIRE(launch(table_thread, nullptr, 8, 8) == 0);
    REQUIRE(cudaMemcpyFromSymbol(got, table, sizeof got) == cudaSuccess);
    for (int i = 0; i < 4; ++i) REQUIRE(got[i] == (device == 0 ? start[i] : i + 1) + 16 * (10 + device));
  }
  REQUIRE(table[0] == 1);
  int other = 0;
  REQUIRE(cudaMemcpyToSymbol(&other, start, 4) == cudaErrorInvalidSymbol);

  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 2) == cudaSuccess);
  REQUIRE(properties.warpSize == 32 && properties.cooperativeLaunch == 1 && properties.pciDeviceID == 2);
  REQUIRE(properties.multiProcessorCount * properties.maxBlocksPerMultiProcessor == 512);
  std::puts("plain_spin: ok");
  return 0;
}
