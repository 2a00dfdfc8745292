// Inputs of collectives, and what they come to: chosen so that every partial result, in any order of the ranks, is exact in the
// element type, also where each step rounds to 2 bits of fraction. A check then needs no tolerance; only averages over a number
// of ranks that is no power of two have one.
//
// Nothing here uses CUDA's types: the formats are taken apart by hand, so the check has its own opinion of them.
#pragma once
#include <math.h>
#include <nccl.h>
#include <stdint.h>

// The numbers of ncclRedOp_t, and behind them pre-mul-sum and "bytes as they are", for what only moves data.
enum Op { kSum, kProd, kMax, kMin, kAvg, kPreMul, kMove };
static const int kTypes = 12, kOps = 6;

struct TypeFacts {
  const char* name;
  int bytes;
  int exponent, fraction;  // bits; 0 for integers
  bool isSigned;
};

__host__ __device__ inline TypeFacts typeFacts(int type) {
  switch (type) {
    case ncclInt8: return {"int8", 1, 0, 0, true};
    case ncclUint8: return {"uint8", 1, 0, 0, false};
    case ncclInt32: return {"int32", 4, 0, 0, true};
    case ncclUint32: return {"uint32", 4, 0, 0, false};
    case ncclInt64: return {"int64", 8, 0, 0, true};
    case ncclUint64: return {"uint64", 8, 0, 0, false};
    case ncclFloat16: return {"float16", 2, 5, 10, true};
    case ncclFloat32: return {"float32", 4, 8, 23, true};
    case ncclFloat64: return {"float64", 8, 11, 52, true};
    case ncclBfloat16: return {"bfloat16", 2, 8, 7, true};
    case ncclFloat8e4m3: return {"float8e4m3", 1, 4, 3, true};
    default: return {"float8e5m2", 1, 5, 2, true};
  }
}

static inline const char* opName(int op) {
  static const char* const names[] = {"sum", "prod", "max", "min", "avg", "premulsum", "none"};
  return names[op];
}

// One number that depends on all bits of x.
__host__ __device__ inline uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

// A float of any of the formats. Of what these tests use all is normal or zero.
__host__ __device__ inline double decode(TypeFacts t, uint64_t bits) {
  int top = (1 << t.exponent) - 1, bias = top >> 1;
  int exponent = (int)(bits >> t.fraction) & top;
  uint64_t fraction = bits & ((1ull << t.fraction) - 1);
  double sign = (bits >> (t.exponent + t.fraction)) & 1 ? -1.0 : 1.0;
  // e4m3 has no infinity: only all ones is no number.
  if (exponent == top && (t.exponent != 4 || fraction == 7)) return NAN;
  if (exponent == 0) return sign * ldexp((double)fraction, 1 - bias - t.fraction);
  return sign * ldexp((double)(fraction | 1ull << t.fraction), exponent - bias - t.fraction);
}

// The bits of a number that the format has exactly.
__host__ __device__ inline uint64_t encode(TypeFacts t, double value) {
  uint64_t sign = value < 0 ? 1ull << (t.exponent + t.fraction) : 0;
  if (value == 0) return 0;
  int bias = ((1 << t.exponent) - 1) >> 1, exponent;
  double half = frexp(fabs(value), &exponent);  // in [0.5, 1)
  uint64_t digits = (uint64_t)ldexp(half, t.fraction + 1);
  return sign | (uint64_t)(exponent - 1 + bias) << t.fraction | (digits & ((1ull << t.fraction) - 1));
}

// What identifies one set of inputs.
struct Values {
  int type, op, nRanks;
  unsigned seed;
};

// Rank r multiplies by this before the sum: NCCL lets each rank have a factor of its own.
__host__ __device__ inline int64_t factor(TypeFacts t, int rank) { return t.exponent ? 2 - (rank & 1) : 3 + rank; }

__host__ __device__ inline uint64_t lowBytes(uint64_t bits, int bytes) { return bytes == 8 ? bits : bits & ((1ull << 8 * bytes) - 1); }

__host__ __device__ inline int64_t signExtended(uint64_t bits, int bytes) { return (int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes); }

// An integer in [-limit, limit], by hash.
__host__ __device__ inline int64_t within(uint64_t hash, int64_t limit) { return (int64_t)((hash >> 8) % (uint64_t)(2 * limit + 1)) - limit; }

