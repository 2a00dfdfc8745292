// What the driver answers to right and wrong use, as `group: question=answer ...` lines. Run once on a real driver the lines are
// the truth (facts.txt); run on the stand-in they must be the same (tests/facts.rs).
#include "driver.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int device;
static void* primary;
static Prop prop = {1, 1, {1, 0}, 0, 0, 0, 0, {0}};
static Access access_own = {{1, 0}, 3};

static void before_init(void) {
  group("before init");
  int n = 0;
  void* p;
  fact("count", CU(cuDeviceGetCount)(&n));
  fact("getCurrent", CU(cuCtxGetCurrent)(&p));
  fact("version", CU(cuDriverGetVersion)(&n));
  fact("init1", CU(cuInit)(1u));
  fact("init", CU(cuInit)(0u));
  fact("deviceMinus", CU(cuDeviceGet)(&n, -1));
  fact("device999", CU(cuDeviceGet)(&n, 999));
  fact("device0", CU(cuDeviceGet)(&device, 0));
  fact("attribute0", CU(cuDeviceGetAttribute)(&n, 0, 0));
  fact("attribute9999", CU(cuDeviceGetAttribute)(&n, 9999, 0));
  fact("attributeNull", CU(cuDeviceGetAttribute)((int*)0, 16, 0));
  fact("attributeDevice", CU(cuDeviceGetAttribute)(&n, 16, 77));
  const char* text = 0;
  fact("errorName", CU(cuGetErrorName)(1, &text));
  printf("(%s)", text);
  fact("errorString", CU(cuGetErrorString)(201, &text));
  printf("(%s)", text);
  fact("errorUnknown", CU(cuGetErrorName)(12345, &text));
  printf("(%s)", text ? text : "null");
}

static void no_context(void) {
  group("no context");
  Ptr p = 0, va = 0;
  void *q = 0, *s;
  size_t a, b;
  int n;
  unsigned flags;
  uint64_t id, access = 9;
  fact("getCurrent", CU(cuCtxGetCurrent)(&q));
  say("null", q == 0);
  fact("getDevice", CU(cuCtxGetDevice)(&n));
  fact("pop", CU(cuCtxPopCurrent_v2)(&q));
  fact("setNull", CU(cuCtxSetCurrent)((void*)0));
  fact("pushNull", CU(cuCtxPushCurrent_v2)((void*)0));
  fact("sync", CU(cuCtxSynchronize)());
  fact("getId", CU(cuCtxGetId)((void*)0, &id));
  fact("memAlloc", CU(cuMemAlloc_v2)(&p, (size_t)256));
  fact("memFreeNull", CU(cuMemFree_v2)((Ptr)0));
  fact("hostAlloc", CU(cuMemHostAlloc)(&q, (size_t)4096, 3u));
  fact("streamCreate", CU(cuStreamCreate)(&s, 1u));
  fact("eventCreate", CU(cuEventCreate)(&s, 0u));
  fact("memInfo", CU(cuMemGetInfo_v2)(&a, &b));
  fact("state", CU(cuDevicePrimaryCtxGetState)(0, &flags, &n));
  say("active", n);
  Handle h = 0;
  fact("granularity", CU(cuMemGetAllocationGranularity)(&a, &prop, 0));
  say("bytes", a);
  fact("recommended", CU(cuMemGetAllocationGranularity)(&a, &prop, 1));
  say("bytes", a);
  fact("create", CU(cuMemCreate)(&h, 2 * MIB, &prop, 0ull));
  fact("reserve", CU(cuMemAddressReserve)(&va, 4 * MIB, (size_t)0, (Ptr)0, 0ull));
  fact("map", CU(cuMemMap)(va, 2 * MIB, (size_t)0, h, 0ull));
  fact("access", CU(cuMemSetAccess)(va, 2 * MIB, &access_own, (size_t)1));
  fact("getAccess", CU(cuMemGetAccess)(&access, &access_own.location, va));
  say("is", access);
  fact("type", CU(cuPointerGetAttribute)(&n, 2, va));
  fact("range", CU(cuMemGetAddressRange_v2)(&p, &a, va));
  fact("copy", CU(cuMemcpyHtoD_v2)(va, "abcd", (size_t)4));
  fact("memset", CU(cuMemsetD8_v2)(va, 0, (size_t)4));
  fact("unmap", CU(cuMemUnmap)(va, 2 * MIB));
  fact("addressFree", CU(cuMemAddressFree)(va, 4 * MIB));
  fact("release", CU(cuMemRelease)(h));
  fact("hostRegister", CU(cuMemHostRegister_v2)(&prop, sizeof prop, 2u));
}

