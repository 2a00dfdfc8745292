// Virtual memory management and multicast objects of the driver API: memory that is mapped where the program says, side by side and twice;
// a kernel that reduces over two devices through an address of a multicast object; and what is refused.
#include "check.h"
#include <cuda.h>
#include <cudaTypedefs.h>
#include <thread>

#define OK(call) CHECK((call) == CUDA_SUCCESS)
#define WRONG(call) CHECK((call) == CUDA_ERROR_INVALID_VALUE)

static size_t granule;

static CUmemAllocationProp memoryOf(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

static CUmemGenericAllocationHandle create(int device, size_t bytes) {
  CUmemAllocationProp prop = memoryOf(device);
  CUmemGenericAllocationHandle memory = 0;
  OK(cuMemCreate(&memory, bytes, &prop, 0));
  return memory;
}

static void access(CUdeviceptr at, size_t bytes, int devices, CUmemAccess_flags flags) {
  CUmemAccessDesc desc[2] = {};
  for (int i = 0; i < devices; i++) desc[i].location = memoryOf(i).location, desc[i].flags = flags;
  OK(cuMemSetAccess(at, bytes, desc, devices));
}

// Maps `memory` at new addresses.
static CUdeviceptr place(CUmemGenericAllocationHandle memory, size_t bytes, int devices) {
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  OK(cuMemMap(at, bytes, 0, memory, 0));
  access(at, bytes, devices, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  return at;
}

static void displace(CUdeviceptr at, size_t bytes) {
  OK(cuMemUnmap(at, bytes));
  OK(cuMemAddressFree(at, bytes));
}

__global__ void fill(int* p, int count, int value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) p[i] = value + i;
}

// Two allocations in a row are one array; the same memory at another address is the same.
static void mappings() {
  CUmemAllocationProp prop = memoryOf(0), found = {};
  CUmemGenericAllocationHandle first = create(0, granule), second = create(0, granule), again = 0;
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, 3 * granule, 4 * granule, 0, 0));
  CHECK(at % (4 * granule) == 0);
  OK(cuMemMap(at, granule, 0, first, 0));
  OK(cuMemMap(at + granule, granule, 0, second, 0));
  access(at, 2 * granule, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const int count = (int)(2 * granule / sizeof(int));
  fill<<<1, 128>>>((int*)at, count, 7);
  CUDA(cudaDeviceSynchronize());
  int* host = (int*)malloc(2 * granule);
  CUDA(cudaMemcpy(host, (void*)at, 2 * granule, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++) CHECK_AT(host[i] == 7 + i, i);
  CUdeviceptr alias = place(second, granule, 1);
  CUDA(cudaMemcpy(host, (void*)alias, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(host[0] == 7 + count / 2);
  unsigned long long flags = 0;
  OK(cuMemGetAccess(&flags, &prop.location, at + 5));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, (void*)(at + granule + 100)));
  CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  OK(cuMemRetainAllocationHandle(&again, (void*)(at + granule)));
  OK(cuMemGetAllocationPropertiesFromHandle(&found, again));
  CHECK(found.type == CU_MEM_ALLOCATION_TYPE_PINNED && found.location.id == 0);
  OK(cuMemRelease(again));
  // Released memory stays where it is mapped.
  OK(cuMemRelease(first));
  OK(cuMemRelease(second));
  CUDA(cudaMemcpy(host, (void*)at, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(host[0] == 7);
  displace(alias, granule);
  WRONG(cuMemAddressFree(at, 3 * granule));
  OK(cuMemUnmap(at, 2 * granule));
  OK(cuMemAddressFree(at, 3 * granule));
  free(host);
}

static void refused() {
  CUmemAllocationProp prop = memoryOf(0);
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr at = 0;
  WRONG(cuMemCreate(&memory, granule + 1, &prop, 0));
  WRONG(cuMemCreate(nullptr, granule, &prop, 0));
  WRONG(cuMemCreate(&memory, granule, nullptr, 0));
  WRONG(cuMemRelease(12345));
  WRONG(cuMemAddressReserve(&at, granule / 2, 0, 0, 0));
  WRONG(cuMemRetainAllocationHandle(&memory, &prop));
  memory = create(0, granule);
  WRONG(cuMemMap(granule, granule, 0, memory, 0));
  at = place(memory, granule, 1);
  WRONG(cuMemMap(at, granule, 0, memory, 0));
  WRONG(cuMemUnmap(at, granule / 2));
#ifdef __GINRS_CPU__
  int fd = -1, supported = -1;
  OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  CHECK(supported == 0);
  CHECK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cudaFree((void*)at) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
#endif
  OK(cuMemRelease(memory));
  displace(at, granule);
}

__global__ void reduce(float* all, float* sum, int count) {
#if defined(__GINRS_CPU__) || __CUDA_ARCH__ >= 900
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    float x;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(x) : "l"(all + i) : "memory");
    sum[i] = x;
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(all + count + i), "f"(2 * x) : "memory");
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(all + 2 * count + i), "f"(x) : "memory");
  }
