/* T008, T009, T016, T019, T032, T102, T103 in C++ without CUDA, as the host code of frameworks is. */
#include "choose.h"
#if CASE_N(8, 1)
#include <nccl_device.h> /* as the first line */
#endif
#include <nccl.h>
#include <nccl_device.h>

#include <cstring>
#include <type_traits>
#include <unordered_map>

#if CASE_N(8, 1)
static_assert(sizeof(ncclDevComm) == 200, "T008");
#endif

#if CASE_C(9)
std::unordered_map<int, ncclDevComm> t009devComms;
struct T009Holder {
  ncclSymPtr<float> p;
  ncclWindow_t window;
};
static_assert(std::is_trivially_copyable<ncclDevComm>::value && std::is_trivially_copyable<T009Holder>::value, "T009");
void t009(int key, ncclDevComm const& devComm) {
  t009devComms[key] = devComm;
}
#endif

#if CASE_C(16)
#if !__has_include(<nccl_device/lsa_barrier.h>) || !__has_include(<nccl_device/gin.h>) || __has_include(<nccl_device/none.h>)
#error "T016: feature tests look for these headers"
#endif
#endif
#if CASE_N(16, 1)
#include <nccl_device/impl/mem_barrier__funcs.h>
#include <nccl_device/impl/mem_barrier__types.h>
#include <nccl_device/mem_barrier.h>
#endif

#if CASE_C(19)
NCCL_EXTERN_C int t019extern(int);
NCCL_HOST_DEVICE_INLINE int t019both(int x) {
  return x + 1;
}
NCCL_DEVICE_INLINE int t019device(int x) {
  return x;
}
int t019extern(int x) {
  return t019both(t019device(x));
}
#endif

#if CASE_C(32)
int t032(ncclComm_t comm) {
  ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  return ncclTeamRankToWorld(comm, rail, 0) + ncclTeamRankToLsa(comm, lsa, 0) + world.nRanks;
}
int t032inline(ncclDevComm const& devComm) {
  return ncclTeamRankToWorld(devComm, ncclTeamRail(devComm), 0) + ncclTeamRankToLsa(devComm, ncclTeamLsa(devComm), 0);
}
#endif

#if CASE_C(102)
ncclResult_t t102(ncclComm_t comm, ncclTeam_t team, ncclLsaBarrierHandle_t* lsa, ncclGinBarrierHandle_t* gin,
                  ncclLLA2AHandle_t* a2a, ncclDevResourceRequirements_t* out) {
  if (ncclLsaBarrierCreateRequirement(team, 1, lsa, &out[0]) != ncclSuccess) return ncclInternalError;
  if (ncclGinBarrierCreateRequirement(comm, team, 1, gin, &out[1]) != ncclSuccess) return ncclInternalError;
  return ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(8, 4), a2a, &out[2]);
}
#endif

#if CASE_C(103)
ncclResult_t t103(ncclComm_t comm, ncclDevComm* devComm) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements requirements;
  memset(&requirements, 0, sizeof(requirements));
#endif
  ncclDevCommRequirements plain = {};
  static ncclDevResourceRequirements resources[2];
  static ncclTeamRequirements team;
  resources[0].next = &resources[1];
  requirements.resourceRequirementsList = resources;
  requirements.teamRequirementsList = &team;
  team.team = ncclTeamLsa(comm);
  return plain.ginForceEnable ? ncclInternalError : ncclDevCommCreate(comm, &requirements, devComm);
}
#endif
