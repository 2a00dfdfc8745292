/* T009, T019, T102, T103: what host code of frameworks does with the headers. */
#include <nccl.h>
#include <nccl_device.h>

#if !__has_include(<nccl_device/lsa_barrier.h>) /* T016 */
#error "feature tests look for this header"
#endif
#ifdef OURS
#include <nccl_device/impl/mem_barrier__funcs.h>
#include <nccl_device/impl/mem_barrier__types.h>
#include <nccl_device/mem_barrier.h>
#endif

#include <cstring>
#include <type_traits>
#include <unordered_map>

std::unordered_map<int, ncclDevComm> devComms;
NCCL_EXTERN_C int userFunction(int);
NCCL_HOST_DEVICE_INLINE int userInline(int x) {
  return x + 1;
}
NCCL_DEVICE_INLINE int userDevice(int x) {
  return x;
}
int userFunction(int x) {
  return userInline(userDevice(x));
}

struct Holder {
  ncclSymPtr<float> p;
  ncclWindow_t window;
};
static_assert(std::is_trivially_copyable<ncclSymPtr<float>>::value, "ncclSymPtr travels as a kernel parameter");
static_assert(std::is_trivially_copyable<ncclDevComm>::value, "so does ncclDevComm");

ncclResult_t create(ncclComm_t comm, int key) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements requirements;
  memset(&requirements, 0, sizeof(requirements));
#endif
  static ncclDevResourceRequirements resources[2];
  static ncclLsaBarrierHandle barrier;
  static ncclTeamRequirements team;
  resources[0].next = &resources[1];
  resources[1].bufferSize = 4096;
  requirements.resourceRequirementsList = resources;
  requirements.teamRequirementsList = &team;
  team.team = ncclTeamLsa(comm);
  ncclResult_t result = ncclLsaBarrierCreateRequirement(ncclTeamWorld(comm), 2, &barrier, &resources[0]);
  if (result != ncclSuccess) return result;
  ncclDevComm devComm;
  result = ncclDevCommCreate(comm, &requirements, &devComm);
  if (result != ncclSuccess) return result;
  devComms[key] = devComm;
  ncclTeam rail = ncclTeamRail(devComm);
  return ncclTeamRankToWorld(devComm, rail, 0) >= 0 ? ncclDevCommDestroy(comm, &devComms[key]) : ncclInternalError;
}
