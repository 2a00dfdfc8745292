/* T050 to T057, T090 to T101, T118b: barriers and the LL all-to-all. */
#include <nccl_device/gin/gdaki/gin_gdaki_device_host_common.h>

#include <new>

#include "device.h"

using Cta = ncclCoopCta;
template <typename Session, typename = void>
struct CanArriveWithoutOrder : std::false_type {};
template <typename Session>
struct CanArriveWithoutOrder<Session, decltype(void(std::declval<Session&>().arrive(Cta())))> : std::true_type {};
static_assert(!CanArriveWithoutOrder<ncclLsaBarrierSession<Cta>>::value, "T055");
static_assert(!std::is_copy_constructible<ncclLsaBarrierSession<Cta>>::value, "T056");
static_assert(!std::is_copy_constructible<ncclGinBarrierSession<Cta>>::value, "T092");
static_assert(!std::is_copy_constructible<ncclBarrierSession<Cta>>::value, "T093");
static_assert(!std::is_copy_constructible<ncclLLA2ASession<Cta>>::value, "T101");

__device__ void syncByReference(ncclLsaBarrierSession<Cta>& bar) {
  for (cuda::memory_order order : {cuda::memory_order_relaxed, cuda::memory_order_acquire, cuda::memory_order_release,
                                   cuda::memory_order_acq_rel, cuda::memory_order_seq_cst}) {
    bar.arrive(Cta(), order);
    bar.wait(Cta(), order);
    bar.sync(Cta(), order);
  }
}
KERNEL(t050) {
  UNUSED();
  ncclLsaBarrierSession<Cta> a{Cta(), d, ncclTeamLsa(d), d.lsaBarrier, blockIdx.x};
  ncclLsaBarrierSession<Cta> b{Cta(), d, ncclTeamLsa(d), d.lsaBarrier, blockIdx.x, true, d.lsaMultimem};
  ncclLsaBarrierSession<Cta> c{Cta(), d, ncclTeamTagLsa(), blockIdx.x};
  ncclLsaBarrierSession<Cta> e{Cta(), d, ncclTeamTagLsa(), blockIdx.x, /*multimem=*/true};
  syncByReference(a);
  b.arrive(Cta(), cuda::memory_order_release);
  b.wait(Cta(), cuda::memory_order_acquire);
  c.sync(Cta(), cuda::memory_order_acq_rel);
  o[0] = a.mcInbox(false);
  o[1] = a.ucInbox(0, 1);
  o[2] = e.mmHandle.mcBasePtr;
  *(int*)o[3] = int(a.epoch) + a.index + a.team.rank + int(a.handle.bufHandle) + a.comm.rank + a.multimem +
                a.coop.thread_rank();
}
KERNEL(t053) {
  UNUSED();
  int index = 3;
  ncclLsaBarrierSession cta(Cta(), d, ncclTeamLsa(d), d.lsaBarrier, index);
  ncclLsaBarrierSession warp{ncclCoopWarp(), d, ncclTeamTagLsa(), 0, false};
  ncclLsaBarrierSession thread{ncclCoopThread(), d, ncclTeamTagLsa(), 1};
  ncclLsaBarrierSession tile{ncclCoopTile<8>(), d, ncclTeamTagLsa(), 2};
  ncclLsaBarrierSession lanes{ncclCoopLanes(3), d, ncclTeamTagLsa(), 4};
  ncclLsaBarrierSession span{ncclCoopWarpSpan(0, 2, 1), d, ncclTeamTagLsa(), 5};
  warp.sync(ncclCoopWarp(), cuda::memory_order_relaxed);
  thread.sync(ncclCoopThread(), cuda::memory_order_relaxed);
  alignas(16) __shared__ char storage[sizeof(ncclLsaBarrierSession<Cta>)];
  auto* placed = new (storage) ncclLsaBarrierSession<Cta>(Cta(), d, ncclTeamTagLsa(), 6);
  syncByReference(*placed);
  placed->~ncclLsaBarrierSession<Cta>();
}

