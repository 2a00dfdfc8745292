/* Warp primitives, all built on one exchange in which every lane shows its value to every other. */
#ifndef GINRS_CPU_WARP_H_
#define GINRS_CPU_WARP_H_
#include "thread.h"

namespace ginrs_cpu {
/* What the lanes of a mask have shown each other. */
struct Shown {
  uint64_t of[32];
  uint32_t lanes; /* which of them took part */
};
template <class T>
inline Shown show(unsigned mask, T value, const char* what, const char* file, int line) {
  static_assert(sizeof(T) <= 8, "a lane shows at most 8 bytes at a time");
  Shown shown;
  uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  shown.lanes = ginrs_cpu_warp_exchange(mask, word, shown.of, what, file, line);
  return shown;
}
template <class T>
inline T taken(const Shown& shown, unsigned lane) {
  T value;
  __builtin_memcpy((void*)&value, &shown.of[lane & 31], sizeof value);
  return value;
}

/* Which lane a shuffle reads, the lane's segment being the width lanes around it. Beyond the segment: the lane itself. */
inline unsigned source_idx(unsigned lane, unsigned src, unsigned width) {
  return (lane & ~(width - 1)) | (src & (width - 1));
}
inline unsigned source_up(unsigned lane, unsigned delta, unsigned width) {
  return delta > (lane & (width - 1)) ? lane : lane - delta;
}
inline unsigned source_down(unsigned lane, unsigned delta, unsigned width) {
  return delta > (width - 1) - (lane & (width - 1)) ? lane : lane + delta;
}
inline unsigned source_xor(unsigned lane, unsigned bits, unsigned width) {
  unsigned source = lane ^ bits;
  return source > (lane | (width - 1)) ? lane : source & 31;
}
using Source = unsigned (*)(unsigned lane, unsigned operand, unsigned width);

template <Source source, class T>
inline T shuffle(unsigned mask, T value, unsigned operand, unsigned width, const char* what, const char* file, int line) {
  Shown shown = show(mask, value, what, file, line);
  return taken<T>(shown, source(lane(), operand, width));
}

/* Values equal bit for bit, as the hardware compares them. */
template <class T>
inline unsigned match_any(unsigned mask, T value, const char* file, int line) {
  Shown shown = show(mask, value, "__match_any_sync", file, line);
  unsigned equal = 0;
  for (unsigned i = 0; i < 32; i++)
    if ((shown.lanes >> i & 1) && shown.of[i] == shown.of[lane()]) equal |= 1u << i;
  return equal;
}
template <class T>
inline unsigned match_all(unsigned mask, T value, int* all, const char* file, int line) {
  Shown shown = show(mask, value, "__match_all_sync", file, line);
  *all = 1;
  for (unsigned i = 0; i < 32; i++)
    if ((shown.lanes >> i & 1) && shown.of[i] != shown.of[lane()]) *all = 0;
  return *all ? shown.lanes : 0;
}
template <class T, class Op>
inline T reduce(unsigned mask, T value, Op op, const char* what, const char* file, int line) {
  Shown shown = show(mask, value, what, file, line);
  T total = value;
  for (unsigned i = 0; i < 32; i++)
    if ((shown.lanes >> i & 1) && i != lane()) total = op(total, taken<T>(shown, i));
  return total;
}
}  // namespace ginrs_cpu

#define GINRS_CPU_SHUFFLES(T)                                                                                    \
  inline T __shfl_sync(unsigned mask, T value, int src, int width = 32, GINRS_CPU_SITE) {                        \
    return ginrs_cpu::shuffle<ginrs_cpu::source_idx>(mask, value, src, width, "__shfl_sync", file, line);        \
  }                                                                                                              \
  inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, GINRS_CPU_SITE) {              \
    return ginrs_cpu::shuffle<ginrs_cpu::source_up>(mask, value, delta, width, "__shfl_up_sync", file, line);    \
  }                                                                                                              \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, GINRS_CPU_SITE) {            \
    return ginrs_cpu::shuffle<ginrs_cpu::source_down>(mask, value, delta, width, "__shfl_down_sync", file, line); \
  }                                                                                                              \
  inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, GINRS_CPU_SITE) {                   \
    return ginrs_cpu::shuffle<ginrs_cpu::source_xor>(mask, value, bits, width, "__shfl_xor_sync", file, line);   \
  }
