/* T031, T032, T035 to T041: teams, windows, the devcomm's fields. */
#include "case.h"

namespace team_cases {
#if CASE_C(31) || CASE_C(35)
__host__ __device__ int teams(ncclDevComm const& d) {
  ncclTeam world = ncclTeamWorld(d), lsa = ncclTeamLsa(d), rail = ncclTeamRail(d);
  ncclTeam inner = ncclTeamInnerFactor(world, 2), outer = ncclTeamOuterFactor(world, 2);
  return ncclTeamRankToWorld(d, rail, 0) + ncclTeamRankToLsa(d, lsa, 0) + ncclTeamRankIsMember(lsa, world, 1) +
         ncclTeamRankToTeam(lsa, inner, 0) + ncclTeamRankInDifference(world, outer, 0) +
         int(ncclGetResourceBufferOffset(d.lsaBarrier.bufHandle));
}
#endif
#if CASE_C(31)
KERNEL(t031) {
  UNUSED();
  *(int*)o[0] = teams(d);
}
#endif
#if CASE_C(32)
int t032(ncclComm_t comm) {
  ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  return ncclTeamRankToWorld(comm, rail, 0) + ncclTeamRankToLsa(comm, lsa, 0) + world.nRanks;
}
#endif
#if CASE_C(35)
extern "C" __device__ int t035device(ncclDevComm const* d) {
  return teams(*d);
}
KERNEL(t035) {
  UNUSED();
  *(int*)o[0] = t035device(&d);
}
int t035host(ncclDevComm const& d) {
  return teams(d);
}
#endif

#if CASE_C(36)
KERNEL(t036) {
  UNUSED();
  o[0] = ncclGetLocalPointer(w, 16);
  o[1] = ncclGetLsaPointer(w, 16, 1);
  o[2] = ncclGetPeerPointer(w, 16, 1);
  o[3] = ncclGetPeerPointer(w, 16, ncclTeamLsa(d), 1);
  o[4] = ncclGetMultimemPointer(w, 16, d.lsaMultimem);
  o[5] = ncclGetLsaMultimemPointer(w, 16, d);
}
#endif
#if CASE_C(37)
KERNEL(t037) {
  UNUSED();
  o[6] = ncclGetResourceBufferLocalPointer(d, 3);
  o[7] = ncclGetResourceBufferLsaPointer(d, 3, 1);
  o[8] = ncclGetResourceBufferPeerPointer(d, 3, ncclTeamLsa(d), 1);
  o[9] = ncclGetResourceBufferMultimemPointer(d, 3, d.lsaMultimem);
  o[10] = ncclGetResourceBufferLsaMultimemPointer(d, 3);
  o[11] = ncclGetResourceBuffer(d, 0).localPtr();
}
#endif
#if CASE_C(38)
KERNEL(t038) {
  UNUSED();
  o[0] = ncclFindWindow(ncclCoopCoalesced(), d, o);
  o[1] = ncclFindWindow(ncclCoopCta(), d, o);
  o[2] = ncclFindWindow(ncclCoopThread(), d, o);
  o[3] = ncclFindWindow(ncclCoopTile<8>(), d, o);
}
#endif

#if CASE_C(39)
struct alignas(1) A1 {
  char x[3];
};
struct A2 {
  short x[3];
};
struct A4 {
  int x[5];
};
struct A8 {
  double x[3];
};
struct alignas(16) A16 {
  char x[32];
};
KERNEL(t039) {
  UNUSED();
  using nccl::utility::loadConst;
  o[0] = loadConst(&w->lsaFlatBase);
  ncclDevCommWindowTable::Entry entry = loadConst(&d.windowTable->entries[3]);
  o[1] = entry.window;
  *(A1*)o[2] = loadConst((A1 const*)o[3]);
  *(A2*)o[2] = loadConst((A2 const*)o[3]);
  *(A4*)o[2] = loadConst((A4 const*)o[3]);
  *(A8*)o[2] = loadConst((A8 const*)o[3]);
  *(A16*)o[2] = loadConst((A16 const*)o[3]);
  o[4] = nccl::utility::add4G((char*)o[5], unsigned(3));
}
#endif
#if CASE_C(40)
KERNEL(t040) {
  UNUSED();
  o[0] = (void*)(size_t)(d.rank + d.nRanks + d.lsaRank + d.lsaSize + d.ginContextCount + d.lsaBarrier.nBarriers +
                         int(d.railGinBarrier.signal0 + d.ginTypes[0] + d.ginSignalBase));
  o[1] = d.lsaMultimem.mcBasePtr;
  o[2] = d.resourceWindow;
  o[3] = d.resourceWindow_inlined.lsaFlatBase;
  o[4] = d.windowTable;
  o[5] = d.ginHandles[0];
  o[6] = d.ginSignalShadows;
}
#endif
#if CASE_C(41)
__global__ void t041a(__grid_constant__ const ncclDevComm d, int* o) {
  *o = ncclTeamRail(d).rank;
}
__global__ void t041b(struct ncclDevComm d, ncclDevComm const* e, ncclDevComm_t f, int* o) {
  *o = ncclTeamRail(d).rank + ncclTeamRail(*e).rank + ncclTeamRail(f).rank;
}
#endif
}  // namespace team_cases
