// The driver API beside the runtime's, and NVTX, which does nothing.
#include "check.h"
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_fp16.h> // brings <utility>
#ifdef __GINRS_CPU__
#include <nvtx3/nvToolsExt.h>
#endif

int main() {
  static_assert(CUDA_VERSION == 13000 && CUDART_VERSION == 13000, "versions");
  int count = 0, runtimeCount = 0, value = 0, version = 0;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 13000);
  CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS && cudaGetDeviceCount(&runtimeCount) == cudaSuccess && count == runtimeCount);
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0) == CUDA_SUCCESS && cuDeviceGet(&device, count) != CUDA_SUCCESS);
  cuDeviceGet(&device, 0);
  CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device) == CUDA_SUCCESS && value == 32);
  CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device) == CUDA_SUCCESS && value == 1024);
  CUcontext context;
  CUDA(cudaSetDevice(0));
  CHECK(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  char* memory;
  CUDA(cudaMalloc(&memory, 5000));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK(cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)(memory + 100)) == CUDA_SUCCESS);
  CHECK(base == (CUdeviceptr)memory && bytes >= 5000);
  // What transports ask before they register memory, and the answers where there is no DMA-BUF.
  unsigned sync = 1;
  CHECK(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)memory) == CUDA_SUCCESS);
  CHECK(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)&sync) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory) == CUDA_ERROR_INVALID_VALUE);
  CUmemorytype kind;
  CHECK(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory) == CUDA_SUCCESS && kind == CU_MEMORYTYPE_DEVICE);
  int ordinal = -1, supported = -1, fd = -1;
  CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)memory) == CUDA_SUCCESS && ordinal == 0);
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device) == CUDA_SUCCESS);
  if (!supported) CHECK(cuMemGetHandleForAddressRange(&fd, base, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_ERROR_NOT_SUPPORTED);
  for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; attribute++)
    CHECK_AT(cuDeviceGetAttribute(&value, (CUdevice_attribute)attribute, device) == CUDA_SUCCESS, attribute);
  CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) == CUDA_SUCCESS && value == 1);
  char name[64] = "";
  size_t total = 0;
  CHECK(cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS && strlen(name) > 0 && cuDeviceTotalMem(&total, device) == CUDA_SUCCESS && total > 0);
  PFN_cuDeviceGetCount_v2000 counter = nullptr;
  cudaDriverEntryPointQueryResult query;
  CUDA(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", (void**)&counter, 12000, cudaEnableDefault, &query));
  CHECK(std::exchange(value, 0) >= 0 && counter != nullptr && counter(&value) == CUDA_SUCCESS && value == count);
  const char* text = nullptr;
  CHECK(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text) == CUDA_SUCCESS && text != nullptr && *text);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
#ifdef __GINRS_CPU__
  nvtxRangePushA("range");
  nvtxMark("mark");
  nvtxRangePop();
#endif
  return finish("driver_api");
}
