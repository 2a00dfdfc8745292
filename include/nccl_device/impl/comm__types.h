/* Layouts of ncclDevComm and of the table of windows. Written by the host library, read by kernels: ABI, byte for byte.
 * C-safe. */
#ifndef _NCCL_DEVICE_COMM__TYPES_H_
#define _NCCL_DEVICE_COMM__TYPES_H_
#include "../comm.h"
#include "core__types.h"
#include "gin_barrier__types.h"
#include "ll_a2a__types.h"
#include "lsa_barrier__types.h"

/* One page of the list of registered windows, in device memory. An entry with a zero field is empty. Behind the first
 * page ginrs keeps a struct ginrsCommExt. */
struct ncclDevCommWindowTable {
  struct Entry {
    uintptr_t base, size;
    ncclWindow_t window;
  } entries[32];
  struct ncclDevCommWindowTable* next;
};

/* Kernels take it by value, by reference or by pointer; sessions keep a reference to it. Stable for users: rank, nRanks,
 * lsaRank, lsaSize, ginContextCount. */
struct ncclDevComm {
  int rank, nRanks; /* world */
  uint32_t nRanks_rcp32; /* idivRcp32 of nRanks */
  int lsaRank, lsaSize;
  uint32_t lsaSize_rcp32;

  struct ncclDevCommWindowTable* windowTable;
  ncclWindow_t resourceWindow; /* null if nothing was required */
  struct ncclWindow_vidmem resourceWindow_inlined;

  ncclMultimemHandle_t lsaMultimem;
  ncclLsaBarrierHandle_t lsaBarrier;
  ncclGinBarrierHandle_t railGinBarrier;

  uint8_t ginContextCount; /* 0 if the devcomm has no GIN */
  uint8_t ginTypes[NCCL_GIN_MAX_CONTEXTS]; /* ncclNetDeviceType */
  uint8_t ginrsMark[3]; /* padding in NCCL; GINRS_MARK_BYTE0.. from ginrs (ginrs_device/marker.h) */
  void* ginHandles[NCCL_GIN_MAX_CONTEXTS]; /* backend contexts, in device memory */
  uint32_t ginSignalBase; /* of this devcomm's signal 0 in the context's table */
  int ginSignalCount;
  uint32_t ginCounterBase;
  int ginCounterCount;
  uint64_t* ginSignalShadows; /* [context][signal], in local memory */
};

#ifdef __cplusplus
static_assert(sizeof(ncclDevComm) == 200 && sizeof(ncclWindow_vidmem) == 72 && sizeof(ncclDevCommWindowTable) == 776,
              "layouts of NCCL 2.28.9");
#else
_Static_assert(sizeof(struct ncclDevComm) == 200 && sizeof(struct ncclWindow_vidmem) == 72 &&
                   sizeof(struct ncclDevCommWindowTable) == 776,
               "layouts of NCCL 2.28.9");
#endif
#endif
