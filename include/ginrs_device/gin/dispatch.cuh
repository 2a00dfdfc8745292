/* Step 1 of a put: from the context to the backend that it belongs to. */
#ifndef GINRS_DEVICE_GIN_DISPATCH_CUH_
#define GINRS_DEVICE_GIN_DISPATCH_CUH_
#include "../../nccl_device/gin/gin_device_common.h"
#if NCCL_CHECK_CUDACC

/* A mask of one backend is still compared with the context: a GDAKI context read as a proxy's would be garbage. What no
 * compiled-in backend claims goes to the general template, which says so and traps. Third parties may specialise the Api
 * templates for types of their own: a mask of one such type dispatches to it. */
template <template <ncclNetDeviceType> typename ApiFn, unsigned backendMask, typename... Arg>
NCCL_DEVICE_INLINE static decltype(auto) ncclGinCall(ncclGinCtx_M<backendMask> ctx, Arg&&... arg) {
  constexpr unsigned proxy = 1u << NCCL_NET_DEVICE_GIN_PROXY, gdaki = 1u << NCCL_NET_DEVICE_GIN_GDAKI;
  constexpr unsigned own = proxy | gdaki;
  constexpr bool isForeign = backendMask != 0 && (backendMask & own) == 0 && nccl::utility::isPow2(backendMask);
  constexpr ncclNetDeviceType foreign = ncclNetDeviceType(isForeign ? 31 - __builtin_clz(backendMask | 1u) : 0);

  if ((backendMask & proxy) != 0 && ctx.backend == NCCL_NET_DEVICE_GIN_PROXY) {
    return ApiFn<NCCL_NET_DEVICE_GIN_PROXY>::call(ctx, static_cast<Arg&&>(arg)...);
  }
  if ((backendMask & gdaki) != 0 && ctx.backend == NCCL_NET_DEVICE_GIN_GDAKI) {
    return ApiFn<NCCL_NET_DEVICE_GIN_GDAKI>::call(ctx, static_cast<Arg&&>(arg)...);
  }
  return ApiFn<foreign>::call(ctx, static_cast<Arg&&>(arg)...);
}
#endif
#endif