GINRS_CPU_SHUFFLES(int)
GINRS_CPU_SHUFFLES(unsigned int)
GINRS_CPU_SHUFFLES(long)
GINRS_CPU_SHUFFLES(unsigned long)
GINRS_CPU_SHUFFLES(long long)
GINRS_CPU_SHUFFLES(unsigned long long)
GINRS_CPU_SHUFFLES(float)
GINRS_CPU_SHUFFLES(double)

#define GINRS_CPU_MATCHES(T)                                                                 \
  inline unsigned __match_any_sync(unsigned mask, T value, GINRS_CPU_SITE) {                 \
    return ginrs_cpu::match_any(mask, value, file, line);                                    \
  }                                                                                          \
  inline unsigned __match_all_sync(unsigned mask, T value, int* all, GINRS_CPU_SITE) {       \
    return ginrs_cpu::match_all(mask, value, all, file, line);                               \
  }
GINRS_CPU_MATCHES(int)
GINRS_CPU_MATCHES(unsigned int)
GINRS_CPU_MATCHES(long)
GINRS_CPU_MATCHES(unsigned long)
GINRS_CPU_MATCHES(long long)
GINRS_CPU_MATCHES(unsigned long long)
GINRS_CPU_MATCHES(float)
GINRS_CPU_MATCHES(double)
#undef GINRS_CPU_MATCHES

#define GINRS_CPU_REDUCES(T, name, expression)                                                           \
  inline T __reduce_##name##_sync(unsigned mask, T value, GINRS_CPU_SITE) {                              \
    return ginrs_cpu::reduce(                                                                            \
        mask, value, [](T a, T b) -> T { return expression; }, "__reduce_" #name "_sync", file, line);   \
  }
GINRS_CPU_REDUCES(unsigned int, add, a + b)
GINRS_CPU_REDUCES(unsigned int, min, a < b ? a : b)
GINRS_CPU_REDUCES(unsigned int, max, a < b ? b : a)
GINRS_CPU_REDUCES(unsigned int, and, a & b)
GINRS_CPU_REDUCES(unsigned int, or, a | b)
GINRS_CPU_REDUCES(unsigned int, xor, a ^ b)
GINRS_CPU_REDUCES(int, add, (int)((unsigned)a + (unsigned)b))
GINRS_CPU_REDUCES(int, min, a < b ? a : b)
GINRS_CPU_REDUCES(int, max, a < b ? b : a)
#undef GINRS_CPU_REDUCES

inline void __syncwarp(unsigned mask = 0xffffffffu, GINRS_CPU_SITE) {
  ginrs_cpu_warp_sync(mask, "__syncwarp", file, line);
}
inline unsigned __activemask(GINRS_CPU_SITE) { return ginrs_cpu_active_mask(file, line); }
inline unsigned __ballot_sync(unsigned mask, int predicate, GINRS_CPU_SITE) {
  ginrs_cpu::Shown shown = ginrs_cpu::show(mask, predicate != 0, "__ballot_sync", file, line);
  unsigned set = 0;
  for (unsigned i = 0; i < 32; i++) set |= (unsigned)(shown.of[i] & 1) << i;
  return set & shown.lanes;
}
inline int __any_sync(unsigned mask, int predicate, GINRS_CPU_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, GINRS_CPU_SITE) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}
/* 1 if all lanes say the same. */
inline int __uni_sync(unsigned mask, int predicate, GINRS_CPU_SITE) {
  ginrs_cpu::Shown shown = ginrs_cpu::show(mask, predicate != 0, "__uni_sync", file, line);
  for (unsigned i = 0; i < 32; i++)
    if ((shown.lanes >> i & 1) && (shown.of[i] != 0) != (predicate != 0)) return 0;
  return 1;
}
#endif
