// The driver API as these tests call it: through dlsym, with the few types and constants that they need (names and values are
// cuda.h's), so that the same program runs on NVIDIA's driver and on the stand-in, with no toolkit.
#pragma once
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Ptr;
typedef uint64_t Handle;
typedef struct { int type, id; } Location;
typedef struct { int type, handles; Location location; void* meta; unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; } Prop;
typedef struct { Location location; int flags; } Access;
typedef struct { int order; Location from, to; unsigned flags; } CopyAttributes;
typedef union {
  int operation;
  struct { int operation; Ptr address; uint64_t value; unsigned flags; Ptr alias; } write;
  struct { int operation; unsigned flags; } barrier;
  uint64_t pad[6];
} MemOp;

static void* driver_library;

static inline int missing() { return -1; }

// An unprototyped pointer: arguments must have their exact types at the call.
static inline int (*driver(const char* name))() {
  if (!driver_library && !(driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))) {
    printf("no driver: %s\n", dlerror());
    exit(2);
  }
  void* found = dlsym(driver_library, name);
  return found ? (int (*)())found : missing;
}
#define CU(name) driver(#name)

static inline void group(const char* name) { printf("\n%s:", name); }

// A driver may crash on a wrong handle: `ask` says which question it was (the handler in facts.c prints it), and FACTS_SKIP, a list
// of such numbers between commas, leaves them out of the next run.
extern int question;
static inline int asked(const char* name) {
  char number[16];
  snprintf(number, sizeof number, ",%d,", ++question);
  printf(" %s", name);
  fflush(stdout);
  if (!getenv("FACTS_SKIP") || !strstr(getenv("FACTS_SKIP"), number)) return 1;
  printf("=crash");
  return 0;
}
static inline int answer(int result) {
  printf("=%d", result);
  fflush(stdout);
  return result;
}
#define fact(name, ...) (asked(name) ? answer(__VA_ARGS__) : -2)
static inline void say(const char* name, long long value) { printf(" %s=%lld", name, value); }

#define MIB ((size_t)1 << 20)
