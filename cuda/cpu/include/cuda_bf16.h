/* __nv_bfloat16 and __nv_bfloat162, in host and device code. In C: the bare bits. */
#ifndef __CUDA_BF16_H__
#define __CUDA_BF16_H__
#define __CUDA_BF16_TYPES_EXIST__
#include "cuda_fp16.h"
#ifdef __cplusplus
#define GINRS_T __nv_bfloat16
#define GINRS_F Bf16
#define GINRS_X bfloat16
#include "ginrs_cpu/halves_type.inc.h"
#include "ginrs_cpu/halves_convert.inc.h"
#include "ginrs_cpu/halves_math.inc.h"
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#else
typedef struct __align__(2) { unsigned short x; } __nv_bfloat16_raw;
typedef struct __align__(4) { unsigned short x, y; } __nv_bfloat162_raw;
typedef __nv_bfloat16_raw __nv_bfloat16;
typedef __nv_bfloat162_raw __nv_bfloat162;
#endif
#endif
