// facts.c goes on: what may be called while a stream captures, and what invalidates the capture; two devices.
#include "driver.h"

static Ptr va, linear;
static Handle spare;
static void *other, *event;
static Prop prop = {1, 1, {1, 0}, 0, 0, 0, 0, {0}};
static Access access_own = {{1, 0}, 3};
static char registered[8192];

static int call(int which) {
  Ptr p = 0;
  void* q = 0;
  size_t a, b;
  int n, result;
  switch (which) {
    case 0: result = CU(cuMemAlloc_v2)(&p, (size_t)256); if (!result) CU(cuMemFree_v2)(p); return result;
    case 1: return CU(cuMemFree_v2)((Ptr)0);
    case 2: result = CU(cuMemHostAlloc)(&q, (size_t)4096, 3u); if (!result) CU(cuMemFreeHost)(q); return result;
    case 3: result = CU(cuMemHostRegister_v2)(registered, sizeof registered, 3u); if (!result) CU(cuMemHostUnregister)(registered); return result;
    case 4: result = CU(cuMemCreate)(&p, 2 * MIB, &prop, 0ull); if (!result) CU(cuMemRelease)(p); return result;
    case 5: result = CU(cuMemAddressReserve)(&p, 2 * MIB, (size_t)0, (Ptr)0, 0ull); if (!result) CU(cuMemAddressFree)(p, 2 * MIB); return result;
    case 6: return CU(cuMemMap)(va + 2 * MIB, 2 * MIB, (size_t)0, spare, 0ull);
    case 7: return CU(cuMemSetAccess)(va + 2 * MIB, 2 * MIB, &access_own, (size_t)1);
    case 8: return CU(cuMemUnmap)(va + 2 * MIB, 2 * MIB);
    case 9: result = CU(cuStreamCreate)(&q, 1u); if (!result) CU(cuStreamDestroy_v2)(q); return result;
    case 10: return CU(cuStreamSynchronize)(other);
    case 11: return CU(cuStreamQuery)(other);
    case 12: result = CU(cuEventCreate)(&q, 2u); if (!result) CU(cuEventDestroy_v2)(q); return result;
    case 13: return CU(cuEventRecord)(event, other);
    case 14: return CU(cuEventQuery)(event);
    case 15: return CU(cuEventSynchronize)(event);
    case 16: return CU(cuCtxSynchronize)();
    case 17: return CU(cuMemcpyHtoD_v2)(va, "abcd", (size_t)4);
    case 18: return CU(cuMemcpyAsync)(va, va + 4096, (size_t)64, other);
    case 19: return CU(cuStreamWriteValue64_v2)(other, va, (uint64_t)5, 0u);
    case 20: return CU(cuMemGetInfo_v2)(&a, &b);
    case 21: return CU(cuMemGetAddressRange_v2)(&p, &a, linear);
    case 22: return CU(cuPointerGetAttribute)(&n, 2, linear);
    case 23: return CU(cuMemsetD8_v2)(va, 0, (size_t)4);
    case 24: result = CU(cuDevicePrimaryCtxRetain)(&q, 0); if (!result) CU(cuDevicePrimaryCtxRelease_v2)(0); return result;
    case 25: return CU(cuMemcpyDtoH_v2)(registered, va, (size_t)4);
    default: return -1;
  }
}
static const char* const names[] = {"memAlloc", "memFree", "hostAlloc", "hostRegister", "memCreate", "reserve", "map", "setAccess", "unmap",
  "streamCreate", "streamSync", "streamQuery", "eventCreate", "eventRecord", "eventQuery", "eventSync", "ctxSync", "copyIn", "copyAsync",
  "write", "memInfo", "addressRange", "pointerAttribute", "memset", "retain", "copyOut"};

static void during(const char* title, int capture_mode, int thread_mode) {
  printf("\n%s:", title);
  void *s = 0, *graph = 0;
  CU(cuStreamCreate)(&s, 1u);
  for (int which = 0; which < 26; which++) {
    CU(cuStreamSynchronize)(other);
    int begun = CU(cuStreamBeginCapture_v2)(s, capture_mode), mode = thread_mode, status = 9;
    if (thread_mode >= 0) CU(cuThreadExchangeStreamCaptureMode)(&mode);
    int result = call(which);
    if (thread_mode >= 0) CU(cuThreadExchangeStreamCaptureMode)(&mode);
    CU(cuStreamIsCapturing)(s, &status);
    graph = 0;
    int ended = CU(cuStreamEndCapture)(s, &graph);
    if (graph) CU(cuGraphDestroy)(graph);
    printf(" %s=%d", names[which], begun ? -begun : result);
    if (status != 1 || ended) printf("(%d,%d)", status, ended);
  }
  CU(cuStreamDestroy_v2)(s);
}

