/* Two processes with a GPU each over the driver stand-in, and memory of cuMemAlloc that they lend each other: launches.rs reads what the launches tell.
 * Each step is printed by both: `rank R step S: base B, N opened`; N are mappings of what the other one lends. */
#include "pair.h"

/* Calls of one memory, and what one rank can lend at a time (src/coll/mapped: WORTH times the calls that a loan needs, SLOTS). */
enum { CALLS = 32, SLOTS = 64 };

static const char* lent = "ginrs-mock-ipc";
static int step;

static uint64_t allocate(void) {
  uint64_t base;
  OK(cuMemAlloc_v2(&base, 1 << 20));
  return base;
}

static void say(uint64_t base) {
  printf("rank %d step %d: base %llu, %d opened\n", rank, step++, (unsigned long long)base, mappings(lent));
  fflush(stdout);
}

/* With its result behind the first page. */
static void page_behind(uint64_t base, int patience) { call(base + 4096, 1000, patience); }

int main(void) {
  begin();
  /* The same memory for CALLS calls; then other memory, as often: what served that long is worth being lent the next time, too. */
  for (int round = 0; round < 2; round++) {
    uint64_t base = allocate();
    for (int i = 0; i < CALLS; i++) {
      /* The eighth finds it opened: the rank's own, and what the other lends. It is told a moment later. */
      if (i == 7) settle(lent, 2), usleep(300000), meet();
      page_behind(base, i < 8 ? 30 : 0);
      if (i < 8) say(base);
    }
    OK(cuMemFree_v2(base));
  }
  /* More than there are slots for; then they are freed, and no memory stays for as many calls as a loan needs now. */
  static uint64_t kept[SLOTS + 6];
  for (int i = 0; i < SLOTS + 6; i++) {
    kept[i] = allocate();
    for (int k = 0; k < 2; k++) page_behind(kept[i], 5);
    /* What was freed before has been let go of. */
    if (i == 0) settle(lent, 2);
  }
  settle(lent, SLOTS + SLOTS);
  say(kept[SLOTS]);
  for (int i = 0; i < SLOTS + 6; i++) OK(cuMemFree_v2(kept[i]));
  for (int i = 0; i < 80; i++) {
    uint64_t base = allocate();
    page_behind(base, 5);
    OK(cuMemFree_v2(base));
  }
  settle(lent, 0);
  say(0);
  OK(ncclCommDestroy(comm));
  settle(lent, 0);
  say(0);
  return end("mapped");
}
