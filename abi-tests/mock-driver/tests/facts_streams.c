// facts.c goes on: streams, stream writes, copies, events.
#include "driver.h"
#include <time.h>

static volatile int gate;
static void wait_at_gate(void* unused) {
  (void)unused;
  struct timespec pause = {0, 100000};
  for (int i = 0; !gate && i < 20000; i++) nanosleep(&pause, 0);
}

static void writes(void* s, Ptr mapped, Ptr unreadable) {
  group("stream writes");
  Ptr p = 0;
  uint64_t *word = 0, local = 0;
  CU(cuMemAlloc_v2)(&p, (size_t)4096);
  CU(cuMemHostAlloc)(&word, (size_t)4096, 3u);
  Ptr w = (Ptr)(uintptr_t)word;
  word[0] = word[1] = word[2] = 0;
  fact("pinned", CU(cuStreamWriteValue64_v2)(s, w, (uint64_t)5, 0u));
  fact("pinned32", CU(cuStreamWriteValue32_v2)(s, w + 8, 6u, 0u));
  fact("noBarrier", CU(cuStreamWriteValue64_v2)(s, w + 16, (uint64_t)7, 1u));
  fact("memAlloc", CU(cuStreamWriteValue64_v2)(s, p, (uint64_t)5, 0u));
  fact("mapped", CU(cuStreamWriteValue64_v2)(s, mapped, (uint64_t)5, 0u));
  fact("sync", CU(cuStreamSynchronize)(s));
  say("first", word[0]), say("second", word[1]), say("third", word[2]);
  fact("flags", CU(cuStreamWriteValue64_v2)(s, w, (uint64_t)5, 4u));
  fact("misaligned", CU(cuStreamWriteValue64_v2)(s, w + 1, (uint64_t)5, 0u));
  fact("misaligned4", CU(cuStreamWriteValue64_v2)(s, w + 4, (uint64_t)5, 0u));
  fact("null", CU(cuStreamWriteValue64_v2)(s, (Ptr)0, (uint64_t)5, 0u));
  fact("stack", CU(cuStreamWriteValue64_v2)(s, (Ptr)(uintptr_t)&local, (uint64_t)5, 0u));
  fact("noAccess", CU(cuStreamWriteValue64_v2)(s, unreadable, (uint64_t)5, 0u));
  MemOp ops[2];
  memset(ops, 0, sizeof ops);
  ops[0].write.operation = 5, ops[0].write.address = w, ops[0].write.value = 41;
  ops[1].write.operation = 2, ops[1].write.address = w + 8, ops[1].write.value = 42;
  fact("batch", CU(cuStreamBatchMemOp_v2)(s, 2u, ops, 0u));
  fact("batchFlags", CU(cuStreamBatchMemOp_v2)(s, 2u, ops, 1u));
  fact("batchEmpty", CU(cuStreamBatchMemOp_v2)(s, 0u, ops, 0u));
  fact("batch257", CU(cuStreamBatchMemOp_v2)(s, 257u, ops, 0u));
  ops[1].operation = 77;
  fact("batchOperation", CU(cuStreamBatchMemOp_v2)(s, 2u, ops, 0u));
  fact("sync", CU(cuStreamSynchronize)(s));
  say("first", word[0]), say("second", word[1]);
  CU(cuMemFree_v2)(p);
  CU(cuMemFreeHost)(word);
}

