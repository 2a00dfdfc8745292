/* Collectives, on any communicator and with wrong arguments. */
#include "misuse.h"

/* Every collective on `comm`, with arguments that are right for one rank: all give `code`. */
void collectives(ncclComm_t comm, ncclResult_t code) {
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
void wrongCollectives(ncclComm_t comm) {
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
