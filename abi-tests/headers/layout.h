/* Sizes and offsets that kernels and libraries of different makers share. The same file is compiled against NVIDIA's
 * headers, so that the numbers are known to be right. */
#ifndef HEADERS_LAYOUT_H_
#define HEADERS_LAYOUT_H_
#include <nccl.h>
#include <nccl_device.h>
#include <stddef.h>

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "size of " #type)
#define AT(type, field, bytes) static_assert(offsetof(type, field) == (bytes), "offset of " #type "::" #field)

/* T001 */
SIZE(ncclDevComm, 200);
SIZE(ncclWindow_vidmem, 72);
SIZE(ncclDevCommRequirements, 56);
SIZE(ncclDevResourceRequirements, 56);
SIZE(ncclTeamRequirements, 32);
SIZE(ncclTeam, 12);
SIZE(ncclDevCommWindowTable, 776);
SIZE(ncclDevCommWindowTable::Entry, 24);
SIZE(ncclLsaBarrierHandle, 8);
SIZE(ncclGinBarrierHandle, 8);
SIZE(ncclLLA2AHandle, 8);
SIZE(ncclMultimemHandle, 8);
SIZE(ncclSymPtr<float>, 16);

/* T002 */
AT(ncclDevComm, rank, 0);
AT(ncclDevComm, nRanks, 4);
AT(ncclDevComm, nRanks_rcp32, 8);
AT(ncclDevComm, lsaRank, 12);
AT(ncclDevComm, lsaSize, 16);
AT(ncclDevComm, lsaSize_rcp32, 20);
AT(ncclDevComm, windowTable, 24);
AT(ncclDevComm, resourceWindow, 32);
AT(ncclDevComm, resourceWindow_inlined, 40);
AT(ncclDevComm, lsaMultimem, 112);
AT(ncclDevComm, lsaBarrier, 120);
AT(ncclDevComm, railGinBarrier, 128);
AT(ncclDevComm, ginContextCount, 136);
AT(ncclDevComm, ginTypes, 137);
AT(ncclDevComm, ginHandles, 144);
AT(ncclDevComm, ginSignalBase, 176);
AT(ncclDevComm, ginSignalCount, 180);
AT(ncclDevComm, ginCounterBase, 184);
AT(ncclDevComm, ginCounterCount, 188);
AT(ncclDevComm, ginSignalShadows, 192);
AT(ncclWindow_vidmem, winHost, 0);
AT(ncclWindow_vidmem, lsaFlatBase, 8);
AT(ncclWindow_vidmem, lsaRank, 16);
AT(ncclWindow_vidmem, worldRank, 20);
AT(ncclWindow_vidmem, stride4G, 24);
AT(ncclWindow_vidmem, mcOffset4K, 28);
AT(ncclWindow_vidmem, ginOffset4K, 32);
AT(ncclWindow_vidmem, ginWins, 40);
AT(ncclDevCommWindowTable, next, 768);
AT(ncclDevCommRequirements, resourceRequirementsList, 0);
AT(ncclDevCommRequirements, teamRequirementsList, 8);
AT(ncclDevCommRequirements, lsaMultimem, 16);
AT(ncclDevCommRequirements, barrierCount, 20);
AT(ncclDevCommRequirements, lsaBarrierCount, 24);
AT(ncclDevCommRequirements, railGinBarrierCount, 28);
AT(ncclDevCommRequirements, lsaLLA2ABlockCount, 32);
AT(ncclDevCommRequirements, lsaLLA2ASlotCount, 36);
AT(ncclDevCommRequirements, ginForceEnable, 40);
AT(ncclDevCommRequirements, ginContextCount, 44);
AT(ncclDevCommRequirements, ginSignalCount, 48);
AT(ncclDevCommRequirements, ginCounterCount, 52);
AT(ncclDevResourceRequirements, next, 0);
AT(ncclDevResourceRequirements, bufferSize, 8);
AT(ncclDevResourceRequirements, bufferAlign, 16);
AT(ncclDevResourceRequirements, outBufferHandle, 24);
AT(ncclDevResourceRequirements, ginSignalCount, 32);
AT(ncclDevResourceRequirements, ginCounterCount, 36);
AT(ncclDevResourceRequirements, outGinSignalStart, 40);
AT(ncclDevResourceRequirements, outGinCounterStart, 48);
AT(ncclTeamRequirements, next, 0);
AT(ncclTeamRequirements, team, 8);
AT(ncclTeamRequirements, multimem, 20);
AT(ncclTeamRequirements, outMultimemHandle, 24);
AT(ncclLsaBarrierHandle, bufHandle, 0);
AT(ncclLsaBarrierHandle, nBarriers, 4);
AT(ncclGinBarrierHandle, signal0, 0);
AT(ncclGinBarrierHandle, bufHandle, 4);
AT(ncclLLA2AHandle, bufHandle, 0);
AT(ncclLLA2AHandle, nSlots, 4);

/* T003 */
SIZE(ncclNetDeviceHandle_t, 32);
AT(ncclNetDeviceHandle_t, netDeviceVersion, 4);
AT(ncclNetDeviceHandle_t, handle, 8);
AT(ncclNetDeviceHandle_t, size, 16);
AT(ncclNetDeviceHandle_t, needsProxyProgress, 24);
SIZE(ncclGinCtx, 24);
AT(ncclGinCtx, backend, 0);
AT(ncclGinCtx, rank, 4);
AT(ncclGinCtx, nRanks, 8);
AT(ncclGinCtx, handle, 16);
SIZE(ncclGinCtx_M<12u>, 24);
SIZE(ncclGinDescriptorSmem, 64);
static_assert(alignof(ncclGinDescriptorSmem) == 16, "alignment of ncclGinDescriptorSmem");

/* Values */
static_assert(NCCL_NET_DEVICE_HOST == 0 && NCCL_NET_DEVICE_UNPACK == 1 && NCCL_NET_DEVICE_GIN_PROXY == 2 &&
                  NCCL_NET_DEVICE_GIN_GDAKI == 3,
              "ncclNetDeviceType");
static_assert(ncclGinSignalInc == 0 && ncclGinSignalAdd == 1, "ncclGinSignalOp_t");
static_assert(NCCL_GIN_MAX_CONTEXTS == 4, "GIN contexts");
static_assert(NCCL_NET_DEVICE_INVALID_VERSION == 0 && NCCL_NET_MTU_SIZE == 4096 && NCCL_NET_DEVICE_UNPACK_VERSION == 7,
              "net device constants");
#endif
