/* ncclDevComm. Its fields are in impl/comm__types.h. */
#ifndef _NCCL_DEVICE_COMM_H_
#define _NCCL_DEVICE_COMM_H_
#include "core.h"
#endif