KERNEL(t090) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  ncclGinBarrierSession<Cta> a{Cta(), g, W, d.railGinBarrier, blockIdx.x};
  ncclGinBarrierSession<Cta> b{Cta(), g, ncclTeamTagRail(), 0};
  ncclGinBarrierSession c{ncclCoopWarp(), g, ncclTeamTagRail(), 1};
  for (cuda::memory_order order : {cuda::memory_order_relaxed, cuda::memory_order_acquire, cuda::memory_order_release,
                                   cuda::memory_order_acq_rel, cuda::memory_order_seq_cst}) {
    a.sync(Cta(), order, ncclGinFenceLevel::Relaxed);
  }
  c.sync(ncclCoopWarp(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  *(int*)o[0] = a.team.rank + int(a.handle.signal0 + a.index + a.epoch + a.signal) + int(b.net.contextId);
  static_assert(int(ncclGinFenceLevel::Relaxed) == 0, "T091");
#ifdef OURS
  b.sync(Cta(), cuda::memory_order_acq_rel);
  b.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
  ncclGinBarrierSession<Cta> world{Cta(), g, ncclTeamTagWorld(), 2};
#endif
}
KERNEL(t093) {
  UNUSED();
  ncclGin g{d, 0};
  ncclBarrierSession<Cta> a{Cta(),            ncclTeamLsa(d), ncclTeamRail(d), g, d.lsaBarrier,
                            d.railGinBarrier, 0u,             true,            d.lsaMultimem};
  ncclBarrierSession b{Cta(), ncclTeamTagWorld(), g, blockIdx.x};
  ncclBarrierSession c{ncclCoopWarp(), ncclTeamTagWorld(), g, blockIdx.x, true};
  a.lsaBarrier().sync(Cta(), cuda::memory_order_acq_rel);
  a.ginBarrier().sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  b.sync(Cta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  c.sync(ncclCoopWarp(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
#ifdef OURS
  ncclBarrierSession<Cta> lsa{Cta(), ncclTeamTagLsa(), d, 1u}; /* T094 */
  ncclBarrierSession<Cta> rail{Cta(), ncclTeamTagRail(), g, 1u};
  lsa.sync(Cta(), cuda::memory_order_acq_rel);
  rail.sync(Cta(), cuda::memory_order_acq_rel);
#endif
}

struct ThreeFloats {
  float x[3];
};
struct alignas(16) Sixteen {
  float x[4];
};
union Pack {
  uint64_t u64;
  float f32[2];
};
template <typename T, typename Session>
__device__ void exchange(Session& a2a, void** o) {
  a2a.send(1, 0, *(T*)o[0]);
  a2a.bcast(1, *(T*)o[0]);
  *(T*)o[1] = a2a.template recv<T>(0);
  T vals[4];
  a2a.template recvUnrolled<1, 4>(0, 3, 1, vals);
  a2a.template recvUnrolled<4>(0, 4, 1, vals);
  *(T*)o[2] = vals[0];
}
KERNEL(t096) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  ncclLLA2ASession b{ncclCoopWarp(), d, ncclTeamLsa(d), h, blockIdx.x, 8, true, d.lsaMultimem};
  exchange<float>(a, o);
  exchange<uint64_t>(a, o);
  exchange<ThreeFloats>(a, o);
  exchange<Sixteen>(b, o);
  exchange<Pack>(b, o);
  a.endEpoch(Cta());
  *(unsigned*)o[3] = a.epoch + a.pitch + a.slotsOffset + a.block + a.calcSlotOffset();
}
KERNEL(t098) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  auto widen = [](float x) { return double(x); };
  int calls = 0;
  auto add = [calls](double x, double y) mutable { return calls += 1, x + y; };
  auto sum = a.recvReduce<8, float>(0, 8, 1, widen, add);
  static_assert(std::is_same<decltype(sum), double>::value, "T098");
  sum += a.recvReduce<1, float>(0, 8, 1, widen, add);
  sum += a.recvReduce<2, float>(0, 8, 1, [] __device__(float x) { return double(x); },
                                [=] __device__(double x, double y) { return x + y + d.rank; });
  *(double*)o[0] = sum;
}

/* T118b */
__global__ void gdakiContext(ncclGinGdakiGPUContext* context, doca_gpu_dev_verbs_qp** o) {
  *o = context->gdqp;
}