static void copies(void* s, Ptr mapped, Ptr unreadable) {
  group("async copies");
  Ptr p = 0, dst[3], src[3];
  size_t sizes[3] = {8, 8, 8}, idx[2] = {0, 1}, fail = 99;
  char *host = 0, heap[32] = "heap memory";
  CU(cuMemAlloc_v2)(&p, (size_t)4096);
  CU(cuMemHostAlloc)(&host, (size_t)4096, 3u);
  fact("in", CU(cuMemcpyHtoDAsync_v2)(p, host, (size_t)64, s));
  fact("inHeap", CU(cuMemcpyHtoDAsync_v2)(p, heap, (size_t)32, s));
  fact("out", CU(cuMemcpyDtoHAsync_v2)(host, p, (size_t)32, s));
  fact("across", CU(cuMemcpyDtoDAsync_v2)(mapped, p, (size_t)32, s));
  fact("unified", CU(cuMemcpyAsync)(mapped + 100, (Ptr)(uintptr_t)host, (size_t)13, s));
  fact("sync", CU(cuStreamSynchronize)(s));
  printf("(%s)", host);
  fact("zero", CU(cuMemcpyAsync)(mapped, p, (size_t)0, s));
  fact("noAccess", CU(cuMemcpyAsync)(unreadable, p, (size_t)32, s));
  fact("null", CU(cuMemcpyAsync)((Ptr)0, p, (size_t)32, s));
  fact("memsetAsync", CU(cuMemsetD8Async)(p, 0, (size_t)4096, s));
  fact("d32Async", CU(cuMemsetD32Async)(p, 9u, (size_t)16, s));
  for (int i = 0; i < 3; i++) dst[i] = p + 256 * i, src[i] = mapped + 256 * i;
  CopyAttributes at = {1, {0, 0}, {0, 0}, 0};
  fact("batch", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  fact("batchV1", CU(cuMemcpyBatchAsync)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, &fail, s));
  say("fail", (long long)fail);
  CopyAttributes two[2] = {at, at};
  fact("twoAttributes", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, two, idx, (size_t)2, s));
  fact("count0", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)0, &at, idx, (size_t)1, s));
  fact("attributes0", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)0, s));
  fact("attributes4", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)4, s));
  idx[0] = 1;
  fact("firstIndex", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  idx[0] = 0;
  at.order = 0;
  fact("order0", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  at.order = 9;
  fact("order9", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  at.order = 3;
  fact("order3", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  at.flags = 1;
  fact("overlap", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  at.flags = 8;
  fact("flags8", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  at.flags = 0, at.order = 1;
  fact("legacyStream", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, (void*)0));
  sizes[1] = 0;
  fact("sizeZero", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  sizes[1] = 8;
  dst[1] = unreadable;
  fact("noAccess", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  dst[1] = 0;
  fact("null", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  dst[1] = (Ptr)(uintptr_t)heap;
  fact("heap", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  dst[1] = (Ptr)(uintptr_t)host;
  fact("pinned", CU(cuMemcpyBatchAsync_v2)(dst, src, sizes, (size_t)3, &at, idx, (size_t)1, s));
  fact("sync", CU(cuStreamSynchronize)(s));
  CU(cuMemFree_v2)(p);
  CU(cuMemFreeHost)(host);
}

static void order(void* s, void* other) {
  group("order");
  void *e = 0, *f = 0, *g = 0;
  float ms;
  uint64_t* word = 0;
  CU(cuMemHostAlloc)(&word, (size_t)4096, 3u);
  word[0] = word[1] = 0;
  CU(cuEventCreate)(&e, 2u);
  CU(cuEventCreate)(&f, 0u);
  fact("eventFlags", CU(cuEventCreate)(&g, 0x100u));
  fact("queryUnrecorded", CU(cuEventQuery)(e));
  gate = 0;
  fact("hostFunction", CU(cuLaunchHostFunc)(s, wait_at_gate, (void*)0));
  fact("write", CU(cuStreamWriteValue64_v2)(s, (Ptr)(uintptr_t)word, (uint64_t)5, 0u));
  fact("record", CU(cuEventRecord)(e, s));
  fact("query", CU(cuStreamQuery)(s));
  fact("queryEvent", CU(cuEventQuery)(e));
  fact("waitEvent", CU(cuStreamWaitEvent)(other, e, 0u));
  fact("waitEventFlags", CU(cuStreamWaitEvent)(other, e, 8u));
  fact("writeOther", CU(cuStreamWriteValue64_v2)(other, (Ptr)(uintptr_t)(word + 1), (uint64_t)6, 0u));
  fact("queryOther", CU(cuStreamQuery)(other));
  say("first", word[0]), say("second", word[1]);
  gate = 1;
  fact("syncOther", CU(cuStreamSynchronize)(other));
  say("first", word[0]), say("second", word[1]);
  fact("queryEvent", CU(cuEventQuery)(e));
  fact("syncEvent", CU(cuEventSynchronize)(e));
  fact("query", CU(cuStreamQuery)(s));
  fact("elapsedUntimed", CU(cuEventElapsedTime_v2)(&ms, e, e));
  fact("elapsedUnrecorded", CU(cuEventElapsedTime_v2)(&ms, f, f));
  fact("recordTimed", CU(cuEventRecord)(f, s));
  CU(cuStreamSynchronize)(s);
  fact("elapsed", CU(cuEventElapsedTime_v2)(&ms, f, f));
  gate = 0;
  CU(cuLaunchHostFunc)(s, wait_at_gate, (void*)0);
  CU(cuEventRecord)(e, s);
  fact("destroyPendingEvent", CU(cuEventDestroy_v2)(e));
  gate = 1;
  fact("destroyEvent", CU(cuEventDestroy_v2)(f));
  fact("sync", CU(cuStreamSynchronize)(s));
  CU(cuMemFreeHost)(word);
}

static void without_context(void* primary, void* s, Ptr mapped) {
  group("streams with no current context");
  void *q, *e = 0;
  int n;
  CU(cuEventCreate)(&e, 2u);
  CU(cuCtxSetCurrent)((void*)0);
  fact("query", CU(cuStreamQuery)(s));
  fact("write", CU(cuStreamWriteValue64_v2)(s, mapped, (uint64_t)5, 0u));
  fact("copy", CU(cuMemcpyAsync)(mapped, mapped + 4096, (size_t)32, s));
  size_t size = 32, idx = 0;
  Ptr from = mapped, to = mapped + 4096;
  CopyAttributes at = {1, {0, 0}, {0, 0}, 0};
  fact("batch", CU(cuMemcpyBatchAsync_v2)(&to, &from, &size, (size_t)1, &at, &idx, (size_t)1, s));
  fact("record", CU(cuEventRecord)(e, s));
  fact("wait", CU(cuStreamWaitEvent)(s, e, 0u));
  fact("sync", CU(cuStreamSynchronize)(s));
  fact("eventQuery", CU(cuEventQuery)(e));
  fact("capturing", CU(cuStreamIsCapturing)(s, &n));
  fact("getCtx", CU(cuStreamGetCtx)(s, &q));
  say("primary", q == primary);
  fact("eventDestroy", CU(cuEventDestroy_v2)(e));
  fact("destroy", CU(cuStreamDestroy_v2)(s));
  CU(cuCtxSetCurrent)(primary);
}

void facts_of_streams(void* primary, Prop* prop) {
  group("streams");
  void *s = 0, *other = 0, *q;
  int least, greatest, n;
  Access access = {{1, 0}, 3};
  Ptr va = 0;
  Handle h = 0;
  CU(cuMemCreate)(&h, 2 * MIB, prop, 0ull);
  CU(cuMemAddressReserve)(&va, 4 * MIB, (size_t)0, (Ptr)0, 0ull);
  CU(cuMemMap)(va, 2 * MIB, (size_t)0, h, 0ull);
  CU(cuMemMap)(va + 2 * MIB, 2 * MIB, (size_t)0, h, 0ull);
  CU(cuMemSetAccess)(va, 2 * MIB, &access, (size_t)1);
  fact("flags", CU(cuStreamCreate)(&s, 0x100u));
  fact("outNull", CU(cuStreamCreate)((void**)0, 1u));
  fact("create", CU(cuStreamCreate)(&s, 1u));
  fact("priorities", CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
  say("least", least), say("greatest", greatest);
  fact("createPriority", CU(cuStreamCreateWithPriority)(&other, 1u, -3));
  fact("getPriority", CU(cuStreamGetPriority)(other, &n));
  say("is", n);
  fact("query", CU(cuStreamQuery)(s));
  fact("getCtx", CU(cuStreamGetCtx)(s, &q));
  say("primary", q == primary);
  fact("legacyQuery", CU(cuStreamQuery)((void*)0));
  fact("legacySync", CU(cuStreamSynchronize)((void*)0));
  fact("destroyLegacy", CU(cuStreamDestroy_v2)((void*)0));
  writes(s, va, va + 2 * MIB);
  copies(s, va, va + 2 * MIB);
  order(s, other);
  without_context(primary, s, va);
  CU(cuStreamDestroy_v2)(other);
  CU(cuMemUnmap)(va, 4 * MIB);
  CU(cuMemAddressFree)(va, 4 * MIB);
  CU(cuMemRelease)(h);
}
