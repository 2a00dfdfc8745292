/* The PTX instructions of ginrs-cc's table as C++ functions (tools/src/rewrite/asm/table.rs writes the calls). Scopes and
 * state spaces are all the CPU's one; an order is at least what the instruction says. Polling loads bring the thread to
 * its next preemption, so loops over them let other CUDA threads run. */
#ifndef GINRS_CPU_PTX_H_
#define GINRS_CPU_PTX_H_
#include <cstdint>
#include <cstring>
#include <type_traits>
#include "async.h"
#include "atomic.h"
#include "bits.h"
#include "memory.h"
#include "thread.h"

namespace ginrs_cpu {
namespace ptx {

/* unsaid: that of a volatile load, and of an atom that names none. As relaxed, but for the race detector (atomic.h). */
enum class Order { weak, unsaid, relaxed, acquire, release, acq_rel, seq_cst };
#ifdef __GINRS_RACE__
constexpr int kUnsaidOrder = kAtomicOrder;
#else
constexpr int kUnsaidOrder = __ATOMIC_RELAXED;
#endif
constexpr int atomic_order(Order order) {
  return order == Order::acquire   ? __ATOMIC_ACQUIRE
         : order == Order::release ? __ATOMIC_RELEASE
         : order == Order::acq_rel ? __ATOMIC_ACQ_REL
         : order == Order::seq_cst ? __ATOMIC_SEQ_CST
         : order == Order::unsaid  ? kUnsaidOrder
                                   : __ATOMIC_RELAXED;
}
/* That of atom and red: as those of the atomic functions, all sequentially consistent but to the race detector. */
#ifdef __GINRS_RACE__
constexpr int change_order(Order order) { return atomic_order(order); }
#else
constexpr int change_order(Order) { return kAtomicOrder; }
#endif

template <class T, class S>
inline T bits(S value) { return bits_as<T>(value); }

/* An operand read as a register of type T: the same bytes, or an integer made wider or narrower. */
template <class T, class S>
inline T get(const S& operand) {
  typedef std::remove_cv_t<S> Value;
  if constexpr (std::is_pointer_v<Value>) {
    static_assert(sizeof(T) == sizeof(Value), "a pointer needs a 64-bit operand (constraint \"l\")");
    return bits_as<T>(operand);
  } else if constexpr (sizeof(T) == sizeof(Value)) {
    T value;
    __builtin_memcpy(&value, const_cast<const Value*>(&operand), sizeof value);
    return value;
  } else {
    static_assert((std::is_integral_v<Value> || std::is_enum_v<Value>) && std::is_integral_v<T>,
                  "the size of an asm operand does not match the type of its PTX instruction");
    return static_cast<T>(operand);
  }
}
/* An operand written. */
template <class D, class T>
inline void set(D& operand, T value) {
  typedef std::remove_cv_t<D> Value;
  if constexpr (std::is_same_v<Value, bool>) {
    operand = value != 0;
  } else if constexpr (sizeof(T) == sizeof(Value)) {
    __builtin_memcpy((void*)const_cast<Value*>(&operand), &value, sizeof value);
  } else {
    static_assert(std::is_integral_v<Value> && std::is_integral_v<T>,
                  "the size of an asm operand does not match the type of its PTX instruction");
    operand = static_cast<Value>(value);
  }
}
/* [base + offset] */
template <class B>
inline char* address(const B& base, long long offset) {
  static_assert(sizeof(B) == 8, "an address needs a 64-bit operand (constraint \"l\")");
  return bits_as<char*>(base) + offset;
}
template <class T, class H>
inline T join(H low, H high) {
  return static_cast<T>(static_cast<T>(high) << (8 * sizeof(H)) | low);
}
template <class H, class T, class L, class U>
inline void split(T value, L& low, U& high) {
  set(low, static_cast<H>(value));
  set(high, static_cast<H>(value >> (8 * sizeof(H))));
}
/* PTX clamps shifts by the width or more. */
template <class T>
inline T shl(T value, uint32_t by) { return by < 8 * sizeof(T) ? static_cast<T>(value << by) : T(0); }
template <class T>
inline T shr(T value, uint32_t by) {
  return by < 8 * sizeof(T) ? static_cast<T>(value >> by) : static_cast<T>(std::is_signed_v<T> && value < T(0) ? -1 : 0);
}

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t select) { return __byte_perm(low, high, select); }

/* N bytes in accesses of up to 16. ThreadSanitizer knows accesses of 8 as atomic. */
template <size_t N>
struct Block { unsigned char bytes[N]; };
#ifdef __SANITIZE_THREAD__
constexpr size_t kWidest = 8;
#else
constexpr size_t kWidest = 16;
#endif
template <Order order, size_t N>
inline Block<N> load_block(const char* p) {
  Block<N> block;
  if constexpr (N > kWidest) {
    Block<kWidest> low = load_block<order, kWidest>(p);
    Block<N - kWidest> high = load_block<order, N - kWidest>(p + kWidest);
    __builtin_memcpy(block.bytes, &low, kWidest);
    __builtin_memcpy(block.bytes + kWidest, &high, N - kWidest);
  } else if constexpr (N == 16) {
    block = load_whole(reinterpret_cast<const Block<16>*>(p), 0);
    if (order == Order::acquire) __atomic_thread_fence(__ATOMIC_ACQUIRE);
  } else {
    typedef typename WordOf<N>::Type Word;
    typedef Word Aliased __attribute__((may_alias));
    Word word = order == Order::weak ? *reinterpret_cast<const volatile Aliased*>(p)
                                     : __atomic_load_n(reinterpret_cast<const Aliased*>(p), atomic_order(order));
    __builtin_memcpy(&block, &word, N);
  }
  return block;
}
template <Order order, size_t N>
inline void store_block(char* p, Block<N> block) {
  if constexpr (N > kWidest) {
    Block<kWidest> low;
    Block<N - kWidest> high;
    __builtin_memcpy(&low, block.bytes, kWidest);
    __builtin_memcpy(&high, block.bytes + kWidest, N - kWidest);
    store_block<order, kWidest>(p, low);
    store_block<order, N - kWidest>(p + kWidest, high);
  } else if constexpr (N == 16) {
    if (order == Order::release) __atomic_thread_fence(__ATOMIC_RELEASE);
    store_whole(reinterpret_cast<Block<16>*>(p), block, 0);
  } else {
    typedef typename WordOf<N>::Type Word;
    typedef Word Aliased __attribute__((may_alias));
    Word word;
    __builtin_memcpy(&word, &block, N);
    if (order == Order::weak)
      *reinterpret_cast<volatile Aliased*>(p) = word;
    else
      __atomic_store_n(reinterpret_cast<Aliased*>(p), word, atomic_order(order));
  }
}

/* ld and ld.v2/.v4/.v8 into as many operands. */
template <class T, Order order, class... D>
inline void load(const char* p, D&... operands) {
  constexpr size_t n = sizeof...(D);
  if (order != Order::weak) poll();
  else GINRS_CPU_PLAIN_READ(p, sizeof(T) * n);
  Block<sizeof(T) * n> block = load_block<order, sizeof(T) * n>(p);
  T values[n];
  __builtin_memcpy(values, &block, sizeof values);
  size_t i = 0;
  (set(operands, values[i++]), ...);
}
template <class T, Order order, bool isNarrow, class... S>
inline void store(char* p, S... operands) {
  constexpr size_t n = sizeof...(S);
  const T values[n] = {operands...};
  Block<sizeof(T) * n> block;
  __builtin_memcpy(&block, values, sizeof values);
  /* Multicast memory takes plain stores too, on GPUs in fact if not by the manual. */
  ginrsCpuTargets at;
  if (__builtin_expect(__atomic_load_n(&ginrs_cpu_multicast_ranges, __ATOMIC_RELAXED) != 0, 0) &&
      ginrs_cpu_multicast_targets(p, sizeof block, &at)) {
    for (uint32_t rank = 0; rank < at.count; rank++) {
      if (order == Order::weak) GINRS_CPU_PLAIN_WRITE(at.first + rank * at.step, sizeof block);
      store_block<order>(at.first + rank * at.step, block);
    }
    return;
  }
  GINRS_CPU_NARROW(isNarrow); /* to the block alone */
  if (order == Order::weak) GINRS_CPU_PLAIN_WRITE(p, sizeof block);
  store_block<order>(p, block);
}

/* atom and red. */
#define GINRS_CPU_PTX_ATOMIC(name, next)                                                       \
  template <class T, Order order, bool isNarrow = false>                                               \
  inline T atomic_##name(char* p, T value) {                                                   \
    return atomic_update<isNarrow>(reinterpret_cast<T*>(p), [value](T old) -> T { (void)old; return next; }, change_order(order)); \
  }
