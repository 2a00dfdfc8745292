/* Every host function with NULL, garbage and dead arguments: a code and a message each time, never a crash. */
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/gin_barrier__types.h>
#include <nccl_device/impl/ll_a2a__types.h>
#include <nccl_device/impl/lsa_barrier__types.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void want(const char* what, ncclResult_t got, ncclResult_t expected) {
  if (got != expected) {
    printf("%s: %d (%s), expected %d; last error: %s\n", what, got, ncclGetErrorString(got), expected, ncclGetLastError(NULL));
    wrong = 1;
  }
}
#define WANT(code, call) want(#call, call, code)

static void wantText(const char* part) {
  const char* text = ncclGetLastError(NULL);
  if (!strstr(text, part)) {
    printf("last error lacks \"%s\": %s\n", part, text);
    wrong = 1;
  }
}

/* Every function on a handle that is none, or whose communicator has gone: what was made on that one has gone along, and may be given
 * back all the same. */
static void onHandle(ncclComm_t comm, ncclResult_t givenBack) {
  void* p = &wrong;
  int n;
  ncclResult_t state;
  ncclWindow_t win = (ncclWindow_t)&wrong;
  ncclDevCommRequirements_t reqs;
  ncclDevComm_t* devComm = (ncclDevComm_t*)calloc(1, 200);
  memset(&reqs, 0, sizeof reqs);
  WANT(ncclInvalidArgument, ncclCommCount(comm, &n));
  WANT(ncclInvalidArgument, ncclCommCuDevice(comm, &n));
  WANT(ncclInvalidArgument, ncclCommUserRank(comm, &n));
  WANT(ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
  WANT(ncclInvalidArgument, ncclCommRegister(comm, p, 4, &p));
  WANT(givenBack, ncclCommDeregister(comm, p));
  WANT(ncclInvalidArgument, ncclCommWindowRegister(comm, p, 4, &win, 0));
  WANT(givenBack, ncclCommWindowDeregister(comm, win));
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, (void*)devComm));
  WANT(givenBack, ncclDevCommDestroy(comm, (void*)devComm));
  if (ncclTeamWorld(comm).nRanks != 0 || ncclTeamLsa(comm).nRanks != 0 || ncclTeamRail(comm).nRanks != 0) wrong = 1;
  if (ncclTeamRankToWorld(comm, ncclTeamWorld(comm), 0) != -1) wrong = 1;
  if (ncclTeamRankToLsa(comm, ncclTeamWorld(comm), 0) != -1) wrong = 1;
  if (comm != NULL) {
    WANT(ncclInvalidArgument, ncclCommFinalize(comm));
    WANT(ncclInvalidArgument, ncclCommDestroy(comm));
    WANT(ncclInvalidArgument, ncclCommAbort(comm));
  }
  free(devComm);
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

/* Every collective on `comm`, with arguments that are right for one rank: all give `code`. */
static void collectives(ncclComm_t comm, ncclResult_t code) {
  float x = 0, y[2] = {0, 0};
  WANT(code, ncclAllReduce(&x, y, 1, ncclFloat, ncclSum, comm, NULL));
  WANT(code, ncclReduce(&x, y, 1, ncclFloat, ncclSum, 0, comm, NULL));
  WANT(code, ncclBcast(&x, 1, ncclFloat, 0, comm, NULL));
  WANT(code, ncclBroadcast(&x, y, 1, ncclFloat, 0, comm, NULL));
  WANT(code, ncclReduceScatter(&x, y, 1, ncclFloat, ncclSum, comm, NULL));
  WANT(code, ncclAllGather(&x, y, 1, ncclFloat, comm, NULL));
  WANT(code, ncclAlltoAll(&x, y, 1, ncclFloat, comm, NULL));
  WANT(code, ncclGather(&x, y, 1, ncclFloat, 0, comm, NULL));
  WANT(code, ncclScatter(&x, y, 1, ncclFloat, 0, comm, NULL));
  WANT(code, ncclSend(&x, 1, ncclFloat, 0, comm, NULL));
  WANT(code, ncclRecv(&x, 1, ncclFloat, 0, comm, NULL));
}

