/* ncclDevComm has no functions of its own; core__funcs.h has those that take one. */
#ifndef _NCCL_DEVICE_COMM__FUNCS_H_
#define _NCCL_DEVICE_COMM__FUNCS_H_
#include "comm__types.h"
#endif
