/* Step 2a of a put: the operation as a 64-byte descriptor. Pure; host and device. A value that does not fit its field is
 * refused by fault(), never masked. src/gin/descriptor.rs is the reader. */
#ifndef GINRS_DEVICE_GIN_DESCRIPTOR_CUH_
#define GINRS_DEVICE_GIN_DESCRIPTOR_CUH_
#include "../../nccl_device/gin/gin_device_host_common.h"
#include "../../nccl_device/gin/proxy/gin_proxy_device_host_common.h"
#include "../../nccl_device/utility.h"
#ifdef __cplusplus

namespace ginrs {
namespace gin {

/* What one call asks for, whatever the backend. Ids are absolute. */
struct Operation {
  bool hasPayload = false; /* windows, be it for no bytes: a signal alone has none */
  uint64_t bytes = 0;
  ncclGinWindow_t dstWin = nullptr;
  uint64_t dstOff = 0;
  bool isInline = false; /* the data is `value`; else it lies at srcWin + srcOff */
  uint64_t value = 0;
  ncclGinWindow_t srcWin = nullptr;
  uint64_t srcOff = 0;
  bool hasSignal = false;
  uint32_t signalId = 0;
  ncclGinSignalOp_t signalOp = ncclGinSignalInc;
  uint64_t signalArg = 0; /* for Add */
  bool hasCounter = false;
  uint32_t counterId = 0;

