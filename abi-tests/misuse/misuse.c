/* Every host function with NULL, garbage and dead arguments: a code and a message each time, never a crash. Here what needs no
 * communicator. */
#include "misuse.h"
#include <limits.h>

int wrong;

void want(const char* what, ncclResult_t got, ncclResult_t expected) {
  if (got != expected) {
    printf("%s: %d (%s), expected %d; last error: %s\n", what, got, ncclGetErrorString(got), expected, ncclGetLastError(NULL));
    wrong = 1;
  }
}

void wantText(const char* part) {
  const char* text = ncclGetLastError(NULL);
  if (!strstr(text, part)) {
    printf("last error lacks \"%s\": %s\n", part, text);
    wrong = 1;
  }
}

static void withoutCommunicator(void) {
  ncclUniqueId id, junk;
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclLsaBarrierHandle_t lsa;
  ncclGinBarrierHandle_t gin;
  ncclLLA2AHandle_t ll;
  ncclDevResourceRequirements_t req;
  ncclTeam_t team = {4, 0, 1};
  int twice[2] = {0, 0}, far = 4096, farTwice[2] = {4096, 4096};
  memset(&junk, 0x5a, sizeof junk);
  WANT(ncclInvalidArgument, ncclGetVersion(NULL));
  WANT(ncclInvalidArgument, ncclGetUniqueId(NULL));
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  if (strcmp(ncclGetErrorString((ncclResult_t)99), "unknown result code") != 0) wrong = 1;
  WANT(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
  WANT(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
  WANT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
  WANT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, -1));
  WANT(ncclInvalidArgument, ncclCommInitRank(&comm, 1, junk, 0));
  config.magic = 1;
  WANT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  wantText("NCCL_CONFIG_INITIALIZER");
  config.magic = 0xcafebeef;
  config.blocking = 7;
  WANT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  wantText("blocking");
  WANT(ncclInvalidArgument, ncclCommInitAll(NULL, 1, NULL));
  WANT(ncclInvalidArgument, ncclCommInitAll(&comm, -1, NULL));
  WANT(ncclInvalidArgument, ncclCommInitAll(&comm, 1, &far));
  WANT(ncclInvalidUsage, ncclCommInitAll(&comm, 2, twice));
  WANT(ncclInvalidArgument, ncclCommInitAll(&comm, 2, farTwice));
  wantText("no device 4096");
  WANT(ncclInvalidArgument, ncclCommInitAll(&comm, INT_MAX, NULL));
  WANT(ncclSuccess, ncclCommInitAll(&comm, 0, NULL));
  if (comm != NULL) wrong = 1;
  WANT(ncclSuccess, ncclCommFinalize(NULL));
  WANT(ncclSuccess, ncclCommDestroy(NULL));
  WANT(ncclSuccess, ncclCommAbort(NULL));
  WANT(ncclInvalidUsage, ncclGroupEnd());
  WANT(ncclInvalidArgument, ncclMemAlloc(NULL, 4));
  WANT(ncclSuccess, ncclMemFree(NULL));
  if (ncclMemFree(&comm) == ncclSuccess) wrong = 1;
  WANT(ncclInvalidArgument, ncclLsaBarrierCreateRequirement(team, -1, &lsa, &req));
  WANT(ncclInvalidArgument, ncclLsaBarrierCreateRequirement(team, 1, NULL, &req));
  WANT(ncclInvalidArgument, ncclLsaBarrierCreateRequirement(team, 1, &lsa, NULL));
  WANT(ncclInvalidArgument, ncclGinBarrierCreateRequirement(NULL, team, 1, NULL, &req));
  WANT(ncclInvalidArgument, ncclGinBarrierCreateRequirement(NULL, team, 1, &gin, NULL));
  WANT(ncclInvalidArgument, ncclLLA2ACreateRequirement(1, 1, NULL, &req));
  WANT(ncclInvalidArgument, ncclLLA2ACreateRequirement(1 << 20, 1 << 20, &ll, &req));
  WANT(ncclInvalidArgument, ncclLLA2ACreateRequirement(1, 1, (ncclLLA2AHandle_t*)((char*)&ll + 1), &req));
}

