/* The kernels on the CPU device: in libginrs_cpu.so, found by libginrs under the one name below (src/device/cpu/kernels.rs). */
#include <string.h>
#include "kernels.cuh"

namespace {

struct Entry {
  char const* name;
  void* kernel;
  size_t bytes;
};

#define ENTRY(kernel, work) {#kernel, (void*)kernel, sizeof(work)}
#define ENTRIES(type) ENTRY(ginrs_reduce_##type, ginrsMappedWork), ENTRY(ginrs_reduce_ll_##type, ginrsCollWork)
#define SEVERAL(type) ENTRY(ginrs_several_reduce_##type, ginrsSeveralWork), ENTRY(ginrs_several_reduce_ll_##type, ginrsSeveralWork)

Entry const entries[] = {
    ENTRIES(i8),
    ENTRIES(i32),
    ENTRIES(i64),
    ENTRIES(f16),
    ENTRIES(bf16),
    ENTRIES(f32),
    ENTRIES(f64),
    ENTRIES(e4m3),
    ENTRIES(e5m2),
    SEVERAL(f16),
    SEVERAL(bf16),
    SEVERAL(f32),
    ENTRY(ginrs_buffered, ginrsCollWork),
    ENTRY(ginrs_copy, ginrsMappedWork),
    ENTRY(ginrs_ll, ginrsCollWork),
    ENTRY(ginrs_several_copy, ginrsSeveralWork),
    ENTRY(ginrs_several_ll, ginrsSeveralWork),
    ENTRY(ginrs_multicast, ginrsCollWork),
    ENTRY(ginrs_p2p, ginrsP2pWork),
    ENTRY(ginrs_courier, ginrsCourierWork),
};

}  // namespace

/* Puts a kernel on a stream. cudaErrorInvalidDeviceFunction: no such kernel; cudaErrorInvalidValue: its parameter has another size. */
extern "C" int ginrs_cpu_collectives_launch_v1(char const* kernel, void const* work, size_t bytes, unsigned blocks, unsigned blocksY,
                                               unsigned threads, void* stream) {
  for (Entry const& entry : entries) {
    if (strcmp(entry.name, kernel) != 0) continue;
    if (entry.bytes != bytes) return cudaErrorInvalidValue;
    void* arguments[] = {const_cast<void*>(work)};
    return cudaLaunchKernel(entry.kernel, dim3(blocks, blocksY), dim3(threads), arguments, 0, static_cast<cudaStream_t>(stream));
  }
  return cudaErrorInvalidDeviceFunction;
}