/* Arguments of collectives, on a communicator of one rank. */
static void wrongCollectives(ncclComm_t comm) {
  float x = 2, y[4] = {0, 0, 0, 0};
  ncclRedOp_t op;
  WANT(ncclInvalidArgument, ncclAllReduce(NULL, y, 1, ncclFloat, ncclSum, comm, NULL));
  wantText("sendbuff is NULL");
  WANT(ncclInvalidArgument, ncclAllReduce(&x, NULL, 1, ncclFloat, ncclSum, comm, NULL));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, (ncclDataType_t)12, ncclSum, comm, NULL));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, ncclFloat, (ncclRedOp_t)5, comm, NULL));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, ncclFloat, (ncclRedOp_t)-1, comm, NULL));
  wantText("unknown operation");
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, (size_t)-1, ncclFloat, ncclSum, comm, NULL));
  wantText("count is too large");
  WANT(ncclInvalidArgument, ncclAllReduce(y, y + 1, 2, ncclFloat, ncclSum, comm, NULL));
  wantText("buffers overlap");
  WANT(ncclInvalidArgument, ncclAlltoAll(y, (char*)y + 2, 1, ncclFloat, comm, NULL));
  WANT(ncclInvalidArgument, ncclReduce(&x, y, 1, ncclFloat, ncclSum, 1, comm, NULL));
  WANT(ncclInvalidArgument, ncclBroadcast(&x, y, 1, ncclFloat, -1, comm, NULL));
  wantText("root is no rank");
  WANT(ncclInvalidArgument, ncclSend(&x, 1, ncclFloat, 1, comm, NULL));
  wantText("peer is no rank");
  WANT(ncclInvalidArgument, ncclRecv(NULL, 1, ncclFloat, 0, comm, NULL));
  /* Nothing to do is done, whatever the buffers. */
  WANT(ncclSuccess, ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
  WANT(ncclSuccess, ncclAlltoAll(NULL, NULL, 0, ncclInt8, comm, NULL));
  /* A group whose call is wrong says so at its end too. */
  WANT(ncclSuccess, ncclGroupStart());
  WANT(ncclInvalidArgument, ncclSend(&x, 1, ncclFloat, 7, comm, NULL));
  WANT(ncclInvalidArgument, ncclGroupEnd());
  /* A message to oneself needs both calls. */
  WANT(ncclInvalidUsage, ncclSend(&x, 1, ncclFloat, 0, comm, NULL));
  wantText("messages to oneself");
  WANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(NULL, &x, ncclFloat, ncclScalarHostImmediate, comm));
  WANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, comm));
  WANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, &x, (ncclDataType_t)77, ncclScalarHostImmediate, comm));
  WANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, &x, ncclFloat, (ncclScalarResidence_t)2, comm));
  WANT(ncclSuccess, ncclRedOpCreatePreMulSum(&op, &x, ncclFloat, ncclScalarHostImmediate, comm));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, ncclInt32, op, comm, NULL));
  wantText("another data type");
  WANT(ncclSuccess, ncclRedOpDestroy(op, comm));
  WANT(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
  WANT(ncclInvalidArgument, ncclAllReduce(&x, y, 1, ncclFloat, op, comm, NULL));
  WANT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
}

/* Settings as programs of any 2.x version pass them: `size` bytes, of a header of `version`. */
static void config(ncclResult_t code, size_t size, unsigned version, ncclConfig_t with) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  with.size = size;
  with.version = version;
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  WANT(code, ncclCommInitRankConfig(&comm, 1, id, 0, &with));
  if ((comm != NULL) != (code == ncclSuccess)) wrong = 1;
  WANT(ncclSuccess, ncclCommDestroy(comm));
}

