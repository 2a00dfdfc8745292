/* T011, T014, T015, T018: ways to include the headers. Each case is a TU of its own: which is chosen by its number. */
#include "choose.h"

#if RUN_C == 11
#include <nccl_device/impl/comm__types.h>
#include <nccl_device/impl/gin__funcs.h>
#include <nccl_device/impl/core__funcs.h>
#elif RUN_C == 1102
#include <nccl_device/impl/core__funcs.h>
#include <nccl_device/impl/comm__types.h>
#include <nccl_device/impl/gin__funcs.h>
#elif RUN_N == 1101
#include <nccl_device/impl/gin__funcs.h>
#include <nccl_device/impl/core__funcs.h>
#elif RUN_C == 14
#pragma nv_diag_default 20012, 550, 177, 186, 39
#include <nccl_device.h>
#elif RUN_C == 15
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define ACCESS_ONCE(x) (x)
#include <nccl_device.h>
#elif RUN_C == 18
#define NCCL_DEVICE_GIN_GDAKI_ENABLE_DEBUG
#include <nccl_device.h>
#else
#error "which case?"
#endif

#if RUN_C != 1102 && RUN_C != 11 && RUN_N != 1101
__global__ void use(ncclDevComm d, ncclWindow_t w) {
  ncclGin(d, 0).put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), d, ncclTeamTagLsa(), 0};
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
#else
__global__ void use(ncclDevComm d, ncclWindow_t w, void** o) {
  ncclGin(d, 0).signal(ncclTeamWorld(d), 1, ncclGin_SignalInc{0});
  *o = ncclGetLocalPointer(w, 0);
}
#endif