GINRS_CPU_PTX_ATOMIC(add, old + value)
GINRS_CPU_PTX_ATOMIC(min, value < old ? value : old)
GINRS_CPU_PTX_ATOMIC(max, old < value ? value : old)
GINRS_CPU_PTX_ATOMIC(exch, value)
GINRS_CPU_PTX_ATOMIC(inc, old >= value ? T(0) : old + T(1))
GINRS_CPU_PTX_ATOMIC(dec, old == T(0) || old > value ? value : old - T(1))
#undef GINRS_CPU_PTX_ATOMIC
#define GINRS_CPU_PTX_BITWISE(name, op)                                                   \
  template <class T, Order order, bool isNarrow = false>                                          \
  inline T atomic_##name(char* p, T value) {                                              \
    return atomic_update<isNarrow>(reinterpret_cast<T*>(p), [value](T old) -> T { return old op value; }, change_order(order)); \
  }
GINRS_CPU_PTX_BITWISE(and, &)
GINRS_CPU_PTX_BITWISE(or, |)
GINRS_CPU_PTX_BITWISE(xor, ^)
#undef GINRS_CPU_PTX_BITWISE
template <class T, Order order, bool isNarrow = false>
inline T atomic_cas(char* p, T expected, T desired) {
  GINRS_CPU_NARROW(isNarrow);
  return ginrs_cpu::atomic_cas(reinterpret_cast<T*>(p), expected, desired, change_order(order));
}

