/* ncclGin is complete in ../gin.h. */
#ifndef _NCCL_DEVICE_GIN_SESSION__TYPES_H_
#define _NCCL_DEVICE_GIN_SESSION__TYPES_H_
#include "../gin.h"
#endif
