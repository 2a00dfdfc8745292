/* T006: C11 sees the requirements and the host functions. */
#include <nccl_device/core.h>
#include <string.h>

ncclResult_t create(ncclComm_t comm, ncclDevComm_t* out) {
  ncclDevCommRequirements_t requirements;
  memset(&requirements, 0, sizeof(requirements));
  requirements.lsaBarrierCount = 4;
  requirements.ginSignalCount = 2;
  ncclResult_t (*call)(ncclComm_t, ncclDevCommRequirements_t const*, ncclDevComm_t*) = ncclDevCommCreate;
  return call(comm, &requirements, out);
}
int worldRank(ncclComm_t comm, int peer) {
  ncclTeam_t rail = ncclTeamRail(comm);
  return ncclTeamRankToWorld(comm, rail, peer) + ncclTeamRankToLsa(comm, ncclTeamLsa(comm), 0);
}
