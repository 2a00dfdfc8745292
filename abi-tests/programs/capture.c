// All of a communicator's life while somebody's stream captures in the strictest mode: nothing of it may end the capture, and the
// context that was current stays so. A plain C program over the driver alone: no kernels, and device memory that the host
// cannot touch.
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device/core.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *driver, *contexts[2], *stream;

#define CU(name) ((int (*)())dlsym(driver, #name))
#define WANT_CU(call)                                             \
  do {                                                            \
    int result_ = (call);                                         \
    if (result_ != 0) {                                           \
      printf("capture.c:%d: %s: %d\n", __LINE__, #call, result_); \
      exit(1);                                                    \
    }                                                             \
  } while (0)
#define WANT(call) want(#call, __LINE__, call)

static void want(const char* call, int line, int result) {
  int status = 0;
  void* current = NULL;
  if (result != 0) printf("capture.c:%d: %s: %d: %s\n", line, call, result, ncclGetLastError(NULL));
  WANT_CU(CU(cuStreamIsCapturing)(stream, &status));
  if (status != 1) printf("capture.c:%d: %s ended the capture: status %d\n", line, call, status);
  WANT_CU(CU(cuCtxGetCurrent)(&current));
  if (current != contexts[0]) printf("capture.c:%d: %s changed the current context\n", line, call);
  if (result != 0 || status != 1 || current != contexts[0]) exit(1);
}

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return puts(dlerror()), 1;
  WANT_CU(CU(cuInit)(0u));
  for (int r = 0; r < 2; r++) WANT_CU(CU(cuDevicePrimaryCtxRetain)(&contexts[r], r));
  WANT_CU(CU(cuCtxSetCurrent)(contexts[0]));
  WANT_CU(CU(cuStreamCreate)(&stream, 1u));
  WANT_CU(CU(cuStreamBeginCapture_v2)(stream, 0));
  ncclComm_t comms[2];
  ncclWindow_t windows[2];
  void *memory[2], *devComms[2] = {calloc(1, 256), calloc(1, 256)}, *graph = NULL;
  ncclDevCommRequirements_t reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaBarrierCount = 1;
  reqs.ginSignalCount = 4;
  reqs.ginCounterCount = 4;
  WANT(ncclCommInitAll(comms, 2, NULL));
  for (int r = 0; r < 2; r++) {
    WANT_CU(CU(cuCtxSetCurrent)(contexts[r]));
    ncclResult_t result = ncclMemAlloc(&memory[r], 1 << 20);
    WANT_CU(CU(cuCtxSetCurrent)(contexts[0]));
    WANT(result);
  }
  WANT(ncclGroupStart());
  for (int r = 0; r < 2; r++) WANT(ncclCommWindowRegister(comms[r], memory[r], 1 << 20, &windows[r], NCCL_WIN_COLL_SYMMETRIC));
  for (int r = 0; r < 2; r++) WANT(ncclDevCommCreate(comms[r], &reqs, devComms[r]));
  WANT(ncclGroupEnd());
  for (int r = 0; r < 2; r++) WANT(ncclDevCommDestroy(comms[r], devComms[r]));
  for (int r = 0; r < 2; r++) WANT(ncclCommWindowDeregister(comms[r], windows[r]));
  for (int r = 0; r < 2; r++) WANT(ncclMemFree(memory[r]));
  for (int r = 0; r < 2; r++) WANT(ncclCommFinalize(comms[r]));
  for (int r = 0; r < 2; r++) WANT(ncclCommDestroy(comms[r]));
  usleep(100000); // what is done in the background
  WANT(ncclSuccess);
  WANT_CU(CU(cuStreamEndCapture)(stream, &graph));
  puts("capture ok");
  return 0;
}
