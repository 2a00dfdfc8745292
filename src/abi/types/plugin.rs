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
    pub functions: [*const c_void; 18],
}
layout!(ncclGin_v11_t, 152, 8, functions @ 8);
