/* cuda::atomic and cuda::atomic_ref. Scopes are checked by the type system and mean nothing more on a CPU. */
#ifndef GINRS_CPU_SCOPED_ATOMIC_H_
#define GINRS_CPU_SCOPED_ATOMIC_H_
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include "race.h"
#include "runtime.h"
#include "word.h"

namespace cuda {
enum thread_scope {
  thread_scope_system = 0,
  thread_scope_device = 1,
  thread_scope_block = 2,
  thread_scope_thread = 10
};
using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_consume;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;

inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  (void)scope;
  GINRS_CPU_NARROW(scope >= thread_scope_block);
  __atomic_thread_fence((int)order);
}
inline void atomic_signal_fence(memory_order order) { __atomic_signal_fence((int)order); }
}  // namespace cuda

namespace ginrs_cpu {
constexpr int kAtomicPollCost = 16; /* basic blocks, as thread.h has it for the atomic functions */

/* What a failed compare-and-swap orders at most. */
constexpr int failure_order(::std::memory_order success) {
  return success == ::std::memory_order_release   ? __ATOMIC_RELAXED
         : success == ::std::memory_order_acq_rel ? __ATOMIC_ACQUIRE
                                                  : (int)success;
}

/* The integer through which an atomic object of N bytes is accessed. */
template <::std::size_t N>
struct AtomicWord {
  static_assert(N == 1 || N == 2 || N == 4 || N == 8, "cuda::atomic on the CPU device: types of 1, 2, 4 or 8 bytes");
  /* After the message above, no further ones. */
  typedef typename ::ginrs_cpu::WordOf<N == 2 || N == 4 || N == 8 ? N : 1>::Type Type;
};

/* The members that cuda::atomic and cuda::atomic_ref share; Self::address() says where the object is. Loads and failed
 * exchanges bring the thread closer to its preemption, because loops of them are spins. */
template <class Self, class T>
struct AtomicMembers {
  static_assert(::std::is_trivially_copyable<T>::value, "cuda::atomic of a type that cannot be copied byte by byte");
  typedef ::std::memory_order Order;
  static constexpr Order kSeqCst = ::std::memory_order_seq_cst;
  typedef typename ::std::conditional<::std::is_pointer<T>::value, ::std::ptrdiff_t, T>::type difference_type;
  typedef T value_type;
  static constexpr bool is_always_lock_free = true;
  bool is_lock_free() const { return true; }

  T load(Order order = kSeqCst) const {
    ginrs_cpu_spend(kAtomicPollCost);
    return value_of(__atomic_load_n(at(), (int)order));
  }
  operator T() const { return load(); }
  void store(T value, Order order = kSeqCst) const { __atomic_store_n(at(), word_of(value), (int)order); }
  T exchange(T value, Order order = kSeqCst) const {
    return value_of(__atomic_exchange_n(at(), word_of(value), (int)order));
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure) const {
    Word seen = word_of(expected);
    if (__atomic_compare_exchange_n(at(), &seen, word_of(desired), false, (int)success, (int)failure)) return true;
    expected = value_of(seen);
    ginrs_cpu_spend(kAtomicPollCost);
    return false;
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = kSeqCst) const {
    return compare_exchange_strong(expected, desired, order, (Order)failure_order(order));
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure) const {
    return compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = kSeqCst) const {
    return compare_exchange_strong(expected, desired, order);
  }
  /* Until the value is no longer `old`. */
  void wait(T old, Order order = kSeqCst) const {
    for (T now = load(order); __builtin_memcmp(&now, &old, sizeof now) == 0; now = load(order))
      ginrs_cpu_yield(GINRS_CPU_WAITING);
  }
  void notify_one() const {}
  void notify_all() const {}

  T fetch_add(difference_type by, Order order = kSeqCst) const {
    if constexpr (::std::is_integral<T>::value) return (T)__atomic_fetch_add(at(), (Word)by, (int)order);
    else return update(order, [=](T old) { return old + by; });
  }
  T fetch_sub(difference_type by, Order order = kSeqCst) const {
    if constexpr (::std::is_integral<T>::value) return (T)__atomic_fetch_sub(at(), (Word)by, (int)order);
    else return update(order, [=](T old) { return old - by; });
  }
  T fetch_and(T bits, Order order = kSeqCst) const { return (T)__atomic_fetch_and(at(), (Word)bits, (int)order); }
  T fetch_or(T bits, Order order = kSeqCst) const { return (T)__atomic_fetch_or(at(), (Word)bits, (int)order); }
  T fetch_xor(T bits, Order order = kSeqCst) const { return (T)__atomic_fetch_xor(at(), (Word)bits, (int)order); }
  T fetch_min(T value, Order order = kSeqCst) const {
    return update(order, [=](T old) { return value < old ? value : old; });
  }
  T fetch_max(T value, Order order = kSeqCst) const {
    return update(order, [=](T old) { return old < value ? value : old; });
  }
  T operator++() const { return fetch_add(1) + 1; }
  T operator--() const { return fetch_sub(1) - 1; }
  T operator++(int) const { return fetch_add(1); }
  T operator--(int) const { return fetch_sub(1); }
  T operator+=(difference_type by) const { return fetch_add(by) + by; }
  T operator-=(difference_type by) const { return fetch_sub(by) - by; }
  T operator&=(T bits) const { return fetch_and(bits) & bits; }
  T operator|=(T bits) const { return fetch_or(bits) | bits; }
  T operator^=(T bits) const { return fetch_xor(bits) ^ bits; }

 private:
  typedef typename AtomicWord<sizeof(T)>::Type Word;
  typedef Word Aliased __attribute__((may_alias));
  Aliased* at() const {
    GINRS_CPU_NARROW(Self::kIsNarrow);
    return reinterpret_cast<Aliased*>(static_cast<const Self*>(this)->address());
  }
  static Word word_of(T value) {
    Word word;
    __builtin_memcpy(&word, (const void*)&value, sizeof word);
    return word;
  }
  static T value_of(Word word) {
    T value;
    __builtin_memcpy((void*)&value, &word, sizeof value);
    return value;
  }
  template <class Next>
  T update(Order order, Next next) const {
    Word seen = __atomic_load_n(at(), __ATOMIC_RELAXED);
    for (;;) {
      T old = value_of(seen);
      if (__atomic_compare_exchange_n(at(), &seen, word_of(next(old)), true, (int)order, failure_order(order))) return old;
    }
  }
};
}  // namespace ginrs_cpu

namespace cuda {
template <class T, thread_scope Scope = thread_scope_system>
struct atomic : ginrs_cpu::AtomicMembers<atomic<T, Scope>, T> {
  static constexpr bool kIsNarrow = Scope >= thread_scope_block;
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  T operator=(T value) {
    this->store(value);
    return value;
  }
  T* address() const { return const_cast<T*>(&value_); }

 private:
  alignas(sizeof(T)) T value_;
};

template <class T, thread_scope Scope = thread_scope_system>
struct atomic_ref : ginrs_cpu::AtomicMembers<atomic_ref<T, Scope>, T> {
  static constexpr ::std::size_t required_alignment = sizeof(T);
  static constexpr bool kIsNarrow = Scope >= thread_scope_block;
  explicit atomic_ref(T& object) : object_(&object) {}
  atomic_ref(const atomic_ref&) = default;
  atomic_ref& operator=(const atomic_ref&) = delete;
  T operator=(T value) const {
    this->store(value);
    return value;
  }
  T* address() const { return object_; }

 private:
  T* object_;
};
}  // namespace cuda
#endif
