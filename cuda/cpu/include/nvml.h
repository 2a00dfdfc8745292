/* NVML for the CPU device: what programs ask to print or to choose by (devices, names, memory, who reaches whom), answered by the
 * runtime. What a CPU device does not have (NVLink, clocks, temperatures, processes) is NVML_ERROR_NOT_SUPPORTED. C and C++; there
 * is no library to link or to load. */
#ifndef GINRS_CPU_NVML_H_
#define GINRS_CPU_NVML_H_
#include <stdio.h>
#include <string.h>
#include "cuda_runtime_api.h"
#define NVML_API_VERSION 13
#define NVML_DEVICE_UUID_BUFFER_SIZE 80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE 96
#define NVML_DEVICE_NAME_BUFFER_SIZE 64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE 80
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE 32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE 16
#define NVML_NVLINK_MAX_LINKS 18
typedef enum nvmlReturn_enum {
  NVML_SUCCESS = 0, NVML_ERROR_UNINITIALIZED = 1, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4, NVML_ERROR_ALREADY_INITIALIZED = 5, NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7, NVML_ERROR_DRIVER_NOT_LOADED = 9, NVML_ERROR_LIBRARY_NOT_FOUND = 12,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13, NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;
typedef struct nvmlDevice_st* nvmlDevice_t; /* the device's number, from 1: never dereferenced */
typedef struct nvmlMemory_st { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct nvmlPciInfo_st {
  char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfo_t;
typedef enum nvmlEnableState_enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;
typedef enum nvmlGpuP2PStatus_enum {
  NVML_P2P_STATUS_OK = 0, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1, NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
  NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3, NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4, NVML_P2P_STATUS_NOT_SUPPORTED = 5,
  NVML_P2P_STATUS_UNKNOWN = 6
} nvmlGpuP2PStatus_t;
typedef enum nvmlGpuP2PCapsIndex_enum {
  NVML_P2P_CAPS_INDEX_READ = 0, NVML_P2P_CAPS_INDEX_WRITE = 1, NVML_P2P_CAPS_INDEX_NVLINK = 2,
  NVML_P2P_CAPS_INDEX_ATOMICS = 3, NVML_P2P_CAPS_INDEX_PCI = 4, NVML_P2P_CAPS_INDEX_UNKNOWN = 5
} nvmlGpuP2PCapsIndex_t;

static inline const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not supported on the CPU device";
    case NVML_ERROR_NOT_FOUND: return "Not found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient size";
    default: return "Unknown error";
  }
}
static inline nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
static inline nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { (void)flags; return NVML_SUCCESS; }
static inline nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

/* `text` in a buffer of the caller's. */
static inline nvmlReturn_t ginrs_nvml_text(const char* text, char* out, unsigned int length) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}
static inline int ginrs_nvml_ordinal(nvmlDevice_t device) { return (int)(size_t)device - 1; }
static inline nvmlReturn_t ginrs_nvml_properties(nvmlDevice_t device, struct cudaDeviceProp* properties) {
  int count = 0, ordinal = ginrs_nvml_ordinal(device);
  if (cudaGetDeviceCount(&count) != cudaSuccess || ordinal < 0 || ordinal >= count) return NVML_ERROR_INVALID_ARGUMENT;
  return cudaGetDeviceProperties(properties, ordinal) == cudaSuccess ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static inline nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  int devices = 0;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return NVML_ERROR_UNKNOWN;
  *count = (unsigned int)devices;
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  unsigned int count = 0;
  if (!device || nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS || index >= count) return NVML_ERROR_INVALID_ARGUMENT;
  *device = (nvmlDevice_t)((size_t)index + 1);
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  struct cudaDeviceProp properties;
  nvmlReturn_t result = index ? ginrs_nvml_properties(device, &properties) : NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *index = (unsigned int)ginrs_nvml_ordinal(device);
  return result;
}
#define nvmlDeviceGetMinorNumber nvmlDeviceGetIndex
static inline nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  struct cudaDeviceProp properties;
  nvmlReturn_t result = ginrs_nvml_properties(device, &properties);
  return result == NVML_SUCCESS ? ginrs_nvml_text(properties.name, name, length) : result;
}
static inline nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  struct cudaDeviceProp properties;
  char text[NVML_DEVICE_UUID_BUFFER_SIZE] = "GPU-";
  nvmlReturn_t result = ginrs_nvml_properties(device, &properties);
  int i, at = 4;
  if (result != NVML_SUCCESS) return result;
  for (i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    at += snprintf(text + at, 3, "%02x", (unsigned char)properties.uuid.bytes[i]);
  }
  return ginrs_nvml_text(text, uuid, length);
}
static inline nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  struct cudaDeviceProp properties;
  size_t available = 0, total = 0;
  nvmlReturn_t result = memory ? ginrs_nvml_properties(device, &properties) : NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  if (cudaMemGetInfo(&available, &total) != cudaSuccess) return NVML_ERROR_UNKNOWN; /* devices share the machine's memory */
  memory->total = total;
  memory->free = available;
  memory->used = total - available;
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  struct cudaDeviceProp properties;
  nvmlReturn_t result = major && minor ? ginrs_nvml_properties(device, &properties) : NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *major = properties.major;
  *minor = properties.minor;
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  struct cudaDeviceProp properties;
  nvmlReturn_t result = pci ? ginrs_nvml_properties(device, &properties) : NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  memset(pci, 0, sizeof *pci);
  pci->domain = (unsigned int)properties.pciDomainID;
  pci->bus = (unsigned int)properties.pciBusID;
  pci->device = (unsigned int)properties.pciDeviceID;
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  int ordinal = -1;
  if (!id || !device) return NVML_ERROR_INVALID_ARGUMENT;
  if (cudaDeviceGetByPCIBusId(&ordinal, id) != cudaSuccess) {
    cudaGetLastError(); /* the runtime's, not the caller's */
    return NVML_ERROR_NOT_FOUND;
  }
  return nvmlDeviceGetHandleByIndex_v2((unsigned int)ordinal, device);
}
static inline nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  unsigned int i, count = 0;
  char text[NVML_DEVICE_UUID_BUFFER_SIZE];
  if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlDeviceGetCount_v2(&count);
  for (i = 0; i < count; i++) {
    nvmlDeviceGetHandleByIndex_v2(i, device);
    if (nvmlDeviceGetUUID(*device, text, sizeof text) == NVML_SUCCESS && strcmp(text, uuid) == 0) return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
/* Devices of one machine read and write each other's memory, with atomics; there is no NVLink. */
static inline nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuP2PCapsIndex_t index,
                                                  nvmlGpuP2PStatus_t* status) {
  struct cudaDeviceProp properties;
  if (!status || ginrs_nvml_properties(first, &properties) != NVML_SUCCESS ||
      ginrs_nvml_properties(second, &properties) != NVML_SUCCESS || (int)index < 0 || index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
    return NVML_ERROR_INVALID_ARGUMENT;
  *status = index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
  return NVML_SUCCESS;
}
static inline nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t* active) {
  (void)device, (void)link, (void)active;
  return NVML_ERROR_NOT_SUPPORTED;
}
static inline nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  return cudaDriverGetVersion(version) == cudaSuccess ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}
static inline nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return ginrs_nvml_text("ginrs CPU device", version, length);
}
#define nvmlInit nvmlInit_v2
#define nvmlDeviceGetCount nvmlDeviceGetCount_v2
#define nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2
#define nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2
#define nvmlDeviceGetPciInfo nvmlDeviceGetPciInfo_v3
#define nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2
#endif
