// A second, slow and plain account of the narrow formats, from their definition: all values in order, and the nearest of
// them by bisection. The headers' bit tricks are compared with it.
#pragma once
#include <cmath>

struct Format {
  int exponentBits, mantissaBits;
  bool infinity;   // the top exponent is infinity and NaN; otherwise only its last code is NaN
  bool finite;     // and if this, not even that
  __host__ __device__ int bias() const { return (1 << (exponentBits - 1)) - 1; }
  __host__ __device__ int codes() const { return 1 << (exponentBits + mantissaBits); } // without the sign
  __host__ __device__ int largest() const { return infinity ? codes() - (1 << mantissaBits) - 1 : codes() - (finite ? 1 : 2); }
  // Of a finite positive code, or what would follow the largest.
  __host__ __device__ double value(int code) const {
    int exponent = code >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
    if (exponent == 0) return ldexp((double)mantissa, 1 - bias() - mantissaBits);
    return ldexp(1.0 + ldexp((double)mantissa, -mantissaBits), exponent - bias());
  }
  // Largest code whose value is at most x, for finite x >= 0; largest() + 1 at most.
  __host__ __device__ int below(double x) const {
    int low = 0, high = largest() + 2;
    while (high - low > 1) {
      int middle = (low + high) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    return low;
  }
  enum Direction { nearest, zero, up, down };
  // Code of x with its sign. Beyond the largest: overflow, largest, or what the direction says.
  __host__ __device__ int encode(double x, Direction direction, int overflow) const {
    bool negative = signbit(x);
    double magnitude = fabs(x);
    int code = below(magnitude);
    bool away = direction == up ? !negative : direction == down ? negative : false;
    if (code <= largest() && value(code) != magnitude) {
      double middle = value(code) / 2 + value(code + 1) / 2;
      if (direction == nearest) away = magnitude > middle || (magnitude == middle && code % 2);
      code += away;
    }
    if (code > largest()) code = direction == nearest || away ? overflow : largest();
    return code | (negative ? codes() : 0);
  }
};
__host__ __device__ inline Format half_format() { return {5, 10, true, false}; }
__host__ __device__ inline Format bfloat_format() { return {8, 7, true, false}; }
__host__ __device__ inline Format e4m3_format() { return {4, 3, false, false}; }
__host__ __device__ inline Format e5m2_format() { return {5, 2, true, false}; }
__host__ __device__ inline Format e2m3_format() { return {2, 3, false, true}; }
__host__ __device__ inline Format e3m2_format() { return {3, 2, false, true}; }
__host__ __device__ inline Format e2m1_format() { return {2, 1, false, true}; }