void facts_of_capture(void) {
  CU(cuMemCreate)(&spare, 2 * MIB, &prop, 0ull);
  CU(cuMemAddressReserve)(&va, 4 * MIB, (size_t)0, (Ptr)0, 0ull);
  CU(cuMemMap)(va, 2 * MIB, (size_t)0, spare, 0ull);
  CU(cuMemSetAccess)(va, 2 * MIB, &access_own, (size_t)1);
  CU(cuMemAlloc_v2)(&linear, (size_t)4096);
  CU(cuStreamCreate)(&other, 1u);
  CU(cuEventCreate)(&event, 2u);
  CU(cuEventRecord)(event, other);
  CU(cuStreamSynchronize)(other);
  during("global capture, thread as it starts", 0, -1);
  during("global capture, thread relaxed", 0, 2);
  during("relaxed capture, thread as it starts", 2, -1);
  group("capture");
  void *s = 0, *graph = 0;
  int status = 9, mode = 9;
  uint64_t id = 0;
  CU(cuStreamCreate)(&s, 1u);
  fact("endUnbegun", CU(cuStreamEndCapture)(s, &graph));
  fact("begin", CU(cuStreamBeginCapture_v2)(s, 0));
  fact("beginTwice", CU(cuStreamBeginCapture_v2)(s, 0));
  fact("is", CU(cuStreamIsCapturing)(s, &status));
  say("status", status);
  fact("info", CU(cuStreamGetCaptureInfo_v2)(s, &status, &id, (void**)0, (void**)0, (size_t*)0));
  say("status", status), say("id", id != 0);
  fact("sync", CU(cuStreamSynchronize)(s));
  fact("end", CU(cuStreamEndCapture)(s, &graph));
  fact("isAfter", CU(cuStreamIsCapturing)(s, &status));
  say("status", status);
  fact("infoAfter", CU(cuStreamGetCaptureInfo_v2)(s, &status, &id, (void**)0, (void**)0, (size_t*)0));
  say("status", status);
  mode = 7;
  fact("exchangeBad", CU(cuThreadExchangeStreamCaptureMode)(&mode));
  mode = 2;
  fact("exchange", CU(cuThreadExchangeStreamCaptureMode)(&mode));
  say("was", mode);
  fact("exchange", CU(cuThreadExchangeStreamCaptureMode)(&mode));
  say("was", mode);
  fact("legacy", CU(cuStreamBeginCapture_v2)((void*)0, 0));
  CU(cuStreamDestroy_v2)(s);
  CU(cuStreamDestroy_v2)(other);
  CU(cuEventDestroy_v2)(event);
  CU(cuMemFree_v2)(linear);
  CU(cuMemUnmap)(va, 2 * MIB);
  CU(cuMemUnmap)(va + 2 * MIB, 2 * MIB);
  CU(cuMemAddressFree)(va, 4 * MIB);
  CU(cuMemRelease)(spare);
}

