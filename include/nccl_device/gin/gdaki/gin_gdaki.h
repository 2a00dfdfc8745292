/* The GDAKI backend, where the GPU drives the NIC itself. This version has its layouts and not its device code: a
 * context of this type meets the general Api templates of ../gin_device_common.h, which trap with a message. ginrs
 * creates none. */
#ifndef _NCCL_DEVICE_GIN_GDAKI_H_
#define _NCCL_DEVICE_GIN_GDAKI_H_
#include "../gin_device_common.h"
#include "gin_gdaki_device_host_common.h"
#endif
