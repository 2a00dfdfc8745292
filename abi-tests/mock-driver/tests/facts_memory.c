// facts.c goes on: pinned memory, what an address is, entry points.
#include "driver.h"
#include <sys/mman.h>
#include <unistd.h>

static Prop prop = {1, 1, {1, 0}, 0, 0, 0, 0, {0}};
static Access access_own = {{1, 0}, 3};

void facts_of_pinned(void) {
  group("pinned");
  void *q = 0, *m;
  Ptr d = 0;
  unsigned flags = 99;
  fact("zero", CU(cuMemHostAlloc)(&q, (size_t)0, 2u));
  fact("flags", CU(cuMemHostAlloc)(&q, (size_t)4096, 0x100u));
  fact("alloc", CU(cuMemHostAlloc)(&q, (size_t)5000, 3u));
  say("pageAligned", (uintptr_t)q % 4096 == 0);
  fact("device", CU(cuMemHostGetDevicePointer_v2)(&d, q, 0u));
  say("same", d == (Ptr)(uintptr_t)q);
  fact("deviceInside", CU(cuMemHostGetDevicePointer_v2)(&d, (char*)q + 100, 0u));
  say("same", d == (Ptr)(uintptr_t)q + 100);
  fact("deviceFlags", CU(cuMemHostGetDevicePointer_v2)(&d, q, 1u));
  fact("deviceOfStack", CU(cuMemHostGetDevicePointer_v2)(&d, &q, 0u));
  fact("getFlags", CU(cuMemHostGetFlags)(&flags, q));
  say("are", flags);
  size_t bytes;
  Ptr base;
  fact("range", CU(cuMemGetAddressRange_v2)(&base, &bytes, d + 1));
  fact("freeAsDevice", CU(cuMemFree_v2)((Ptr)(uintptr_t)q));
  fact("freeInside", CU(cuMemFreeHost)((char*)q + 256));
  fact("unregister", CU(cuMemHostUnregister)(q));
  fact("registerIt", CU(cuMemHostRegister_v2)(q, (size_t)4096, 2u));
  fact("free", CU(cuMemFreeHost)(q));
  fact("freeTwice", CU(cuMemFreeHost)(q));
  fact("freeNull", CU(cuMemFreeHost)((void*)0));
  int fd = memfd_create("facts", MFD_CLOEXEC);
  if (ftruncate(fd, 4 * MIB)) return;
  m = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fact("registerNull", CU(cuMemHostRegister_v2)((void*)0, (size_t)4096, 2u));
  fact("registerZero", CU(cuMemHostRegister_v2)(m, (size_t)0, 2u));
  fact("registerFlags", CU(cuMemHostRegister_v2)(m, 2 * MIB, 0x100u));
  fact("register", CU(cuMemHostRegister_v2)(m, 2 * MIB, 3u));
  fact("again", CU(cuMemHostRegister_v2)(m, 2 * MIB, 3u));
  fact("overlap", CU(cuMemHostRegister_v2)((char*)m + MIB, 2 * MIB, 3u));
  fact("device", CU(cuMemHostGetDevicePointer_v2)(&d, (char*)m + 64, 0u));
  say("same", d == (Ptr)(uintptr_t)m + 64);
  fact("freeIt", CU(cuMemFreeHost)(m));
  fact("unregisterInside", CU(cuMemHostUnregister)((char*)m + 4096));
  fact("unregister", CU(cuMemHostUnregister)(m));
  fact("unregisterTwice", CU(cuMemHostUnregister)(m));
  fact("unaligned", CU(cuMemHostRegister_v2)((char*)m + 100, (size_t)1000, 3u));
  fact("unregister", CU(cuMemHostUnregister)((char*)m + 100));
  fact("deviceAfter", CU(cuMemHostGetDevicePointer_v2)(&d, (char*)m + 100, 0u));
  munmap(m, 4 * MIB);
  fact("registerUnmapped", CU(cuMemHostRegister_v2)(m, 2 * MIB, 3u));
  close(fd);
}

static void pointer(const char* name, Ptr p, Ptr base) {
  printf("\nattributes of %s:", name);
  static const int asked[] = {1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 18, 19};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    uint64_t value = 0;
    int result = CU(cuPointerGetAttribute)(&value, asked[i], p);
    if (result) printf(" %d=E%d", asked[i], result);
    else if (asked[i] == 1) printf(" 1=%s", value ? "context" : "null");
    else if (value >= base && value <= p && value) printf(" %d=base+%lld", asked[i], (long long)(value - base));
    else printf(" %d=%lld", asked[i], (long long)value);
  }
}

