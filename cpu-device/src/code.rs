//! The error codes of CUDA 13.0: numbers, names, and what each means here.

use std::ffi::CStr;

/// A `cudaError_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Code(pub i32);

#[allow(missing_docs, reason = "the names are CUDA's; TABLE says what they mean")]
impl Code {
    pub const SUCCESS: Code = Code(0);
    pub const INVALID_VALUE: Code = Code(1);
    pub const MEMORY_ALLOCATION: Code = Code(2);
    pub const INITIALIZATION_ERROR: Code = Code(3);
    pub const INVALID_CONFIGURATION: Code = Code(9);
    pub const INVALID_PITCH_VALUE: Code = Code(12);
    pub const INVALID_SYMBOL: Code = Code(13);
    pub const INVALID_DEVICE_POINTER: Code = Code(17);
    pub const INVALID_MEMCPY_DIRECTION: Code = Code(21);
    pub const INVALID_DEVICE_FUNCTION: Code = Code(98);
    pub const INVALID_DEVICE: Code = Code(101);
    pub const UNSUPPORTED_LIMIT: Code = Code(215);
    pub const INVALID_RESOURCE_HANDLE: Code = Code(400);
    pub const SYMBOL_NOT_FOUND: Code = Code(500);
    pub const NOT_READY: Code = Code(600);
    pub const LAUNCH_OUT_OF_RESOURCES: Code = Code(701);
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    pub const PEER_ACCESS_NOT_ENABLED: Code = Code(705);
    pub const ASSERT: Code = Code(710);
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);
    pub const HOST_MEMORY_NOT_REGISTERED: Code = Code(713);
    pub const LAUNCH_FAILURE: Code = Code(719);
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Code = Code(720);
    pub const NOT_PERMITTED: Code = Code(800);
    pub const NOT_SUPPORTED: Code = Code(801);
    pub const STREAM_CAPTURE_UNSUPPORTED: Code = Code(900);
    pub const STREAM_CAPTURE_INVALIDATED: Code = Code(901);
    pub const STREAM_CAPTURE_MERGE: Code = Code(902);
    pub const STREAM_CAPTURE_UNMATCHED: Code = Code(903);
    pub const INVALID_CLUSTER_SIZE: Code = Code(912);
    pub const STREAM_CAPTURE_UNJOINED: Code = Code(904);
    pub const STREAM_CAPTURE_IMPLICIT: Code = Code(906);
    pub const CAPTURED_EVENT: Code = Code(907);
    pub const UNKNOWN: Code = Code(999);

    /// CUDA's name of the code.
    pub fn name(self) -> &'static CStr {
        TABLE.iter().find(|row| row.0 == self.0).map_or(c"unrecognized error code", |row| row.1)
    }

    /// What it means, in words; the name where the CPU device never returns the code.
    pub fn text(self) -> &'static CStr {
        TABLE.iter().find(|row| row.0 == self.0).map_or(c"unrecognized error code", |row| row.2.unwrap_or(row.1))
    }
}

