/* Every host function with NULL, garbage and dead arguments: a code and a message each time, never a crash. */
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/gin_barrier__types.h>
#include <nccl_device/impl/ll_a2a__types.h>
#include <nccl_device/impl/lsa_barrier__types.h>
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

/* Every function on a handle that is none. */
static void onHandle(ncclComm_t comm) {
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
  WANT(ncclInvalidArgument, ncclCommDeregister(comm, p));
  WANT(ncclInvalidArgument, ncclCommWindowRegister(comm, p, 4, &win, 0));
  WANT(ncclInvalidArgument, ncclCommWindowDeregister(comm, win));
  WANT(ncclInvalidArgument, ncclDevCommCreate(comm, &reqs, (void*)devComm));
  WANT(ncclInvalidArgument, ncclDevCommDestroy(comm, (void*)devComm));
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
  int twice[2] = {0, 0}, far = 4096;
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
  WANT(ncclInvalidArgument, ncclAlltoAll(y, y, 1, ncclFloat, comm, NULL));
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

static void stubs(ncclComm_t comm) {
  int n = 0;
  ncclComm_t other = NULL;
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  WANT(ncclInvalidUsage, ncclCommSplit(comm, 0, 0, &other, NULL));
  WANT(ncclInvalidUsage, ncclCommShrink(comm, &n, 1, &other, NULL, NCCL_SHRINK_DEFAULT));
  WANT(ncclInvalidUsage, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  WANT(ncclInvalidUsage, ncclCommInitRankScalable(&other, 1, 0, 1, &id, NULL));
  WANT(ncclInvalidUsage, ncclGroupSimulateEnd(NULL));
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
  stubs(comm);
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
  onHandle(comm);
  wantText("already destroyed");
  free(devComm);
}

int main(void) {
  withoutCommunicator();
  onHandle(NULL);
  onHandle((ncclComm_t)&wrong);
  onHandle((ncclComm_t)(size_t)1);
  onHandle((ncclComm_t)(size_t)0xdeadbeefdeadbeefull);
  wantText("not a communicator");
  stubs(NULL);
  collectives(NULL, ncclInvalidArgument);
  collectives((ncclComm_t)(size_t)0xdeadbeefdeadbeefull, ncclInvalidArgument);
  WANT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, NULL));
  withCommunicator();
  if (!wrong) printf("misuse ok\n");
  return wrong;
}
