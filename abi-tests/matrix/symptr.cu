/* T042 to T048: ncclSymPtr in device code; headers/symptr.cc has the values on the host. */
#include "case.h"

namespace symptr_cases {
#if CASE_C(42)
constexpr ncclSymPtr<int> z;
__device__ char* t042implicit(ncclSymPtr<char> p) {
  return p.localPtr();
}
KERNEL(t042) {
  UNUSED();
  ncclSymPtr<float> a, b(w), c(w, 8), e{w, 16}, f = nullptr;
  o[0] = t042implicit(w);
  *(size_t*)o[1] = a.offset + b.offset + c.offset + e.offset + f.offset + z.offset;
}
#endif

#if CASE_C(43) || CASE_X(43, 1)
template <typename Int>
__device__ void t043step(ncclSymPtr<float>& p, Int n) {
  p += n;
  p -= n;
}
#endif
#if CASE_C(43)
KERNEL(t043) {
  UNUSED();
  t043step(p, 1), t043step(p, 1u), t043step(p, 1l), t043step(p, 1ul), t043step(p, 1ll), t043step(p, 1ull);
  t043step(p, short(1)), t043step(p, char(1)), t043step(p, size_t(1)), t043step(p, ptrdiff_t(1));
  o[0] = p.localPtr();
}
#endif
#if CASE_X(43, 1)
KERNEL(t043) {
  UNUSED();
  t043step(p, 1.5f);
}
#endif

#if CASE_C(44)
KERNEL(t044) {
  UNUSED();
  ncclSymPtr<float> q(w, 8);
  o[0] = (p + 1).localPtr();
  o[1] = (p - 1u).localPtr();
  o[2] = (p + size_t(2)).localPtr();
  ptrdiff_t n = p - q;
  *(ptrdiff_t*)o[3] = n + (p == q) + (p != q);
}
#endif

#if CASE_C(45) || CASE_C(46)
struct alignas(16) V16 {
  float x[4];
};
#endif
#if CASE_C(45)
KERNEL(t045) {
  UNUSED();
  ncclSymPtr<char> chars = p;
  ncclSymPtr<float const> constant = chars;
  ncclSymPtr<V16> wide = constant;
  o[0] = wide.localPtr();
  o[1] = ((ncclSymPtr<char>)p + 1).localPtr();
}
#endif
#if CASE_C(46)
template <typename T>
__device__ void t046getters(ncclSymPtr<T> p, ncclDevComm const& d, void const** o) {
  o[0] = p.localPtr();
  o[1] = p.lsaPtr(1);
  o[2] = p.peerPtr(1);
  o[3] = p.peerPtr(ncclTeamLsa(d), 1);
  o[4] = p.multimemPtr(d.lsaMultimem);
  o[5] = p.lsaMultimemPtr(d);
}
KERNEL(t046) {
  UNUSED();
  void const** out = (void const**)o;
  t046getters<float>(p, d, out);
  t046getters<float const>(p, d, out);
  t046getters<void>(p, d, out);
  t046getters<V16>(p, d, out);
}
#endif

#if CASE_C(47)
struct Holder {
  ncclSymPtr<float> p;
  int n;
};
static_assert(std::is_same<ncclSymPtr<float>::ElementType, float>::value, "T047");
static_assert(std::is_trivially_copyable<ncclSymPtr<float>>::value && std::is_trivially_copyable<Holder>::value, "T047");
__global__ void t047(ncclSymPtr<float> p, Holder h, float** o) {
  o[0] = p.localPtr();
  o[1] = h.p.localPtr();
}
#endif

#if CASE_X(48, 1)
KERNEL(t048) {
  UNUSED();
  *(bool*)o[0] = p == ncclSymPtr<int>(w);
}
#endif
#if CASE_N(48, 1)
KERNEL(t048null) {
  UNUSED();
  *(bool*)o[0] = p == nullptr || nullptr != p || p != nullptr || nullptr == p;
}
#endif
}  // namespace symptr_cases
