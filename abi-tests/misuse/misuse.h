/* What the files of this program share: how an answer is compared, and each file's cases. */
#ifndef MISUSE_H_
#define MISUSE_H_
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/gin_barrier__types.h>
#include <nccl_device/impl/ll_a2a__types.h>
#include <nccl_device/impl/lsa_barrier__types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set by what fails. */
extern int wrong;
void want(const char* what, ncclResult_t got, ncclResult_t expected);
#define WANT(code, call) want(#call, call, code)
/* The last error has this part. */
void wantText(const char* part);

void onHandle(ncclComm_t comm, ncclResult_t givenBack); /* communicator.c */
void withCommunicator(void);
void collectives(ncclComm_t comm, ncclResult_t code); /* collectives.c */
void wrongCollectives(ncclComm_t comm);
void configs(void);             /* configs.c */
void children(ncclComm_t comm); /* children.c */
#endif
