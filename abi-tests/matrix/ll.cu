/* T096 to T098, T101: the LL all-to-all. */
#include "case.h"

namespace ll_cases {
using Cta = ncclCoopCta;

#if CASE_C(96)
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
__device__ void t096exchange(Session& a2a, void** o) {
  a2a.send(1, 0, *(T*)o[0]);
  a2a.bcast(1, *(T*)o[0]);
  *(T*)o[1] = a2a.template recv<T>(0);
}
KERNEL(t096) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  ncclLLA2ASession b{ncclCoopWarp(), d, ncclTeamLsa(d), h, blockIdx.x, 8, true, d.lsaMultimem};
  t096exchange<float>(a, o);
  t096exchange<uint64_t>(a, o);
  t096exchange<ThreeFloats>(a, o);
  t096exchange<Sixteen>(b, o);
  t096exchange<Pack>(b, o);
  a.endEpoch(Cta());
}
#endif
#if CASE_C(97)
template <typename Coop>
struct T097Derived : ncclLLA2ASession<Coop> {
  using ncclLLA2ASession<Coop>::ncclLLA2ASession;
  template <typename T>
  __device__ T first() {
    T vals[4];
    this->template recvUnrolled<1, 4>(0, 3, 1, vals);
    return vals[0];
  }
};
KERNEL(t097) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  float vals[4];
  a.recvUnrolled<1, 4>(0, 3, 1, vals);
  a.recvUnrolled<4>(0, 4, 1, vals);
  T097Derived<Cta> derived{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  *(float*)o[0] = vals[0] + derived.template first<float>();
}
#endif
#if CASE_C(98)
KERNEL(t098) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  auto widen = [](float x) { return double(x); };
  int calls = 0;
  auto add = [calls](double x, double y) mutable { return calls += 1, x + y; };
  auto sum = a.recvReduce<8, float>(0, 8, 1, widen, add);
  isA<double>(sum);
  sum += a.recvReduce<1, float>(0, 8, 1, widen, add);
  sum += a.recvReduce<2, float>(0, 8, 1, [] __device__(float x) { return double(x); },
                                [=] __device__(double x, double y) { return x + y + d.rank; });
  *(double*)o[0] = sum;
}
#endif
#if CASE_C(101)
static_assert(!std::is_copy_constructible<ncclLLA2ASession<Cta>>::value, "T101");
KERNEL(t101) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8};
  *(unsigned*)o[3] = a.epoch + a.pitch + a.slotsOffset + a.block + a.calcSlotOffset() + a.coop.size() + a.comm.rank +
                     a.team.rank + a.handle.nSlots + a.multimem;
  o[4] = a.mmHandle.mcBasePtr;
}
#endif
#if CASE_X(101, 1)
KERNEL(t101) {
  UNUSED();
  ncclLLA2ASession<Cta> a{Cta(), d, ncclTeamLsa(d), h, blockIdx.x, 8}, copy(a);
}
#endif
}  // namespace ll_cases
