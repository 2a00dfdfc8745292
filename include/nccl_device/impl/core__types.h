/* Layouts of windows and multicast handles. Written by the host library, read by kernels: ABI, byte for byte. */
#ifndef _NCCL_DEVICE_CORE__TYPES_H_
#define _NCCL_DEVICE_CORE__TYPES_H_
#include "../core.h"
#include "../gin/gin_device_host_common.h"

/* What ncclWindow_t points to, in device memory. Addresses of rank i of the LSA team: lsaFlatBase + i * stride4G * 4 GiB. */
struct ncclWindow_vidmem {
  void* winHost; /* the host's name of the memory; not for kernels */
  char* lsaFlatBase;
  int lsaRank;
  int worldRank;
  uint32_t stride4G;     /* in units of 4 GiB */
  uint32_t mcOffset4K;   /* from the multicast base, in units of 4 KiB */
  uint32_t ginOffset4K;  /* from the start of the memory that ginWins registers, in units of 4 KiB */
  uint32_t ginrsMark;    /* padding in NCCL; in the devcomm's copy ginrs writes GINRS_MARK_WORD (ginrs_device/marker.h) */
  ncclGinWindow_t ginWins[NCCL_GIN_MAX_CONTEXTS];
};

struct ncclMultimemHandle {
  void* mcBasePtr;
};
#endif