#endif
}

static void multicast() {
  const int count = 256;
  CUmulticastObjectProp prop = {};
  prop.numDevices = 2;
  prop.size = 2 * granule;
  size_t least = 0;
  OK(cuMulticastGetGranularity(&least, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(least > 0 && granule % least == 0);
  CUmemGenericAllocationHandle object = 0, memory[2] = {create(0, 2 * granule), create(1, 2 * granule)};
  OK(cuMulticastCreate(&object, &prop));
  OK(cuMulticastAddDevice(object, 0));
  WRONG(cuMulticastAddDevice(object, 0));
  CUdeviceptr at[2] = {place(memory[0], 2 * granule, 2), place(memory[1], 2 * granule, 2)};
  // It waits for the second device.
  std::thread first([&] { OK(cuMulticastBindMem(object, 0, memory[0], 0, granule, 0)); });
  OK(cuMulticastAddDevice(object, 1));
  first.join();
  WRONG(cuMulticastBindMem(object, 0, memory[0], 0, granule, 0));
  WRONG(cuMulticastBindMem(object, 0, memory[1], 0, 4 * granule, 0));
  OK(cuMulticastBindAddr(object, 0, at[1] + granule, granule, 0)); // its second half
  WRONG(cuMulticastBindAddr(object, granule, (CUdeviceptr)&prop, granule, 0));
  CUdeviceptr all = place(object, 2 * granule, 2);
  float *part[2] = {(float*)at[0], (float*)(at[1] + granule)}, *sum, host[3 * count];
  CUDA(cudaMalloc(&sum, count * sizeof(float)));
  for (int device = 0; device < 2; device++) {
    for (int i = 0; i < count; i++) host[i] = (float)(i * (device + 1)), host[count + i] = -1, host[2 * count + i] = 100;
    CUDA(cudaMemcpy(part[device], host, sizeof host, cudaMemcpyHostToDevice));
  }
  reduce<<<1, 64>>>((float*)all, sum, count);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(host, sum, count * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++) CHECK_AT(host[i] == 3 * i, i);
  for (int device = 0; device < 2; device++) {
    CUDA(cudaMemcpy(host, part[device], sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) CHECK_AT(host[i] == i * (device + 1) && host[count + i] == 6 * i && host[2 * count + i] == 100 + 3 * i, i);
  }
  OK(cuMemUnmap(all, 2 * granule));
  OK(cuMemAddressFree(all, 2 * granule));
  OK(cuMulticastUnbind(object, 0, 0, granule));
  OK(cuMulticastUnbind(object, 1, 0, granule));
#ifdef __GINRS_CPU__
  WRONG(cuMulticastUnbind(object, 1, 0, granule));
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle shared;
  CHECK(cuMulticastCreate(&shared, &prop) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMulticastBindMem(memory[0], 0, memory[1], 0, granule, 0) == CUDA_ERROR_INVALID_VALUE);
#endif
  OK(cuMemRelease(object));
  for (int device = 0; device < 2; device++) {
    OK(cuMemRelease(memory[device]));
    displace(at[device], 2 * granule);
  }
  CUDA(cudaFree(sum));
}

int main() {
  CUDA(cudaSetDevice(0));
  CUDA(cudaFree(0));
  OK(cuInit(0));
  int devices = 0, managed = 0, casts = 0;
  OK(cuDeviceGetCount(&devices));
  OK(cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  OK(cuDeviceGetAttribute(&casts, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  CHECK(managed == 1);
  CUmemAllocationProp prop = memoryOf(0);
  OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  PFN_cuMulticastCreate maker = nullptr;
  cudaDriverEntryPointQueryResult query;
  CUDA(cudaGetDriverEntryPointByVersion("cuMulticastCreate", (void**)&maker, 12010, cudaEnableDefault, &query));
  CHECK(maker != nullptr);
  mappings();
  refused();
  if (casts && devices > 1) multicast();
  return finish("virtual_memory");
}
