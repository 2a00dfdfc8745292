/* Loads and stores with a cache hint. The hint means nothing on a CPU, but code polls through these: each access happens
 * once and whole (up to 16 bytes), where it is written. */
#ifndef GINRS_CPU_MEMORY_H_
#define GINRS_CPU_MEMORY_H_
#include "thread.h"
#include "word.h"

namespace ginrs_cpu {
/* A memory access of N bytes that the compiler can neither split nor drop. */
template <size_t N>
struct Whole : WordOf<N> {}; /* other sizes: a plain copy, as a GPU has no single access for them either */
template <>
struct Whole<16> { typedef long long Type __attribute__((vector_size(16))); };

template <class T, class Word = typename Whole<sizeof(T)>::Type>
inline T load_whole(const T* p, int) {
  typedef Word Aliased __attribute__((may_alias));
  Word word = *reinterpret_cast<const volatile Aliased*>(p);
  T value;
  __builtin_memcpy((void*)&value, &word, sizeof value);
  return value;
}
template <class T>
inline T load_whole(const T* p, long) {
  return *p;
}
template <class T, class Word = typename Whole<sizeof(T)>::Type>
inline void store_whole(T* p, T value, int) {
  typedef Word Aliased __attribute__((may_alias));
  Word word;
  __builtin_memcpy(&word, &value, sizeof word);
  *reinterpret_cast<volatile Aliased*>(p) = word;
}
template <class T>
inline void store_whole(T* p, T value, long) {
  *p = value;
}
template <class T>
struct Same { typedef T Type; };
}  // namespace ginrs_cpu

/* The read-only path promises that nobody writes: a plain load. */
template <class T>
inline T __ldg(const T* p) { return *p; }

#define GINRS_CPU_LOAD(name) \
  template <class T>         \
  inline T name(const T* p) { \
    GINRS_CPU_HINTED(p, sizeof *p, 0); \
    return ginrs_cpu::load_whole(p, 0); \
  }
GINRS_CPU_LOAD(__ldca)
GINRS_CPU_LOAD(__ldcg)
GINRS_CPU_LOAD(__ldcs)
GINRS_CPU_LOAD(__ldlu)
#undef GINRS_CPU_LOAD
template <class T>
inline T __ldcv(const T* p) {
  ginrs_cpu::poll();
  return ginrs_cpu::load_whole(p, 0);
}
#define GINRS_CPU_STORE(name) \
  template <class T>          \
  inline void name(T* p, typename ginrs_cpu::Same<T>::Type value) { \
    GINRS_CPU_HINTED(p, sizeof *p, 1); \
    ginrs_cpu::store_whole(p, value, 0); \
  }
GINRS_CPU_STORE(__stwb)
GINRS_CPU_STORE(__stcg)
GINRS_CPU_STORE(__stcs)
GINRS_CPU_STORE(__stwt)
#undef GINRS_CPU_STORE
#endif
