/* T110, T112: nccl::utility against plain arithmetic. */
#include <nccl.h>
#include <nccl_device.h>

#include <initializer_list>
#include <random>
#include <type_traits>

#include "check.h"
using namespace nccl::utility;

static void rounding() {
  for (int x = 0; x < 300; x++) {
    for (int y = 1; y < 40; y++) {
      int up = (x + y - 1) / y;
      CHECK(divUp(x, y) == up && roundUp(x, y) == up * y && roundDown(x, y) == x / y * y);
    }
    for (int y = 1; y <= 64; y *= 2) CHECK(alignUp(x, y) == (x + y - 1) / y * y && alignDown(x, y) == x / y * y);
    CHECK(isPow2(x) == (__builtin_popcount(unsigned(x)) <= 1));
  }
  CHECK(alignUp(size_t(0x100000001), 16) == size_t(0x100000010));
  CHECK(alignDown(size_t(0x10000001f), 16) == size_t(0x100000010));
  static_assert(divUp(7, 4) == 2, "constexpr");
  static_assert(std::is_same<decltype(divUp(1, size_t(1))), size_t>::value, "the wider type");
  char buffer[64];
  char* aligned = alignUp(&buffer[1], size_t(16));
  CHECK(reinterpret_cast<uintptr_t>(aligned) % 16 == 0 && aligned >= buffer + 1 && aligned < buffer + 17);
  CHECK(alignDown(aligned + 5, size_t(16)) == aligned);
  void const* at = &buffer[1];
  CHECK(alignUp<int>(at, size_t(16)) == aligned && alignDown<int>((void const*)(aligned + 5), size_t(16)) == aligned);
  float* p = reinterpret_cast<float*>(0x1000);
  CHECK(reinterpret_cast<uintptr_t>(add4G(p, 3)) == 0x300001000ull);
  CHECK(reinterpret_cast<uintptr_t>(add4G(add4G(p, 3), -2)) == 0x100001000ull);
  CHECK(add4G(uint64_t(5), 0x7fffffff) == 0x7fffffff00000005ull);
}

template <typename Uint>
static void rollingOf(int nBits, std::mt19937_64& random) {
  unsigned __int128 turn = (unsigned __int128)1 << nBits;
  for (int i = 0; i < 20000; i++) {
    Uint a = Uint(random()), b = i % 3 == 0 ? Uint(a + i % 7 - 3) : Uint(random());
    unsigned __int128 distance = ((unsigned __int128)b + turn * 2 - (unsigned __int128)a % turn) % turn;
    CHECK(rollingLessEq(a, b, nBits) == (distance <= (turn - 1) / 2));
    CHECK(rollingLessThan(a, b, nBits) == !rollingLessEq(b, a, nBits));
  }
}

static void division(std::mt19937_64& random) {
  for (int i = 0; i < 200000; i++) {
    uint32_t y = uint32_t(random() >> (32 + random() % 32)), x = uint32_t(random() >> (random() % 32));
    if (y == 0) y = 1;
    if (i % 5 == 0) y = 1u << (random() % 32);
    if (i % 7 == 0) x = y * uint32_t(random() % 9) - uint32_t(random() % 2);
    uint32_t rcp = idivRcp32(y);
    CHECK(idivFast32(x, y, rcp) == x / y && imodFast32(x, y, rcp) == x % y);
    uint32_t quotient32, rest32;
    idivmodFast32(&quotient32, &rest32, x, y, rcp);
    CHECK(quotient32 == x / y && rest32 == x % y);
    CHECK(mul32hi(x, y) == uint32_t((uint64_t(x) * y) >> 32));
    uint32_t a = y % 0xffff + 1, b = x % 0xffff + 1;
    CHECK(imulRcp32(a, idivRcp32(a), b, idivRcp32(b)) == idivRcp32(a * b));
#ifdef OURS
    uint64_t y64 = random() >> (random() % 64), x64 = random() >> (random() % 8);
    if (y64 == 0) y64 = 1;
    if (i % 5 == 0) y64 = uint64_t(1) << (random() % 64);
    uint64_t rcp64 = idivRcp64(y64), quotient, rest;
    idivmodFast64(&quotient, &rest, x64, y64, rcp64);
    CHECK(quotient == x64 / y64 && rest == x64 % y64);
    static_assert(sizeof(idivFast64(0, 1, 0)) == 8 && sizeof(imodFast64(0, 1, 0)) == 8, "64-bit results");
    uint64_t a64 = y64 % 0xffffffff + 1, b64 = x64 % 0xffffffff + 1;
    CHECK(imulRcp64(a64, idivRcp64(a64), b64, idivRcp64(b64)) == idivRcp64(a64 * b64));
#endif
  }
}

#ifdef OURS /* as host C++ the reference's Optional does not compile; device.cu has it for both */
static int alive = 0;
struct Pinned {
  int a;
  int& b;
  Pinned(int a, int& b) : a(a), b(b) { alive += 1; }
  Pinned(Pinned const&) = delete;
  ~Pinned() { alive -= 1; }
};

static void optional() {
  int x = 1, y = 2;
  {
    Optional<Pinned> none, absent{Absent()};
    Optional<Pinned> some(present(x, y));
    CHECK(!none.present && !absent.present && some.present && alive == 1);
    CHECK(some.thing.a == 1 && &some.thing.b == &y);
    Optional<Pinned> fromRvalue(present(3, y));
    CHECK(fromRvalue.thing.a == 3 && alive == 2);
  }
  CHECK(alive == 0);
}
#else
static void optional() {}
#endif

static void types() {
  static_assert(std::is_same<IntSeqUpTo<3, 0>::Type, IntSeq<0, 1, 2>>::value, "IntSeqUpTo");
  static_assert(ValueAsType<int, 7>::value == 7, "ValueAsType");
  static_assert(std::is_empty<Present<>>::value, "Present");
}

int main() {
  std::mt19937_64 random(1);
  rounding();
  for (int bits : {1, 7, 8}) rollingOf<uint8_t>(bits, random);
  for (int bits : {8, 31, 32}) rollingOf<uint32_t>(bits, random);
  for (int bits : {8, 32, 56, 63, 64}) rollingOf<uint64_t>(bits, random);
  division(random);
  optional();
  types();
  return failures;
}
