/* Conversions of a 16-bit type. Included once per type after halves_type.inc.h. */
#define GINRS_CODE(v, round) GINRS_RAW{(unsigned short)ginrs_cpu::encode<ginrs_cpu::GINRS_F>(v, ginrs_cpu::Round::round)}

inline GINRS_T GINRS_N(__float2, GINRS_X, )(float v) { return GINRS_T(v); }
inline GINRS_T GINRS_N(__float2, GINRS_X, _rn)(float v) { return GINRS_T(v); }
inline GINRS_T GINRS_N(__float2, GINRS_X, _rz)(float v) { return GINRS_CODE(v, Zero); }
inline GINRS_T GINRS_N(__float2, GINRS_X, _ru)(float v) { return GINRS_CODE(v, Up); }
inline GINRS_T GINRS_N(__float2, GINRS_X, _rd)(float v) { return GINRS_CODE(v, Down); }
inline GINRS_T GINRS_N(__double2, GINRS_X, )(double v) { return GINRS_T(v); }
inline float GINRS_N(__, GINRS_X, 2float)(GINRS_T v) { return v; }

/* Integers: from T with each rounding, to T with each rounding. */
#define GINRS_INTEGER(T, name)                                                                                     \
  inline GINRS_T GINRS_N(__##name##2, GINRS_X, _rn)(T v) { return GINRS_CODE(ginrs_cpu::to_odd(v), Nearest); }      \
  inline GINRS_T GINRS_N(__##name##2, GINRS_X, _rz)(T v) { return GINRS_CODE(ginrs_cpu::to_odd(v), Zero); }         \
  inline GINRS_T GINRS_N(__##name##2, GINRS_X, _ru)(T v) { return GINRS_CODE(ginrs_cpu::to_odd(v), Up); }           \
  inline GINRS_T GINRS_N(__##name##2, GINRS_X, _rd)(T v) { return GINRS_CODE(ginrs_cpu::to_odd(v), Down); }         \
  inline T GINRS_N(__, GINRS_X, 2##name##_rn)(GINRS_T v) { return ginrs_cpu::convert<T>(__builtin_rint((float)v)); }  \
  inline T GINRS_N(__, GINRS_X, 2##name##_rz)(GINRS_T v) { return ginrs_cpu::convert<T>((double)(float)v); }          \
  inline T GINRS_N(__, GINRS_X, 2##name##_ru)(GINRS_T v) { return ginrs_cpu::convert<T>(__builtin_ceil((float)v)); }  \
  inline T GINRS_N(__, GINRS_X, 2##name##_rd)(GINRS_T v) { return ginrs_cpu::convert<T>(__builtin_floor((float)v)); }
GINRS_INTEGER(short, short)
GINRS_INTEGER(unsigned short, ushort)
GINRS_INTEGER(int, int)
GINRS_INTEGER(unsigned int, uint)
GINRS_INTEGER(long long, ll)
GINRS_INTEGER(unsigned long long, ull)
#undef GINRS_INTEGER
inline signed char GINRS_N(__, GINRS_X, 2char_rz)(GINRS_T v) { return ginrs_cpu::convert<signed char>((double)(float)v); }
inline unsigned char GINRS_N(__, GINRS_X, 2uchar_rz)(GINRS_T v) { return ginrs_cpu::convert<unsigned char>((double)(float)v); }

/* The bits. */
inline short GINRS_N(__, GINRS_X, _as_short)(GINRS_T v) { return (short)GINRS_RAW(v).x; }
inline unsigned short GINRS_N(__, GINRS_X, _as_ushort)(GINRS_T v) { return GINRS_RAW(v).x; }
inline GINRS_T GINRS_N(__short_as_, GINRS_X, )(short v) { return GINRS_RAW{(unsigned short)v}; }
inline GINRS_T GINRS_N(__ushort_as_, GINRS_X, )(unsigned short v) { return GINRS_RAW{v}; }

/* Pairs. */
inline GINRS_T2 GINRS_N(make_, GINRS_X2, )(GINRS_T a, GINRS_T b) { return GINRS_T2(a, b); }
inline GINRS_T2 GINRS_N(__halves2, GINRS_X2, )(GINRS_T a, GINRS_T b) { return GINRS_T2(a, b); }
inline GINRS_T2 GINRS_N(__, GINRS_X2, GINRS_X2)(GINRS_T a) { return GINRS_T2(a, a); }
inline GINRS_T2 GINRS_N(__float2, GINRS_X2, _rn)(float v) { return GINRS_T2(v, v); }
inline GINRS_T2 GINRS_N(__floats2, GINRS_X2, _rn)(float a, float b) { return GINRS_T2(a, b); }
inline GINRS_T2 GINRS_N(__float22, GINRS_X2, _rn)(float2 v) { return GINRS_T2(v.x, v.y); }
inline float2 GINRS_N(__, GINRS_X2, 2float2)(GINRS_T2 v) { return make_float2(v.x, v.y); }
inline float __low2float(GINRS_T2 v) { return v.x; }
inline float __high2float(GINRS_T2 v) { return v.y; }
inline GINRS_T GINRS_N(__low2, GINRS_X, )(GINRS_T2 v) { return v.x; }
inline GINRS_T GINRS_N(__high2, GINRS_X, )(GINRS_T2 v) { return v.y; }
inline GINRS_T2 GINRS_N(__low2, GINRS_X2, )(GINRS_T2 v) { return GINRS_T2(v.x, v.x); }
inline GINRS_T2 GINRS_N(__high2, GINRS_X2, )(GINRS_T2 v) { return GINRS_T2(v.y, v.y); }
inline GINRS_T2 GINRS_N(__lows2, GINRS_X2, )(GINRS_T2 a, GINRS_T2 b) { return GINRS_T2(a.x, b.x); }
inline GINRS_T2 GINRS_N(__highs2, GINRS_X2, )(GINRS_T2 a, GINRS_T2 b) { return GINRS_T2(a.y, b.y); }
inline GINRS_T2 __lowhigh2highlow(GINRS_T2 v) { return GINRS_T2(v.y, v.x); }
#undef GINRS_CODE