static void configs(void) {
  ncclConfig_t good = NCCL_CONFIG_INITIALIZER, bad;
  struct { ncclConfig_t known; char more[64]; } newer;
  config(ncclSuccess, sizeof good, NCCL_VERSION_CODE, good);
  config(ncclInvalidArgument, 15, NCCL_VERSION_CODE, good);
  config(ncclSuccess, 16, 21400, good);
  /* What lies behind the struct of an older header, and fields that its version does not have, are not looked at. */
  bad = good;
  bad.nvlinkCentricSched = 77;
  bad.nChannelsPerNetPeer = 999;
  config(ncclInvalidArgument, sizeof good, NCCL_VERSION_CODE, bad);
  config(ncclSuccess, 72, NCCL_VERSION_CODE, bad);
  config(ncclSuccess, sizeof good, 22705, bad);
  /* Half a pointer is none. */
  bad = good;
  memset(&bad.commName, 0x5a, sizeof bad.commName);
  config(ncclSuccess, 52, NCCL_VERSION_CODE, bad);
  memset(&bad.netName, 0x5a, sizeof bad.netName);
  config(ncclSuccess, 36, NCCL_VERSION_CODE, bad);
  bad = good;
  bad.CTAPolicy = 9;
  bad.nvlsCTAs = 0;
  bad.collnetEnable = bad.shrinkShare = 2;
  config(ncclInvalidArgument, sizeof good, 22700, bad);
  config(ncclSuccess, sizeof good, 22605, bad);
  bad = good;
  bad.cgaClusterSize = bad.minCTAs = -1;
  config(ncclInvalidArgument, sizeof good, 21700, bad);
  config(ncclSuccess, sizeof good, 21600, bad);
  bad = good;
  bad.minCTAs = 8;
  bad.maxCTAs = 4;
  config(ncclInvalidArgument, sizeof good, NCCL_VERSION_CODE, bad);
  bad.maxCTAs = 1000; /* more than there are: less are used */
  bad.splitShare = bad.shrinkShare = 1;
  bad.trafficClass = 5;
  bad.netName = "none";
  bad.commName = "misuse";
  config(ncclSuccess, sizeof good, NCCL_VERSION_CODE, bad);
  memset(&newer, 0x5a, sizeof newer);
  newer.known = good;
  newer.known.size = sizeof newer;
  newer.known.version = 22999;
  {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    WANT(ncclSuccess, ncclGetUniqueId(&id));
    WANT(ncclSuccess, ncclCommInitRankConfig(&comm, 1, id, 0, &newer.known));
    WANT(ncclSuccess, ncclCommDestroy(comm));
  }
}

