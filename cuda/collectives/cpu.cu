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
#define ENTRIES(type) \
  ENTRY(ginrs_reduce_##type, ginrsCollWork), \
  ENTRY(ginrs_pass_##type, ginrsCollWork), \
  ENTRY(ginrs_mapped_##type, ginrsMappedWork), \
  ENTRY(ginrs_several_ll_##type, ginrsSeveralWork), \
  ENTRY(ginrs_several_mapped_##type, ginrsSeveralWork)

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
    ENTRY(ginrs_copy, ginrsCollWork),
    ENTRY(ginrs_ll, ginrsCollWork),
    ENTRY(ginrs_personal, ginrsCollWork),
    ENTRY(ginrs_mapped, ginrsMappedWork),
    ENTRY(ginrs_p2p, ginrsP2pWork),
    ENTRY(ginrs_several_ll, ginrsSeveralWork),
    ENTRY(ginrs_several_copy, ginrsSeveralWork),
    ENTRY(ginrs_multicast_i32, ginrsCollWork),
    ENTRY(ginrs_multicast_i64, ginrsCollWork),
    ENTRY(ginrs_multicast_f16, ginrsCollWork),
    ENTRY(ginrs_multicast_bf16, ginrsCollWork),
    ENTRY(ginrs_multicast_f32, ginrsCollWork),
    ENTRY(ginrs_multicast_f64, ginrsCollWork),
    ENTRY(ginrs_multicast, ginrsCollWork),
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