template <Order order, bool isNarrow>
inline void fence() {
  GINRS_CPU_NARROW(isNarrow);
  __atomic_thread_fence(atomic_order(order));
}

inline void barrier_sync(uint32_t id, uint32_t count, const char* file, int line) {
  ginrs_cpu_barrier(id, count, "bar.sync", file, line);
}
inline void barrier_arrive(uint32_t id, uint32_t count, const char* file, int line) {
  ginrs_cpu_barrier_arrive(id, count, "bar.arrive", file, line);
}
inline uint32_t active_mask(const char* file, int line) { return ginrs_cpu_active_mask(file, line); }
inline uint32_t ballot(uint32_t mask, bool predicate, const char* file, int line) {
  uint64_t votes[32];
  uint32_t lanes = ginrs_cpu_warp_exchange(mask, predicate, votes, "vote.sync.ballot", file, line);
  uint32_t result = 0;
  for (int i = 0; i < 32; i++)
    if ((lanes >> i & 1) && votes[i]) result |= 1u << i;
  return result;
}
inline void nanosleep(uint32_t) { ginrs_cpu_yield(GINRS_CPU_WAITING); }

/* Special registers. A block runs on one OS thread, which stands for its multiprocessor. */
inline uint32_t lanemask_eq() { return 1u << ginrs_cpu_self->lane; }
inline uint32_t lanemask_lt() { return lanemask_eq() - 1; }
inline uint32_t lanemask_le() { return lanemask_lt() | lanemask_eq(); }
inline uint32_t lanemask_gt() { return ~lanemask_le(); }
inline uint32_t lanemask_ge() { return ~lanemask_lt(); }
inline uint32_t nwarpid() {
  const ginrsCpuUint3& block = ginrs_cpu_self->blockDim;
  return (block.x * block.y * block.z + 31) / 32;
}
inline uint32_t smid() {
  const ginrsCpuThread* self = ginrs_cpu_self;
  return (self->blockIdx.z * self->gridDim.y + self->blockIdx.y) * self->gridDim.x + self->blockIdx.x;
}
inline uint32_t nsmid() { return ginrs_cpu_self->gridDim.x * ginrs_cpu_self->gridDim.y * ginrs_cpu_self->gridDim.z; }
inline uint64_t clock64() { return static_cast<uint64_t>(::clock64()); }
inline uint32_t clock() { return static_cast<uint32_t>(clock64()); }
inline uint32_t clock_hi() { return static_cast<uint32_t>(clock64() >> 32); }
inline uint64_t globaltimer() { return __globaltimer(); }
inline uint32_t globaltimer_lo() { return static_cast<uint32_t>(globaltimer()); }
inline uint32_t globaltimer_hi() { return static_cast<uint32_t>(globaltimer() >> 32); }

}  // namespace ptx
}  // namespace ginrs_cpu
#endif