/* Children of a communicator of one rank, and what is wrong with them. */
static void children(ncclComm_t comm) {
  int list[2] = {0, 0};
  ncclComm_t other = (ncclComm_t)&wrong;
  ncclUniqueId id;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  memset(&id, 0, sizeof id);
  WANT(ncclInvalidArgument, ncclCommSplit(comm, 0, 0, NULL, NULL));
  WANT(ncclInvalidArgument, ncclCommShrink(comm, list, 1, &other, NULL, NCCL_SHRINK_DEFAULT)); /* nobody stays */
  if (comm) wantText("the calling rank is excluded");
  WANT(ncclInvalidArgument, ncclCommShrink(comm, NULL, 1, &other, NULL, NCCL_SHRINK_DEFAULT));
  WANT(ncclInvalidArgument, ncclCommShrink(comm, list, 2, &other, NULL, NCCL_SHRINK_DEFAULT));
  WANT(ncclInvalidArgument, ncclCommShrink(comm, list, 0, &other, NULL, NCCL_SHRINK_DEFAULT));
  WANT(ncclInvalidArgument, ncclCommShrink(comm, list, 1, &other, NULL, 7));
  WANT(comm ? ncclInvalidArgument : ncclSuccess, ncclCommRevoke(comm, 3));
  WANT(ncclInvalidArgument, ncclCommInitRankScalable(&other, 1, 0, 1, NULL, NULL));
  WANT(ncclInvalidArgument, ncclCommInitRankScalable(&other, 1, 0, 1, &id, NULL));
  WANT(ncclInvalidArgument, ncclCommInitRankScalable(&other, 1, 0, 2, &id, NULL));
  WANT(ncclInvalidUsage, ncclGroupSimulateEnd(&info));
  WANT(ncclSuccess, ncclGroupStart());
  WANT(ncclInvalidArgument, ncclGroupSimulateEnd(NULL));
  WANT(ncclInvalidUsage, ncclGroupEnd()); /* it has ended the group all the same */
  if (comm) {
    ncclComm_t child = NULL, grandchild = NULL;
    ncclResult_t state;
    WANT(ncclSuccess, ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &child, NULL));
    if (child != NULL) wrong = 1;
    WANT(ncclSuccess, ncclCommSplit(comm, -2, 0, &child, NULL));
    WANT(ncclSuccess, ncclCommRevoke(child, NCCL_REVOKE_DEFAULT));
    WANT(ncclInvalidArgument, ncclCommRevoke(child, NCCL_REVOKE_DEFAULT));
    WANT(ncclInvalidArgument, ncclCommFinalize(child));
    wantText("communicator is revoked");
    WANT(ncclSuccess, ncclCommGetAsyncError(child, &state));
    if (state != ncclSuccess) wrong = 1;
    WANT(ncclSuccess, ncclCommSplit(child, 0, 0, &grandchild, NULL));
    WANT(ncclSuccess, ncclCommDestroy(child));
    WANT(ncclSuccess, ncclCommFinalize(grandchild));
    WANT(ncclInvalidArgument, ncclCommSplit(grandchild, 0, 0, &child, NULL));
    WANT(ncclInvalidArgument, ncclCommRevoke(grandchild, NCCL_REVOKE_DEFAULT));
    WANT(ncclSuccess, ncclCommAbort(grandchild));
    /* In a group the latest failure decides, and the split is not made. */
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclSuccess, ncclCommSplit(comm, 0, 0, &child, NULL));
    WANT(ncclInvalidUsage, ncclCommInitAll(&other, 2, list));
    WANT(ncclInvalidArgument, ncclCommSplit(comm, 0, 0, NULL, NULL));
    WANT(ncclInvalidArgument, ncclGroupEnd());
    if (child != NULL) wrong = 1;
    /* So do those that end a communicator. */
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclInvalidArgument, ncclCommRevoke(comm, 3));
    WANT(ncclInvalidArgument, ncclGroupEnd());
    WANT(ncclSuccess, ncclCommSplit(comm, 0, 0, &child, NULL));
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclSuccess, ncclCommFinalize(child));
    WANT(ncclInvalidArgument, ncclCommFinalize(child));
    WANT(ncclInvalidArgument, ncclGroupEnd());
    WANT(ncclSuccess, ncclCommDestroy(child));
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclInvalidArgument, ncclCommDestroy(child));
    WANT(ncclInvalidArgument, ncclGroupEnd());
    WANT(ncclSuccess, ncclGroupStart());
    WANT(ncclInvalidArgument, ncclCommAbort(child));
    WANT(ncclInvalidArgument, ncclGroupEnd());
  }
  ncclResetDebugInit();
}