/// Number, name, text.
const TABLE: &[(i32, &CStr, Option<&CStr>)] = &[
    (0, c"cudaSuccess", Some(c"no error")),
    (1, c"cudaErrorInvalidValue", Some(c"an argument has a value that the call does not take")),
    (2, c"cudaErrorMemoryAllocation", Some(c"out of memory")),
    (3, c"cudaErrorInitializationError", Some(c"the runtime cannot be used in this process")),
    (4, c"cudaErrorCudartUnloading", None),
    (5, c"cudaErrorProfilerDisabled", None),
    (6, c"cudaErrorProfilerNotInitialized", None),
    (7, c"cudaErrorProfilerAlreadyStarted", None),
    (8, c"cudaErrorProfilerAlreadyStopped", None),
    (9, c"cudaErrorInvalidConfiguration", Some(c"the grid or block of the launch is empty or too large")),
    (12, c"cudaErrorInvalidPitchValue", Some(c"the pitch is smaller than the width")),
    (13, c"cudaErrorInvalidSymbol", Some(c"no such device variable")),
    (16, c"cudaErrorInvalidHostPointer", None),
    (17, c"cudaErrorInvalidDevicePointer", Some(c"not a pointer to device memory")),
    (18, c"cudaErrorInvalidTexture", None),
    (19, c"cudaErrorInvalidTextureBinding", None),
    (20, c"cudaErrorInvalidChannelDescriptor", None),
    (21, c"cudaErrorInvalidMemcpyDirection", Some(c"not a direction of copying")),
    (22, c"cudaErrorAddressOfConstant", None),
    (23, c"cudaErrorTextureFetchFailed", None),
    (24, c"cudaErrorTextureNotBound", None),
    (25, c"cudaErrorSynchronizationError", None),
    (26, c"cudaErrorInvalidFilterSetting", None),
    (27, c"cudaErrorInvalidNormSetting", None),
    (28, c"cudaErrorMixedDeviceExecution", None),
    (31, c"cudaErrorNotYetImplemented", None),
    (32, c"cudaErrorMemoryValueTooLarge", None),
    (34, c"cudaErrorStubLibrary", None),
    (35, c"cudaErrorInsufficientDriver", None),
    (36, c"cudaErrorCallRequiresNewerDriver", None),
    (37, c"cudaErrorInvalidSurface", None),
    (43, c"cudaErrorDuplicateVariableName", None),
    (44, c"cudaErrorDuplicateTextureName", None),
    (45, c"cudaErrorDuplicateSurfaceName", None),
    (46, c"cudaErrorDevicesUnavailable", None),
    (49, c"cudaErrorIncompatibleDriverContext", None),
    (52, c"cudaErrorMissingConfiguration", None),
    (53, c"cudaErrorPriorLaunchFailure", None),
    (65, c"cudaErrorLaunchMaxDepthExceeded", None),
    (66, c"cudaErrorLaunchFileScopedTex", None),
    (67, c"cudaErrorLaunchFileScopedSurf", None),
    (68, c"cudaErrorSyncDepthExceeded", None),
    (69, c"cudaErrorLaunchPendingCountExceeded", None),
    (98, c"cudaErrorInvalidDeviceFunction", Some(c"not a kernel that this program registered")),
    (100, c"cudaErrorNoDevice", Some(c"no device")),
    (101, c"cudaErrorInvalidDevice", Some(c"no device of that number")),
    (102, c"cudaErrorDeviceNotLicensed", None),
    (103, c"cudaErrorSoftwareValidityNotEstablished", None),
    (127, c"cudaErrorStartupFailure", None),
    (200, c"cudaErrorInvalidKernelImage", None),
    (201, c"cudaErrorDeviceUninitialized", None),
    (205, c"cudaErrorMapBufferObjectFailed", None),
    (206, c"cudaErrorUnmapBufferObjectFailed", None),
    (207, c"cudaErrorArrayIsMapped", None),
    (208, c"cudaErrorAlreadyMapped", None),
    (209, c"cudaErrorNoKernelImageForDevice", None),
    (210, c"cudaErrorAlreadyAcquired", None),
    (211, c"cudaErrorNotMapped", None),
    (212, c"cudaErrorNotMappedAsArray", None),
    (213, c"cudaErrorNotMappedAsPointer", None),
    (214, c"cudaErrorECCUncorrectable", None),
    (215, c"cudaErrorUnsupportedLimit", Some(c"the CPU device has no such limit")),
    (216, c"cudaErrorDeviceAlreadyInUse", None),
    (217, c"cudaErrorPeerAccessUnsupported", None),
    (218, c"cudaErrorInvalidPtx", None),
    (219, c"cudaErrorInvalidGraphicsContext", None),
    (220, c"cudaErrorNvlinkUncorrectable", None),
    (221, c"cudaErrorJitCompilerNotFound", None),
    (222, c"cudaErrorUnsupportedPtxVersion", None),
    (223, c"cudaErrorJitCompilationDisabled", None),
    (224, c"cudaErrorUnsupportedExecAffinity", None),
    (225, c"cudaErrorUnsupportedDevSideSync", None),
    (226, c"cudaErrorContained", None),
    (300, c"cudaErrorInvalidSource", None),
    (301, c"cudaErrorFileNotFound", None),
    (302, c"cudaErrorSharedObjectSymbolNotFound", None),
    (303, c"cudaErrorSharedObjectInitFailed", None),
    (304, c"cudaErrorOperatingSystem", None),
    (400, c"cudaErrorInvalidResourceHandle", Some(c"not a handle that is in use")),
    (401, c"cudaErrorIllegalState", None),
    (402, c"cudaErrorLossyQuery", None),
    (500, c"cudaErrorSymbolNotFound", None),
    (600, c"cudaErrorNotReady", Some(c"not finished yet")),
    (700, c"cudaErrorIllegalAddress", Some(c"a kernel used an address that it must not")),
    (701, c"cudaErrorLaunchOutOfResources", Some(c"too many threads or too little memory for the launch")),
    (702, c"cudaErrorLaunchTimeout", None),
    (703, c"cudaErrorLaunchIncompatibleTexturing", None),
    (704, c"cudaErrorPeerAccessAlreadyEnabled", Some(c"access to that peer is enabled already")),
    (705, c"cudaErrorPeerAccessNotEnabled", Some(c"access to that peer is not enabled")),
    (708, c"cudaErrorSetOnActiveProcess", Some(c"the device is in use already")),
    (709, c"cudaErrorContextIsDestroyed", None),
    (710, c"cudaErrorAssert", Some(c"an assertion in a kernel failed")),
    (711, c"cudaErrorTooManyPeers", None),
    (712, c"cudaErrorHostMemoryAlreadyRegistered", Some(c"the memory is registered already")),
    (713, c"cudaErrorHostMemoryNotRegistered", Some(c"the memory is not registered")),
    (714, c"cudaErrorHardwareStackError", None),
    (715, c"cudaErrorIllegalInstruction", None),
    (716, c"cudaErrorMisalignedAddress", None),
    (717, c"cudaErrorInvalidAddressSpace", None),
    (718, c"cudaErrorInvalidPc", None),
    (719, c"cudaErrorLaunchFailure", Some(c"a kernel failed")),
    (720, c"cudaErrorCooperativeLaunchTooLarge", Some(c"more blocks than can run at the same time")),
    (721, c"cudaErrorTensorMemoryLeak", None),
    (800, c"cudaErrorNotPermitted", Some(c"not permitted here")),
    (801, c"cudaErrorNotSupported", Some(c"the CPU device does not do this")),
    (802, c"cudaErrorSystemNotReady", None),
    (803, c"cudaErrorSystemDriverMismatch", None),
    (804, c"cudaErrorCompatNotSupportedOnDevice", None),
    (805, c"cudaErrorMpsConnectionFailed", None),
    (806, c"cudaErrorMpsRpcFailure", None),
    (807, c"cudaErrorMpsServerNotReady", None),
    (808, c"cudaErrorMpsMaxClientsReached", None),
    (809, c"cudaErrorMpsMaxConnectionsReached", None),
    (810, c"cudaErrorMpsClientTerminated", None),
    (811, c"cudaErrorCdpNotSupported", None),
    (812, c"cudaErrorCdpVersionMismatch", None),
    (900, c"cudaErrorStreamCaptureUnsupported", Some(c"not allowed while a stream is captured")),
    (901, c"cudaErrorStreamCaptureInvalidated", Some(c"the capture was invalidated by an earlier error")),
    (902, c"cudaErrorStreamCaptureMerge", Some(c"two captures cannot be merged")),
    (903, c"cudaErrorStreamCaptureUnmatched", Some(c"the capture did not begin on this stream")),
    (904, c"cudaErrorStreamCaptureUnjoined", Some(c"a stream that joined the capture was not joined back")),
    (905, c"cudaErrorStreamCaptureIsolation", None),
    (906, c"cudaErrorStreamCaptureImplicit", Some(c"the legacy default stream cannot take part in a capture")),
    (907, c"cudaErrorCapturedEvent", Some(c"the event was recorded in a capture")),
    (908, c"cudaErrorStreamCaptureWrongThread", None),
    (909, c"cudaErrorTimeout", None),
    (910, c"cudaErrorGraphExecUpdateFailure", None),
    (911, c"cudaErrorExternalDevice", None),
    (912, c"cudaErrorInvalidClusterSize", None),
    (913, c"cudaErrorFunctionNotLoaded", None),
    (914, c"cudaErrorInvalidResourceType", None),
    (915, c"cudaErrorInvalidResourceConfiguration", None),
    (999, c"cudaErrorUnknown", Some(c"unknown error")),
    (10000, c"cudaErrorApiFailureBase", None),
];
