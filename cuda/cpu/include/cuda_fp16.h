/* __half and __half2, in host and device code. In C: the bare bits. */
#ifndef __CUDA_FP16_H__
#define __CUDA_FP16_H__
#define __CUDA_FP16_TYPES_EXIST__
#include "vector_types.h"
#ifdef __cplusplus
/* What programs use without asking for it, because NVIDIA's header brings it. */
#include <cstring>
#include <utility>
#include "nv/target"
#include "ginrs_cpu/halves.h"
#define GINRS_T __half
#define GINRS_F Fp16
#define GINRS_X half
#include "ginrs_cpu/halves_type.inc.h"
#include "ginrs_cpu/halves_convert.inc.h"
#include "ginrs_cpu/halves_math.inc.h"
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#else
typedef struct __align__(2) { unsigned short x; } __half_raw;
typedef struct __align__(4) { unsigned short x, y; } __half2_raw;
typedef __half_raw __half;
typedef __half2_raw __half2;
#endif
#endif
