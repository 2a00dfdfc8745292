/* The kernels on the CPU device: in libginrs_cpu.so, found by libginrs under the one name below (src/device/cpu/kernels.rs). */
#include <string.h>
#include "kernels.cuh"

namespace {

struct Entry {
  char const* name;
  void* kernel;
  size_t bytes;
};

Entry const entries[] = {
    {"ginrs_reduce_i8", (void*)ginrs_reduce_i8, sizeof(ginrsCollWork)},     {"ginrs_reduce_i32", (void*)ginrs_reduce_i32, sizeof(ginrsCollWork)},
    {"ginrs_reduce_i64", (void*)ginrs_reduce_i64, sizeof(ginrsCollWork)},   {"ginrs_reduce_f16", (void*)ginrs_reduce_f16, sizeof(ginrsCollWork)},
    {"ginrs_reduce_bf16", (void*)ginrs_reduce_bf16, sizeof(ginrsCollWork)}, {"ginrs_reduce_f32", (void*)ginrs_reduce_f32, sizeof(ginrsCollWork)},
    {"ginrs_reduce_f64", (void*)ginrs_reduce_f64, sizeof(ginrsCollWork)},   {"ginrs_reduce_e4m3", (void*)ginrs_reduce_e4m3, sizeof(ginrsCollWork)},
    {"ginrs_reduce_e5m2", (void*)ginrs_reduce_e5m2, sizeof(ginrsCollWork)}, {"ginrs_copy", (void*)ginrs_copy, sizeof(ginrsCollWork)},
    {"ginrs_ll", (void*)ginrs_ll, sizeof(ginrsCollWork)},                   {"ginrs_personal", (void*)ginrs_personal, sizeof(ginrsCollWork)},
    {"ginrs_mapped", (void*)ginrs_mapped, sizeof(ginrsMappedWork)},         {"ginrs_p2p", (void*)ginrs_p2p, sizeof(ginrsP2pWork)},
    {"ginrs_pass_i8", (void*)ginrs_pass_i8, sizeof(ginrsCollWork)},         {"ginrs_pass_i32", (void*)ginrs_pass_i32, sizeof(ginrsCollWork)},
    {"ginrs_pass_i64", (void*)ginrs_pass_i64, sizeof(ginrsCollWork)},       {"ginrs_pass_f16", (void*)ginrs_pass_f16, sizeof(ginrsCollWork)},
    {"ginrs_pass_bf16", (void*)ginrs_pass_bf16, sizeof(ginrsCollWork)},     {"ginrs_pass_f32", (void*)ginrs_pass_f32, sizeof(ginrsCollWork)},
    {"ginrs_pass_f64", (void*)ginrs_pass_f64, sizeof(ginrsCollWork)},       {"ginrs_pass_e4m3", (void*)ginrs_pass_e4m3, sizeof(ginrsCollWork)},
    {"ginrs_pass_e5m2", (void*)ginrs_pass_e5m2, sizeof(ginrsCollWork)},
    {"ginrs_mapped_i8", (void*)ginrs_mapped_i8, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_i32", (void*)ginrs_mapped_i32, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_i64", (void*)ginrs_mapped_i64, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_f16", (void*)ginrs_mapped_f16, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_bf16", (void*)ginrs_mapped_bf16, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_f32", (void*)ginrs_mapped_f32, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_f64", (void*)ginrs_mapped_f64, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_e4m3", (void*)ginrs_mapped_e4m3, sizeof(ginrsMappedWork)},
    {"ginrs_mapped_e5m2", (void*)ginrs_mapped_e5m2, sizeof(ginrsMappedWork)},
    {"ginrs_several_ll_i8", (void*)ginrs_several_ll_i8, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_i8", (void*)ginrs_several_mapped_i8, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_i32", (void*)ginrs_several_ll_i32, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_i32", (void*)ginrs_several_mapped_i32, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_i64", (void*)ginrs_several_ll_i64, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_i64", (void*)ginrs_several_mapped_i64, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_f16", (void*)ginrs_several_ll_f16, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_f16", (void*)ginrs_several_mapped_f16, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_bf16", (void*)ginrs_several_ll_bf16, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_bf16", (void*)ginrs_several_mapped_bf16, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_f32", (void*)ginrs_several_ll_f32, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_f32", (void*)ginrs_several_mapped_f32, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_f64", (void*)ginrs_several_ll_f64, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_f64", (void*)ginrs_several_mapped_f64, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_e4m3", (void*)ginrs_several_ll_e4m3, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_e4m3", (void*)ginrs_several_mapped_e4m3, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll_e5m2", (void*)ginrs_several_ll_e5m2, sizeof(ginrsSeveralWork)}, {"ginrs_several_mapped_e5m2", (void*)ginrs_several_mapped_e5m2, sizeof(ginrsSeveralWork)},
    {"ginrs_several_ll", (void*)ginrs_several_ll, sizeof(ginrsSeveralWork)}, {"ginrs_several_copy", (void*)ginrs_several_copy, sizeof(ginrsSeveralWork)},
    {"ginrs_multicast_i32", (void*)ginrs_multicast_i32, sizeof(ginrsCollWork)}, {"ginrs_multicast_i64", (void*)ginrs_multicast_i64, sizeof(ginrsCollWork)},
    {"ginrs_multicast_f16", (void*)ginrs_multicast_f16, sizeof(ginrsCollWork)}, {"ginrs_multicast_bf16", (void*)ginrs_multicast_bf16, sizeof(ginrsCollWork)},
    {"ginrs_multicast_f32", (void*)ginrs_multicast_f32, sizeof(ginrsCollWork)}, {"ginrs_multicast_f64", (void*)ginrs_multicast_f64, sizeof(ginrsCollWork)},
    {"ginrs_multicast", (void*)ginrs_multicast, sizeof(ginrsCollWork)}, {"ginrs_courier", (void*)ginrs_courier, sizeof(ginrsCourierWork)},
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