static void contexts(void) {
  group("contexts");
  unsigned flags;
  int n;
  void *q, *r;
  uint64_t id;
  fact("releaseUnheld", CU(cuDevicePrimaryCtxRelease_v2)(0));
  fact("retain", CU(cuDevicePrimaryCtxRetain)(&primary, 0));
  fact("retainBad", CU(cuDevicePrimaryCtxRetain)(&q, 99));
  fact("state", CU(cuDevicePrimaryCtxGetState)(0, &flags, &n));
  say("active", n);
  fact("getCurrent", CU(cuCtxGetCurrent)(&q));
  say("null", q == 0);
  fact("push", CU(cuCtxPushCurrent_v2)(primary));
  fact("getCurrent", CU(cuCtxGetCurrent)(&q));
  say("primary", q == primary);
  fact("getDevice", CU(cuCtxGetDevice)(&n));
  say("device", n);
  fact("getId", CU(cuCtxGetId)((void*)0, &id));
  fact("pushAgain", CU(cuCtxPushCurrent_v2)(primary));
  fact("pop", CU(cuCtxPopCurrent_v2)(&q));
  fact("pop", CU(cuCtxPopCurrent_v2)(&r));
  fact("popEmpty", CU(cuCtxPopCurrent_v2)(&r));
  fact("set", CU(cuCtxSetCurrent)(primary));
  fact("setNull", CU(cuCtxSetCurrent)((void*)0));
  fact("popAfterSetNull", CU(cuCtxPopCurrent_v2)(&r));
  fact("set", CU(cuCtxSetCurrent)(primary));
  fact("retainSame", CU(cuDevicePrimaryCtxRetain)(&q, 0));
  say("same", q == primary);
  fact("release", CU(cuDevicePrimaryCtxRelease_v2)(0));
  fact("sync", CU(cuCtxSynchronize)());
}

static void linear(void) {
  group("linear memory");
  Ptr p = 0, base;
  size_t bytes, all;
  Handle h;
  char back[5] = {0};
  fact("zero", CU(cuMemAlloc_v2)(&p, (size_t)0));
  fact("huge", CU(cuMemAlloc_v2)(&p, (size_t)1 << 46));
  fact("alloc", CU(cuMemAlloc_v2)(&p, (size_t)5000));
  say("aligned", p % 256 == 0);
  fact("range", CU(cuMemGetAddressRange_v2)(&base, &bytes, p + 4999));
  say("start", base == p);
  say("bytes", bytes);
  fact("rangePast", CU(cuMemGetAddressRange_v2)(&base, &bytes, p + ((size_t)1 << 40)));
  fact("rangeHost", CU(cuMemGetAddressRange_v2)(&base, &bytes, (Ptr)(uintptr_t)&p));
  fact("retainHandle", CU(cuMemRetainAllocationHandle)(&h, (void*)p));
  fact("retainHandleHost", CU(cuMemRetainAllocationHandle)(&h, (void*)&p));
  fact("memset", CU(cuMemsetD8_v2)(p, 'x', (size_t)5000));
  fact("copyIn", CU(cuMemcpyHtoD_v2)(p, "abcd", (size_t)4));
  fact("copyOut", CU(cuMemcpyDtoH_v2)(back, p, (size_t)5));
  printf("(%.5s)", back);
  fact("copyZero", CU(cuMemcpyHtoD_v2)(p, "abcd", (size_t)0));
  fact("copyNull", CU(cuMemcpyHtoD_v2)((Ptr)0, "abcd", (size_t)4));
  fact("copyToHostAddress", CU(cuMemcpyHtoD_v2)((Ptr)(uintptr_t)back, "abcd", (size_t)4));
  fact("copyUnified", CU(cuMemcpy)((Ptr)(uintptr_t)back, p, (size_t)4));
  fact("d32", CU(cuMemsetD32_v2)(p, 7u, (size_t)4));
  fact("d32Unaligned", CU(cuMemsetD32_v2)(p + 1, 7u, (size_t)4));
  fact("freeInside", CU(cuMemFree_v2)(p + 256));
  fact("free", CU(cuMemFree_v2)(p));
  fact("freeTwice", CU(cuMemFree_v2)(p));
  fact("freeNull", CU(cuMemFree_v2)((Ptr)0));
  fact("freeHostAddress", CU(cuMemFree_v2)((Ptr)(uintptr_t)&p));
  fact("info", CU(cuMemGetInfo_v2)(&bytes, &all));
  say("sane", bytes > 0 && bytes <= all);
}

