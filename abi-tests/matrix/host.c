/* T006, T007, T102, T103 in C11. */
#include "choose.h"
#if CASE_N(7, 1)
#include <nccl_device.h> /* as the first line of a C program */
#else
#include <nccl_device/core.h>
#if CASE_C(102)
#include <nccl_device/ll_a2a.h>
#include <nccl_device/lsa_barrier.h>
#endif
#endif
#include <string.h>

#if CASE_C(6)
ncclResult_t t006(ncclComm_t comm, ncclDevComm_t* out) {
  ncclDevCommRequirements_t requirements;
  memset(&requirements, 0, sizeof(requirements));
  requirements.lsaBarrierCount = 4;
  requirements.ginSignalCount = 2;
  ncclResult_t (*call)(ncclComm_t, ncclDevCommRequirements_t const*, ncclDevComm_t*) = ncclDevCommCreate;
  return call(comm, &requirements, out);
}
int t006team(ncclComm_t comm, int peer) {
  ncclTeam_t rail = ncclTeamRail(comm);
  return ncclTeamRankToWorld(comm, rail, peer) + ncclTeamRankToLsa(comm, ncclTeamLsa(comm), 0);
}
#endif

#if CASE_N(7, 1)
_Static_assert(sizeof(ncclDevComm_t) == 200, "T007");
_Static_assert(sizeof(ncclLsaBarrierHandle_t) == 8 && sizeof(ncclGinBarrierHandle_t) == 8 && sizeof(ncclLLA2AHandle_t) == 8,
               "T007");
int t007(ncclTeam_t team, ncclDevComm_t* devComm) {
  return devComm->lsaSize + ncclTeamRankToTeam(team, ncclTeamInnerFactor(team, 2), 1) + (int)ncclGetResourceBufferOffset(3);
}
#endif

#if CASE_C(102)
ncclResult_t t102(ncclTeam_t team, ncclLsaBarrierHandle_t* lsa, ncclLLA2AHandle_t* a2a, ncclDevResourceRequirements_t out[2]) {
  ncclResult_t result = ncclLsaBarrierCreateRequirement(team, 1, lsa, &out[0]);
  return result != ncclSuccess ? result : ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(8, 4), a2a, &out[1]);
}
#endif
#if CASE_N(102, 1) /* NVIDIA's header of this one is not C */
ncclResult_t t102gin(ncclComm_t comm, ncclTeam_t team, ncclGinBarrierHandle_t* gin, ncclDevResourceRequirements_t* out) {
  return ncclGinBarrierCreateRequirement(comm, team, 1, gin, out);
}
#endif
#if CASE_N(102, 2)
ncclResult_t t102twins(ncclComm_t comm, ncclTeam_t team, ncclLsaBarrierHandle_t* lsa, ncclGinBarrierHandle_t* gin,
                       ncclLLA2AHandle_t* a2a, ncclDevResourceRequirements_t out[3]) {
  if (pncclLsaBarrierCreateRequirement(team, 1, lsa, &out[0]) != ncclSuccess) return ncclInternalError;
  if (pncclGinBarrierCreateRequirement(comm, team, 1, gin, &out[1]) != ncclSuccess) return ncclInternalError;
  return pncclLLA2ACreateRequirement(1, pncclLLA2ACalcSlots(8, 4), a2a, &out[2]);
}
#endif

#if CASE_C(103)
ncclResult_t t103(ncclComm_t comm, ncclDevComm_t* devComm) {
  static ncclDevResourceRequirements_t resources[2];
  ncclDevCommRequirements_t requirements = {0};
  resources[0].next = &resources[1];
  resources[1].bufferSize = 4096;
  requirements.resourceRequirementsList = resources;
  return ncclDevCommCreate(comm, &requirements, devComm);
}
#endif
