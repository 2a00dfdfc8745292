/* Calls of a communicator of one rank over the driver stand-in: what they give without a kernel, and which have one: abi-tests/tests/launches.rs. */
#include <string.h>
#include "driver.h"

enum { kLarge = 16 << 20, kSmall = 4096 };

int main(void) {
  ncclComm_t comm;
  Context context;
  void* stream;
  char *from, *to, *host = malloc(kLarge);
  ncclRedOp_t half;
  double factor = 0.5;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, 1));
  OK(ncclMemAlloc((void**)&from, kLarge));
  OK(ncclMemAlloc((void**)&to, 2 * kLarge));
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclRedOpCreatePreMulSum(&half, &factor, ncclFloat64, ncclScalarHostImmediate, comm));
#define S (cudaStream_t)stream
  /* `want` stands at `at` behind this, and is somewhere else before. */
#define GIVES(at, want, call)                                              \
  do {                                                                     \
    memset(host, want, kLarge);                                            \
    OK(cuMemcpyHtoD_v2((size_t)from, host, kLarge));                       \
    OK(call);                                                              \
    OK(cuStreamSynchronize(stream));                                       \
    memset(host, 0, kLarge);                                               \
    OK(cuMemcpyDtoH_v2(host, (size_t)(at), kLarge));                       \
    for (int i = 0; i < kLarge; i++)                                       \
      if (host[i] != want) return printf("line %d, byte %d\n", __LINE__, i), 1; \
  } while (0)
  GIVES(to, 1, ncclAllReduce(from, to, kLarge / 4, ncclFloat32, ncclSum, comm, S));
  GIVES(to, 2, ncclAllReduce(from, to, kLarge / 8, ncclFloat64, ncclAvg, comm, S));
  GIVES(to, 3, ncclReduce(from, to, kLarge / 4, ncclInt32, ncclMax, 0, comm, S));
  GIVES(to, 4, ncclReduceScatter(from, to, kLarge / 2, ncclBfloat16, ncclProd, comm, S));
  GIVES(to, 5, ncclAllGather(from, to, kLarge, ncclInt8, comm, S));
  GIVES(to, 6, ncclBroadcast(from, to, kLarge, ncclInt8, 0, comm, S));
  GIVES(to, 7, ncclAlltoAll(from, to, kLarge, ncclInt8, comm, S));
  GIVES(to, 8, ncclGather(from, to, kLarge, ncclInt8, 0, comm, S));
  GIVES(to, 9, ncclScatter(from, to, kLarge, ncclInt8, 0, comm, S));
  GIVES(from, 10, ncclAllReduce(from, from, kLarge, ncclUint8, ncclSum, comm, S));
  GIVES(from, 11, ncclReduce(from, from, kSmall, ncclInt8, ncclMin, 0, comm, S));
  /* The second message and an all-reduce of the same group. */
  OK(ncclGroupStart());
  OK(ncclSend(from, kLarge, ncclInt8, 0, comm, S));
  OK(ncclRecv(to, kLarge, ncclInt8, 0, comm, S));
  OK(ncclSend(from, kLarge, ncclInt8, 0, comm, S));
  OK(ncclRecv(to + kLarge, kLarge, ncclInt8, 0, comm, S));
  OK(ncclAllReduce(from, from, kLarge, ncclInt8, ncclSum, comm, S));
  GIVES(to + kLarge, 12, ncclGroupEnd());
  GIVES(from, 13, ncclAllGather(from, to, 1, ncclInt8, comm, S));
  OK(cuMemcpyDtoH_v2(host, (size_t)to, 2));
  if (host[0] != 13 || host[1] != 12) return printf("%d %d\n", host[0], host[1]), 1;
  /* A kernel, of which none runs here. */
  OK(ncclAllReduce(from, from, kLarge / 8, ncclFloat64, half, comm, S));
  OK(cuStreamSynchronize(stream));
  OK(ncclCommAbort(comm));
  OK(ncclMemFree(from));
  OK(ncclMemFree(to));
  puts("one rank ok");
  return 0;
}
