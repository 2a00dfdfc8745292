// The smallest thing that runs what ginrs-cc compiles: CUDA threads one after the other, launches at once, two devices.
// Enough for kernels that do not wait for each other; the real CPU device has tests of its own.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#include <ginrs_cpu/runtime.h>
#include <cuda_runtime_api.h>

__thread const ginrsCpuThread* ginrs_cpu_self;
__thread ginrsCpuUint3 ginrs_cpu_threadIdx, ginrs_cpu_blockIdx, ginrs_cpu_blockDim, ginrs_cpu_gridDim;
__thread int32_t ginrs_cpu_budget;
static thread_local char* sharedMemory;
static thread_local int currentDevice;
static thread_local int blockDevice = -1;
static thread_local cudaError_t lastError;
static std::map<std::pair<void*, int>, void*>& copies() {
  static std::map<std::pair<void*, int>, void*> all;
  return all;
}
static std::map<const void*, ginrsCpuKernel>& kernels() {
  static std::map<const void*, ginrsCpuKernel> all;
  return all;
}

extern "C" {
void __sanitizer_cov_trace_pc() {}
void ginrs_cpu_spend(int32_t) {}
void ginrs_cpu_yield(int) {}
void ginrs_cpu_posted() {}
void ginrs_cpu_barrier(uint32_t, uint32_t, const char*, const char*, int) {}
void ginrs_cpu_barrier_arrive(uint32_t, uint32_t, const char*, const char*, int) {}
int ginrs_cpu_barrier_reduce(int predicate, int, const char*, const char*, int) { return predicate; }
void ginrs_cpu_warp_sync(uint32_t, const char*, const char*, int) {}
uint32_t ginrs_cpu_warp_exchange(uint32_t, uint64_t value, uint64_t out[32], const char*, const char*, int) {
  memset(out, 0, 256);
  out[ginrs_cpu_self->lane] = value;
  return 1u << ginrs_cpu_self->lane;
}
uint32_t ginrs_cpu_active_mask(const char*, int) { return 1u << ginrs_cpu_self->lane; }
void ginrs_cpu_grid_sync(const char*, int) {}
int ginrs_cpu_launch_is_cooperative() { return 0; }
// Nothing here tells of launches.
void ginrs_cpu_launched_at(const char*, int) {}
void ginrs_cpu_trap(const char* message, const char* file, int line) {
  fprintf(stderr, "trap: %s at %s:%d\n", message, file, line);
  abort();
}
void* ginrs_cpu_dynamic_shared() {
  if (!ginrs_cpu_self) ginrs_cpu_trap("dynamic shared memory on a host thread", "", 0);
  return sharedMemory;
}
void* ginrs_cpu_device_variable(void* master, size_t bytes, const char*) {
  if (blockDevice < 0) return master;
  void*& copy = copies()[{master, blockDevice}];
  if (!copy) copy = memcpy(aligned_alloc(256, (bytes + 255) & ~255ul), master, bytes);
  return copy;
}
void ginrs_cpu_register_kernel(const ginrsCpuKernel* kernel) { kernels()[kernel->entry] = *kernel; }
void ginrs_cpu_bound_kernel(const void*, uint32_t) {}
int ginrs_cpu_launch(const ginrsCpuLaunch* launch) {
  if (launch->block.x * launch->block.y * launch->block.z > 1024) return lastError = cudaErrorInvalidConfiguration;
  for (unsigned block = 0; block < launch->grid.x; block++) {
    std::thread([&, device = currentDevice] {
      blockDevice = device;
      sharedMemory = (char*)aligned_alloc(1024, 65536);
      for (unsigned z = 0; z < launch->block.z; z++)
        for (unsigned y = 0; y < launch->block.y; y++)
          for (unsigned x = 0; x < launch->block.x; x++) {
            ginrsCpuThread self = {};
            self.threadIdx = {x, y, z};
            self.blockIdx = {block, 0, 0};
            self.blockDim = launch->block;
            self.gridDim = launch->grid;
            self.linear = (z * launch->block.y + y) * launch->block.x + x;
            self.lane = self.linear % 32;
            self.warp = self.linear / 32;
            self.dynamicSharedBytes = (uint32_t)launch->sharedBytes;
            ginrs_cpu_threadIdx = self.threadIdx;
            ginrs_cpu_blockIdx = self.blockIdx;
            ginrs_cpu_blockDim = self.blockDim;
            ginrs_cpu_gridDim = self.gridDim;
            ginrs_cpu_self = &self;
            launch->kernel.invoke(launch->packed);
            ginrs_cpu_self = nullptr;
          }
      free(sharedMemory);
    }).join();
  }
  launch->kernel.destroy(launch->packed);
  return 0;
}

cudaError_t cudaSetDevice(int device) { return currentDevice = device, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }
uint32_t ginrs_cpu_multicast_ranges = 0; // no multicast here
uint32_t ginrs_cpu_timeline = 0;
int ginrs_cpu_multicast_targets(const void*, size_t, ginrsCpuTargets*) { return 0; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaMalloc(void** p, size_t bytes) { return *p = malloc(bytes), cudaSuccess; }
cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned) { return *p = malloc(bytes), cudaSuccess; }
cudaError_t cudaFree(void* p) { return free(p), cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return memcpy(to, from, bytes), cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = (cudaStream_t)1, cudaSuccess; }
static void* deviceCopy(const void* symbol, size_t bytes) {
  blockDevice = currentDevice;
  void* copy = ginrs_cpu_device_variable((void*)symbol, bytes, "");
  blockDevice = -1;
  return copy;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind) {
  return memcpy((char*)deviceCopy(symbol, bytes) + offset, from, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind) {
  return memcpy(to, (char*)deviceCopy(symbol, bytes) + offset, bytes), cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* entry, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  if (!kernels().count(entry)) return lastError = cudaErrorInvalidDeviceFunction;
  ginrsCpuLaunch launch = {};
  launch.kernel = kernels()[entry];
  launch.packed = launch.kernel.pack(arguments);
  launch.grid = {grid.x, grid.y, grid.z};
  launch.block = {block.x, block.y, block.z};
  launch.sharedBytes = shared;
  launch.stream = stream;
  return (cudaError_t)ginrs_cpu_launch(&launch);
}
}
