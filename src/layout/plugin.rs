//! Structs shared with network and GIN plugins (spec host, A.5 and 5).
use super::layout;
use std::ffi::{c_char, c_void};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclNetDeviceHandle_t {
    pub netDeviceType: i32,
    pub netDeviceVersion: i32,
    pub handle: *mut c_void,
    /// Bytes.
    pub size: usize,
    pub needsProxyProgress: i32,
}
layout!(ncclNetDeviceHandle_t, 32, 8, netDeviceVersion @ 4, handle @ 8, size @ 16, needsProxyProgress @ 24);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclNetVDeviceProps_t {
    pub ndevs: i32,
    pub devs: [i32; 4],
}
layout!(ncclNetVDeviceProps_t, 20, 4, devs @ 4);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclNetProperties_v11_t {
    pub name: *const c_char,
    pub pciPath: *const c_char,
    pub guid: u64,
    pub ptrSupport: i32,
    pub regIsGlobal: i32,
    pub forceFlush: i32,
    /// Mb/s.
    pub speed: i32,
    pub port: i32,
    /// Microseconds.
    pub latency: f32,
    pub maxComms: i32,
    pub maxRecvs: i32,
    pub netDeviceType: i32,
    pub netDeviceVersion: i32,
    pub vProps: ncclNetVDeviceProps_t,
    pub maxP2pBytes: usize,
    pub maxCollBytes: usize,
    pub maxMultiRequestSize: i32,
}
layout!(ncclNetProperties_v11_t, 112, 8, pciPath @ 8, guid @ 16, ptrSupport @ 24, regIsGlobal @ 28, forceFlush @ 32, speed @ 36,
    port @ 40, latency @ 44, maxComms @ 48, maxRecvs @ 52, netDeviceType @ 56, netDeviceVersion @ 60, vProps @ 64,
    maxP2pBytes @ 88, maxCollBytes @ 96, maxMultiRequestSize @ 104);

/// A GIN plugin's table: a name and 18 functions. Their signatures come with the plugin transport; until then each is
/// only an address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclGin_v11_t {
    pub name: *const c_char,
    pub init: *const c_void,
    pub devices: *const c_void,
    pub getProperties: *const c_void,
    pub listen: *const c_void,
    pub connect: *const c_void,
    pub createContext: *const c_void,
    pub regMrSym: *const c_void,
    pub regMrSymDmaBuf: *const c_void,
    pub deregMrSym: *const c_void,
    pub destroyContext: *const c_void,
    pub closeColl: *const c_void,
    pub closeListen: *const c_void,
    pub iput: *const c_void,
    pub iputSignal: *const c_void,
    pub test: *const c_void,
    pub ginProgress: *const c_void,
    pub queryLastError: *const c_void,
    pub finalize: *const c_void,
}
layout!(ncclGin_v11_t, 152, 8, init @ 8, devices @ 16, getProperties @ 24, listen @ 32, connect @ 40, createContext @ 48,
    regMrSym @ 56, regMrSymDmaBuf @ 64, deregMrSym @ 72, destroyContext @ 80, closeColl @ 88, closeListen @ 96, iput @ 104,
    iputSignal @ 112, test @ 120, ginProgress @ 128, queryLastError @ 136, finalize @ 144);

/// Bytes of a connection handle between plugins.
pub const NCCL_NET_HANDLE_MAXSIZE: usize = 128;
/// `ptrSupport`, and the kind of memory in a registration.
pub const NCCL_PTR_HOST: i32 = 1;
pub const NCCL_PTR_CUDA: i32 = 2;
pub const NCCL_PTR_DMABUF: i32 = 4;
/// A registration whose writes are seen in order.
pub const NCCL_NET_MR_FLAG_FORCE_SO: u64 = 1;
/// `op` of iputSignal.
pub const NCCL_NET_SIGNAL_OP_INC: u32 = 1;
pub const NCCL_NET_SIGNAL_OP_ADD: u32 = 2;
