/* multimem.ld_reduce, .st and .red: one instruction on the same place of every rank's memory, one rank after the other in their
 * order, so all ranks that reduce get the same bits. tools/src/rewrite/asm/table/multimem.rs writes the calls. */
#ifndef GINRS_CPU_MULTIMEM_H_
#define GINRS_CPU_MULTIMEM_H_
#include <cmath>
#include <cstdio>
#include <type_traits>
#include "codec.h"
#include "ptx.h"

namespace ginrs_cpu {
namespace multimem {

enum class Op { add_, min_, max_, and_, or_, xor_ };

/* Words of one number. */
template <class T>
struct Plain {
  typedef T Word;
  typedef T Value;
  static constexpr int kParts = 1;
  static Value value(Word word, int) { return word; }
  static Word word(const Value* values) { return values[0]; }
};
/* Words of N narrow floats. Sums are kept in 32 bits and rounded once, whatever .acc says; one beyond the largest becomes infinity,
 * or NaN where the format has no infinity. */
template <class F, int N>
struct Narrow {
  static constexpr int kBits = 1 + F::kExponent + F::kMantissa;
  static constexpr uint32_t kMask = (1u << kBits) - 1;
  typedef typename WordOf<kBits * N / 8>::Type Word;
  typedef float Value;
  static constexpr int kParts = N;
  static Value value(Word word, int part) { return static_cast<float>(decode<F>(word >> (kBits * part) & kMask)); }
  static Word word(const Value* values) {
    Word word = 0;
    for (int i = 0; i < N; i++) word = static_cast<Word>(word | encode<F>(values[i]) << (kBits * i));
    return word;
  }
};

template <Op op, class T>
inline T apply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return op == Op::add_ ? a + b : op == Op::min_ ? std::fmin(a, b) : std::fmax(a, b);
  } else {
    typedef std::make_unsigned_t<T> U;
    switch (op) {
      case Op::add_: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case Op::min_: return b < a ? b : a;
      case Op::max_: return a < b ? b : a;
      case Op::and_: return a & b;
      case Op::or_: return a | b;
      default: return a ^ b;
    }
  }
}

inline ginrsCpuTargets targets(const char* what, const char* file, int line, const char* p, size_t bytes) {
  ginrsCpuTargets found;
  if (!ginrs_cpu_multicast_targets(p, bytes, &found)) {
    char message[256];
    snprintf(message, sizeof message, "%s: the address is no multicast memory (ncclGetLsaMultimemPointer gives such)", what);
    ginrs_cpu_trap(message, file, line);
  }
  return found;
}

template <class K, Op op, ptx::Order order, class... D>
inline void ld_reduce(const char* what, const char* file, int line, const char* p, D&... operands) {
  typedef typename K::Word Word;
  constexpr size_t n = sizeof...(D);
  const ginrsCpuTargets at = targets(what, file, line, p, n * sizeof(Word));
  if (order != ptx::Order::weak) poll();
  typename K::Value values[n][K::kParts];
  Word words[n];
  for (uint32_t rank = 0; rank < at.count; rank++) {
    GINRS_CPU_PLAIN_READ(at.first + rank * at.step, n * sizeof(Word)); /* whatever its order: data, and no flag */
    ptx::Block<n * sizeof(Word)> block = ptx::load_block<order, n * sizeof(Word)>(at.first + rank * at.step);
    __builtin_memcpy(words, &block, sizeof words);
    for (size_t i = 0; i < n; i++) {
      for (int part = 0; part < K::kParts; part++) {
        typename K::Value next = K::value(words[i], part);
        values[i][part] = rank == 0 ? next : apply<op>(values[i][part], next);
      }
    }
  }
  for (size_t i = 0; i < n; i++) words[i] = K::word(values[i]);
  size_t i = 0;
  (ptx::set(operands, words[i++]), ...);
}

template <class K, ptx::Order order, class... S>
inline void st(const char* what, const char* file, int line, char* p, S... operands) {
  constexpr size_t bytes = sizeof...(S) * sizeof(typename K::Word);
  const typename K::Word words[] = {operands...};
  const ginrsCpuTargets at = targets(what, file, line, p, bytes);
  ptx::Block<bytes> block;
  __builtin_memcpy(&block, words, bytes);
  for (uint32_t rank = 0; rank < at.count; rank++) {
    if (order != ptx::Order::release) GINRS_CPU_PLAIN_WRITE(at.first + rank * at.step, bytes);
    ptx::store_block<order>(at.first + rank * at.step, block);
  }
}

/* Each word by itself is atomic, as on a GPU. */
template <class K, Op op, ptx::Order order, class... S>
inline void red(const char* what, const char* file, int line, char* p, S... operands) {
  typedef typename K::Word Word;
  const Word words[] = {operands...};
  const ginrsCpuTargets at = targets(what, file, line, p, sizeof words);
  for (uint32_t rank = 0; rank < at.count; rank++) {
    Word* to = reinterpret_cast<Word*>(at.first + rank * at.step);
    for (Word add : words) {
      atomic_update(to++, [add](Word old) {
        typename K::Value values[K::kParts];
        for (int i = 0; i < K::kParts; i++) values[i] = apply<op>(K::value(old, i), K::value(add, i));
        return K::word(values);
      }, ptx::change_order(order));
    }
  }
}

}  // namespace multimem
}  // namespace ginrs_cpu
#endif
