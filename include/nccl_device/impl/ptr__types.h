/* ncclSymPtr is complete in ../ptr.h. */
#ifndef _NCCL_DEVICE_PTR__TYPES_H_
#define _NCCL_DEVICE_PTR__TYPES_H_
#include "../ptr.h"
#include "core__types.h"
#endif
