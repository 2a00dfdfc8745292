/* cooperative_groups: functions over a group: sync, reduce, scans, copies, one thread for all. */
#ifndef GINRS_CPU_GROUPS_COLLECTIVES_H_
#define GINRS_CPU_GROUPS_COLLECTIVES_H_
#include <string.h>
#include "groups_lanes.h"

namespace cooperative_groups {
template <class Group>
inline void sync(const Group& group, GINRS_CPU_SITE) { group.sync(file, line); }
template <class Group>
inline unsigned long long thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group>
inline unsigned long long group_size(const Group& group) { return group.num_threads(); }

#define GINRS_CPU_OPERATION(name, expression)                                    \
  template <class T = void>                                                      \
  struct name {                                                                  \
    T operator()(T a, T b) const { return expression; }                          \
  };                                                                             \
  template <>                                                                    \
  struct name<void> {                                                            \
    template <class T>                                                           \
    T operator()(T a, T b) const { return expression; }                          \
  };
GINRS_CPU_OPERATION(plus, a + b)
GINRS_CPU_OPERATION(less, b < a ? b : a)
GINRS_CPU_OPERATION(greater, a < b ? b : a)
GINRS_CPU_OPERATION(bit_and, a & b)
GINRS_CPU_OPERATION(bit_or, a | b)
GINRS_CPU_OPERATION(bit_xor, a ^ b)
#undef GINRS_CPU_OPERATION

namespace details {
/* The values of all threads of a group of lanes, by lane. */
template <class T>
struct gathered {
  unsigned lanes;
  alignas(T) char bytes[32][sizeof(T)];
  const T& of(unsigned lane) const { return *reinterpret_cast<const T*>(bytes[lane]); }
};
template <class T>
inline gathered<T> gather(unsigned mask, const T& value, const char* what, const char* file, int line) {
  static_assert(std::is_trivially_copyable<T>::value, "a value that threads exchange must be copied byte by byte");
  gathered<T> all;
  for (size_t at = 0; at < sizeof(T); at += 8) {
    const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
    uint64_t word = 0, shown[32];
    __builtin_memcpy(&word, (const char*)&value + at, bytes);
    all.lanes = ginrs_cpu_warp_exchange(mask, word, shown, what, file, line);
    for (unsigned i = 0; i < 32; i++) __builtin_memcpy(all.bytes[i] + at, &shown[i], bytes);
  }
  return all;
}
/* op over the values of `lanes`, which are not none, in their order. */
template <class T, class Op>
inline T fold(const gathered<T>& all, unsigned lanes, Op&& op) {
  T total = all.of((unsigned)__builtin_ctz(lanes));
  for (lanes &= lanes - 1; lanes != 0; lanes &= lanes - 1) total = op(total, all.of((unsigned)__builtin_ctz(lanes)));
  return total;
}
}  // namespace details

/* op over the values of all threads, in the order of ranks; every thread gets the result. */
template <class Group, class T, class Op>
inline T reduce(const Group& group, T value, Op&& op, GINRS_CPU_SITE) {
  auto all = details::gather(group.ginrs_mask(), value, "cooperative group reduce()", file, line);
  return details::fold(all, all.lanes, op);
}
template <class Group, class T, class Op>
inline void reduce_store_async(const Group& group, T* destination, T value, Op&& op, GINRS_CPU_SITE) {
  T total = reduce(group, value, op, file, line);
  if (group.thread_rank() == 0) *destination = total;
}
/* op over the values of the threads up to this one. */
template <class Group, class T, class Op>
inline T inclusive_scan(const Group& group, T value, Op&& op, GINRS_CPU_SITE) {
  auto all = details::gather(group.ginrs_mask(), value, "cooperative group inclusive_scan()", file, line);
  return details::fold(all, all.lanes & ((2u << ginrs_cpu::lane()) - 1), op);
}
template <class Group, class T>
inline T inclusive_scan(const Group& group, T value, GINRS_CPU_SITE) {
  return inclusive_scan(group, value, plus<T>(), file, line);
}
/* op over the values of the threads before this one; T{} for the first. */
template <class Group, class T, class Op>
inline T exclusive_scan(const Group& group, T value, Op&& op, GINRS_CPU_SITE) {
  auto all = details::gather(group.ginrs_mask(), value, "cooperative group exclusive_scan()", file, line);
  unsigned before = details::lower_lanes(all.lanes, ginrs_cpu::lane());
  return before == 0 ? T{} : details::fold(all, before, op);
}
template <class Group, class T>
inline T exclusive_scan(const Group& group, T value, GINRS_CPU_SITE) {
  return exclusive_scan(group, value, plus<T>(), file, line);
}

/* Copies are done by the first thread at once; wait() lets the others see them. */
template <class Group, class T, class Size>
inline void memcpy_async(const Group& group, T* destination, const T* source, const Size& bytes) {
  if (group.thread_rank() == 0) memcpy((void*)destination, (const void*)source, (size_t)bytes);
}
/* Sizes in elements: as many as both sides have. */
template <class Group, class T, class U, class DstSize, class SrcSize>
inline void memcpy_async(const Group& group, T* destination, const DstSize& room, const U* source, const SrcSize& elements) {
  static_assert(sizeof(T) == sizeof(U), "memcpy_async between elements of different sizes");
  const size_t n = (size_t)room < (size_t)elements ? (size_t)room : (size_t)elements;
  if (group.thread_rank() == 0) memcpy((void*)destination, (const void*)source, n * sizeof(T));
}
template <class Group>
inline void wait(const Group& group, GINRS_CPU_SITE) { group.sync(file, line); }
template <unsigned Stages, class Group>
inline void wait_prior(const Group& group, GINRS_CPU_SITE) { group.sync(file, line); }

/* One thread of the group calls f. */
template <class Group, class F, class... A>
inline void invoke_one(const Group& group, F&& f, A&&... args) {
  if (group.thread_rank() == 0) static_cast<F&&>(f)(static_cast<A&&>(args)...);
}
template <class Group, class F, class... A>
inline auto invoke_one_broadcast(const Group& group, F&& f, A&&... args)
    -> typename std::decay<decltype(f(static_cast<A&&>(args)...))>::type {
  typename std::decay<decltype(f(static_cast<A&&>(args)...))>::type result{};
  if (group.thread_rank() == 0) result = static_cast<F&&>(f)(static_cast<A&&>(args)...);
  return group.shfl(result, 0);
}
}  // namespace cooperative_groups
#endif
