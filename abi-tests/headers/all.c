/* T007, T102 for C: the umbrella header gives C the structs, the team arithmetic and the twins. */
#include <nccl_device.h>

_Static_assert(sizeof(ncclDevComm_t) == 200, "ncclDevComm is complete in C");
_Static_assert(sizeof(ncclLsaBarrierHandle_t) == 8 && sizeof(ncclGinBarrierHandle_t) == 8 && sizeof(ncclLLA2AHandle_t) == 8,
               "so are the handles");



ncclResult_t require(ncclComm_t comm, ncclTeam_t team) {
  static ncclDevResourceRequirements_t lsa, gin, ll;
  static ncclLsaBarrierHandle_t lsaBarrier;
  static ncclGinBarrierHandle_t ginBarrier;
  static ncclLLA2AHandle_t a2a;
  ncclDevCommRequirements_t requirements = {0};
  if (ncclLsaBarrierCreateRequirement(team, 1, &lsaBarrier, &lsa) != ncclSuccess) return ncclInternalError;
  if (pncclGinBarrierCreateRequirement(comm, team, 1, &ginBarrier, &gin) != ncclSuccess) return ncclInternalError;
  if (ncclLLA2ACreateRequirement(1, pncclLLA2ACalcSlots(8, 4), &a2a, &ll) != ncclSuccess) return ncclInternalError;
  lsa.next = &gin;
  gin.next = &ll;
  requirements.resourceRequirementsList = &lsa;
  ncclDevComm_t devComm;
  ncclResult_t result = pncclDevCommCreate(comm, &requirements, &devComm);
  return result == ncclSuccess ? ncclDevCommDestroy(comm, &devComm) : result;
}

int inner(ncclTeam_t team) {
  return ncclTeamRankToTeam(team, ncclTeamInnerFactor(team, 2), 1) + (int)ncclGetResourceBufferOffset(3);
}
