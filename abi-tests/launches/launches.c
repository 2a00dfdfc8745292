/* Collectives of two GPUs over the driver stand-in, which writes down what is launched: abi-tests/tests/launches.rs reads it. */
#include "driver.h"

enum { kRanks = 2 };
static ncclComm_t comms[kRanks];
static Context contexts[kRanks];
static void* streams[kRanks][2];
static char* windows[kRanks]; /* 2 MiB each, symmetric */

/* Addresses that no kernel follows: none runs here. */
static char* at(int rank, int n) { return (char*)(size_t)(0x100000000ull * (rank + 1) + 0x10000000ull * n); }

#define ALL(call)                                       \
  do {                                                  \
    OK(ncclGroupStart());                               \
    for (int r = 0; r < kRanks; r++) OK(call);          \
    OK(ncclGroupEnd());                                 \
  } while (0)

int main(void) {
  ncclWindow_t handle[kRanks];
  ncclRedOp_t op[kRanks];
  double factor = 2.5;
  OK(cuInit(0));
  for (int r = 0; r < kRanks; r++) {
    OK(cuDevicePrimaryCtxRetain(&contexts[r], r));
    OK(cuCtxSetCurrent(contexts[r]));
    OK(ncclMemAlloc((void**)&windows[r], 2 << 20));
    for (int s = 0; s < 2; s++) OK(cuStreamCreate(&streams[r][s], 1));
  }
  OK(ncclCommInitAll(comms, kRanks, NULL));
  ALL(ncclCommWindowRegister(comms[r], windows[r], 2 << 20, &handle[r], NCCL_WIN_COLL_SYMMETRIC));
#define S(n) (cudaStream_t)streams[r][n]
  ALL(ncclAllReduce(at(r, 0), at(r, 1), 5, ncclFloat32, ncclMax, comms[r], S(0)));
  ALL(ncclAllReduce(at(r, 0), at(r, 1), 3 << 20, ncclBfloat16, ncclAvg, comms[r], S(0)));
  ALL(ncclAllReduce(windows[r], windows[r] + (1 << 20), 1 << 18, ncclInt32, ncclMin, comms[r], S(0)));
  ALL(ncclAllGather(windows[r] + (1 << 20) + 4096 * r, windows[r] + (1 << 20), 4096, ncclUint8, comms[r], S(0)));
  ALL(ncclBroadcast(r == 1 ? at(r, 2) : NULL, at(r, 3), 77, ncclFloat16, 1, comms[r], S(1)));
  for (int r = 0; r < kRanks; r++) OK(ncclRedOpCreatePreMulSum(&op[r], &factor, ncclFloat64, ncclScalarHostImmediate, comms[r]));
  ALL(ncclReduceScatter(windows[r], windows[r] + (1 << 20), 100, ncclFloat64, op[r], comms[r], S(0)));
  ALL(ncclGather(at(r, 2), r == 1 ? at(r, 3) : NULL, 9, ncclInt32, 1, comms[r], S(1)));
  /* Two messages each way, on two streams, an all-reduce between them: it goes first, the messages in one launch. */
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; r++) {
    OK(ncclSend(at(r, 4), 10, ncclInt64, 1 - r, comms[r], S(0)));
    OK(ncclRecv(at(r, 5), 1 << 20, ncclInt8, 1 - r, comms[r], S(1)));
    OK(ncclAllReduce(at(r, 0), at(r, 1), 1, ncclUint64, ncclAvg, comms[r], S(0)));
    OK(ncclSend(at(r, 6), 1 << 20, ncclInt8, 1 - r, comms[r], S(0)));
    OK(ncclRecv(at(r, 7), 0, ncclInt8, r, comms[r], S(0)));
    OK(ncclSend(at(r, 7), 0, ncclInt8, r, comms[r], S(0)));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; r++) {
    OK(cuCtxSetCurrent(contexts[r]));
    OK(cuCtxSynchronize());
  }
  for (int r = 0; r < kRanks; r++) OK(ncclCommWindowDeregister(comms[r], handle[r]));
  for (int r = 0; r < kRanks; r++) OK(ncclCommDestroy(comms[r]));
  for (int r = 0; r < kRanks; r++) {
    OK(cuCtxSetCurrent(contexts[r]));
    OK(ncclMemFree(windows[r]));
  }
  puts("launches ok");
  return 0;
}
