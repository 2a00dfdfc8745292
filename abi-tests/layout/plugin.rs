//! Structs shared with network and GIN plugins, of which the library has none yet (spec host, A.5 and 5).

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

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclNetVDeviceProps_t {
    pub ndevs: i32,
    pub devs: [i32; 4],
}

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
