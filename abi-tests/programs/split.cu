// ncclCommSplit: colours, keys, ties, ranks without a colour, children of children, several in one group. Kernels run on the parent
// and on its children at the same time.
#include "children.h"

static ncclComm_t split(ncclComm_t parent, int color, int key, ncclConfig_t* config = NULL) {
  ncclComm_t child = (ncclComm_t)0x1;
  NCCLCHECK(ncclCommSplit(parent, color, key, &child, config));
  return child;
}

// Half by parity, the highest rank first; then both halves and the parent talk at once.
static void halves(Example& ex) {
  int color = ex.rank % 2, size = (ex.nRanks + 1 - color) / 2, place = size - 1 - ex.rank / 2;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1; // accepted; a child has everything of its own
  config.commName = "half";
  ncclComm_t half = split(ex.comm, color, -ex.rank, &config);
  wantPlace(half, place, size);
  Traffic all, part;
  all.open(ex.comm);
  part.open(half);
  for (int i = 0; i < 3; i++) {
    all.start(3);
    part.start(5);
  }
  all.check(ex);
  part.check(ex);

  // A child of a child, by pairs; its parent ends before it.
  int pairs = place / 2, pairSize = size - 2 * pairs < 2 ? 1 : 2;
  ncclComm_t pair = split(half, pairs, 0);
  wantPlace(pair, place % 2, pairSize);
  part.close();
  NCCLCHECK(ncclCommFinalize(half));
  NCCLCHECK(ncclCommDestroy(half));
  Traffic two;
  two.open(pair);
  two.start(2);
  all.start(2);
  two.check(ex);
  all.check(ex);
  two.close();
  all.close();
  NCCLCHECK(ncclCommDestroy(pair));
}

static void colours(Example& ex) {
  // Negative colours other than NCCL_SPLIT_NOCOLOR are colours; the last rank has none.
  bool out = ex.rank == ex.nRanks - 1;
  ncclComm_t child = split(ex.comm, out ? NCCL_SPLIT_NOCOLOR : -5, 0);
  WANT((child == NULL) == out, "%p", (void*)child);
  if (child) {
    wantPlace(child, ex.rank, ex.nRanks - 1);
    Traffic some;
    some.open(child);
    some.start(2);
    some.check(ex);
    some.close();
    NCCLCHECK(ncclCommAbort(child)); // a child's end does not concern its parent
  }
  // Equal keys: the parent's order. Each rank alone. Extreme keys.
  ncclComm_t same = split(ex.comm, 1 << 30, 7), alone = split(ex.comm, ex.rank, 0);
  wantPlace(same, ex.rank, ex.nRanks);
  wantPlace(alone, 0, 1);
  ncclComm_t turned = split(same, 0, ex.rank == 0 ? 0x7fffffff : -0x7fffffff - 1 + ex.rank);
  wantPlace(turned, (ex.rank + ex.nRanks - 1) % ex.nRanks, ex.nRanks);
  Traffic one, all;
  one.open(alone);
  all.open(turned);
  one.start(1);
  all.start(2);
  one.check(ex);
  all.check(ex);
  one.close();
  all.close();
  NCCLCHECK(ncclCommDestroy(turned));
  NCCLCHECK(ncclCommDestroy(alone));
  NCCLCHECK(ncclCommDestroy(same));
}

// In a group: two children of one parent, made in call order; the handles are there after it.
static void grouped(Example& ex) {
  ncclComm_t first = (ncclComm_t)0x1, second = (ncclComm_t)0x1;
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclCommSplit(ex.comm, 0, 0, &first, NULL));
  NCCLCHECK(ncclCommSplit(ex.comm, 0, -ex.rank, &second, NULL));
  WANT(first == NULL && second == NULL, "handles before the group's end");
  NCCLCHECK(ncclGroupEnd());
  wantPlace(first, ex.rank, ex.nRanks);
  wantPlace(second, ex.nRanks - 1 - ex.rank, ex.nRanks);
  NCCLCHECK(ncclCommDestroy(first));
  NCCLCHECK(ncclCommDestroy(second));
}

static void refused(Example& ex) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 3;
  ncclComm_t child = (ncclComm_t)0x1;
  RETURNS(ncclInvalidArgument, ncclCommSplit(ex.comm, 0, 0, &child, &config));
  WANT(child == NULL, "%p", (void*)child);
  RETURNS(ncclInvalidArgument, ncclCommSplit(ex.comm, 0, 0, NULL, NULL));
  RETURNS(ncclInvalidArgument, ncclCommSplit(NULL, 0, 0, &child, NULL));
}

int runRank(Example& ex) {
  refused(ex);
  halves(ex);
  colours(ex);
  grouped(ex);
  return 0;
}