void facts_of_attributes(void) {
  Ptr p = 0, va = 0;
  void* q = 0;
  Handle h = 0;
  CU(cuMemAlloc_v2)(&p, (size_t)5000);
  CU(cuMemHostAlloc)(&q, (size_t)5000, 3u);
  CU(cuMemCreate)(&h, 4 * MIB, &prop, 0ull);
  CU(cuMemAddressReserve)(&va, 16 * MIB, (size_t)0, (Ptr)0, 0ull);
  CU(cuMemMap)(va + 2 * MIB, 4 * MIB, (size_t)0, h, 0ull);
  CU(cuMemMap)(va + 8 * MIB, 4 * MIB, (size_t)0, h, 0ull);
  CU(cuMemSetAccess)(va + 2 * MIB, 4 * MIB, &access_own, (size_t)1);
  pointer("cuMemAlloc", p + 8, p);
  pointer("cuMemHostAlloc", (Ptr)(uintptr_t)q + 8, (Ptr)(uintptr_t)q);
  pointer("mapped", va + 5 * MIB, va);
  pointer("mapped without access", va + 9 * MIB, va);
  pointer("reserved", va, va);
  pointer("stack", (Ptr)(uintptr_t)&p, (Ptr)(uintptr_t)&p);
  group("attributes");
  int kinds[2] = {2, 9}, type = 99, ordinal = 99;
  void* into[2] = {&type, &ordinal};
  fact("listOfStack", CU(cuPointerGetAttributes)(2u, kinds, into, (Ptr)(uintptr_t)&p));
  say("type", type), say("ordinal", ordinal);
  fact("listOfMapped", CU(cuPointerGetAttributes)(2u, kinds, into, va + 2 * MIB));
  say("type", type), say("ordinal", ordinal);
  fact("listEmpty", CU(cuPointerGetAttributes)(0u, kinds, into, va + 2 * MIB));
  int fd = -1;
  Handle g = 0;
  CU(cuMemExportToShareableHandle)(&fd, h, 1, 0ull);
  CU(cuMemImportFromShareableHandle)(&g, (void*)(intptr_t)fd, 1);
  close(fd);
  CU(cuMemMap)(va + 12 * MIB, 4 * MIB, (size_t)0, g, 0ull);
  CU(cuMemSetAccess)(va + 12 * MIB, 4 * MIB, &access_own, (size_t)1);
  pointer("an import", va + 12 * MIB, va);
  Handle again = 0;
  group("imports");
  fact("retain", CU(cuMemRetainAllocationHandle)(&again, (void*)(va + 12 * MIB)));
  say("same", again == g);
  CU(cuMemRelease)(again);
  CU(cuMemRelease)(g);
  CU(cuMemUnmap)(va + 2 * MIB, 14 * MIB);
  CU(cuMemAddressFree)(va, 16 * MIB);
  CU(cuMemRelease)(h);
  CU(cuMemFree_v2)(p);
  CU(cuMemFreeHost)(q);
}

void facts_of_entry_points(void) {
  group("entry points");
  void* f = 0;
  int status = 9;
  fact("memAlloc", CU(cuGetProcAddress_v2)("cuMemAlloc", &f, 13000, (uint64_t)0, &status));
  say("status", status), say("v2", f == (void*)CU(cuMemAlloc_v2));
  fact("unknown", CU(cuGetProcAddress_v2)("cuNoSuchThing", &f, 13000, (uint64_t)0, &status));
  say("status", status), say("null", f == 0);
  fact("unknownNoStatus", CU(cuGetProcAddress_v2)("cuNoSuchThing", &f, 13000, (uint64_t)0, (int*)0));
  fact("batch12000", CU(cuGetProcAddress_v2)("cuMemcpyBatchAsync", &f, 12000, (uint64_t)0, &status));
  say("status", status), say("null", f == 0);
  fact("batch12080", CU(cuGetProcAddress_v2)("cuMemcpyBatchAsync", &f, 12080, (uint64_t)0, &status));
  say("status", status), say("v1", f == (void*)CU(cuMemcpyBatchAsync));
  fact("batch13000", CU(cuGetProcAddress_v2)("cuMemcpyBatchAsync", &f, 13000, (uint64_t)0, &status));
  say("status", status), say("v2", f == (void*)CU(cuMemcpyBatchAsync_v2));
  fact("named_v2", CU(cuGetProcAddress_v2)("cuMemAlloc_v2", &f, 13000, (uint64_t)0, &status));
  say("status", status);
}
