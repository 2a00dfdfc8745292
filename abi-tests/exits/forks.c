/* forks N: threads call whatever holds a lock while main forks; children do the same. None may hang. A child is told of what is its
 * parent's (ncclInvalidUsage, E060), and what it makes itself works. */
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/lsa_barrier__types.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3

static ncclComm_t shared;
static ncclWindow_t sharedWindow;
static void *sharedMemory, *devComm;
static volatile int over;

static const char* step;
#define OK(call) ok((step = #call, call))
static int told(ncclResult_t got) { return got == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "E060"); }

static int failed;
static void ok(ncclResult_t got) {
  if (got == ncclSuccess || failed) return;
  fprintf(stderr, "%d: %s: %d: %s\n", (int)getpid(), step, got, ncclGetLastError(NULL));
  failed = 1;
}

static void requirements(ncclDevCommRequirements_t* reqs) {
  memset(reqs, 0, sizeof *reqs);
  reqs->lsaBarrierCount = reqs->ginSignalCount = 1;
  reqs->ginForceEnable = 1;
}

/* Everything of one communicator's life. */
static void life(void) {
  ncclUniqueId id;
  ncclComm_t comm;
  ncclWindow_t window;
  ncclDevCommRequirements_t reqs;
  ncclDevResourceRequirements_t resource;
  ncclLsaBarrierHandle_t handle;
  ncclTeam_t team = {1, 0, 1};
  void *memory, *mine = calloc(1, 256);
  requirements(&reqs);
  OK(ncclGetUniqueId(&id));
  if (failed) return;
  OK(ncclCommInitRank(&comm, 1, id, 0));
  if (failed) return;
  OK(ncclMemAlloc(&memory, 4096));
  OK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclLsaBarrierCreateRequirement(team, 1, &handle, &resource));
  reqs.resourceRequirementsList = &resource;
  OK(ncclDevCommCreate(comm, &reqs, (ncclDevComm_t*)mine));
  OK(ncclDevCommDestroy(comm, (ncclDevComm_t*)mine));
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclMemFree(memory));
  OK(ncclGroupStart());
  OK(ncclCommDestroy(comm));
  OK(ncclGroupEnd());
  free(mine);
}

static void* hammer(void* unused) {
  ncclResult_t state;
  ncclLsaBarrierHandle_t handle;
  ncclDevResourceRequirements_t resource;
  ncclTeam_t team = {1, 0, 1};
  while (!over && !failed) {
    void* memory;
    life();
    for (int i = 0; i < 200 && !over; i++) {
      OK(ncclCommGetAsyncError(shared, &state));
      OK(ncclLsaBarrierCreateRequirement(team, 1, &handle, &resource));
      OK(ncclMemAlloc(&memory, 4096));
      OK(ncclMemFree(memory));
    }
  }
  return unused;
}

static int child(void) {
  int n, wrong = 0;
  ncclResult_t state;
  ncclWindow_t window;
  ncclDevCommRequirements_t reqs;
  requirements(&reqs);
  wrong += !told(ncclCommCount(shared, &n));
  wrong += !told(ncclCommGetAsyncError(shared, &state));
  wrong += !told(ncclCommWindowRegister(shared, sharedMemory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  wrong += !told(ncclCommWindowDeregister(shared, sharedWindow));
  wrong += !told(ncclDevCommCreate(shared, &reqs, (ncclDevComm_t*)devComm));
  wrong += !told(ncclDevCommDestroy(shared, (ncclDevComm_t*)devComm));
  wrong += !told(ncclMemFree(sharedMemory));
  wrong += !told(ncclAllReduce(sharedMemory, sharedMemory, 1, ncclFloat, ncclSum, shared, NULL));
  wrong += !told(ncclCommFinalize(shared)) + !told(ncclCommRevoke(shared, 0));
  wrong += !told(ncclCommDestroy(shared)) + !told(ncclCommAbort(shared));
  failed = 0;
  life();
  return failed ? 100 + wrong : wrong;
}

int main(int argc, char** argv) {
  ncclUniqueId id;
  ncclDevCommRequirements_t reqs;
  pthread_t threads[THREADS];
  int count = argc > 1 ? atoi(argv[1]) : 100, hung = 0, wrong = 0, first = 0;
  devComm = calloc(1, 256);
  requirements(&reqs);
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&shared, 1, id, 0));
  OK(ncclMemAlloc(&sharedMemory, 4096));
  OK(ncclCommWindowRegister(shared, sharedMemory, 4096, &sharedWindow, NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclDevCommCreate(shared, &reqs, (ncclDevComm_t*)devComm));
  if (failed) return 1;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, hammer, NULL);
  for (int i = 0; i < count && hung < 3; i++) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
      /* Some end through exit(), with the handlers and the destructors of a program. */
      alarm(30);
      int code = child();
      if (i % 2) _exit(code);
      exit(code);
    }
    waitpid(pid, &status, 0);
    hung += WIFSIGNALED(status);
    wrong += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    if (!first && status) first = status;
  }
  over = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  OK(ncclCommWindowDeregister(shared, sharedWindow));
  OK(ncclDevCommDestroy(shared, (ncclDevComm_t*)devComm));
  OK(ncclMemFree(sharedMemory));
  OK(ncclCommDestroy(shared));
  printf("%d of %d children hung, %d failed, first status %#x; parent %s\n", hung, count, wrong, first, failed ? "failed" : "ok");
  return hung || wrong || failed;
}
