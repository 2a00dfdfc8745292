/* A 16-bit floating-point type and its pair. No include guard: cuda_fp16.h and cuda_bf16.h include this, halves_convert.inc.h and
 * halves_math.inc.h, which undefines all names, once each, with GINRS_T (the type), GINRS_X (what CUDA calls it inside the names of
 * functions) and GINRS_F (the codec's format) defined. GINRS_N glues three parts. */
#define GINRS_T2 GINRS_N(GINRS_T, 2, )
#define GINRS_X2 GINRS_N(GINRS_X, 2, )
#define GINRS_RAW GINRS_N(GINRS_T, _raw, )
#define GINRS_RAW2 GINRS_N(GINRS_T, 2_raw, )
typedef struct __align__(2) { unsigned short x; } GINRS_RAW;
typedef struct __align__(4) { unsigned short x, y; } GINRS_RAW2;

struct __align__(2) GINRS_T {
 protected:
  unsigned short __x;

 public:
  typedef GINRS_T Half16; /* marks both 16-bit types: each converts from the other when asked to */
  GINRS_T() = default;
  template <class H, class = typename H::Half16>
  explicit GINRS_T(const H& other) : GINRS_T((float)other) {}
  constexpr GINRS_T(const GINRS_RAW& raw) : __x(raw.x) {}
  GINRS_T(float v) : GINRS_T((double)v) {}
  GINRS_T(double v) : __x((unsigned short)ginrs_cpu::encode<ginrs_cpu::GINRS_F>(v)) {}
  GINRS_T(short v) : GINRS_T((double)v) {}
  GINRS_T(unsigned short v) : GINRS_T((double)v) {}
  GINRS_T(int v) : GINRS_T((double)v) {}
  GINRS_T(unsigned int v) : GINRS_T((double)v) {}
  GINRS_T(long v) : GINRS_T((long long)v) {}
  GINRS_T(unsigned long v) : GINRS_T((unsigned long long)v) {}
  GINRS_T(long long v) : GINRS_T(ginrs_cpu::to_odd(v)) {}
  GINRS_T(unsigned long long v) : GINRS_T(ginrs_cpu::to_odd(v)) {}
  GINRS_T& operator=(const GINRS_RAW& raw) { __x = raw.x; return *this; }
  volatile GINRS_T& operator=(const GINRS_RAW& raw) volatile { __x = raw.x; return *this; }
  GINRS_T& operator=(float v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(double v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(short v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(unsigned short v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(int v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(unsigned int v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(long long v) { return *this = GINRS_T(v); }
  GINRS_T& operator=(unsigned long long v) { return *this = GINRS_T(v); }
  constexpr operator GINRS_RAW() const { return GINRS_RAW{__x}; }
  operator GINRS_RAW() const volatile { return GINRS_RAW{__x}; }
  operator float() const { return ginrs_cpu::decode<ginrs_cpu::GINRS_F>(__x); }
  /* Towards zero; what does not fit becomes the nearest that does, NaN becomes 0. */
  operator signed char() const { return ginrs_cpu::convert<signed char>((double)(float)*this); }
  operator unsigned char() const { return ginrs_cpu::convert<unsigned char>((double)(float)*this); }
  operator char() const { return ginrs_cpu::convert<char>((double)(float)*this); }
  operator short() const { return ginrs_cpu::convert<short>((double)(float)*this); }
  operator unsigned short() const { return ginrs_cpu::convert<unsigned short>((double)(float)*this); }
  operator int() const { return ginrs_cpu::convert<int>((double)(float)*this); }
  operator unsigned int() const { return ginrs_cpu::convert<unsigned int>((double)(float)*this); }
  operator long() const { return ginrs_cpu::convert<long>((double)(float)*this); }
  operator unsigned long() const { return ginrs_cpu::convert<unsigned long>((double)(float)*this); }
  operator long long() const { return ginrs_cpu::convert<long long>((double)(float)*this); }
  operator unsigned long long() const { return ginrs_cpu::convert<unsigned long long>((double)(float)*this); }
  constexpr operator bool() const { return (__x & 0x7fff) != 0; }
};

struct __align__(4) GINRS_T2 {
  GINRS_T x, y;
  GINRS_T2() = default;
  constexpr GINRS_T2(const GINRS_T& a, const GINRS_T& b) : x(a), y(b) {}
  constexpr GINRS_T2(const GINRS_RAW2& raw) : x(GINRS_RAW{raw.x}), y(GINRS_RAW{raw.y}) {}
  GINRS_T2& operator=(const GINRS_RAW2& raw) { return *this = GINRS_T2(raw); }
  operator GINRS_RAW2() const { return GINRS_RAW2{GINRS_RAW(x).x, GINRS_RAW(y).x}; }
};

namespace ginrs_cpu {
inline float widen(GINRS_T v) { return v; }
/* f on both halves of a pair, or of two, or of three. */
template <class F>
inline GINRS_T2 each(GINRS_T2 a, F f) { return GINRS_T2(f(a.x), f(a.y)); }
template <class F>
inline GINRS_T2 each(GINRS_T2 a, GINRS_T2 b, F f) { return GINRS_T2(f(a.x, b.x), f(a.y, b.y)); }
template <class F>
inline GINRS_T2 each(GINRS_T2 a, GINRS_T2 b, GINRS_T2 c, F f) { return GINRS_T2(f(a.x, b.x, c.x), f(a.y, b.y, c.y)); }
}  // namespace ginrs_cpu

/* float has more than twice the digits of both formats, so a sum, product or quotient in float rounds as if done once. */
#define GINRS_OPERATOR(op)                                                                                      \
  inline GINRS_T operator op(const GINRS_T& a, const GINRS_T& b) { return GINRS_T((float)a op (float)b); }      \
  inline GINRS_T& operator op##=(GINRS_T& a, const GINRS_T& b) { return a = a op b; }                           \
  inline GINRS_T2 operator op(const GINRS_T2& a, const GINRS_T2& b) { return GINRS_T2(a.x op b.x, a.y op b.y); } \
  inline GINRS_T2& operator op##=(GINRS_T2& a, const GINRS_T2& b) { return a = a op b; }
GINRS_OPERATOR(+)
GINRS_OPERATOR(-)
GINRS_OPERATOR(*)
GINRS_OPERATOR(/)
#undef GINRS_OPERATOR
#define GINRS_COMPARE(op)                                                                                    \
  inline bool operator op(const GINRS_T& a, const GINRS_T& b) { return (float)a op (float)b; }               \
  inline bool operator op(const GINRS_T2& a, const GINRS_T2& b) { return a.x op b.x && a.y op b.y; }
GINRS_COMPARE(==)
GINRS_COMPARE(!=)
GINRS_COMPARE(<)
GINRS_COMPARE(>)
GINRS_COMPARE(<=)
GINRS_COMPARE(>=)
#undef GINRS_COMPARE
inline GINRS_T operator+(const GINRS_T& a) { return a; }
inline GINRS_T operator-(const GINRS_T& a) { return GINRS_RAW{(unsigned short)(GINRS_RAW(a).x ^ 0x8000)}; }
inline GINRS_T& operator++(GINRS_T& a) { return a = a + GINRS_T(1.0f); }
inline GINRS_T& operator--(GINRS_T& a) { return a = a - GINRS_T(1.0f); }
inline GINRS_T operator++(GINRS_T& a, int) { GINRS_T old = a; ++a; return old; }
inline GINRS_T operator--(GINRS_T& a, int) { GINRS_T old = a; --a; return old; }
inline GINRS_T2 operator+(const GINRS_T2& a) { return a; }
inline GINRS_T2 operator-(const GINRS_T2& a) { return GINRS_T2(-a.x, -a.y); }
inline GINRS_T2& operator++(GINRS_T2& a) { ++a.x; ++a.y; return a; }
inline GINRS_T2& operator--(GINRS_T2& a) { --a.x; --a.y; return a; }
inline GINRS_T2 operator++(GINRS_T2& a, int) { GINRS_T2 old = a; ++a; return old; }
inline GINRS_T2 operator--(GINRS_T2& a, int) { GINRS_T2 old = a; --a; return old; }
