/* The atomic functions. CUDA's are relaxed; these are sequentially consistent, which costs nothing on x86-64 and lets
 * ThreadSanitizer see the hand-overs that programs build from relaxed atomics and fences (it does not see fences). The race detector does: it
 * is told what they are on a GPU, and makes them as the others are (cpu-device/shim/race.c). */
#ifndef GINRS_CPU_ATOMIC_H_
#define GINRS_CPU_ATOMIC_H_
#include "thread.h"
#include "word.h"
namespace ginrs_cpu {
#ifdef __GINRS_RACE__
constexpr int kAtomicOrder = __ATOMIC_CONSUME; /* not what the program itself asks to be relaxed */
#else
constexpr int kAtomicOrder = __ATOMIC_SEQ_CST;
#endif
/* *p = next(*p), whole, for any type of 2, 4 or 8 bytes; returns what was there. */
template <bool isNarrow = false, class T, class Next>
inline T atomic_update(T* p, Next next, const int order = kAtomicOrder) {
  static_assert(sizeof(T) > 1, "there are no atomics of one byte");
  typedef typename WordOf<sizeof(T)>::Type Word;
  typedef Word Aliased __attribute__((may_alias));
  Aliased* word = reinterpret_cast<Aliased*>(p);
  Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T old = bits_as<T>(seen);
    GINRS_CPU_NARROW(isNarrow);
    if (__atomic_compare_exchange_n(word, &seen, bits_as<Word>(T(next(old))), true, order, __ATOMIC_RELAXED))
      return old;
  }
}
template <class T>
inline T atomic_cas(T* p, T expected, T desired, const int order = kAtomicOrder) {
  if (!__atomic_compare_exchange_n(p, &expected, desired, false, order, __ATOMIC_RELAXED)) poll();
  return expected;
}
template <class T>
inline T atomic_inc(T* p, T limit) {
  return atomic_update(p, [=](T old) { return old >= limit ? 0 : old + 1; });
}
template <class T>
inline T atomic_dec(T* p, T limit) {
  return atomic_update(p, [=](T old) { return old == 0 || old > limit ? limit : old - 1; });
}
template <class T>
inline T atomic_min(T* p, T value) {
  return atomic_update(p, [=](T old) { return value < old ? value : old; });
}
template <class T>
inline T atomic_max(T* p, T value) {
  return atomic_update(p, [=](T old) { return old < value ? value : old; });
}
template <class T>
inline T atomic_plus(T* p, T value) {
  return atomic_update(p, [=](T old) { return old + value; });
}
template <class T>
inline T atomic_exchange_bits(T* p, T value) {
  return atomic_update(p, [=](T) { return value; });
}
/* Vectors of float: each element by itself, as CUDA says. */
inline float2 atomic_plus_each(float2* p, float2 value) {
  return float2{atomic_plus(&p->x, value.x), atomic_plus(&p->y, value.y)};
}
inline float4 atomic_plus_each(float4* p, float4 value) {
  return float4{atomic_plus(&p->x, value.x), atomic_plus(&p->y, value.y), atomic_plus(&p->z, value.z),
                atomic_plus(&p->w, value.w)};
}
}  // namespace ginrs_cpu

/* One function in the scopes of device, block and system: one and the same on a CPU, but for the race detector. */
#define GINRS_CPU_ATOMIC(T, name, expression)                          \
  inline T name(T* p, T value) { return expression; }                  \
  inline T name##_block(T* p, T value) {                               \
    GINRS_CPU_NARROW(true);                                            \
    return expression;                                                 \
  }                                                                    \
  inline T name##_system(T* p, T value) { return expression; }
#define GINRS_CPU_ATOMIC_BUILTIN(T, name, builtin) GINRS_CPU_ATOMIC(T, name, builtin(p, value, ::ginrs_cpu::kAtomicOrder))
#define GINRS_CPU_ATOMIC_CAS(T)                                                                            \
  inline T atomicCAS(T* p, T compare, T value) { return ginrs_cpu::atomic_cas(p, compare, value); }        \
  inline T atomicCAS_block(T* p, T compare, T value) {                                                     \
    GINRS_CPU_NARROW(true);                                                                                \
    return ginrs_cpu::atomic_cas(p, compare, value);                                                       \
  }                                                                                                        \
  inline T atomicCAS_system(T* p, T compare, T value) { return ginrs_cpu::atomic_cas(p, compare, value); }
#define GINRS_CPU_ATOMIC_INTEGER(T)                            \
  GINRS_CPU_ATOMIC_BUILTIN(T, atomicExch, __atomic_exchange_n) \
  GINRS_CPU_ATOMIC_BUILTIN(T, atomicAnd, __atomic_fetch_and)   \
  GINRS_CPU_ATOMIC_BUILTIN(T, atomicOr, __atomic_fetch_or)     \
  GINRS_CPU_ATOMIC_BUILTIN(T, atomicXor, __atomic_fetch_xor)   \
  GINRS_CPU_ATOMIC(T, atomicMin, ginrs_cpu::atomic_min(p, value)) \
  GINRS_CPU_ATOMIC(T, atomicMax, ginrs_cpu::atomic_max(p, value)) \
  GINRS_CPU_ATOMIC_CAS(T)
GINRS_CPU_ATOMIC_INTEGER(int)
GINRS_CPU_ATOMIC_INTEGER(unsigned int)
GINRS_CPU_ATOMIC_INTEGER(unsigned long long)
GINRS_CPU_ATOMIC(long long, atomicMin, ginrs_cpu::atomic_min(p, value))
GINRS_CPU_ATOMIC(long long, atomicMax, ginrs_cpu::atomic_max(p, value))
GINRS_CPU_ATOMIC_CAS(unsigned short)
GINRS_CPU_ATOMIC_BUILTIN(int, atomicAdd, __atomic_fetch_add)
GINRS_CPU_ATOMIC_BUILTIN(unsigned int, atomicAdd, __atomic_fetch_add)
GINRS_CPU_ATOMIC_BUILTIN(unsigned long long, atomicAdd, __atomic_fetch_add)
GINRS_CPU_ATOMIC_BUILTIN(int, atomicSub, __atomic_fetch_sub)
GINRS_CPU_ATOMIC_BUILTIN(unsigned int, atomicSub, __atomic_fetch_sub)
GINRS_CPU_ATOMIC(unsigned int, atomicInc, ginrs_cpu::atomic_inc(p, value))
GINRS_CPU_ATOMIC(unsigned int, atomicDec, ginrs_cpu::atomic_dec(p, value))
GINRS_CPU_ATOMIC(float, atomicAdd, ginrs_cpu::atomic_plus(p, value))
GINRS_CPU_ATOMIC(double, atomicAdd, ginrs_cpu::atomic_plus(p, value))
GINRS_CPU_ATOMIC(float2, atomicAdd, ginrs_cpu::atomic_plus_each(p, value))
GINRS_CPU_ATOMIC(float4, atomicAdd, ginrs_cpu::atomic_plus_each(p, value))
GINRS_CPU_ATOMIC(float, atomicExch, ginrs_cpu::atomic_exchange_bits(p, value))
#undef GINRS_CPU_ATOMIC_INTEGER
#undef GINRS_CPU_ATOMIC_CAS
#undef GINRS_CPU_ATOMIC_BUILTIN
#endif