/* Whatever fails leaves NULL where a handle was to go, and a device communicator of zeros. */
static void failuresLeaveNothing(void) {
  static const char zeros[200];
  char* junk = (char*)malloc(200);
  ncclUniqueId id, none;
  ncclComm_t good, comm, pair[2];
  ncclWindow_t win;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclDevCommRequirements_t reqs;
  int same[2] = {0, 0}, self = 0;
  memset(&none, 0x5a, sizeof none);
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaBarrierCount = -1;
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  WANT(ncclSuccess, ncclCommInitRank(&good, 1, id, 0));
#define LEAVES(call)                                \
  do {                                              \
    comm = (ncclComm_t)(size_t)0x5a5a5a5a;          \
    if ((call) == ncclSuccess || comm != NULL) {    \
      printf("%s: left %p\n", #call, (void*)comm);  \
      wrong = 1;                                    \
    }                                               \
  } while (0)
  LEAVES(ncclCommInitRank(&comm, 0, id, 0));
  LEAVES(ncclCommInitRank(&comm, 1, none, 0));
  LEAVES(ncclCommInitRankConfig(&comm, 2, id, 2, NULL));
  config.magic = 1;
  LEAVES(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config.magic = ((ncclConfig_t)NCCL_CONFIG_INITIALIZER).magic;
  config.blocking = 0;
  LEAVES(ncclCommInitRankConfig(&comm, 1, none, 0, &config));
  LEAVES(ncclCommInitRankScalable(&comm, 1, 0, 0, &id, NULL));
  LEAVES(ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL));
  LEAVES(ncclCommSplit(NULL, 0, 0, &comm, NULL));
  LEAVES(ncclCommSplit((ncclComm_t)(size_t)16, 0, 0, &comm, NULL));
  LEAVES(ncclCommShrink(good, &self, 1, &comm, NULL, 0));
  LEAVES(ncclCommShrink(good, NULL, 1, &comm, NULL, 0));
  WANT(ncclSuccess, ncclGroupStart());
  LEAVES(ncclCommInitRank(&comm, 1, none, 0));
  if (ncclGroupEnd() == ncclSuccess) wrong = 1;
  pair[0] = pair[1] = good;
  WANT(ncclInvalidUsage, ncclCommInitAll(pair, 2, same));
  if (pair[0] || pair[1]) wrong = 1, printf("ncclCommInitAll left %p %p\n", (void*)pair[0], (void*)pair[1]);
  win = (ncclWindow_t)good;
  if (ncclCommWindowRegister(NULL, &win, 4, &win, 0) == ncclSuccess || win) wrong = 1, printf("a window was left\n");
  /* Without a communicator nobody knows which version's struct it is: it stays as it was. */
  memset(junk, 0x5a, 200);
  if (ncclDevCommCreate(good, &reqs, (void*)junk) == ncclSuccess || memcmp(junk, zeros, 200)) {
    wrong = 1, printf("ncclDevCommCreate left something\n");
  }
  WANT(ncclSuccess, ncclCommDestroy(good));
  free(junk);
}

int main(void) {
  withoutCommunicator();
  failuresLeaveNothing();
  configs();
  onHandle(NULL, ncclInvalidArgument);
  onHandle((ncclComm_t)&wrong, ncclInvalidArgument);
  onHandle((ncclComm_t)(size_t)1, ncclInvalidArgument);
  onHandle((ncclComm_t)(size_t)0xdeadbeefdeadbeefull, ncclInvalidArgument);
  wantText("not a communicator");
  children(NULL);
  collectives(NULL, ncclInvalidArgument);
  collectives((ncclComm_t)(size_t)0xdeadbeefdeadbeefull, ncclInvalidArgument);
  WANT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, NULL));
  withCommunicator();
  if (!wrong) printf("misuse ok\n");
  return wrong;
}
