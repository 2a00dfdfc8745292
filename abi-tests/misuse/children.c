/* Split, shrink, revoke and groups of them. */
#include "misuse.h"

/* Children of a communicator of one rank, and what is wrong with them. */
void children(ncclComm_t comm) {
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