static void create(void) {
  group("create");
  Handle h = 0, g = 0;
  int fd = -1;
  Prop odd = prop, seen;
  fact("unaligned", CU(cuMemCreate)(&h, 2 * MIB + 4096, &prop, 0ull));
  fact("zero", CU(cuMemCreate)(&h, (size_t)0, &prop, 0ull));
  fact("flags", CU(cuMemCreate)(&h, 2 * MIB, &prop, 1ull));
  fact("huge", CU(cuMemCreate)(&h, (size_t)1 << 46, &prop, 0ull));
  odd.type = 0;
  fact("type", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  odd = prop, odd.location.type = 0;
  fact("location", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  odd = prop, odd.location.id = 99;
  fact("device", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  odd = prop, odd.location.id = -1;
  fact("deviceMinus", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  odd = prop, odd.handles = 2;
  fact("win32", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  odd = prop, odd.rdma = 1;
  if (!fact("rdma", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull))) CU(cuMemRelease)(h);
  odd = prop, odd.handles = 0;
  fact("noHandleType", CU(cuMemCreate)(&h, 2 * MIB, &odd, 0ull));
  fact("exportIt", CU(cuMemExportToShareableHandle)(&fd, h, 1, 0ull));
  fact("release", CU(cuMemRelease)(h));
  fact("releaseTwice", CU(cuMemRelease)(h));
  fact("releaseZero", CU(cuMemRelease)((Handle)0));
  fact("create", CU(cuMemCreate)(&h, 4 * MIB, &prop, 0ull));
  fact("properties", CU(cuMemGetAllocationPropertiesFromHandle)(&seen, h));
  say("type", seen.type), say("handles", seen.handles), say("locationType", seen.location.type), say("id", seen.location.id);
  fact("exportFlags", CU(cuMemExportToShareableHandle)(&fd, h, 1, 1ull));
  fact("exportWrongType", CU(cuMemExportToShareableHandle)(&fd, h, 2, 0ull));
  fact("export", CU(cuMemExportToShareableHandle)(&fd, h, 1, 0ull));
  say("cloexec", fcntl(fd, F_GETFD) & FD_CLOEXEC);
  fact("importMinus", CU(cuMemImportFromShareableHandle)(&g, (void*)(intptr_t)-1, 1));
  int null = open("/dev/null", O_RDWR);
  fact("importNull", CU(cuMemImportFromShareableHandle)(&g, (void*)(intptr_t)null, 1));
  fact("importWrongType", CU(cuMemImportFromShareableHandle)(&g, (void*)(intptr_t)fd, 2));
  fact("import", CU(cuMemImportFromShareableHandle)(&g, (void*)(intptr_t)fd, 1));
  say("sameHandle", g == h);
  fact("properties", CU(cuMemGetAllocationPropertiesFromHandle)(&seen, g));
  say("type", seen.type), say("handles", seen.handles), say("locationType", seen.location.type), say("id", seen.location.id);
  close(fd);
  int fd2 = -1;
  fact("exportImported", CU(cuMemExportToShareableHandle)(&fd2, g, 1, 0ull));
  close(fd2);
  fact("releaseImported", CU(cuMemRelease)(g));
  fact("release", CU(cuMemRelease)(h));
  close(null);
}

static void space(void) {
  group("space");
  Ptr a = 0, b = 0, c = 0;
  Handle h = 0, g = 0, k = 0;
  uint64_t access = 9;
  size_t bytes;
  char back[4];
  fact("reserveUnaligned", CU(cuMemAddressReserve)(&a, 4096 + 2 * MIB, (size_t)0, (Ptr)0, 0ull));
  fact("reserveZero", CU(cuMemAddressReserve)(&a, (size_t)0, (size_t)0, (Ptr)0, 0ull));
  fact("reserveFlags", CU(cuMemAddressReserve)(&a, 2 * MIB, (size_t)0, (Ptr)0, 1ull));
  fact("reserveOddAlign", CU(cuMemAddressReserve)(&a, 2 * MIB, 3 * MIB, (Ptr)0, 0ull));
  if (!fact("reserveSmallAlign", CU(cuMemAddressReserve)(&a, 2 * MIB, (size_t)4096, (Ptr)0, 0ull))) CU(cuMemAddressFree)(a, 2 * MIB);
  if (!fact("reserve4G", CU(cuMemAddressReserve)(&a, 8192 * MIB, 4096 * MIB, (Ptr)0, 0ull))) {
    say("aligned", a % (4096 * MIB) == 0);
    CU(cuMemAddressFree)(a, 8192 * MIB);
  }
  fact("reserve", CU(cuMemAddressReserve)(&a, 16 * MIB, (size_t)0, (Ptr)0, 0ull));
  if (!fact("reserveTaken", CU(cuMemAddressReserve)(&b, 2 * MIB, (size_t)0, a, 0ull))) {
    say("elsewhere", b != a);
    CU(cuMemAddressFree)(b, 2 * MIB);
  }
  fact("freeInside", CU(cuMemAddressFree)(a + 2 * MIB, 2 * MIB));
  fact("freePart", CU(cuMemAddressFree)(a, 2 * MIB));
  CU(cuMemCreate)(&h, 4 * MIB, &prop, 0ull);
  CU(cuMemCreate)(&g, 2 * MIB, &prop, 0ull);
  fact("mapOffset", CU(cuMemMap)(a, 2 * MIB, 2 * MIB, h, 0ull));
  fact("mapUnalignedAt", CU(cuMemMap)(a + 4096, 4 * MIB, (size_t)0, h, 0ull));
  fact("mapUnalignedSize", CU(cuMemMap)(a, 4096 + 2 * MIB, (size_t)0, h, 0ull));
  fact("mapTooLong", CU(cuMemMap)(a, 6 * MIB, (size_t)0, h, 0ull));
  fact("mapFlags", CU(cuMemMap)(a, 4 * MIB, (size_t)0, h, 1ull));
  fact("mapNowhere", CU(cuMemMap)((Ptr)1 << 44, 4 * MIB, (size_t)0, h, 0ull));
  if (!fact("mapPart", CU(cuMemMap)(a, 2 * MIB, (size_t)0, h, 0ull))) CU(cuMemUnmap)(a, 2 * MIB);
  fact("accessUnmapped", CU(cuMemSetAccess)(a, 4 * MIB, &access_own, (size_t)1));
  fact("getAccessUnmapped", CU(cuMemGetAccess)(&access, &access_own.location, a));
  fact("map", CU(cuMemMap)(a, 4 * MIB, (size_t)0, h, 0ull));
  fact("mapTwice", CU(cuMemMap)(a, 4 * MIB, (size_t)0, h, 0ull));
  fact("mapOverlap", CU(cuMemMap)(a + 2 * MIB, 2 * MIB, (size_t)0, g, 0ull));
  fact("getAccess", CU(cuMemGetAccess)(&access, &access_own.location, a));
  say("is", access);
  fact("copyNoAccess", CU(cuMemcpyHtoD_v2)(a, "abcd", (size_t)4));
  fact("rangeNoAccess", CU(cuMemGetAddressRange_v2)(&b, &bytes, a));
  Access odd = access_own;
  odd.flags = 2;
  fact("accessFlags", CU(cuMemSetAccess)(a, 4 * MIB, &odd, (size_t)1));
  odd = access_own, odd.location.id = 99;
  fact("accessDevice", CU(cuMemSetAccess)(a, 4 * MIB, &odd, (size_t)1));
  odd = access_own, odd.location.type = 2;
  fact("accessHost", CU(cuMemSetAccess)(a, 4 * MIB, &odd, (size_t)1));
  fact("accessCount0", CU(cuMemSetAccess)(a, 4 * MIB, &access_own, (size_t)0));
  fact("accessUnaligned", CU(cuMemSetAccess)(a, 4 * MIB - 4096, &access_own, (size_t)1));
  fact("accessTooFar", CU(cuMemSetAccess)(a, 6 * MIB, &access_own, (size_t)1));
  fact("accessPart", CU(cuMemSetAccess)(a, 2 * MIB, &access_own, (size_t)1));
  fact("getFirst", CU(cuMemGetAccess)(&access, &access_own.location, a));
  say("is", access);
  fact("getSecond", CU(cuMemGetAccess)(&access, &access_own.location, a + 2 * MIB));
  say("is", access);
  fact("access", CU(cuMemSetAccess)(a, 4 * MIB, &access_own, (size_t)1));
  fact("copy", CU(cuMemcpyHtoD_v2)(a + 3 * MIB, "abcd", (size_t)4));
  fact("copyPast", CU(cuMemcpyHtoD_v2)(a + 4 * MIB - 2, "abcd", (size_t)4));
  fact("range", CU(cuMemGetAddressRange_v2)(&b, &bytes, a + 3 * MIB));
  say("start", (long long)(b - a)), say("bytes", bytes);
  fact("freeAlloc", CU(cuMemFree_v2)(a));
  fact("mapG", CU(cuMemMap)(a + 4 * MIB, 2 * MIB, (size_t)0, g, 0ull));
  fact("accessBoth", CU(cuMemSetAccess)(a, 6 * MIB, &access_own, (size_t)1));
  fact("copyAcross", CU(cuMemcpyHtoD_v2)(a + 4 * MIB - 2, "abcd", (size_t)4));
  fact("retain", CU(cuMemRetainAllocationHandle)(&k, (void*)(a + 3 * MIB + 5)));
  say("same", k == h);
  fact("retainUnmapped", CU(cuMemRetainAllocationHandle)(&k, (void*)(a + 8 * MIB)));
  fact("releaseRetained", CU(cuMemRelease)(h));
  fact("mapAlias", CU(cuMemMap)(a + 8 * MIB, 4 * MIB, (size_t)0, h, 0ull));
  fact("releaseMapped", CU(cuMemRelease)(h));
  fact("releaseOnceMore", CU(cuMemRelease)(h));
  fact("exportReleased", CU(cuMemExportToShareableHandle)(&access, h, 1, 0ull));
  fact("retainReleased", CU(cuMemRetainAllocationHandle)(&k, (void*)a));
  say("same", k == h);
  CU(cuMemRelease)(k);
  fact("accessAlias", CU(cuMemSetAccess)(a + 8 * MIB, 4 * MIB, &access_own, (size_t)1));
  fact("copyAlias", CU(cuMemcpyDtoH_v2)(back, a + 11 * MIB, (size_t)4));
  printf("(%.4s)", back);
  fact("freeMapped", CU(cuMemAddressFree)(a, 16 * MIB));
  fact("unmapPart", CU(cuMemUnmap)(a, 2 * MIB));
  fact("unmapUnaligned", CU(cuMemUnmap)(a, 4096 + 2 * MIB));
  fact("unmapHole", CU(cuMemUnmap)(a + 6 * MIB, 2 * MIB));
  fact("unmapOverHole", CU(cuMemUnmap)(a, 12 * MIB));
  fact("unmapBoth", CU(cuMemUnmap)(a, 6 * MIB));
  fact("unmapTwice", CU(cuMemUnmap)(a, 6 * MIB));
  fact("copyUnmapped", CU(cuMemcpyHtoD_v2)(a, "abcd", (size_t)4));
  fact("unmapAlias", CU(cuMemUnmap)(a + 8 * MIB, 4 * MIB));
  fact("free", CU(cuMemAddressFree)(a, 16 * MIB));
  fact("freeTwice", CU(cuMemAddressFree)(a, 16 * MIB));
  fact("releaseG", CU(cuMemRelease)(g));
  fact("reserveHint", CU(cuMemAddressReserve)(&c, 16 * MIB, (size_t)0, a, 0ull));
  say("honoured", c == a);
  CU(cuMemAddressFree)(c, 16 * MIB);
}

void facts_of_pinned(void);
void facts_of_attributes(void);
void facts_of_entry_points(void);
void facts_of_streams(void* primary, Prop* prop);
void facts_of_capture(void);
void facts_of_two_devices(void);

int question;
static void crashed(int signal) {
  (void)signal;
  char line[32];
  int n = snprintf(line, sizeof line, "=CRASH@%d\n", question);
  if (write(1, line, n)) _exit(77);
  _exit(77);
}

static void end(void) {
  group("end");
  void* q;
  int active;
  unsigned flags;
  Ptr p;
  fact("release", CU(cuDevicePrimaryCtxRelease_v2)(0));
  fact("state", CU(cuDevicePrimaryCtxGetState)(0, &flags, &active));
  say("active", active);
  fact("alloc", CU(cuMemAlloc_v2)(&p, (size_t)256));
  fact("getCurrent", CU(cuCtxGetCurrent)(&q));
  say("primary", q == primary);
  fact("push", CU(cuCtxPushCurrent_v2)(primary));
  fact("releaseAgain", CU(cuDevicePrimaryCtxRelease_v2)(0));
}

static void table(void) {
  group("device attributes");
  for (int i = 1; i < 160; i++) {
    int value = 0, result = CU(cuDeviceGetAttribute)(&value, i, 0);
    if (!result && value) printf(" %d=%d", i, value);
    else if (result) printf(" %d=E%d", i, result);
  }
  char name[64] = "", bus[16] = "";
  size_t bytes = 0;
  CU(cuDeviceGetName)(name, 64, 0);
  CU(cuDeviceGetPCIBusId)(bus, 16, 0);
  CU(cuDeviceTotalMem_v2)(&bytes, 0);
  printf(" (%s) bus of %zu characters, %zu bytes", name, strlen(bus), bytes);
}

static void streams(void) { facts_of_streams(primary, &prop); }

static const struct { const char* name; void (*run)(void); } parts[] = {
  {"linear", linear}, {"create", create}, {"space", space}, {"pinned", facts_of_pinned}, {"attributes", facts_of_attributes}, {"entry", facts_of_entry_points},
  {"streams", streams}, {"capture", facts_of_capture}, {"two", facts_of_two_devices}, {"end", end}, {"table", table}};

int main(int n, char** v) {
  signal(SIGSEGV, crashed);
  if (n != 2) return 2;
  if (!strcmp(v[1], "start")) {
    before_init();
    no_context();
    contexts();
  }
  CU(cuInit)(0u);
  CU(cuDevicePrimaryCtxRetain)(&primary, 0);
  CU(cuCtxSetCurrent)(primary);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strcmp(v[1], parts[i].name)) parts[i].run();
  puts("");
  return 0;
}
