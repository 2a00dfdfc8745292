/* Work requests of an mlx5 send queue: 64 bytes each, of segments of 16 bytes. Pure; host and device.
 *
 *   bytes   0..15   control: opcode modifier << 24 | index mod 2^16 << 8 | opcode; queue number << 8 | segments;
 *                   3 bytes 0; flags; immediate
 *   WRITE   16..31  remote address: address, key, 0
 *           32..47  data: bytes, key, address; or inline: 2^31 | bytes, then the bytes themselves
 *   ATOMIC  16..31  remote address
 *           32..47  operand, compare
 *           48..63  data: where the old value goes
 *   WAIT    16..31  8 bytes 0; index of the request to wait for; number of its completion queue
 *
 * All words are big-endian but keys, which NCCL keeps swapped, the immediate, which is sent as it is given, and inline
 * data. A request takes one block, and asks for a completion: so completion i is that of request i. */
#ifndef GINRS_DEVICE_GIN_GDAKI_WQE_CUH_
#define GINRS_DEVICE_GIN_GDAKI_WQE_CUH_
#include "../../nccl_device/utility.h"
#ifdef __cplusplus

namespace ginrs {
namespace gdaki {

enum Opcode : uint32_t { kNop = 0x00, kWrite = 0x08, kWait = 0x0f, kRead = 0x10, kCompareSwap = 0x11, kFetchAdd = 0x12 };
constexpr uint32_t kCompletion = 0x08; /* control flags: a completion, always */
constexpr uint32_t kInline = 0x80000000u;

NCCL_HOST_DEVICE_INLINE uint16_t big16(uint16_t x) {
  return uint16_t(x << 8 | x >> 8);
}
NCCL_HOST_DEVICE_INLINE uint32_t big32(uint32_t x) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  return __byte_perm(x, 0, 0x0123);
#else
  return __builtin_bswap32(x);
#endif
}
NCCL_HOST_DEVICE_INLINE uint64_t big64(uint64_t x) {
  return uint64_t(big32(uint32_t(x))) << 32 | big32(uint32_t(x >> 32));
}

/* 16 bytes as they lie in memory. */
struct alignas(16) Segment {
  uint64_t low, high;
};
NCCL_HOST_DEVICE_INLINE Segment segment(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return Segment{uint64_t(b) << 32 | a, uint64_t(d) << 32 | c};
}

/* queueShift8 is the queue's number << 8. */
NCCL_HOST_DEVICE_INLINE Segment control(uint32_t queueShift8, uint64_t index, uint32_t opcode, uint32_t segments,
                                        uint32_t flags = kCompletion, uint32_t immediate = 0) {
  return segment(big32(uint32_t(index & 0xffff) << 8 | opcode), big32(queueShift8 | segments), big32(flags), immediate);
}
NCCL_HOST_DEVICE_INLINE Segment remote(uint64_t address, uint32_t swappedKey) {
  return Segment{big64(address), swappedKey};
}
NCCL_HOST_DEVICE_INLINE Segment local(uint64_t address, uint32_t swappedKey, uint32_t bytes) {
  return Segment{uint64_t(swappedKey) << 32 | big32(bytes), big64(address)};
}
/* Up to 8 bytes, and where there are more, room for the first 8 of them. */
NCCL_HOST_DEVICE_INLINE Segment inlined(uint64_t value, uint32_t bytes) {
  return segment(big32(kInline | bytes), uint32_t(value), uint32_t(value >> 32), 0);
}
NCCL_HOST_DEVICE_INLINE Segment operands(uint64_t operand, uint64_t compare) {
  return Segment{big64(operand), big64(compare)};
}
NCCL_HOST_DEVICE_INLINE Segment waitFor(uint32_t index, uint32_t completionQueue) {
  return segment(0, 0, big32(index), big32(completionQueue));
}

/* What a doorbell and a doorbell record say: requests up to, not including, `end` are there. */
NCCL_HOST_DEVICE_INLINE uint64_t doorbell(uint32_t queueShift8, uint64_t end) {
  return uint64_t(big32(queueShift8)) << 32 | big32(uint32_t(end) << 8);
}
NCCL_HOST_DEVICE_INLINE uint32_t doorbellRecord(uint64_t end) {
  return big32(uint32_t(end) & 0xffff);
}

/* Bytes in pieces that one request carries: 1 GiB. */
constexpr uint32_t kPieceShift = 30;
NCCL_HOST_DEVICE_INLINE uint64_t piecesOf(uint64_t bytes) {
  uint64_t n = (bytes + (uint64_t(1) << kPieceShift) - 1) >> kPieceShift;
  return n == 0 ? 1 : n;
}

}  // namespace gdaki
}  // namespace ginrs
#endif
#endif