// The input element of a rank.
__host__ __device__ inline uint64_t inputBits(const Values& v, int rank, uint64_t index) {
  TypeFacts t = typeFacts(v.type);
  uint64_t hash = mix(index + mix(((uint64_t)v.seed << 16) + rank + 1));
  if (v.op == kMove) return lowBytes(hash, t.bytes);  // NaNs and all
  if (t.exponent == 0) {
    if (v.op != kAvg) return lowBytes(hash, t.bytes);  // sums wrap
    uint64_t limit = (lowBytes(~0ull, t.bytes) >> (t.isSigned ? 1 : 0)) / v.nRanks;  // the sum does not wrap: it is divided
    if (limit > 1u << 30) limit = 1u << 30;
    return lowBytes(t.isSigned ? (uint64_t)within(hash, limit) : hash % (limit + 1), t.bytes);
  }
  int64_t exact = t.fraction > 20 ? 1 << 20 : 2 << t.fraction;  // all integers up to here
  if (v.op == kProd) return encode(t, (rank < 6 && hash & 256 ? 2.0 : 1.0) * (hash & 512 ? -1.0 : 1.0));
  if (v.op == kMax || v.op == kMin) return encode(t, (double)within(hash, exact));
  if (v.op == kPreMul) exact /= 2;  // the largest factor
  int64_t limit = exact / v.nRanks;
  if (limit == 0) limit = rank < exact ? 1 : 0;
  return encode(t, (double)within(hash, limit));
}

// A result: the bits of an exact one, and how far a rounded one may be from `number`.
struct Wanted {
  uint64_t bits;
  double number, tolerance;
};

__host__ __device__ inline Wanted reducedInteger(const Values& v, TypeFacts t, uint64_t index) {
  uint64_t sum = 0;
  for (int rank = 0; rank < v.nRanks; rank++) {
    uint64_t bits = inputBits(v, rank, index);
    int64_t here = t.isSigned ? signExtended(bits, t.bytes) : (int64_t)bits, had = (int64_t)sum;
    bool less = t.isSigned ? here < had : (uint64_t)here < sum;
    if (rank == 0) {
      sum = v.op == kPreMul ? (uint64_t)here * (uint64_t)factor(t, 0) : (uint64_t)here;
    } else if (v.op == kProd) {
      sum = sum * (uint64_t)here;
    } else if (v.op == kMax || v.op == kMin) {
      sum = less == (v.op == kMin) ? (uint64_t)here : sum;
    } else {
      sum += (uint64_t)here * (v.op == kPreMul ? (uint64_t)factor(t, rank) : 1);
    }
  }
  if (v.op == kAvg) sum = t.isSigned ? (uint64_t)((int64_t)sum / v.nRanks) : sum / v.nRanks;
  return {lowBytes(sum, t.bytes), 0, 0};
}

__host__ __device__ inline Wanted reducedFloat(const Values& v, TypeFacts t, uint64_t index) {
  double sum = 0, magnitude = 0;
  for (int rank = 0; rank < v.nRanks; rank++) {
    double here = decode(t, inputBits(v, rank, index));
    if (v.op == kPreMul) here *= (double)factor(t, rank);
    magnitude += fabs(here);
    if (rank == 0) {
      sum = here;
    } else if (v.op == kProd) {
      sum *= here;
    } else if (v.op == kMax || v.op == kMin) {
      sum = (here < sum) == (v.op == kMin) ? here : sum;
    } else {
      sum += here;
    }
  }
  if (v.op != kAvg) return {encode(t, sum), sum, 0};
  sum /= v.nRanks;
  // 1/n is rounded, and so is what is multiplied by it, and each of the sums of those.
  bool rounds = v.nRanks & (v.nRanks - 1);
  return {rounds ? 0 : encode(t, sum), sum, rounds ? 2 * magnitude / v.nRanks * ldexp(1.0, -t.fraction) : 0};
}

__host__ __device__ inline Wanted reduced(const Values& v, uint64_t index) {
  TypeFacts t = typeFacts(v.type);
  return t.exponent ? reducedFloat(v, t, index) : reducedInteger(v, t, index);
}

// -0 and 0 are equal where numbers are compared.
__host__ __device__ inline bool isRight(const Values& v, uint64_t got, const Wanted& wanted) {
  TypeFacts t = typeFacts(v.type);
  if (v.op == kMove || t.exponent == 0) return got == wanted.bits;
  return fabs(decode(t, got) - wanted.number) <= wanted.tolerance;  // false for a NaN
}
