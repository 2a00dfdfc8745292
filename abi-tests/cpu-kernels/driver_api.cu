// The driver API beside the runtime's, and NVTX, which does nothing.
#include "check.h"
#include <cuda.h>
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
