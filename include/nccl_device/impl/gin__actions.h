/* What a put's optional arguments mean, as overload sets over their types. */
#ifndef _NCCL_DEVICE_GIN_SESSION__ACTIONS_H_
#define _NCCL_DEVICE_GIN_SESSION__ACTIONS_H_
#include "comm__types.h"
#include "gin__types.h"
#if defined(__cplusplus) && NCCL_CHECK_CUDACC

NCCL_DEVICE_INLINE constexpr bool ncclGin_isDescriptor(ncclGin_None) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isDescriptor(ncclGin_DescriptorSmem) {
  return true;
}
NCCL_DEVICE_INLINE constexpr ncclGinDescriptorSmem* ncclGin_getDescriptor(ncclGin_None) {
  return nullptr;
}
NCCL_DEVICE_INLINE constexpr ncclGinDescriptorSmem* ncclGin_getDescriptor(ncclGin_DescriptorSmem arg) {
  return arg.descriptor;
}

NCCL_DEVICE_INLINE constexpr bool ncclGin_isSignal(ncclGin_None) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isSignal(ncclGin_CounterInc) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isSignal(ncclGin_SignalAdd) {
  return true;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isSignal(ncclGin_SignalInc) {
  return true;
}

/* The absolute id, or -1u for what is no signal. */
template <unsigned mask>
NCCL_DEVICE_INLINE constexpr ncclGinSignal_t ncclGin_getSignalId(ncclGin_BackendMask<mask> const&, ncclGin_None) {
  return -1u;
}
template <unsigned mask>
NCCL_DEVICE_INLINE constexpr ncclGinSignal_t ncclGin_getSignalId(ncclGin_BackendMask<mask> const&,
                                                                 ncclGin_CounterInc) {
  return -1u;
}
template <unsigned mask>
NCCL_DEVICE_INLINE constexpr ncclGinSignal_t ncclGin_getSignalId(ncclGin_BackendMask<mask> const& gin,
                                                                 ncclGin_SignalAdd arg) {
  return gin.comm.ginSignalBase + arg.signal;
}
template <unsigned mask>
NCCL_DEVICE_INLINE constexpr ncclGinSignal_t ncclGin_getSignalId(ncclGin_BackendMask<mask> const& gin,
                                                                 ncclGin_SignalInc arg) {
  return gin.comm.ginSignalBase + arg.signal;
}

template <typename Action>
NCCL_DEVICE_INLINE constexpr ncclGinSignalOp_t ncclGin_getSignalOp(Action) {
  return ncclGinSignalInc;
}
NCCL_DEVICE_INLINE constexpr ncclGinSignalOp_t ncclGin_getSignalOp(ncclGin_SignalAdd) {
  return ncclGinSignalAdd;
}

template <typename Action>
NCCL_DEVICE_INLINE constexpr uint64_t ncclGin_getSignalOpArg(Action) {
  return 0;
}
NCCL_DEVICE_INLINE constexpr uint64_t ncclGin_getSignalOpArg(ncclGin_SignalInc) {
  return 1;
}
NCCL_DEVICE_INLINE constexpr uint64_t ncclGin_getSignalOpArg(ncclGin_SignalAdd arg) {
  return arg.value;
}

NCCL_DEVICE_INLINE constexpr bool ncclGin_isCounter(ncclGin_None) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isCounter(ncclGin_SignalAdd) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isCounter(ncclGin_SignalInc) {
  return false;
}
NCCL_DEVICE_INLINE constexpr bool ncclGin_isCounter(ncclGin_CounterInc) {
  return true;
}

/* The absolute id, or -1u for what is no counter. */
template <unsigned mask, typename Action>
NCCL_DEVICE_INLINE constexpr ncclGinCounter_t ncclGin_getCounterId(ncclGin_BackendMask<mask> const&, Action) {
  return -1u;
}
template <unsigned mask>
NCCL_DEVICE_INLINE constexpr ncclGinCounter_t ncclGin_getCounterId(ncclGin_BackendMask<mask> const& gin,
                                                                   ncclGin_CounterInc arg) {
  return gin.comm.ginCounterBase + arg.counter;
}
#endif
#endif
