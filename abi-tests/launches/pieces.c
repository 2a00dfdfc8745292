/* Memory that programs map in pieces, as PyTorch's expandable segments are, and lend each other: launches.rs reads what the launches tell. */
#include "pair.h"

typedef struct { int type, handles, location, device; void* name; unsigned char rest[8]; } Properties;
typedef struct { int location, device, flags; } Access;
int cuMemCreate(uint64_t* handle, size_t bytes, const Properties* properties, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemAddressReserve(uint64_t* at, size_t bytes, size_t align, uint64_t wish, unsigned long long flags);
int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t at, size_t bytes);
int cuMemSetAccess(uint64_t at, size_t bytes, const Access* access, size_t count);

/* As in mapped.c; of a piece; and what a rank gathers, so that the result lies in two pieces, in the midst of each. */
#define MIB ((size_t)1 << 20)
enum { CALLS = 32 };
static const size_t piece = 2 * MIB, part = MIB, before = MIB;
static const char* memory = "ginrs-mock-gpu-";
static uint64_t base;
static int first;

/* With a handle that can be given away, or without. */
static void map(uint64_t at, size_t bytes, int handles) {
  uint64_t handle;
  Properties properties = {1, handles, 1, rank, NULL, {0}};
  Access access = {1, rank, 3};
  OK(cuMemCreate(&handle, bytes, &properties, 0));
  OK(cuMemMap(at, bytes, 0, handle, 0));
  OK(cuMemSetAccess(at, bytes, &access, 1));
  OK(cuMemRelease(handle));
}

static void calls(int count) {
  for (int i = 0; i < count; i++) {
    /* The eighth finds what the other one lends: two pieces, beside this rank's own. */
    if (i == 7 && count == CALLS) settle(memory, first + 4), usleep(300000), meet();
    call(base + before, part, i < 8 ? 30 : 0);
  }
}

/* New memory at the addresses of a piece, of which the other one still has what there was. */
static void exchange(uint64_t at, size_t bytes, int handles) {
  OK(cuMemUnmap(at, piece));
  map(at, bytes, handles);
}

int main(void) {
  begin();
  first = mappings(memory);
  OK(cuMemAddressReserve(&base, 8 * piece, 0, 0, 0));
  for (int i = 0; i < 2; i++) map(base + i * piece, piece, 1);
  calls(CALLS);
  /* The second one is another from now on. */
  exchange(base + piece, piece, 1);
  calls(CALLS);
  /* It cannot be given away; it is larger than the first. */
  exchange(base + piece, piece, 0);
  calls(12);
  exchange(base + piece, 2 * piece, 1);
  calls(12);
  OK(cuMemUnmap(base, 3 * piece));
  settle(memory, first);
  printf("rank %d: %d mappings more than at first\n", rank, mappings(memory) - first);
  fflush(stdout);
  OK(ncclCommDestroy(comm));
  return end("pieces");
}
