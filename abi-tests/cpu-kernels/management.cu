// NVML and NVTX as programs use them beside their kernels.
#include "check.h"
#ifdef __GINRS_CPU__
#include <cstring>
#include <nvml.h>
#include <nvtx3/nvtx3.hpp>

struct mine { static constexpr char const* name{"mine"}; };
static void annotated() {
  NVTX3_FUNC_RANGE();
  nvtx3::scoped_range range{"range", nvtx3::rgb{1, 2, 3}, nvtx3::payload{42}};
  nvtx3::scoped_range_in<mine> inDomain{nvtx3::event_attributes{nvtx3::message{"text"}, nvtx3::category{1}}};
  nvtx3::mark("here");
  nvtx3::end_range(nvtx3::start_range("apart"));
}
#endif

int main() {
#ifdef __GINRS_CPU__
  annotated();
  unsigned count = 0;
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  CHECK(nvmlInit() == NVML_SUCCESS && nvmlDeviceGetCount(&count) == NVML_SUCCESS && (int)count == devices && count >= 2);
  nvmlDevice_t first, second, found;
  CHECK(nvmlDeviceGetHandleByIndex(0, &first) == NVML_SUCCESS && nvmlDeviceGetHandleByIndex(1, &second) == NVML_SUCCESS);
  CHECK(nvmlDeviceGetHandleByIndex(count, &found) == NVML_ERROR_INVALID_ARGUMENT);
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[2][NVML_DEVICE_UUID_V2_BUFFER_SIZE], shorter[4];
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 1));
  CHECK(nvmlDeviceGetName(second, name, sizeof name) == NVML_SUCCESS && strcmp(name, properties.name) == 0);
  CHECK(nvmlDeviceGetName(second, shorter, sizeof shorter) == NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK(nvmlDeviceGetUUID(first, uuid[0], 96) == NVML_SUCCESS && nvmlDeviceGetUUID(second, uuid[1], 96) == NVML_SUCCESS);
  CHECK(strlen(uuid[0]) == 40 && strncmp(uuid[0], "GPU-", 4) == 0 && strcmp(uuid[0], uuid[1]) != 0);
  CHECK(nvmlDeviceGetHandleByUUID(uuid[1], &found) == NVML_SUCCESS && found == second);
  nvmlPciInfo_t pci;
  CHECK(nvmlDeviceGetPciInfo(second, &pci) == NVML_SUCCESS && (int)pci.bus == properties.pciBusID && (int)pci.device == properties.pciDeviceID);
  CHECK(nvmlDeviceGetHandleByPciBusId(pci.busId, &found) == NVML_SUCCESS && found == second);
  CHECK(nvmlDeviceGetHandleByPciBusId("0000:01:02.3", &found) == NVML_ERROR_NOT_FOUND);
  nvmlMemory_t memory;
  CHECK(nvmlDeviceGetMemoryInfo(first, &memory) == NVML_SUCCESS && memory.total == memory.free + memory.used && memory.free > 0);
  nvmlGpuP2PStatus_t status;
  CHECK(nvmlDeviceGetP2PStatus(first, second, NVML_P2P_CAPS_INDEX_WRITE, &status) == NVML_SUCCESS && status == NVML_P2P_STATUS_OK);
  CHECK(nvmlDeviceGetP2PStatus(first, second, NVML_P2P_CAPS_INDEX_NVLINK, &status) == NVML_SUCCESS && status == NVML_P2P_STATUS_NOT_SUPPORTED);
  unsigned index = 9;
  int version = 0;
  CHECK(nvmlDeviceGetIndex(second, &index) == NVML_SUCCESS && index == 1 && nvmlSystemGetCudaDriverVersion(&version) == NVML_SUCCESS && version == CUDART_VERSION);
  CHECK(nvmlShutdown() == NVML_SUCCESS && strcmp(nvmlErrorString(NVML_SUCCESS), "Success") == 0);
#endif
  return finish("management");
}
