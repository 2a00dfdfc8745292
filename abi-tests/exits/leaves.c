/* leaves HOW: of two ranks one ends without ncclCommDestroy, the other says what it was told: HOW is return, exit, thread (exit from
 * another thread), quick (quick_exit(0)), failed (exit(3)), quick-failed (quick_exit(3)), silent (_exit(0)), kill or exec. */
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ncclComm_t comm;

static ncclResult_t makeWindow(void) {
  ncclWindow_t window;
  void* memory;
  ncclResult_t result = ncclMemAlloc(&memory, 4096);
  return result ? result : ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
}

static void* leave(void* unused) {
  exit(0);
  return unused;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "return";
  int pipes[2], status;
  char made = 1;
  ncclUniqueId id;
  ncclResult_t state = ncclSuccess, result;
  pid_t other;
  if (pipe(pipes) != 0) return 2;
  other = fork();
  if (other == 0) {
    pthread_t thread;
    if (read(pipes[0], &id, sizeof id) != sizeof id || ncclCommInitRank(&comm, 2, id, 1) != 0 || makeWindow() != 0) return 2;
    /* The other one has its window, too: its call would fail. */
    if (read(pipes[0], &made, 1) != 1) return 2;
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "thread")) {
      pthread_create(&thread, NULL, leave, NULL);
      pause();
    }
    if (!strcmp(how, "failed")) exit(3);
    if (!strcmp(how, "quick")) quick_exit(0);
    if (!strcmp(how, "quick-failed")) quick_exit(3);
    if (!strcmp(how, "silent")) _exit(0);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "exec")) execl("/bin/true", "true", (char*)NULL);
    return 0;
  }
  if (ncclGetUniqueId(&id) != 0 || write(pipes[1], &id, sizeof id) != sizeof id) return 2;
  if (ncclCommInitRank(&comm, 2, id, 0) != 0 || makeWindow() != 0 || write(pipes[1], &made, 1) != 1) return 2;
  waitpid(other, &status, 0);
  /* A death is told within milliseconds; that nothing is told takes a while to see. */
  for (int i = 0; i < 300 && state == ncclSuccess; i++) {
    struct timespec tick = {0, 10000000};
    nanosleep(&tick, NULL);
    ncclCommGetAsyncError(comm, &state);
  }
  result = makeWindow();
  printf("status %#x, state %d, then %d: %s\n", status, state, result, ncclGetLastError(NULL));
  ncclCommAbort(comm);
  return 0;
}
