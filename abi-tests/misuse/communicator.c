/* A communicator of one rank, its windows and device communicators, and handles that are none. */
#include "misuse.h"

/* Every function on a handle that is none, or whose communicator has gone: what was made on that one has gone along, and may be given
 * back all the same. */
void onHandle(ncclComm_t comm, ncclResult_t givenBack) {
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

void withCommunicator(void) {
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
