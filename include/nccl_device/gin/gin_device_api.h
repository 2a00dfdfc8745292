/* The backends that this TU is compiled for. */
#ifndef _NCCL_GIN_DEVICE_API_H_
#define _NCCL_GIN_DEVICE_API_H_
#include "gin_device_common.h"
#if NCCL_GIN_GDAKI_ENABLE
#include "gdaki/gin_gdaki.h"
#endif
#if NCCL_GIN_PROXY_ENABLE
#include "proxy/gin_proxy.h"
#endif
#endif
