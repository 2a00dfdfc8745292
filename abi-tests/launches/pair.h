/* Two processes with a GPU each over the driver stand-in, and one communicator of them. */
#pragma once
#define _DEFAULT_SOURCE
#include "driver.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, out, in;
static pid_t child;
static ncclComm_t comm;
static void* stream;

/* Both are here. */
static void meet(void) {
  char byte = 'x';
  if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) exit(2);
}

static void begin(void) {
  int down[2], up[2];
  ncclUniqueId id;
  if (pipe(down) != 0 || pipe(up) != 0) exit(2);
  child = fork();
  rank = child == 0;
  out = rank ? up[1] : down[1];
  in = rank ? down[0] : up[0];
  if (rank == 0) OK(ncclGetUniqueId(&id));
  if (rank == 0 ? write(out, &id, sizeof id) != sizeof id : read(in, &id, sizeof id) != sizeof id) exit(2);
  Context context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, rank));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, 1));
  OK(ncclCommInitRank(&comm, 2, id, rank));
}

/* An all-gather of `bytes` of each to `recv`, in place, and some milliseconds for what is opened in the background. */
static void call(uint64_t recv, size_t bytes, int patience) {
  char* at = (char*)(size_t)recv;
  OK(ncclAllGather(at + rank * bytes, at, bytes, ncclUint8, comm, stream));
  OK(cuCtxSynchronize());
  meet();
  usleep(1000 * patience);
  meet();
}

/* Mappings of this process of what the stand-in calls so. */
static int mappings(const char* name) {
  static char line[512];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) count += strstr(line, name) != NULL;
  fclose(maps);
  return count;
}

/* Some seconds for so many to be left. */
static void settle(const char* name, int wanted) {
  for (int i = 0; i < 1000 && mappings(name) != wanted; i++) usleep(10000);
}

/* The first process waits for the second. */
static int end(const char* name) {
  int status = 0;
  if (rank == 0 && (waitpid(child, &status, 0) != child || status != 0)) return 3;
  if (rank == 0) printf("%s ok\n", name);
  return 0;
}
