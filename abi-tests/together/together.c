/* ginrs and NVIDIA's libnccl in one process. Compiled three times: linked with neither, with ginrs (GINRS_LINKED), or with NVIDIA's
 * library (NVIDIA_LINKED); what is not linked comes by dlopen.
 *   together GINRS NVIDIA local|deep|namespace
 * NVIDIA's library by dlopen with RTLD_LOCAL; with RTLD_DEEPBIND too; by dlmopen into a namespace of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/comm__types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: %s is not so\n", __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* One library as this program reached it. */
struct library {
  const char* file;
  void* handle;
};

static void* find(struct library* library, const char* name) {
  void* at = dlsym(library->handle, name);
  CHECK(at != NULL);
  Dl_info info;
  CHECK(dladdr(at, &info) != 0);
  char *seen = realpath(info.dli_fname, NULL), *wanted = realpath(library->file, NULL);
  if (!seen || !wanted || strcmp(seen, wanted) != 0) {
    fprintf(stderr, "%s of %s lies in %s\n", name, library->file, info.dli_fname);
    exit(1);
  }
  free(seen);
  free(wanted);
  return at;
}
#define CALL(library, name) ((__typeof__(&name))find(library, #name))

/* What only a library's own state can answer. */
static void groups(struct library* opens, struct library* other) {
  CHECK(CALL(opens, ncclGroupStart)() == ncclSuccess);
  CHECK(CALL(other, ncclGroupEnd)() == ncclInvalidUsage); /* no group is open there */
  CHECK(CALL(opens, ncclGroupEnd)() == ncclSuccess);
}

/* A communicator and a device communicator of ginrs, to the end. */
static void run(struct library* ginrs) {
  ncclComm_t comms[2];
  ncclUniqueId id;
  CHECK(CALL(ginrs, ncclGetUniqueId)(&id) == ncclSuccess);
  CHECK(CALL(ginrs, ncclCommInitAll)(comms, 2, NULL) == ncclSuccess);
  ncclDevCommRequirements_t requirements;
  memset(&requirements, 0, sizeof requirements);
  requirements.lsaBarrierCount = 3;
  struct ncclDevComm made[2];
  CHECK(CALL(ginrs, ncclGroupStart)() == ncclSuccess);
  for (int i = 0; i < 2; i++) CHECK(CALL(ginrs, ncclDevCommCreate)(comms[i], &requirements, &made[i]) == ncclSuccess);
  CHECK(CALL(ginrs, ncclGroupEnd)() == ncclSuccess);
  for (int i = 0; i < 2; i++) {
    CHECK(made[i].rank == i && made[i].nRanks == 2 && made[i].lsaBarrier.nBarriers == 3);
    ncclTeam_t world = ((ncclTeam_t(*)(ncclComm_t))find(ginrs, "ncclTeamWorld"))(comms[i]);
    CHECK(world.nRanks == 2 && world.rank == i);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(CALL(ginrs, ncclDevCommDestroy)(comms[i], &made[i]) == ncclSuccess);
    CHECK(CALL(ginrs, ncclCommDestroy)(comms[i]) == ncclSuccess);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  struct library ginrs = {argv[1], NULL}, nvidia = {argv[2], NULL};
  int deep = strcmp(argv[3], "deep") == 0 ? RTLD_DEEPBIND : 0;
  ginrs.handle = dlopen(ginrs.file, RTLD_NOW | RTLD_LOCAL);
  if (strcmp(argv[3], "namespace") == 0) {
    nvidia.handle = dlmopen(LM_ID_NEWLM, nvidia.file, RTLD_NOW | RTLD_LOCAL);
  } else {
    nvidia.handle = dlopen(nvidia.file, RTLD_NOW | RTLD_LOCAL | deep);
  }
  if (!ginrs.handle || !nvidia.handle) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CHECK(dlsym(ginrs.handle, "ginrsGetVersionString") && !dlsym(nvidia.handle, "ginrsGetVersionString"));
  CHECK(dlsym(nvidia.handle, "ncclResetDebugInitInternal") && !dlsym(ginrs.handle, "ncclResetDebugInitInternal"));

  int version[2] = {0, 0};
  CHECK(CALL(&ginrs, ncclGetVersion)(&version[0]) == ncclSuccess && CALL(&nvidia, ncclGetVersion)(&version[1]) == ncclSuccess);
  CHECK(version[0] == 22809 && version[1] == 22809);
  groups(&ginrs, &nvidia);
  groups(&nvidia, &ginrs);
  run(&ginrs);

  /* Each keeps its own last error. */
  ncclComm_t none = NULL;
  int count;
  CHECK(CALL(&ginrs, ncclCommCount)(none, &count) != ncclSuccess);
  CHECK(strstr(CALL(&ginrs, ncclGetLastError)(NULL), "GINRS-E"));
  CHECK(CALL(&nvidia, ncclCommCount)(none, &count) != ncclSuccess);
  CHECK(!strstr(CALL(&nvidia, ncclGetLastError)(NULL), "GINRS-E"));
#ifdef GINRS_LINKED
  CHECK((void*)ncclGetVersion == find(&ginrs, "ncclGetVersion"));
#endif
#ifdef NVIDIA_LINKED
  CHECK((void*)ncclGetVersion == find(&nvidia, "ncclGetVersion"));
#endif
  printf("both, %s\n", argv[3]);
  return 0;
}