void facts_of_two_devices(void) {
  int n = 0, can = 9;
  CU(cuDeviceGetCount)(&n);
  if (n < 2) return;
  group("two devices");
  void *zero = 0, *one = 0, *s0 = 0, *s1 = 0, *e0 = 0;
  Ptr a = 0, b = 0, p1 = 0;
  Handle h = 0;
  Access both[2] = {{{1, 0}, 3}, {{1, 1}, 3}};
  uint64_t access = 9;
  CU(cuCtxGetCurrent)(&zero);
  fact("canAccess", CU(cuDeviceCanAccessPeer)(&can, 0, 1));
  say("is", can);
  fact("canAccessSelf", CU(cuDeviceCanAccessPeer)(&can, 0, 0));
  say("is", can);
  fact("canAccessBad", CU(cuDeviceCanAccessPeer)(&can, 0, 99));
  Prop far = prop;
  far.location.id = 1;
  CU(cuMemCreate)(&h, 2 * MIB, &far, 0ull);
  CU(cuMemAddressReserve)(&a, 2 * MIB, (size_t)0, (Ptr)0, 0ull);
  CU(cuMemAddressReserve)(&b, 2 * MIB, (size_t)0, (Ptr)0, 0ull);
  CU(cuMemMap)(a, 2 * MIB, (size_t)0, h, 0ull);
  CU(cuMemMap)(b, 2 * MIB, (size_t)0, h, 0ull);
  fact("accessOfPeerContextUnheld", CU(cuMemSetAccess)(a, 2 * MIB, both, (size_t)1));
  fact("peerActive", CU(cuDevicePrimaryCtxGetState)(1, (unsigned*)&n, &can));
  say("is", can);
  fact("accessAgainOther", CU(cuMemSetAccess)(b, 2 * MIB, both + 1, (size_t)1));
  fact("getAccess", CU(cuMemGetAccess)(&access, &both[0].location, b));
  say("is", access);
  fact("copyToPeer", CU(cuMemcpyHtoD_v2)(a, "abcd", (size_t)4));
  fact("copyNoAccessHere", CU(cuMemcpyHtoD_v2)(b, "abcd", (size_t)4));
  CU(cuStreamCreate)(&s0, 1u);
  fact("writeToPeer", CU(cuStreamWriteValue64_v2)(s0, a, (uint64_t)5, 0u));
  fact("writeNoAccess", CU(cuStreamWriteValue64_v2)(s0, b, (uint64_t)5, 0u));
  fact("copyAsyncNoAccess", CU(cuMemcpyAsync)(b, a, (size_t)64, s0));
  fact("sync", CU(cuStreamSynchronize)(s0));
  fact("retain", CU(cuDevicePrimaryCtxRetain)(&one, 1));
  CU(cuEventCreate)(&e0, 2u);
  CU(cuCtxPushCurrent_v2)(one);
  fact("enablePeer", CU(cuCtxEnablePeerAccess)(zero, 0u));
  fact("enableTwice", CU(cuCtxEnablePeerAccess)(zero, 0u));
  fact("enableSelf", CU(cuCtxEnablePeerAccess)(one, 0u));
  fact("enableFlags", CU(cuCtxEnablePeerAccess)(zero, 1u));
  CU(cuStreamCreate)(&s1, 1u);
  CU(cuMemAlloc_v2)(&p1, (size_t)4096);
  fact("writeOtherContextStream", CU(cuStreamWriteValue64_v2)(s0, a, (uint64_t)5, 0u));
  fact("copyOtherContextStream", CU(cuMemcpyAsync)(a, a + 4096, (size_t)64, s0));
  Ptr own = 0;
  CU(cuMemAlloc_v2)(&own, (size_t)8192);
  size_t size = 64, idx = 0;
  Ptr from = own, to = own + 4096;
  CopyAttributes at = {1, {0, 0}, {0, 0}, 0};
  fact("copyOwnByOtherContextStream", CU(cuMemcpyAsync)(own, own + 4096, (size_t)64, s0));
  fact("batchOtherContextStream", CU(cuMemcpyBatchAsync_v2)(&to, &from, &size, (size_t)1, &at, &idx, (size_t)1, s0));
  from = a, to = a + 4096;
  fact("batchOtherContextMemory", CU(cuMemcpyBatchAsync_v2)(&to, &from, &size, (size_t)1, &at, &idx, (size_t)1, s0));
  CU(cuStreamSynchronize)(s0);
  CU(cuMemFree_v2)(own);
  fact("recordOtherContextEvent", CU(cuEventRecord)(e0, s1));
  fact("waitOtherContextEvent", CU(cuStreamWaitEvent)(s1, e0, 0u));
  fact("copyByOne", CU(cuMemcpyAsync)(b, p1, (size_t)64, s1));
  fact("memset", CU(cuMemsetD8_v2)(b, 0, (size_t)64));
  fact("freeInOtherContext", (CU(cuCtxPushCurrent_v2)(zero), CU(cuMemFree_v2)(p1)));
  CU(cuCtxPopCurrent_v2)(&zero);
  CU(cuStreamDestroy_v2)(s1);
  CU(cuCtxPopCurrent_v2)(&one);
  CU(cuDevicePrimaryCtxRelease_v2)(1);
  CU(cuStreamDestroy_v2)(s0);
  CU(cuEventDestroy_v2)(e0);
  CU(cuMemUnmap)(a, 2 * MIB);
  CU(cuMemUnmap)(b, 2 * MIB);
  CU(cuMemAddressFree)(a, 2 * MIB);
  CU(cuMemAddressFree)(b, 2 * MIB);
  CU(cuMemRelease)(h);
}
