/* T042 to T045, T047, T048: ncclSymPtr on the host. */
#include <nccl.h>
#include <nccl_device.h>

#include <type_traits>
#include <utility>

#include "check.h"

template <typename P, typename N, typename = void>
struct CanStep : std::false_type {};
template <typename P, typename N>
struct CanStep<P, N, decltype(void(std::declval<P&>() += std::declval<N>()))> : std::true_type {};
template <typename P, typename Q, typename = void>
struct CanCompare : std::false_type {};
template <typename P, typename Q>
struct CanCompare<P, Q, decltype(void(std::declval<P>() == std::declval<Q>()))> : std::true_type {};

struct alignas(16) V16 {
  float x[4];
};
static_assert(std::is_same<ncclSymPtr<V16>::ElementType, V16>::value, "ElementType");
static_assert(CanStep<ncclSymPtr<float>, int>::value && !CanStep<ncclSymPtr<float>, float>::value, "T043");
static_assert(CanCompare<ncclSymPtr<float>, ncclSymPtr<float>>::value, "T044");
static_assert(!CanCompare<ncclSymPtr<float>, ncclSymPtr<int>>::value, "T048");
constexpr ncclSymPtr<int> z;

static size_t offsetOf(ncclSymPtr<char> p) {
  return p.offset;
}
template <typename N>
static void step(N n) {
  ncclWindow_t w = reinterpret_cast<ncclWindow_t>(0x1000);
  ncclSymPtr<float> p(w, 4096);
  p += n;
  CHECK(p.offset == 4096 + size_t(n) * 4);
  p -= n;
  p -= n;
  CHECK(p.offset == 4096 - size_t(n) * 4 && p.window == w);
}

int main() {
  ncclWindow_t w = reinterpret_cast<ncclWindow_t>(0x1000);
  ncclSymPtr<float> a, b(w), c(w, 8), d{w, 16};
  ncclSymPtr<float> e = nullptr;
  CHECK(a.window == nullptr && a.offset == 0 && b.offset == 0 && c.offset == 8 && d.offset == 16 && e == a && z.offset == 0);
  CHECK(offsetOf(w) == 0);

  step(3), step(3u), step(3l), step(3ul), step(3ll), step(3ull), step(short(3)), step(char(3)), step(size_t(3)),
      step(ptrdiff_t(3)), step(-3), step(-3l), step(-3ll);
  CHECK((c + 1).offset == 12 && (c - 1u).offset == 4 && (c + size_t(2)).offset == 16 && (c + -1).offset == 4);
  ptrdiff_t n = d - c;
  CHECK(n == 2 && c - d == -2 && c == c && c != d && c != ncclSymPtr<float>(nullptr, 8));

  ncclSymPtr<char> chars = c;
  ncclSymPtr<float const> constant = c;
  ncclSymPtr<V16> wide = chars;
  ncclSymPtr<void> nothing = c;
  CHECK(chars.offset == 8 && constant.offset == 8 && wide.offset == 8 && nothing.offset == 8);
  CHECK((wide + 1).offset == 24 && ((ncclSymPtr<char>)d + 1).offset == 17);
  return failures;
}
