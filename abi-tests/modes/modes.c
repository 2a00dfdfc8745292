/* modes ID_FILE RANKS FIRST COUNT threads|group|all: this process drives COUNT ranks from FIRST on, by one thread each, by one
 * thread with groups, or by ncclCommInitAll. Makes windows and device communicators, stores through the peers' windows, and
 * checks what arrived. No kernels: on the CPU device a device address is a host address. */
#include <nccl.h>
#include <nccl_device/core.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX 64
#define OK(call)                                                                                          \
  do {                                                                                                    \
    ncclResult_t result_ = (call);                                                                        \
    if (result_ != ncclSuccess) {                                                                         \
      fprintf(stderr, "modes.c:%d: %s: %s: %s\n", __LINE__, #call, ncclGetErrorString(result_), ncclGetLastError(NULL)); \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)
#define CHECK(condition)                                        \
  do {                                                          \
    if (!(condition)) {                                         \
      fprintf(stderr, "modes.c:%d: %s\n", __LINE__, #condition); \
      exit(1);                                                  \
    }                                                           \
  } while (0)

/* Spec host, A.2 and 1.5: what the test reads of them. */
struct window { void* host; char* flat; int lsaRank, worldRank; uint32_t stride4G, mc, gin, pad; void* ginWins[4]; };
union devComm { char bytes[200]; struct { int rank, nRanks; uint32_t rcp; int lsaRank, lsaSize; } head; };

struct rank {
  int number;
  ncclComm_t comm;
  char* memory;
  ncclWindow_t window, part;
  union devComm dev;
};

static int nRanks, first, count;
static ncclUniqueId id;
static struct rank ranks[MAX];

extern int cudaSetDevice(int) __attribute__((weak));
/* Each rank has its own device; without the CUDA stand-in GINRS_DEVICE=cpu takes LOCAL_RANK, which only processes have. */
static void onDevice(int ordinal) {
  if (cudaSetDevice) cudaSetDevice(ordinal);
}

static void create(struct rank* r) {
  onDevice(r->number);
  OK(ncclCommInitRank(&r->comm, nRanks, id, r->number));
}

static void describe(struct rank* r) {
  int n, me, device;
  ncclTeam_t world = ncclTeamWorld(r->comm), lsa = ncclTeamLsa(r->comm), rail = ncclTeamRail(r->comm);
  OK(ncclCommCount(r->comm, &n));
  OK(ncclCommUserRank(r->comm, &me));
  OK(ncclCommCuDevice(r->comm, &device));
  CHECK(n == nRanks && me == r->number && device == r->number);
  CHECK(world.nRanks == n && world.rank == me && world.stride == 1);
  CHECK(lsa.nRanks * rail.nRanks == n && rail.stride == lsa.nRanks);
  CHECK(ncclTeamRankToWorld(r->comm, lsa, lsa.rank) == me && ncclTeamRankToLsa(r->comm, lsa, 0) == 0);
  OK(ncclMemAlloc((void**)&r->memory, 3 << 20));
}

static void registerWindows(struct rank* r) {
  OK(ncclCommWindowRegister(r->comm, r->memory, 3 << 20, &r->window, NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclCommWindowRegister(r->comm, r->memory + 8192, 100, &r->part, NCCL_WIN_COLL_SYMMETRIC));
}

static uint32_t* slot(ncclWindow_t window, int lsaPeer, int at) {
  const struct window* w = (const struct window*)window;
  return (uint32_t*)(w->flat + ((size_t)lsaPeer * w->stride4G << 32)) + at;
}

static void store(struct rank* r) {
  int n = ncclTeamLsa(r->comm).nRanks;
  for (int peer = 0; peer < n; peer++) {
    *slot(r->window, peer, r->number) = 1000 + r->number;
    *slot(r->part, peer, r->number) = 2000 + r->number;
  }
}

/* Its end is a barrier: what was stored before stands in every window after it. */
static void deviceComm(struct rank* r) {
  ncclDevCommRequirements_t reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaBarrierCount = 3;
  OK(ncclDevCommCreate(r->comm, &reqs, (struct ncclDevComm*)&r->dev));
}

static void verify(struct rank* r) {
  ncclTeam_t lsa = ncclTeamLsa(r->comm);
  CHECK(r->dev.head.rank == r->number && r->dev.head.nRanks == nRanks && r->dev.head.lsaSize == lsa.nRanks);
  for (int peer = 0; peer < lsa.nRanks; peer++) {
    uint32_t world = (uint32_t)ncclTeamRankToWorld(r->comm, lsa, peer);
    CHECK(((uint32_t*)r->memory)[world] == 1000 + world);
    CHECK(((uint32_t*)(r->memory + 8192))[world] == 2000 + world);
  }
}

static void end(struct rank* r) {
  OK(ncclDevCommDestroy(r->comm, (struct ncclDevComm*)&r->dev));
  OK(ncclCommWindowDeregister(r->comm, r->window));
  OK(ncclCommWindowDeregister(r->comm, r->part));
  OK(ncclMemFree(r->memory));
  OK(ncclCommFinalize(r->comm));
  OK(ncclCommDestroy(r->comm));
}

static void* drive(void* argument) {
  struct rank* r = (struct rank*)argument;
  create(r);
  describe(r);
  registerWindows(r);
  store(r);
  deviceComm(r);
  verify(r);
  end(r);
  return NULL;
}

static void each(void (*step)(struct rank*), int grouped) {
  if (grouped) OK(ncclGroupStart());
  for (int i = 0; i < count; i++) step(&ranks[i]);
  if (grouped) OK(ncclGroupEnd());
}

static void shareId(const char* path) {
  char temporary[4096];
  FILE* file;
  if (first == 0) {
    OK(ncclGetUniqueId(&id));
    snprintf(temporary, sizeof temporary, "%s.new", path);
    CHECK((file = fopen(temporary, "w")) && fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
    CHECK(rename(temporary, path) == 0);
    return;
  }
  for (int i = 0; i < 10000 && access(path, R_OK) != 0; i++) usleep(1000);
  CHECK((file = fopen(path, "r")) && fread(&id, sizeof id, 1, file) == 1);
  fclose(file);
}

int main(int argc, char** argv) {
  CHECK(argc == 6);
  nRanks = atoi(argv[2]), first = atoi(argv[3]), count = atoi(argv[4]);
  CHECK(count <= MAX);
  for (int i = 0; i < count; i++) ranks[i].number = first + i;
  if (strcmp(argv[5], "all") == 0) {
    ncclComm_t comms[MAX];
    OK(ncclCommInitAll(comms, count, NULL));
    for (int i = 0; i < count; i++) ranks[i].comm = comms[i];
  } else {
    shareId(argv[1]);
  }
  if (strcmp(argv[5], "threads") == 0) {
    pthread_t threads[MAX];
    for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, drive, &ranks[i]) == 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  } else {
    if (strcmp(argv[5], "group") == 0) each(create, 1);
    each(describe, 0);
    each(registerWindows, 1);
    each(store, 0);
    each(deviceComm, 1);
    each(verify, 0);
    each(end, 0);
  }
  printf("ranks %d to %d of %d ok\n", first, first + count - 1, nRanks);
  return 0;
}
