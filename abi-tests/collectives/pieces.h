// Memory that a program maps piece by piece with the driver's cuMem functions, as PyTorch's expandable segments are. They are taken from libcuda.so.1
// itself, which need not be there to link with.
#pragma once
#include "../../examples-c/common/example.h"
#include <cuda.h>
#include <dlfcn.h>

#define DRIVER(name, ...)                                                                     \
  do {                                                                                        \
    static auto call_ = (decltype(&name))Pieces::find(#name);                                 \
    CUresult got_ = call_(__VA_ARGS__);                                                       \
    if (got_ != CUDA_SUCCESS) {                                                               \
      fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #name, (int)got_);         \
      exitOnce(EXIT_FAILURE);                                                                 \
    }                                                                                         \
  } while (0)

struct Pieces {
  char* base;
  int device, count, turn = 0;
  size_t size; // of a piece
  CUmemGenericAllocationHandle* handles;

  static void* find(const char* name) {
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = driver ? dlsym(driver, name) : NULL;
    if (!found) {
      fprintf(stderr, "no %s: %s\n", name, dlerror());
      exitOnce(EXIT_FAILURE);
    }
    return found;
  }

  Pieces(int device, int count, size_t bytes) : device(device), count(count) {
    size_t granule;
    CUmemAllocationProp prop = properties();
    DRIVER(cuMemGetAllocationGranularity, &granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    size = (bytes + count * granule - 1) / (count * granule) * granule;
    CUdeviceptr at;
    // PyTorch reserves more than there is.
    DRIVER(cuMemAddressReserve, &at, 2 * count * size, 0, 0, 0);
    base = (char*)at;
    handles = new CUmemGenericAllocationHandle[count];
    for (int i = 0; i < count; i++) map(i);
  }

  CUmemAllocationProp properties() const {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
  }

  void map(int i) {
    CUmemAllocationProp prop = properties();
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemCreate, &handles[i], size, &prop, 0);
    DRIVER(cuMemMap, (CUdeviceptr)base + i * size, size, 0, handles[i], 0);
    DRIVER(cuMemSetAccess, (CUdeviceptr)base + i * size, size, &access, 1);
  }

  // Of some, in turns, the memory is given back, and new memory mapped at their addresses: all, then all but the first, then ..
  void exchange() {
    int from = turn++ % count;
    for (int i = from; i < count; i++) {
      DRIVER(cuMemUnmap, (CUdeviceptr)base + i * size, size);
      DRIVER(cuMemRelease, handles[i]);
    }
    for (int i = from; i < count; i++) map(i);
  }
};
