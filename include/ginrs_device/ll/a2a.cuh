/* The LL all-to-all's data path. The handle's buffer is an array of 16-byte lines; block b owns 1 + 2S of them from
 * b(1 + 2S), S = nSlots: a header (its first word keeps epoch - 2 between sessions), then S slots for even epochs and S
 * for odd ones. Piece u (8 bytes) of the element in slot s is the line at slotsOffset + s + u * pitch:
 *
 *   { data[31:0], flag, data[63:32], flag }      flag = the epoch
 *
 * Each half is stored and loaded as one 64-bit word, so a flag never comes without its datum. Epochs 0 and 1 are not
 * used: fresh memory is zero. All of this is protocol among ranks, whatever headers they were compiled with. */
#ifndef GINRS_DEVICE_LL_A2A_CUH_
#define GINRS_DEVICE_LL_A2A_CUH_
#include "../function.cuh"
#ifdef __cplusplus

namespace ginrs {
namespace ll {

struct alignas(16) Line {
  uint64_t low, high;
};
static_assert(sizeof(Line) == 16, "a line has 16 bytes");

NCCL_HOST_DEVICE_INLINE Line packLine(uint64_t data, uint32_t flag) {
  return {uint64_t(flag) << 32 | (data & 0xffffffff), uint64_t(flag) << 32 | data >> 32};
}
NCCL_HOST_DEVICE_INLINE uint64_t dataOf(Line const& line) {
  return (line.low & 0xffffffff) | line.high << 32;
}
NCCL_HOST_DEVICE_INLINE bool isOf(Line const& line, uint32_t flag) {
  return uint32_t(line.low >> 32) == flag && uint32_t(line.high >> 32) == flag;
}

/* The first line of a block's slots in an epoch. */
NCCL_HOST_DEVICE_INLINE uint32_t slotsOffset(uint32_t block, uint32_t nSlots, uint32_t epoch) {
  return block * (1 + 2 * nSlots) + 1 + (epoch & 1) * nSlots;
}
/* After 0xffffffff comes 2, not 0 or 1. */
NCCL_HOST_DEVICE_INLINE uint32_t nextEpoch(uint32_t epoch) {
  return epoch + (epoch == 0xffffffff ? 3 : 1);
}

/* An element cut into the data of lines, and back. */
template <typename T>
struct Pieces {
  static constexpr int n = int((sizeof(T) + 7) / 8);
  uint64_t data[n];
};
template <typename T>
NCCL_HOST_DEVICE_INLINE Pieces<T> cut(T const& value) {
  Pieces<T> pieces;
  pieces.data[Pieces<T>::n - 1] = 0;
  __builtin_memcpy(pieces.data, &value, sizeof(T));
  return pieces;
}
template <typename T>
NCCL_HOST_DEVICE_INLINE void join(T& value, Pieces<T> const& pieces) {
  __builtin_memcpy(static_cast<void*>(&value), pieces.data, sizeof(T));
}

#if NCCL_CHECK_CUDACC
GINRS_DEVICE_FUNCTION void storeLine(Line* at, Line const& line) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)), "l"(line.low), "l"(line.high)
               : "memory");
#elif defined(__GINRS_CPU__)
  using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;
  Word(at->low).store(line.low, cuda::memory_order_relaxed);
  Word(at->high).store(line.high, cuda::memory_order_relaxed);
#else
  *at = line;
#endif
}

GINRS_DEVICE_FUNCTION Line loadLine(Line* at) {
  Line line;
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.low), "=l"(line.high)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
#elif defined(__GINRS_CPU__)
  using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;
  line.low = Word(at->low).load(cuda::memory_order_relaxed);
  line.high = Word(at->high).load(cuda::memory_order_relaxed);
#else
  line = *at;
#endif
  return line;
}

/* To the line's copy on every rank of a multicast team. Multicast memory takes multimem instructions only. */
GINRS_DEVICE_FUNCTION void multicastLine(Line* at, Line const& line) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  size_t address = __cvta_generic_to_global(at);
  asm volatile(
      "multimem.st.relaxed.sys.global.b64 [%0], %1;\n\t"
      "multimem.st.relaxed.sys.global.b64 [%0 + 8], %2;" ::"l"(address),
      "l"(line.low), "l"(line.high)
      : "memory");
#else
  (void)at, (void)line;
#endif
}
#endif

}  // namespace ll
}  // namespace ginrs
#endif
#endif