static void withCommunicator(void) {
  ncclUniqueId id;
  ncclComm_t comm, second;
  ncclWindow_t win = (ncclWindow_t)&wrong;
  ncclDevCommRequirements_t reqs;
  ncclResult_t state;
  char* memory;
  int n;
  void* handle;
  char* devComm = (char*)calloc(1, 200);
  ncclDevResourceRequirements_t circle;
  memset(&reqs, 0, sizeof reqs);
  memset(&circle, 0, sizeof circle);
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  WANT(ncclSuccess, ncclCommInitRank(&comm, 1, id, 0));
  WANT(ncclInvalidArgument, ncclCommCount(comm, NULL));
  WANT(ncclSuccess, ncclCommCount(comm, &n));
  WANT(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
  WANT(ncclSuccess, ncclCommGetAsyncError(comm, &state));
  WANT(ncclInvalidArgument, ncclCommCount((ncclComm_t)((char*)comm + 1), &n));
  WANT(ncclInvalidArgument, ncclCommCount((ncclComm_t)((char*)comm + 1600), &n));
  children(comm);
  wrongCollectives(comm);
  /* There is no libginrs_cpu in this process, and so no kernels. Messages to oneself alone are found before that. */
  collectives(comm, ncclInvalidUsage);
  WANT(ncclInvalidUsage, ncclAllReduce(&n, &n, 1, ncclInt, ncclSum, comm, NULL));
  wantText("no kernels for collectives");
  WANT(ncclSuccess, ncclCommRegister(comm, &n, 4, &handle));
  WANT(ncclInvalidArgument, ncclCommRegister(comm, &n, 4, NULL));
  WANT(ncclSuccess, ncclCommDeregister(comm, handle));
  WANT(ncclInvalidUsage, ncclCommDeregister(comm, handle));
  WANT(ncclSuccess, ncclCommDeregister(comm, NULL));
  WANT(ncclSuccess, ncclMemAlloc((void**)&memory, 100000));
  WANT(ncclInvalidArgument, ncclCommWindowRegister(comm, memory, 4096, NULL, 0));
  WANT(ncclSuccess, ncclCommWindowRegister(comm, NULL, 4096, &win, 0));
  if (win != NULL) wrong = 1;
  WANT(ncclSuccess, ncclCommWindowRegister(comm, memory, 0, &win, 0));
  WANT(ncclInvalidArgument, ncclCommWindowRegister(comm, memory + 100, 4096, &win, 0));
  if (ncclCommWindowRegister(comm, &n, 4, &win, 0) == ncclSuccess || win != NULL) wrong = 1;
  WANT(ncclSuccess, ncclCommWindowRegister(comm, memory, 100000, &win, NCCL_WIN_COLL_SYMMETRIC));
  if (win == NULL) wrong = 1;
  if (ncclCommWindowDeregister(comm, (ncclWindow_t)&n) == ncclSuccess) wrong = 1;
  WANT(ncclSuccess, ncclCommWindowDeregister(comm, NULL));
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, NULL, (void*)devComm));
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, NULL));
  reqs.lsaBarrierCount = -1;
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, (void*)devComm));
  reqs.lsaBarrierCount = 0;
  circle.next = &circle;
  reqs.resourceRequirementsList = &circle;
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, (void*)devComm));
  reqs.resourceRequirementsList = NULL;
  WANT(ncclSuccess, ncclDevCommCreate(comm, &reqs, (void*)devComm));
  WANT(ncclInvalidArgument, ncclDevCommDestroy(comm, NULL));
  WANT(ncclSuccess, ncclDevCommDestroy(comm, (void*)devComm));
  WANT(ncclSuccess, ncclCommWindowDeregister(comm, win));
  if (ncclCommWindowDeregister(comm, win) == ncclSuccess) wrong = 1;

  /* Inside a group: what failed decides, and what was to be made does not exist. */
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  WANT(ncclSuccess, ncclGroupStart());
  WANT(ncclSuccess, ncclCommInitRank(&second, 1, id, 0));
  WANT(ncclInvalidArgument, ncclCommCount(second, &n));
  WANT(ncclSuccess, ncclCommGetAsyncError(second, &state));
  if (state != ncclInProgress) wrong = 1;
  WANT(ncclInvalidArgument, ncclCommInitRank(&second + 0, 0, id, 0));
  WANT(ncclInvalidArgument, ncclGroupEnd());
  if (ncclCommCount(second, &n) == ncclSuccess) wrong = 1;
  WANT(ncclSuccess, ncclCommAbort(second));

  WANT(ncclSuccess, ncclMemFree(memory));
  if (ncclMemFree(memory) == ncclSuccess) wrong = 1;
  WANT(ncclSuccess, ncclCommFinalize(comm));
  WANT(ncclInvalidArgument, ncclCommFinalize(comm));
  WANT(ncclInvalidArgument, ncclCommWindowRegister(comm, &n, 4, &win, 0));
  WANT(ncclSuccess, ncclCommDestroy(comm));
  onHandle(comm, ncclSuccess);
  wantText("already destroyed");
  free(devComm);
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
