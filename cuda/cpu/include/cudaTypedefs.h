/* Types of pointers to the driver's functions, as cudaGetDriverEntryPoint gives them: those that cuda.h has here. */
#ifndef GINRS_CPU_CUDA_TYPEDEFS_H_
#define GINRS_CPU_CUDA_TYPEDEFS_H_
#include "cuda.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef CUresult(CUDAAPI* PFN_cuInit_v2000)(unsigned int);
#define PFN_cuInit PFN_cuInit_v2000
typedef CUresult(CUDAAPI* PFN_cuDriverGetVersion_v2020)(int*);
#define PFN_cuDriverGetVersion PFN_cuDriverGetVersion_v2020
typedef CUresult(CUDAAPI* PFN_cuDeviceGetCount_v2000)(int*);
#define PFN_cuDeviceGetCount PFN_cuDeviceGetCount_v2000
typedef CUresult(CUDAAPI* PFN_cuDeviceGet_v2000)(CUdevice_v1*, int);
#define PFN_cuDeviceGet PFN_cuDeviceGet_v2000
typedef CUresult(CUDAAPI* PFN_cuDeviceGetAttribute_v2000)(int*, CUdevice_attribute, CUdevice_v1);
#define PFN_cuDeviceGetAttribute PFN_cuDeviceGetAttribute_v2000
typedef CUresult(CUDAAPI* PFN_cuDeviceGetName_v2000)(char*, int, CUdevice_v1);
#define PFN_cuDeviceGetName PFN_cuDeviceGetName_v2000
typedef CUresult(CUDAAPI* PFN_cuDeviceGetUuid_v11040)(CUuuid*, CUdevice_v1);
#define PFN_cuDeviceGetUuid PFN_cuDeviceGetUuid_v11040
typedef CUresult(CUDAAPI* PFN_cuDeviceTotalMem_v3020)(size_t*, CUdevice_v1);
#define PFN_cuDeviceTotalMem PFN_cuDeviceTotalMem_v3020
typedef CUresult(CUDAAPI* PFN_cuCtxGetCurrent_v4000)(CUcontext*);
#define PFN_cuCtxGetCurrent PFN_cuCtxGetCurrent_v4000
typedef CUresult(CUDAAPI* PFN_cuCtxGetDevice_v2000)(CUdevice_v1*);
#define PFN_cuCtxGetDevice PFN_cuCtxGetDevice_v2000
typedef CUresult(CUDAAPI* PFN_cuCtxSetCurrent_v4000)(CUcontext);
#define PFN_cuCtxSetCurrent PFN_cuCtxSetCurrent_v4000
typedef CUresult(CUDAAPI* PFN_cuCtxSynchronize_v2000)(void);
#define PFN_cuCtxSynchronize PFN_cuCtxSynchronize_v2000
typedef CUresult(CUDAAPI* PFN_cuMemGetAddressRange_v3020)(CUdeviceptr_v2*, size_t*, CUdeviceptr_v2);
#define PFN_cuMemGetAddressRange PFN_cuMemGetAddressRange_v3020
typedef CUresult(CUDAAPI* PFN_cuPointerSetAttribute_v6000)(const void*, CUpointer_attribute, CUdeviceptr_v2);
#define PFN_cuPointerSetAttribute PFN_cuPointerSetAttribute_v6000
typedef CUresult(CUDAAPI* PFN_cuPointerGetAttribute_v4000)(void*, CUpointer_attribute, CUdeviceptr_v2);
#define PFN_cuPointerGetAttribute PFN_cuPointerGetAttribute_v4000
typedef CUresult(CUDAAPI* PFN_cuMemGetHandleForAddressRange_v11070)(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
#define PFN_cuMemGetHandleForAddressRange PFN_cuMemGetHandleForAddressRange_v11070
typedef CUresult(CUDAAPI* PFN_cuGetProcAddress_v12000)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
#define PFN_cuGetProcAddress PFN_cuGetProcAddress_v12000
typedef CUresult(CUDAAPI* PFN_cuGetErrorString_v6000)(CUresult, const char**);
#define PFN_cuGetErrorString PFN_cuGetErrorString_v6000
typedef CUresult(CUDAAPI* PFN_cuGetErrorName_v6000)(CUresult, const char**);
#define PFN_cuGetErrorName PFN_cuGetErrorName_v6000
#ifdef __cplusplus
}
#endif
#endif
