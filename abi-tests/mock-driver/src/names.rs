//! cuGetProcAddress: functions by the names of the documentation, newest version that the caller knows.

use crate::entry::{enter_early, give, give_if};
use crate::error::{Code, Result};
use crate::{
    access, batch, capture, context, copy, device, entry, error, event, handle, ipc, linear, memops, module, multicast, names,
    pinned, pointer, space, stream,
};
use std::ffi::{CStr, c_char, c_void};

const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;
const VERSION_NOT_SUFFICIENT: i32 = 2;

/// (name, CUDA version that brought this form, address).
type Row = (&'static str, i32, *const c_void);

macro_rules! rows {
    ($($name:literal $since:literal $module:ident::$function:ident)*) => {
        vec![$(($name, $since, $module::$function as *const c_void)),*]
    };
}

fn table() -> Vec<Row> {
    rows! {
        "cuMemSetAccess" 2000 access::cuMemSetAccess
        "cuMemGetAccess" 2000 access::cuMemGetAccess
        "cuMemcpyBatchAsync" 13000 batch::cuMemcpyBatchAsync_v2
        "cuMemcpyBatchAsync" 12080 batch::cuMemcpyBatchAsync
        "cuThreadExchangeStreamCaptureMode" 2000 capture::cuThreadExchangeStreamCaptureMode
        "cuStreamBeginCapture" 3020 capture::cuStreamBeginCapture_v2
        "cuStreamEndCapture" 2000 capture::cuStreamEndCapture
        "cuStreamIsCapturing" 2000 capture::cuStreamIsCapturing
        "cuStreamGetCaptureInfo" 11030 capture::cuStreamGetCaptureInfo_v2
        "cuStreamGetCaptureInfo" 12030 capture::cuStreamGetCaptureInfo_v3
        "cuDevicePrimaryCtxRetain" 2000 context::cuDevicePrimaryCtxRetain
        "cuDevicePrimaryCtxRelease" 11000 context::cuDevicePrimaryCtxRelease_v2
        "cuDevicePrimaryCtxRelease" 7000 context::cuDevicePrimaryCtxRelease
        "cuDevicePrimaryCtxGetState" 2000 context::cuDevicePrimaryCtxGetState
        "cuCtxPushCurrent" 3020 context::cuCtxPushCurrent_v2
        "cuCtxPopCurrent" 3020 context::cuCtxPopCurrent_v2
        "cuCtxSetCurrent" 2000 context::cuCtxSetCurrent
        "cuCtxGetCurrent" 2000 context::cuCtxGetCurrent
        "cuCtxGetDevice" 2000 context::cuCtxGetDevice
        "cuCtxGetId" 2000 context::cuCtxGetId
        "cuCtxGetFlags" 2000 context::cuCtxGetFlags
        "cuCtxGetApiVersion" 2000 context::cuCtxGetApiVersion
        "cuCtxSynchronize" 2000 context::cuCtxSynchronize
        "cuCtxEnablePeerAccess" 2000 context::cuCtxEnablePeerAccess
        "cuModuleGetLoadingMode" 11070 context::cuModuleGetLoadingMode
        "cuCtxDisablePeerAccess" 2000 context::cuCtxDisablePeerAccess
        "cuMemcpy" 2000 copy::cuMemcpy
        "cuMemcpyHtoD" 3020 copy::cuMemcpyHtoD_v2
        "cuMemcpyDtoH" 3020 copy::cuMemcpyDtoH_v2
        "cuMemcpyDtoD" 3020 copy::cuMemcpyDtoD_v2
        "cuMemcpyAsync" 2000 copy::cuMemcpyAsync
        "cuMemcpyHtoDAsync" 3020 copy::cuMemcpyHtoDAsync_v2
        "cuMemcpyDtoHAsync" 3020 copy::cuMemcpyDtoHAsync_v2
        "cuMemcpyDtoDAsync" 3020 copy::cuMemcpyDtoDAsync_v2
        "cuMemsetD8" 3020 copy::cuMemsetD8_v2
        "cuMemsetD32" 3020 copy::cuMemsetD32_v2
        "cuMemsetD8Async" 2000 copy::cuMemsetD8Async
        "cuMemsetD32Async" 2000 copy::cuMemsetD32Async
        "cuDeviceGetCount" 2000 device::cuDeviceGetCount
        "cuDeviceGet" 2000 device::cuDeviceGet
        "cuDeviceGetName" 2000 device::cuDeviceGetName
        "cuDeviceGetPCIBusId" 2000 device::cuDeviceGetPCIBusId
        "cuDeviceGetByPCIBusId" 2000 device::cuDeviceGetByPCIBusId
        "cuDeviceGetUuid" 11040 device::cuDeviceGetUuid_v2
        "cuDeviceGetUuid" 9020 device::cuDeviceGetUuid
        "cuDeviceTotalMem" 3020 device::cuDeviceTotalMem_v2
        "cuDeviceGetAttribute" 2000 device::cuDeviceGetAttribute
        "cuDeviceCanAccessPeer" 2000 device::cuDeviceCanAccessPeer
        "cuDeviceGetP2PAttribute" 2000 device::cuDeviceGetP2PAttribute
        "cuInit" 2000 entry::cuInit
        "cuDriverGetVersion" 2000 entry::cuDriverGetVersion
        "cuGetErrorName" 2000 error::cuGetErrorName
        "cuGetErrorString" 2000 error::cuGetErrorString
        "cuEventCreate" 2000 event::cuEventCreate
        "cuEventDestroy" 3020 event::cuEventDestroy_v2
        "cuEventRecord" 2000 event::cuEventRecord
        "cuEventRecordWithFlags" 2000 event::cuEventRecordWithFlags
        "cuStreamWaitEvent" 2000 event::cuStreamWaitEvent
        "cuEventQuery" 2000 event::cuEventQuery
        "cuEventSynchronize" 2000 event::cuEventSynchronize
        "cuEventElapsedTime" 12080 event::cuEventElapsedTime_v2
        "cuEventElapsedTime" 2000 event::cuEventElapsedTime
        "cuMemGetAllocationGranularity" 2000 handle::cuMemGetAllocationGranularity
        "cuMemCreate" 2000 handle::cuMemCreate
        "cuMemRelease" 2000 handle::cuMemRelease
        "cuMemRetainAllocationHandle" 2000 handle::cuMemRetainAllocationHandle
        "cuMemGetAllocationPropertiesFromHandle" 2000 handle::cuMemGetAllocationPropertiesFromHandle
        "cuMemGetHandleForAddressRange" 11070 handle::cuMemGetHandleForAddressRange
        "cuMemExportToShareableHandle" 2000 handle::cuMemExportToShareableHandle
        "cuMemImportFromShareableHandle" 2000 handle::cuMemImportFromShareableHandle
        "cuMemAlloc" 3020 linear::cuMemAlloc_v2
        "cuMemAllocAsync" 2000 linear::cuMemAllocAsync
        "cuMemFree" 3020 linear::cuMemFree_v2
        "cuMemFreeAsync" 2000 linear::cuMemFreeAsync
        "cuMemGetInfo" 3020 linear::cuMemGetInfo_v2
        "cuMemGetAddressRange" 3020 linear::cuMemGetAddressRange_v2
        "cuStreamWriteValue32" 3020 memops::cuStreamWriteValue32_v2
        "cuStreamWriteValue64" 3020 memops::cuStreamWriteValue64_v2
        "cuStreamWaitValue32" 3020 memops::cuStreamWaitValue32_v2
        "cuStreamWaitValue64" 3020 memops::cuStreamWaitValue64_v2
        "cuStreamBatchMemOp" 3020 memops::cuStreamBatchMemOp_v2
        "cuModuleLoadData" 2000 module::cuModuleLoadData
        "cuModuleGetFunction" 2000 module::cuModuleGetFunction
        "cuLaunchKernel" 4000 module::cuLaunchKernel
        "cuMulticastCreate" 2000 multicast::cuMulticastCreate
        "cuMulticastAddDevice" 2000 multicast::cuMulticastAddDevice
        "cuMulticastBindMem" 2000 multicast::cuMulticastBindMem
        "cuMulticastUnbind" 2000 multicast::cuMulticastUnbind
        "cuMulticastGetGranularity" 2000 multicast::cuMulticastGetGranularity
        "cuIpcGetMemHandle" 4010 ipc::cuIpcGetMemHandle
        "cuIpcOpenMemHandle" 11000 ipc::cuIpcOpenMemHandle_v2
        "cuIpcCloseMemHandle" 4010 ipc::cuIpcCloseMemHandle
        "cuMemHostAlloc" 2000 pinned::cuMemHostAlloc
        "cuMemAllocHost" 3020 pinned::cuMemAllocHost_v2
        "cuMemFreeHost" 2000 pinned::cuMemFreeHost
        "cuMemHostRegister" 3020 pinned::cuMemHostRegister_v2
        "cuMemHostUnregister" 2000 pinned::cuMemHostUnregister
        "cuMemHostGetDevicePointer" 3020 pinned::cuMemHostGetDevicePointer_v2
        "cuMemHostGetFlags" 2000 pinned::cuMemHostGetFlags
        "cuPointerGetAttribute" 2000 pointer::cuPointerGetAttribute
        "cuPointerGetAttributes" 2000 pointer::cuPointerGetAttributes
        "cuMemAddressReserve" 2000 space::cuMemAddressReserve
        "cuMemAddressFree" 2000 space::cuMemAddressFree
        "cuMemMap" 2000 space::cuMemMap
        "cuMemUnmap" 2000 space::cuMemUnmap
        "cuStreamCreate" 2000 stream::cuStreamCreate
        "cuStreamCreateWithPriority" 2000 stream::cuStreamCreateWithPriority
        "cuCtxGetStreamPriorityRange" 2000 stream::cuCtxGetStreamPriorityRange
        "cuStreamGetPriority" 2000 stream::cuStreamGetPriority
        "cuStreamGetFlags" 2000 stream::cuStreamGetFlags
        "cuStreamGetId" 2000 stream::cuStreamGetId
        "cuStreamGetCtx" 2000 stream::cuStreamGetCtx
        "cuStreamDestroy" 3020 stream::cuStreamDestroy_v2
        "cuStreamQuery" 2000 stream::cuStreamQuery
        "cuStreamSynchronize" 2000 stream::cuStreamSynchronize
        "cuLaunchHostFunc" 2000 stream::cuLaunchHostFunc
        "cuGetProcAddress" 12000 names::cuGetProcAddress_v2
    }
}

/// Looks `name` up for a caller of CUDA `version`; what was found, and a CUdriverProcAddressQueryResult.
fn look_up(name: &str, version: i32) -> (*const c_void, i32) {
    let forms = table().into_iter().filter(|row| row.0 == name);
    let known = forms.clone().next().is_some();
    match forms.filter(|row| row.1 <= version).max_by_key(|row| row.1) {
        Some(row) => (row.2, FOUND),
        None => (std::ptr::null(), if known { VERSION_NOT_SUFFICIENT } else { NOT_FOUND }),
    }
}

fn find(name: *const c_char, out: *mut *const c_void, version: i32, status: *mut i32) -> Result {
    if name.is_null() || out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: see the crate; also below.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let (function, result) = look_up(&name, version);
    // SAFETY: as above.
    unsafe {
        give_if(status, result);
        give(out, function)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    out: *mut *const c_void,
    version: i32,
    _flags: u64,
    status: *mut i32,
) -> i32 {
    enter_early(|| find(name, out, version, status))
}

/// Of CUDA 11: an unknown name is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(name: *const c_char, out: *mut *const c_void, version: i32, _flags: u64) -> i32 {
    enter_early(|| {
        find(name, out, version, std::ptr::null_mut())?;
        // SAFETY: `find` has written it.
        if unsafe { *out }.is_null() { Err(Code::NOT_FOUND) } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_form_that_the_caller_knows() {
        let v1 = batch::cuMemcpyBatchAsync as *const c_void;
        let v2 = batch::cuMemcpyBatchAsync_v2 as *const c_void;
        assert_eq!(look_up("cuMemcpyBatchAsync", 12080), (v1, FOUND));
        assert_eq!(look_up("cuMemcpyBatchAsync", 13000), (v2, FOUND));
        assert_eq!(look_up("cuMemcpyBatchAsync", 12070), (std::ptr::null(), VERSION_NOT_SUFFICIENT));
        assert_eq!(look_up("cuMemAlloc_v2", 13000), (std::ptr::null(), NOT_FOUND));
    }
}
