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
typedef CUresult(CUDAAPI* PFN_cuMemGetAllocationGranularity_v10020)(size_t*, const CUmemAllocationProp_v1*, CUmemAllocationGranularity_flags);
#define PFN_cuMemGetAllocationGranularity PFN_cuMemGetAllocationGranularity_v10020
typedef CUresult(CUDAAPI* PFN_cuMemCreate_v10020)(CUmemGenericAllocationHandle_v1*, size_t, const CUmemAllocationProp_v1*, unsigned long long);
#define PFN_cuMemCreate PFN_cuMemCreate_v10020
typedef CUresult(CUDAAPI* PFN_cuMemRelease_v10020)(CUmemGenericAllocationHandle_v1);
#define PFN_cuMemRelease PFN_cuMemRelease_v10020
typedef CUresult(CUDAAPI* PFN_cuMemRetainAllocationHandle_v11000)(CUmemGenericAllocationHandle_v1*, void*);
#define PFN_cuMemRetainAllocationHandle PFN_cuMemRetainAllocationHandle_v11000
typedef CUresult(CUDAAPI* PFN_cuMemGetAllocationPropertiesFromHandle_v10020)(CUmemAllocationProp_v1*, CUmemGenericAllocationHandle_v1);
#define PFN_cuMemGetAllocationPropertiesFromHandle PFN_cuMemGetAllocationPropertiesFromHandle_v10020
typedef CUresult(CUDAAPI* PFN_cuMemAddressReserve_v10020)(CUdeviceptr_v2*, size_t, size_t, CUdeviceptr_v2, unsigned long long);
#define PFN_cuMemAddressReserve PFN_cuMemAddressReserve_v10020
typedef CUresult(CUDAAPI* PFN_cuMemAddressFree_v10020)(CUdeviceptr_v2, size_t);
#define PFN_cuMemAddressFree PFN_cuMemAddressFree_v10020
typedef CUresult(CUDAAPI* PFN_cuMemMap_v10020)(CUdeviceptr_v2, size_t, size_t, CUmemGenericAllocationHandle_v1, unsigned long long);
#define PFN_cuMemMap PFN_cuMemMap_v10020
typedef CUresult(CUDAAPI* PFN_cuMemUnmap_v10020)(CUdeviceptr_v2, size_t);
#define PFN_cuMemUnmap PFN_cuMemUnmap_v10020
typedef CUresult(CUDAAPI* PFN_cuMemSetAccess_v10020)(CUdeviceptr_v2, size_t, const CUmemAccessDesc_v1*, size_t);
#define PFN_cuMemSetAccess PFN_cuMemSetAccess_v10020
typedef CUresult(CUDAAPI* PFN_cuMemGetAccess_v10020)(unsigned long long*, const CUmemLocation_v1*, CUdeviceptr_v2);
#define PFN_cuMemGetAccess PFN_cuMemGetAccess_v10020
typedef CUresult(CUDAAPI* PFN_cuMemExportToShareableHandle_v10020)(void*, CUmemGenericAllocationHandle_v1, CUmemAllocationHandleType, unsigned long long);
#define PFN_cuMemExportToShareableHandle PFN_cuMemExportToShareableHandle_v10020
typedef CUresult(CUDAAPI* PFN_cuMemImportFromShareableHandle_v10020)(CUmemGenericAllocationHandle_v1*, void*, CUmemAllocationHandleType);
#define PFN_cuMemImportFromShareableHandle PFN_cuMemImportFromShareableHandle_v10020
typedef CUresult(CUDAAPI* PFN_cuMulticastCreate_v12010)(CUmemGenericAllocationHandle_v1*, const CUmulticastObjectProp_v1*);
#define PFN_cuMulticastCreate PFN_cuMulticastCreate_v12010
typedef CUresult(CUDAAPI* PFN_cuMulticastAddDevice_v12010)(CUmemGenericAllocationHandle_v1, CUdevice_v1);
#define PFN_cuMulticastAddDevice PFN_cuMulticastAddDevice_v12010
typedef CUresult(CUDAAPI* PFN_cuMulticastBindMem_v12010)(CUmemGenericAllocationHandle_v1, size_t, CUmemGenericAllocationHandle_v1, size_t, size_t, unsigned long long);
#define PFN_cuMulticastBindMem PFN_cuMulticastBindMem_v12010
typedef CUresult(CUDAAPI* PFN_cuMulticastBindAddr_v12010)(CUmemGenericAllocationHandle_v1, size_t, CUdeviceptr_v2, size_t, unsigned long long);
#define PFN_cuMulticastBindAddr PFN_cuMulticastBindAddr_v12010
typedef CUresult(CUDAAPI* PFN_cuMulticastUnbind_v12010)(CUmemGenericAllocationHandle_v1, CUdevice_v1, size_t, size_t);
#define PFN_cuMulticastUnbind PFN_cuMulticastUnbind_v12010
typedef CUresult(CUDAAPI* PFN_cuMulticastGetGranularity_v12010)(size_t*, const CUmulticastObjectProp_v1*, CUmulticastGranularity_flags);
#define PFN_cuMulticastGetGranularity PFN_cuMulticastGetGranularity_v12010
#ifdef __cplusplus
}
#endif
#endif
