/* Two processes with a GPU each over the driver stand-in, and memory of cuMemAlloc that they lend each other: launches.rs reads what the launches tell.
 * Each step is printed by both: `rank R step S: base B, N opened`; N are mappings of what the other one lends. */
#define _DEFAULT_SOURCE
#include "driver.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls of one memory, and what one rank can lend at a time (src/coll/mapped: WORTH times the calls that a loan needs, SLOTS). */
enum { CALLS = 32, SLOTS = 64 };

static int rank, step, out, in;
static ncclComm_t comm;
static void* stream;

/* Both are here. */
static void meet(void) {
  char byte = 'x';
  if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) exit(2);
}

static int opened(void) {
  static char line[512];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) count += strstr(line, "ginrs-mock-ipc") != NULL;
  fclose(maps);
  return count;
}

/* A call with its result at `base` + 4096, and some milliseconds for what is opened in the background. */
static void call(uint64_t base, int patience) {
  char* recv = (char*)(size_t)(base + 4096);
  OK(ncclAllGather(recv + rank * 1000, recv, 1000, ncclUint8, comm, stream));
  OK(cuCtxSynchronize());
  meet();
  usleep(1000 * patience);
  meet();
}

static uint64_t allocate(void) {
  uint64_t base;
  OK(cuMemAlloc_v2(&base, 1 << 20));
  return base;
}

/* Some seconds for so many mappings to be left. */
static void settle(int wanted) {
  for (int i = 0; i < 1000 && opened() != wanted; i++) usleep(10000);
}

static void say(uint64_t base) {
  printf("rank %d step %d: base %llu, %d opened\n", rank, step++, (unsigned long long)base, opened());
  fflush(stdout);
}

int main(void) {
  int down[2], up[2];
  ncclUniqueId id;
  if (pipe(down) != 0 || pipe(up) != 0) return 2;
  pid_t child = fork();
  rank = child == 0;
  out = rank ? up[1] : down[1];
  in = rank ? down[0] : up[0];
  if (rank == 0) OK(ncclGetUniqueId(&id));
  if (rank == 0 ? write(out, &id, sizeof id) != sizeof id : read(in, &id, sizeof id) != sizeof id) return 2;
  Context context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, rank));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, 1));
  OK(ncclCommInitRank(&comm, 2, id, rank));
  /* The same memory for CALLS calls; then other memory, as often: what served that long is worth being lent the next time, too. */
  for (int round = 0; round < 2; round++) {
    uint64_t base = allocate();
    for (int i = 0; i < CALLS; i++) {
      /* The eighth finds it opened: the rank's own, and what the other lends. It is told a moment later. */
      if (i == 7) settle(2), usleep(300000), meet();
      call(base, i < 8 ? 30 : 0);
      if (i < 8) say(base);
    }
    OK(cuMemFree_v2(base));
  }
  /* More than there are slots for; then they are freed, and no memory stays for as many calls as a loan needs now. */
  static uint64_t kept[SLOTS + 6];
  for (int i = 0; i < SLOTS + 6; i++) {
    kept[i] = allocate();
    for (int k = 0; k < 2; k++) call(kept[i], 5);
    /* What was freed before has been let go of. */
    if (i == 0) settle(2);
  }
  settle(SLOTS + SLOTS);
  say(kept[SLOTS]);
  for (int i = 0; i < SLOTS + 6; i++) OK(cuMemFree_v2(kept[i]));
  for (int i = 0; i < 80; i++) {
    uint64_t base = allocate();
    call(base, 5);
    OK(cuMemFree_v2(base));
  }
  settle(0);
  say(0);
  OK(ncclCommDestroy(comm));
  settle(0);
  say(0);
  int status = 0;
  if (rank == 0 && (waitpid(child, &status, 0) != child || status != 0)) return 3;
  if (rank == 0) printf("mapped ok\n");
  return 0;
}
