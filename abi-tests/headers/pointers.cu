/* T031 to T048, T111 to T113: teams, windows, pointers and utilities on the device. */
#include "device.h"

__host__ __device__ int teams(ncclDevComm const& d) {
  ncclTeam world = ncclTeamWorld(d), lsa = ncclTeamLsa(d), rail = ncclTeamRail(d);
  ncclTeam inner = ncclTeamInnerFactor(world, 2), outer = ncclTeamOuterFactor(world, 2);
  return ncclTeamRankToWorld(d, rail, 0) + ncclTeamRankToLsa(d, lsa, 0) + ncclTeamRankIsMember(lsa, world, 1) +
         ncclTeamRankToTeam(lsa, inner, 0) + ncclTeamRankInDifference(world, outer, 0) +
         int(ncclGetResourceBufferOffset(d.lsaBarrier.bufHandle));
}
extern "C" __device__ int teamsFromC(ncclDevComm const* d) {
  return teams(*d);
}
KERNEL(t031) {
  UNUSED();
  *(int*)o[0] = teams(d) + teamsFromC(&d);
}
int t032(ncclComm_t comm) {
  ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  return ncclTeamRankToWorld(comm, rail, 0) + ncclTeamRankToLsa(comm, lsa, 0) + world.nRanks;
}

KERNEL(t036) {
  UNUSED();
  ncclTeam lsa = ncclTeamLsa(d);
  o[0] = ncclGetLocalPointer(w, 16);
  o[1] = ncclGetLsaPointer(w, 16, 1);
  o[2] = ncclGetPeerPointer(w, 16, 1);
  o[3] = ncclGetPeerPointer(w, 16, lsa, 1);
  o[4] = ncclGetMultimemPointer(w, 16, d.lsaMultimem);
  o[5] = ncclGetLsaMultimemPointer(w, 16, d);
  o[6] = ncclGetResourceBufferLocalPointer(d, 3);
  o[7] = ncclGetResourceBufferLsaPointer(d, 3, 1);
  o[8] = ncclGetResourceBufferPeerPointer(d, 3, lsa, 1);
  o[9] = ncclGetResourceBufferMultimemPointer(d, 3, d.lsaMultimem);
  o[10] = ncclGetResourceBufferLsaMultimemPointer(d, 3);
  o[11] = ncclGetResourceBuffer(d, 0).localPtr();
}
KERNEL(t038) {
  UNUSED();
  o[0] = ncclFindWindow(ncclCoopCoalesced(), d, o);
  o[1] = ncclFindWindow(ncclCoopCta(), d, o);
  o[2] = ncclFindWindow(ncclCoopThread(), d, o);
  o[3] = ncclFindWindow(ncclCoopTile<8>(), d, o);
}

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
__global__ void t041a(__grid_constant__ const ncclDevComm d, int* o) {
  *o = ncclTeamRail(d).rank;
}
__global__ void t041b(struct ncclDevComm d, ncclDevComm const* e, ncclDevComm_t f, int* o) {
  *o = ncclTeamRail(d).rank + ncclTeamRail(*e).rank + ncclTeamRail(f).rank;
}

struct alignas(16) V16 {
  float x[4];
};
template <typename T>
__device__ void getters(ncclSymPtr<T> p, ncclDevComm const& d, void const** o) {
  o[0] = p.localPtr();
  o[1] = p.lsaPtr(1);
  o[2] = p.peerPtr(1);
  o[3] = p.peerPtr(ncclTeamLsa(d), 1);
  o[4] = p.multimemPtr(d.lsaMultimem);
  o[5] = p.lsaMultimemPtr(d);
}
__device__ char* implicit(ncclSymPtr<char> p) {
  return p.localPtr();
}
KERNEL(t046) {
  UNUSED();
  void const** out = (void const**)o;
  getters<float>(p, d, out);
  getters<float const>(p, d, out);
  getters<void>(p, d, out);
  getters<V16>(p, d, out);
  o[6] = implicit(w);
  o[7] = implicit(p + 3);
  p += 1ull, p -= short(1), p += size_t(1);
  o[8] = (void*)(p - ncclSymPtr<float>{w, 8});
  o[9] = (void*)(size_t)(p == ncclSymPtr<float>{} || p != ncclSymPtr<float>(w));
}

KERNEL(t111) {
  UNUSED();
  using namespace nccl::utility;
  int n = d.nRanks;
  *(unsigned*)o[0] = idivRcp32_upto64(n) + opaqueZero<>() + lane() + lanemask_lt();
  *(uint64_t*)o[1] = idivRcp64_upto64(n) + mul64hi(uint64_t(n), uint64_t(n)) + idivFast32(9u, 3u, idivRcp32(3));
  int* word = (int*)o[2];
  for (cuda::thread_scope scope : {cuda::thread_scope_thread, cuda::thread_scope_block, cuda::thread_scope_device,
                                   cuda::thread_scope_system}) {
    atomicStore(word, atomicLoad(word, cuda::memory_order_acquire, scope) + 1, cuda::memory_order_release, scope);
  }
}
#ifdef OURS /* where the two are constexpr */
__device__ void t111orders() {
  using namespace nccl::utility;
  static_assert(acquireOrderOf(cuda::memory_order_release) == cuda::memory_order_relaxed, "T111");
  static_assert(acquireOrderOf(cuda::memory_order_acq_rel) == cuda::memory_order_acquire, "T111");
  static_assert(acquireOrderOf(cuda::memory_order_acquire) == cuda::memory_order_acquire, "T111");
  static_assert(acquireOrderOf(cuda::memory_order_relaxed) == cuda::memory_order_relaxed, "T111");
  static_assert(acquireOrderOf(cuda::memory_order_seq_cst) == cuda::memory_order_seq_cst, "T111");
  static_assert(releaseOrderOf(cuda::memory_order_acquire) == cuda::memory_order_relaxed, "T111");
  static_assert(releaseOrderOf(cuda::memory_order_acq_rel) == cuda::memory_order_release, "T111");
  static_assert(releaseOrderOf(cuda::memory_order_release) == cuda::memory_order_release, "T111");
  static_assert(releaseOrderOf(cuda::memory_order_seq_cst) == cuda::memory_order_seq_cst, "T111");
}
#endif
struct Pair {
  int a, b;
  __device__ Pair(int a, int b) : a(a), b(b) {}
  Pair(Pair const&) = delete;
};
KERNEL(t112) {
  UNUSED();
  using namespace nccl::utility;
  int x = d.rank, y = d.nRanks;
  Optional<Pair> none, some(present(x, y));
  *(int*)o[0] = none.present + some.thing.a + some.thing.b;
#ifdef OURS
  Optional<Pair> rvalues(present(3, y));
  *(int*)o[1] = rvalues.thing.a;
  fenceAcquireGpu(); /* T113 */
  fenceReleaseGpu();
#endif
}
