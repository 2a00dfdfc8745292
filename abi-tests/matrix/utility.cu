/* T019, T111 to T113: nccl::utility in device code; headers/utility.cc has the values on the host. */
#include "case.h"

#if CASE_C(19)
NCCL_EXTERN_C __device__ int t019extern(int x);
NCCL_HOST_DEVICE_INLINE int t019both(int x) {
  return x + 1;
}
NCCL_DEVICE_INLINE int t019device(int x) {
  return t019both(x);
}
NCCL_EXTERN_C __device__ int t019extern(int x) {
  return t019device(x);
}
int t019host(int x) {
  return t019both(x);
}
#endif

namespace utility_cases {
#if CASE_C(111)
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
  *(int*)o[3] = int(acquireOrderOf(cuda::memory_order_release)) + int(releaseOrderOf(cuda::memory_order_acquire));
}
#endif
#if CASE_N(111, 1) /* the table of the two, where they are constexpr */
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

#if CASE_C(112) || CASE_N(112, 1)
struct Pair {
  int a, b;
  __device__ Pair(int a, int b) : a(a), b(b) {}
  Pair(Pair const&) = delete;
};
#endif
#if CASE_C(112)
KERNEL(t112) {
  UNUSED();
  using namespace nccl::utility;
  int x = d.rank, y = d.nRanks;
  Optional<Pair> none, absent{Absent()}, some(present(x, y));
  *(int*)o[0] = none.present + absent.present + some.thing.a + some.thing.b;
  static_assert(std::is_same<IntSeqUpTo<3, 0>::Type, IntSeq<0, 1, 2>>::value, "T112");
}
#endif
#if CASE_N(112, 1)
KERNEL(t112rvalues) {
  UNUSED();
  using namespace nccl::utility;
  int y = d.nRanks;
  Optional<Pair> rvalues(present(3, y));
  *(int*)o[1] = rvalues.thing.a;
}
#endif
#if CASE_N(113, 1)
KERNEL(t113) {
  UNUSED();
  nccl::utility::fenceAcquireGpu();
  nccl::utility::fenceReleaseGpu();
}
#endif
}  // namespace utility_cases
