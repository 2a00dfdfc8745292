/* Narrow binary floating-point formats to and from double, with one rounding. Every conversion of cuda_fp16.h,
 * cuda_bf16.h and cuda_fp{8,6,4}.h goes through here (abi-tests/cpu-kernels/fp_*.cu checks all codes another way). */
#ifndef GINRS_CPU_CODEC_H_
#define GINRS_CPU_CODEC_H_
#include <stdint.h>

namespace ginrs_cpu {
enum class Round { Nearest, Zero, Up, Down };

/* A format: sign, exponent and mantissa bits. kMax is the code of its largest finite value; kNan the code that
 * conversions produce for NaN; kInf the code of infinity, or 0 if it has none.
 * The formats of fewer than 8 bits have neither: their kNan, the largest, is what NVIDIA's conversions make of a NaN. */
struct Fp16 { static constexpr int kExponent = 5, kMantissa = 10; static constexpr uint32_t kMax = 0x7bff, kInf = 0x7c00, kNan = 0x7fff; };
struct Bf16 { static constexpr int kExponent = 8, kMantissa = 7; static constexpr uint32_t kMax = 0x7f7f, kInf = 0x7f80, kNan = 0x7fff; };
struct Fp32 { static constexpr int kExponent = 8, kMantissa = 23; static constexpr uint32_t kMax = 0x7f7fffff, kInf = 0x7f800000, kNan = 0x7fffffff; };
struct E4m3 { static constexpr int kExponent = 4, kMantissa = 3; static constexpr uint32_t kMax = 0x7e, kInf = 0, kNan = 0x7f; };
struct E5m2 { static constexpr int kExponent = 5, kMantissa = 2; static constexpr uint32_t kMax = 0x7b, kInf = 0x7c, kNan = 0x7f; };
struct E2m3 { static constexpr int kExponent = 2, kMantissa = 3; static constexpr uint32_t kMax = 0x1f, kInf = 0, kNan = 0x1f; };
struct E3m2 { static constexpr int kExponent = 3, kMantissa = 2; static constexpr uint32_t kMax = 0x1f, kInf = 0, kNan = 0x1f; };
struct E2m1 { static constexpr int kExponent = 2, kMantissa = 1; static constexpr uint32_t kMax = 0x7, kInf = 0, kNan = 0x7; };

/* The code of x in format F. What is too large becomes infinity, NaN where F has no infinity, or the largest finite
 * value if `saturate` (then infinity does too). */
template <class F>
inline uint32_t encode(double x, Round round = Round::Nearest, bool saturate = false) {
  constexpr int kBias = (1 << (F::kExponent - 1)) - 1;
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const bool negative = bits >> 63;
  const uint32_t sign = (uint32_t)negative << (F::kExponent + F::kMantissa);
  const uint64_t magnitude = bits & ~(1ull << 63);
  const uint32_t beyond = saturate ? F::kMax : F::kInf ? F::kInf : F::kNan;
  if (magnitude > 0x7ffull << 52) return F::kNan;
  if (magnitude == 0x7ffull << 52) return sign | beyond;
  if (magnitude == 0) return sign;

  int exponent = (int)(magnitude >> 52) - 1023 + kBias;
  uint64_t mantissa = (magnitude & ((1ull << 52) - 1)) | (magnitude >> 52 ? 1ull << 52 : 0);
  int drop = 52 - F::kMantissa;
  uint32_t base = 0;
  if (exponent > 0) {
    base = (uint32_t)(exponent - 1) << F::kMantissa; /* the mantissa's leading 1 adds the last one */
  } else {
    drop += 1 - exponent;
    if (drop > 62) drop = 62; /* less than half of the smallest: only that it is not 0 matters */
  }
  uint64_t kept = mantissa >> drop, rest = mantissa & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  bool up = false;
  switch (round) {
    case Round::Nearest: up = rest > half || (rest == half && (kept & 1)); break;
    case Round::Zero: break;
    case Round::Up: up = rest != 0 && !negative; break;
    case Round::Down: up = rest != 0 && negative; break;
  }
  /* Wide: the exponent of a double overflows the code of a narrow format many times over. */
  uint64_t code = (uint64_t)base + kept + up;
  if (exponent > (1 << F::kExponent) || code > F::kMax) {
    bool towardsZero = round == Round::Zero || (round == Round::Up && negative) || (round == Round::Down && !negative);
    return sign | (towardsZero ? F::kMax : beyond);
  }
  return sign | (uint32_t)code;
}

/* The value of a code in format F. Exact. */
template <class F>
inline float decode(uint32_t code) {
  constexpr int kBias = (1 << (F::kExponent - 1)) - 1;
  const uint32_t magnitude = code & ((1u << (F::kExponent + F::kMantissa)) - 1);
  const uint32_t sign = (code >> (F::kExponent + F::kMantissa) & 1) << 31;
  uint32_t bits;
  float value;
  if (magnitude > F::kMax) {
    bits = sign | (magnitude == F::kInf ? 0x7f800000u : 0x7fc00000u | (magnitude << (23 - F::kMantissa) & 0x7fffffu));
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  /* As the bits of a float the magnitude is the value times 2^(kBias - 127), subnormals included. */
  bits = magnitude << (23 - F::kMantissa);
  __builtin_memcpy(&value, &bits, sizeof value);
  if (kBias != 127) {
    const uint32_t scale = (uint32_t)(254 - kBias) << 23;
    float factor;
    __builtin_memcpy(&factor, &scale, sizeof factor);
    value *= factor;
  }
  return sign ? -value : value;
}

/* a*b+c of narrow operands, rounded to odd in double: encode() then rounds it to F once. */
inline double fma_to_odd(double a, double b, double c) {
  double product = a * b; /* exact: at most 22 bits */
  double sum = product + c;
  if (!(sum - sum == 0)) return sum;
  double virtualC = sum - product;
  double error = (product - (sum - virtualC)) + (c - virtualC);
  if (error == 0) return sum;
  uint64_t bits;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  if (bits & 1) return sum;
  /* An even sum that is not exact lies one step from an odd one, on the side of the error. */
  bits += (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
  __builtin_memcpy(&sum, &bits, sizeof sum);
  return sum;
}
}  // namespace ginrs_cpu
#endif
