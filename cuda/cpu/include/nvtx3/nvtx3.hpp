/* NVTX's C++ interface: the annotations for a profiler that is not there. What programs construct from is taken as it comes. */
#ifndef GINRS_CPU_NVTX3_HPP_
#define GINRS_CPU_NVTX3_HPP_
#include <cstddef>
#include <cstdint>
#include "nvToolsExt.h"

namespace nvtx3 {
inline namespace v1 {
class domain {
 public:
  struct global {};
  template <class D = global>
  static const domain& get() {
    static const domain only;
    return only;
  }
};
struct rgb {
  uint8_t red, green, blue;
  constexpr rgb(uint8_t r, uint8_t g, uint8_t b) noexcept : red(r), green(g), blue(b) {}
};
struct argb {
  uint8_t alpha, red, green, blue;
  constexpr argb(uint8_t a, uint8_t r, uint8_t g, uint8_t b) noexcept : alpha(a), red(r), green(g), blue(b) {}
};
/* Values of which nothing is kept. */
#define GINRS_NVTX_VALUE(name)                            \
  struct name {                                           \
    template <class... Values>                            \
    constexpr explicit name(const Values&...) noexcept {} \
  };
GINRS_NVTX_VALUE(color)
GINRS_NVTX_VALUE(category)
GINRS_NVTX_VALUE(payload)
#undef GINRS_NVTX_VALUE
struct message {
  template <class Text>
  constexpr message(const Text&) noexcept {}
};
template <class D = domain::global>
struct named_category_in : category {
  template <class... Values>
  constexpr explicit named_category_in(const Values&... values) noexcept : category(values...) {}
  template <class C>
  static const named_category_in& get() {
    static const named_category_in only(0u, "");
    return only;
  }
};
using named_category = named_category_in<>;
template <class D = domain::global>
struct registered_string_in {
  template <class Text>
  explicit registered_string_in(const Text&) noexcept {}
  template <class M>
  static const registered_string_in& get() {
    static const registered_string_in only("");
    return only;
  }
};
using registered_string = registered_string_in<>;
struct event_attributes {
  template <class... Values>
  constexpr event_attributes(const Values&...) noexcept {}
};
struct range_handle {
  uint64_t value;
  constexpr explicit range_handle(uint64_t v = 0) noexcept : value(v) {}
  constexpr explicit operator bool() const noexcept { return value != 0; }
};
template <class D = domain::global>
class scoped_range_in {
 public:
  template <class... Values>
  explicit scoped_range_in(const Values&...) noexcept {}
  scoped_range_in(const scoped_range_in&) = delete;
  scoped_range_in& operator=(const scoped_range_in&) = delete;
  ~scoped_range_in() noexcept {}
};
using scoped_range = scoped_range_in<>;
template <class D = domain::global>
class unique_range_in {
 public:
  template <class... Values>
  explicit unique_range_in(const Values&...) noexcept {}
  unique_range_in(unique_range_in&&) noexcept = default;
  unique_range_in& operator=(unique_range_in&&) noexcept = default;
  ~unique_range_in() noexcept {}
};
using unique_range = unique_range_in<>;
template <class D = domain::global, class... Values>
inline void mark_in(const Values&...) noexcept {}
template <class... Values>
inline void mark(const Values&...) noexcept {}
template <class D = domain::global, class... Values>
inline range_handle start_range_in(const Values&...) noexcept { return range_handle(1); }
template <class... Values>
inline range_handle start_range(const Values&...) noexcept { return range_handle(1); }
template <class D = domain::global>
inline void end_range_in(range_handle) noexcept {}
inline void end_range(range_handle) noexcept {}
}  // namespace v1
}  // namespace nvtx3
#define NVTX3_V1_FUNC_RANGE_IN(D) ::nvtx3::v1::scoped_range_in<D> const nvtx3_range__(__func__)
#define NVTX3_V1_FUNC_RANGE() NVTX3_V1_FUNC_RANGE_IN(::nvtx3::v1::domain::global)
#define NVTX3_FUNC_RANGE_IN(D) NVTX3_V1_FUNC_RANGE_IN(D)
#define NVTX3_FUNC_RANGE() NVTX3_V1_FUNC_RANGE()
#define NVTX3_FUNC_RANGE_IF(condition) NVTX3_FUNC_RANGE()
#define NVTX3_FUNC_RANGE_IF_IN(D, condition) NVTX3_FUNC_RANGE_IN(D)
#endif
