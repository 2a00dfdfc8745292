/* nccl::utility, continued: an optional whose value is built in place from a pack of references. The hybrid barrier
 * holds sessions in it, which can be neither copied nor moved. */
#ifndef _NCCL_DEVICE_UTILITY__OPTIONAL_H_
#define _NCCL_DEVICE_UTILITY__OPTIONAL_H_
#include "../utility.h"

#ifdef __cplusplus

namespace nccl {
namespace utility {

template <int... i>
struct IntSeq {};

/* IntSeqUpTo<n, m>::Type is IntSeq<m, m+1, ..., n-1>. */
template <int n, int m, int... i>
struct IntSeqUpTo : IntSeqUpTo<n, m + 1, i..., m> {};
template <int n, int... i>
struct IntSeqUpTo<n, n, i...> {
  using Type = IntSeq<i...>;
};

/* A pack of constructor arguments, references as a rule. get() hands each out with the value category it came with. */
template <typename... Arg>
struct Present;
template <>
struct Present<> {};
template <typename H, typename... T>
struct Present<H, T...> {
  H h;
  Present<T...> t;
  NCCL_DEVICE_INLINE constexpr H&& get(IntSeq<0>) const {
    return static_cast<H&&>(const_cast<Present*>(this)->h);
  }
  template <int i>
  NCCL_DEVICE_INLINE constexpr decltype(auto) get(IntSeq<i>) const {
    return t.get(IntSeq<i - 1>());
  }
};

NCCL_DEVICE_INLINE constexpr Present<> present() {
  return Present<>{};
}
template <typename H, typename... T>
NCCL_DEVICE_INLINE constexpr Present<H&&, T&&...> present(H&& h, T&&... t) {
  return Present<H&&, T&&...>{static_cast<H&&>(h), present(static_cast<T&&>(t)...)};
}

struct Absent {};

/* `thing` lives iff `present`. Build it with Absent, or with present(arguments...) in the same full expression: the
 * arguments are references. Not copyable. */
template <typename T>
struct Optional {
  bool present;
  union {
    T thing;
  };

  NCCL_DEVICE_INLINE constexpr Optional() : present(false) {}
  NCCL_DEVICE_INLINE constexpr Optional(Absent) : present(false) {}
  template <typename... Arg>
  NCCL_DEVICE_INLINE constexpr Optional(Present<Arg...> const& args)
      : Optional(args, typename IntSeqUpTo<int(sizeof...(Arg)), 0>::Type()) {}
  template <typename... Arg, int... i>
  NCCL_DEVICE_INLINE constexpr Optional(Present<Arg...> const& args, IntSeq<i...>)
      : present(true), thing{args.get(IntSeq<i>())...} {
    (void)args;
  }
  Optional(Optional const&) = delete;
  Optional& operator=(Optional const&) = delete;
  NCCL_DEVICE_INLINE ~Optional() {
    if (present) thing.~T();
  }
};

}  // namespace utility
}  // namespace nccl

#endif
#endif
