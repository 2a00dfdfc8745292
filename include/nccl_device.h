/* The whole device API. C sees the plain structs and the host functions, C++ also teams and ncclSymPtr, CUDA everything.
 * Read nccl_device/{core,coop,gin,lsa_barrier,gin_barrier,barrier,ll_a2a,ptr}.h: they are the documentation. */
#include "nccl_device/coop.h"
#include "nccl_device/impl/barrier__funcs.h"
#include "nccl_device/impl/comm__funcs.h"
#include "nccl_device/impl/core__funcs.h"
#include "nccl_device/impl/gin__funcs.h"
#include "nccl_device/impl/gin_barrier__funcs.h"
#include "nccl_device/impl/ll_a2a__funcs.h"
#include "nccl_device/impl/lsa_barrier__funcs.h"
#include "nccl_device/impl/ptr__funcs.h"
