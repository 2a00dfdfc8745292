// libnvidia-ml.so.1, as far as NVIDIA's libnccl asks it before the first kernel: devices by bus address, all alike and without NVLink.
#include <stdio.h>

enum { kOk = 0, kNotSupported = 3, kDevices = 16 };
typedef struct device* device_t;

static device_t numbered(unsigned number) { return (device_t)(unsigned long)(number + 1); }

int nvmlInit(void) { return kOk; }
int nvmlInit_v2(void) { return kOk; }
int nvmlShutdown(void) { return kOk; }
const char* nvmlErrorString(int error) { return error == kOk ? "Success" : "Not Supported"; }

int nvmlDeviceGetCount_v2(unsigned* out) { return *out = kDevices, kOk; }
int nvmlDeviceGetCount(unsigned* out) { return nvmlDeviceGetCount_v2(out); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t* out) { return *out = numbered(index), kOk; }
int nvmlDeviceGetHandleByIndex(unsigned index, device_t* out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }
int nvmlDeviceGetIndex(device_t device, unsigned* out) { return *out = (unsigned)(unsigned long)device - 1, kOk; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, device_t* out) {
  unsigned domain, bus, device = 0;
  if (sscanf(address, "%x:%x:%x", &domain, &bus, &device) < 2) return kNotSupported;
  return *out = numbered((bus + device) % kDevices), kOk;
}
int nvmlDeviceGetHandleByPciBusId(const char* address, device_t* out) { return nvmlDeviceGetHandleByPciBusId_v2(address, out); }

int nvmlDeviceGetCudaComputeCapability(device_t device, int* major, int* minor) { return (void)device, *major = 9, *minor = 0, kOk; }
int nvmlDeviceGetP2PStatus(device_t a, device_t b, int index, int* out) { return (void)a, (void)b, (void)index, *out = 0, kOk; }

int nvmlDeviceGetNvLinkState(void) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo(void) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return kNotSupported; }
int nvmlDeviceGetNvLinkCapability(void) { return kNotSupported; }
int nvmlDeviceGetFieldValues(void) { return kNotSupported; }
int nvmlDeviceGetGpuFabricInfoV(void) { return kNotSupported; }
int nvmlDeviceGetPlatformInfo(void) { return kNotSupported; }
int nvmlSystemGetConfComputeState(void) { return kNotSupported; }
int nvmlSystemGetConfComputeSettings(void) { return kNotSupported; }