  Operation() = default;
  /* Of the actions alone. */
  NCCL_HOST_DEVICE_INLINE Operation(bool hasSignal, uint32_t signalId, ncclGinSignalOp_t signalOp, uint64_t signalArg,
                                    bool hasCounter, uint32_t counterId)
      : hasSignal(hasSignal), signalId(signalId), signalOp(signalOp), signalArg(signalArg), hasCounter(hasCounter),
        counterId(counterId) {}
  NCCL_HOST_DEVICE_INLINE Operation& move(ncclGinWindow_t to, uint64_t toOff, ncclGinWindow_t from, uint64_t fromOff,
                                          uint64_t n) {
    hasPayload = true, dstWin = to, dstOff = toOff, srcWin = from, srcOff = fromOff, bytes = n;
    return *this;
  }
  NCCL_HOST_DEVICE_INLINE Operation& moveValue(ncclGinWindow_t to, uint64_t toOff, uint64_t bits, uint64_t n) {
    hasPayload = isInline = true, dstWin = to, dstOff = toOff, value = bits, bytes = n;
    return *this;
  }
  NCCL_HOST_DEVICE_INLINE uint64_t addend() const {
    return signalOp == ncclGinSignalAdd ? signalArg : 1;
  }
};

/* Has the operation no fault? */
NCCL_HOST_DEVICE_INLINE bool fits(Operation const& op) {
  uint32_t const ids = (op.hasSignal ? op.signalId : 0) | (op.hasCounter ? op.counterId : 0);
  return (op.bytes >> 57 | (op.dstOff | op.srcOff) >> 63 | ids >> 16) == 0;
}
/* Why the operation cannot be put into a descriptor, or null. */
NCCL_HOST_DEVICE_INLINE char const* fault(Operation const& op) {
  if (op.bytes >> 57 != 0) return "gin.put: the size is 2^57 bytes or more, which a proxy descriptor cannot carry";
  if ((op.dstOff | op.srcOff) >> 63 != 0) return "gin.put: an offset is 2^63 bytes or more";
  if (op.hasSignal && op.signalId > 0xffff) {
    return "gin: the absolute signal id (devcomm's base + id) is above 65535, which a proxy descriptor cannot carry";
  }
  if (op.hasCounter && op.counterId > 0xffff) {
    return "gin: the absolute counter id (devcomm's base + id) is above 65535, which a proxy descriptor cannot carry";
  }
  return nullptr;
}

/* Makes of a range that cannot be carried one that can, and is outside of any window. False: it was not the range. */
NCCL_HOST_DEVICE_INLINE bool clamp(Operation& op) {
  uint64_t const top = uint64_t(1) << 63;
  if (op.bytes >> 57 != 0) op.bytes = (uint64_t(1) << 57) - 1;
  if (op.dstOff & top) op.dstOff = (op.dstOff | top >> 1) & ~top;
  if (op.srcOff & top) op.srcOff = (op.srcOff | top >> 1) & ~top;
  return fault(op) == nullptr;
}

/* The bits of a value of up to 8 bytes, whatever its type. */
template <typename T>
NCCL_HOST_DEVICE_INLINE uint64_t bitsOf(T const& value) {
  static_assert(sizeof(T) <= 8, "putValue: the value has more than 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

NCCL_HOST_DEVICE_INLINE uint32_t opcodeOf(Operation const& op) {
  uint32_t code = ncclGinProxyOpPut;
  if (op.isInline) code |= ncclGinProxyOpWithInline;
  if (op.hasCounter) code |= ncclGinProxyOpWithCounter;
  if (op.hasSignal) code |= op.signalOp == ncclGinSignalAdd ? ncclGinProxyOpWithSignalAdd : ncclGinProxyOpWithSignalInc;
  return code;
}

NCCL_HOST_DEVICE_INLINE void setPayload(ncclGinProxyGfd_t& gfd, uint64_t opcode, uint64_t bytes, uint64_t dstOff,
                                        ncclGinWindow_t dstWin) {
  gfd.qword[ncclGinProxyGfdHeader].raw = 1 | opcode << 1 | bytes << 7;
  gfd.qword[ncclGinProxyGfdDstOff].raw = 1 | dstOff << 1;
  gfd.qword[ncclGinProxyGfdDstHandle].raw = 1 | reinterpret_cast<uintptr_t>(dstWin) << 1;
}
NCCL_HOST_DEVICE_INLINE void setSource(ncclGinProxyGfd_t& gfd, uint64_t srcOff, ncclGinWindow_t srcWin) {
  gfd.qword[ncclGinProxyGfdSrcOff].raw = 1 | srcOff << 1;
  gfd.qword[ncclGinProxyGfdSrcHandle].raw = 1 | reinterpret_cast<uintptr_t>(srcWin) << 1;
}
NCCL_HOST_DEVICE_INLINE void setInline(ncclGinProxyGfd_t& gfd, uint64_t value) {
  gfd.qword[ncclGinProxyGfdInlineLow].raw = 1 | (value & 0xffffffffffff) << 8;
  gfd.qword[ncclGinProxyGfdInlineHigh].raw = 1 | (value >> 48) << 8;
}
NCCL_HOST_DEVICE_INLINE void setCompletion(ncclGinProxyGfd_t& gfd, uint64_t counterId, uint64_t signalId,
                                           uint64_t signalVal) {
  gfd.qword[ncclGinProxyGfdCompletion].raw =
      1 | (counterId & 0xffff) << 8 | (signalId & 0xffff) << 24 | (signalVal & 0xffff) << 40;
  gfd.qword[ncclGinProxyGfdSignalVal].raw = 1 | (signalVal >> 16) << 8;
  gfd.qword[ncclGinProxyGfdReserved].raw = 1;
}

/* `op` has no fault. Every reserved bit is zero. */
NCCL_HOST_DEVICE_INLINE ncclGinProxyGfd_t encode(Operation const& op) {
  ncclGinProxyGfd_t gfd;
  setPayload(gfd, opcodeOf(op), op.bytes, op.dstOff, op.dstWin);
  if (op.isInline) {
    setInline(gfd, op.value);
  } else {
    setSource(gfd, op.srcOff, op.srcWin);
  }
  setCompletion(gfd, op.hasCounter ? op.counterId : 0, op.hasSignal ? op.signalId : 0, op.hasSignal ? op.addend() : 0);
  return gfd;
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
