/* A floating-point type of 8 bits or fewer and its vectors. No include guard: cuda_fp8.h, cuda_fp6.h and cuda_fp4.h include
 * this once per format, with GINRS_X and GINRS_E (the beginning and the end of its name, `fp8` and `_e4m3`), GINRS_LANE (bits from one
 * lane to the next) and GINRS_F (the codec's format) defined, and undefines the last and GINRS_E. Conversions to it saturate. */
#define GINRS_T GINRS_N(__nv_, GINRS_X, GINRS_E)
#define GINRS_T2 GINRS_N(__nv_, GINRS_X, GINRS_N(x2, GINRS_E, ))
#define GINRS_T4 GINRS_N(__nv_, GINRS_X, GINRS_N(x4, GINRS_E, ))
struct GINRS_T {
  GINRS_N(__nv_, GINRS_X, _storage_t) __x;
  GINRS_T() = default;
  explicit GINRS_T(double v) : __x(ginrs_cpu::narrow<ginrs_cpu::GINRS_F>(v)) {}
  explicit GINRS_T(float v) : GINRS_T((double)v) {}
  explicit GINRS_T(__half v) : GINRS_T((double)(float)v) {}
  explicit GINRS_T(__nv_bfloat16 v) : GINRS_T((double)(float)v) {}
  explicit GINRS_T(short v) : GINRS_T((double)v) {}
  explicit GINRS_T(unsigned short v) : GINRS_T((double)v) {}
  explicit GINRS_T(int v) : GINRS_T((double)v) {}
  explicit GINRS_T(unsigned int v) : GINRS_T((double)v) {}
  explicit GINRS_T(long v) : GINRS_T(ginrs_cpu::to_odd((long long)v)) {}
  explicit GINRS_T(unsigned long v) : GINRS_T(ginrs_cpu::to_odd((unsigned long long)v)) {}
  explicit GINRS_T(long long v) : GINRS_T(ginrs_cpu::to_odd(v)) {}
  explicit GINRS_T(unsigned long long v) : GINRS_T(ginrs_cpu::to_odd(v)) {}
  explicit operator float() const { return ginrs_cpu::decode<ginrs_cpu::GINRS_F>(__x); }
  explicit operator double() const { return (float)*this; }
  explicit operator __half() const { return __half((float)*this); }
  explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }
  explicit operator signed char() const { return ginrs_cpu::convert<signed char>((float)*this); }
  explicit operator unsigned char() const { return ginrs_cpu::convert<unsigned char>((float)*this); }
  explicit operator char() const { return ginrs_cpu::convert<char>((float)*this); }
  explicit operator short() const { return ginrs_cpu::convert<short>((float)*this); }
  explicit operator unsigned short() const { return ginrs_cpu::convert<unsigned short>((float)*this); }
  explicit operator int() const { return ginrs_cpu::convert<int>((float)*this); }
  explicit operator unsigned int() const { return ginrs_cpu::convert<unsigned int>((float)*this); }
  explicit operator long() const { return ginrs_cpu::convert<long>((float)*this); }
  explicit operator unsigned long() const { return ginrs_cpu::convert<unsigned long>((float)*this); }
  explicit operator long long() const { return ginrs_cpu::convert<long long>((float)*this); }
  explicit operator unsigned long long() const { return ginrs_cpu::convert<unsigned long long>((float)*this); }
  explicit operator bool() const { return (float)*this != 0; }
};

/* Two, the first in the low bits. */
struct __align__(sizeof(GINRS_N(__nv_, GINRS_X, x2_storage_t))) GINRS_T2 {
  GINRS_N(__nv_, GINRS_X, x2_storage_t) __x;
  GINRS_T2() = default;
  explicit GINRS_T2(double2 v) : __x((decltype(__x))(GINRS_T(v.x).__x | GINRS_T(v.y).__x << GINRS_LANE)) {}
  explicit GINRS_T2(float2 v) : GINRS_T2(make_double2(v.x, v.y)) {}
  explicit GINRS_T2(__half2 v) : GINRS_T2(__half22float2(v)) {}
  explicit GINRS_T2(__nv_bfloat162 v) : GINRS_T2(__bfloat1622float2(v)) {}
  explicit operator float2() const {
    return make_float2(ginrs_cpu::decode<ginrs_cpu::GINRS_F>(__x), ginrs_cpu::decode<ginrs_cpu::GINRS_F>(__x >> GINRS_LANE));
  }
  explicit operator __half2() const { return __float22half2_rn((float2)*this); }
  explicit operator __nv_bfloat162() const { return __float22bfloat162_rn((float2)*this); }
};

/* Four, the first in the lowest bits. */
struct __align__(sizeof(GINRS_N(__nv_, GINRS_X, x4_storage_t))) GINRS_T4 {
  GINRS_N(__nv_, GINRS_X, x4_storage_t) __x;
  GINRS_T4() = default;
  explicit GINRS_T4(float2 low, float2 high) : GINRS_T4(GINRS_T2(low), GINRS_T2(high)) {}
  explicit GINRS_T4(float4 v) : GINRS_T4(make_float2(v.x, v.y), make_float2(v.z, v.w)) {}
  explicit GINRS_T4(double4_16a v) : GINRS_T4(GINRS_T2(make_double2(v.x, v.y)), GINRS_T2(make_double2(v.z, v.w))) {}
  explicit GINRS_T4(double4_32a v) : GINRS_T4(GINRS_T2(make_double2(v.x, v.y)), GINRS_T2(make_double2(v.z, v.w))) {}
  explicit GINRS_T4(double4 v) : GINRS_T4(GINRS_T2(make_double2(v.x, v.y)), GINRS_T2(make_double2(v.z, v.w))) {}
  explicit GINRS_T4(__half2 low, __half2 high) : GINRS_T4(__half22float2(low), __half22float2(high)) {}
  explicit GINRS_T4(__nv_bfloat162 low, __nv_bfloat162 high) : GINRS_T4(__bfloat1622float2(low), __bfloat1622float2(high)) {}
  explicit operator float4() const {
    GINRS_T2 low, high;
    low.__x = (decltype(low.__x))__x;
    high.__x = (decltype(high.__x))(__x >> 2 * GINRS_LANE);
    float2 a = (float2)low, b = (float2)high;
    return make_float4(a.x, a.y, b.x, b.y);
  }

 private:
  GINRS_T4(GINRS_T2 low, GINRS_T2 high) : __x((decltype(__x))((unsigned)low.__x | (unsigned)high.__x << 2 * GINRS_LANE)) {}
};
#undef GINRS_T
#undef GINRS_T2
#undef GINRS_T4
#undef GINRS_F
#undef GINRS_E
