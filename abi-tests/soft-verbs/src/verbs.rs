//! libibverbs: one device, its port, domains, memory and ways to peers.

use crate::log::lacks;
use crate::sys::*;
use crate::world::{Range, Registered, with};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// Behind ibv_device: nothing is read of it but that it is there.
static DEVICE: u64 = 0;
const NAME: &std::ffi::CStr = c"mlx5_soft0";
/// 10.0.0.1, as an address of RoCE v2.
const GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LID: u16 = 0x17;

pub fn fail<T>(errno: c_int) -> *mut T {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = errno };
    null_mut()
}

fn infiniband() -> bool {
    std::env::var("SOFTVERBS_LINK").is_ok_and(|link| link == "ib")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(n: *mut c_int) -> *mut *mut ibv_device {
    let count = usize::from(!lacks("devices"));
    // SAFETY: a caller's int, or NULL; the list is this allocation, freed below.
    unsafe {
        if let Some(n) = n.as_mut() {
            *n = count as c_int;
        }
        let list: *mut *mut ibv_device = libc::calloc(2, size_of::<usize>()).cast();
        if count > 0 {
            *list = (&raw const DEVICE).cast_mut().cast();
        }
        list
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: made above.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(_: *mut ibv_device) -> *const c_char {
    NAME.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    with(|world| world.open -= 1);
    // SAFETY: made by mlx5dv_open_device.
    drop(unsafe { Box::from_raw(context.cast::<u64>()) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(_: *mut ibv_context, port: u8, out: *mut ibv_port_attr) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    let state = if lacks("port") { 1 } else { IBV_PORT_ACTIVE };
    let (link_layer, lid) = if infiniband() { (1, LID) } else { (IBV_LINK_LAYER_ETHERNET, 0) };
    // SAFETY: a caller's struct.
    unsafe { *out = ibv_port_attr { state, max_mtu: 5, active_mtu: 5, gid_tbl_len: 4, lid, link_layer, ..Default::default() } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(_: *mut ibv_context, port: u8, index: c_int, out: *mut ibv_gid) -> c_int {
    if port != 1 || !(0..4).contains(&index) {
        return libc::EINVAL;
    }
    // One address, at the table's third place.
    // SAFETY: a caller's 16 bytes.
    unsafe { *out = ibv_gid { raw: if index == 2 { GID } else { [0; 16] } } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(_: *mut ibv_context) -> *mut ibv_pd {
    let number = with(|world| {
        let number = world.number();
        world.domains.push(number);
        number
    });
    Box::into_raw(Box::new(number)).cast()
}

/// Number of a domain.
pub unsafe fn domain(pd: *mut ibv_pd) -> u32 {
    // SAFETY: made by ibv_alloc_pd.
    unsafe { *pd.cast::<u32>() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: as above.
    let number = unsafe { domain(pd) };
    let busy = with(|world| {
        let busy = world.keys.values().any(|key| key.domain == number) || world.pairs.values().any(|pair| pair.domain == number);
        if !busy {
            world.domains.retain(|domain| *domain != number);
        }
        busy
    });
    if busy {
        return libc::EBUSY;
    }
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(pd.cast::<u32>()) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    // A remote right to write or add needs the local one (ibv_reg_mr(3)).
    if access & 0b1010 != 0 && access & 1 == 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let domain = unsafe { domain(pd) };
    let (lkey, rkey) = with(|world| {
        let mut key = || {
            let key = world.number() << 8 | 0x5a;
            world.keys.insert(key, Registered { range: Range { at: addr as usize, bytes: length }, first: iova, domain, access });
            key
        };
        (key(), key())
    });
    Box::into_raw(Box::new(ibv_mr { context: null_mut(), pd, addr, length, handle: lkey, lkey, rkey }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: made above.
    let mr = unsafe { Box::from_raw(mr) };
    with(|world| [mr.lkey, mr.rkey].map(|key| world.keys.remove(&key)));
    0
}

/// An address handle: what mlx5dv_init_obj shows of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(_: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: a caller's struct.
    let attributes = unsafe { &*attributes };
    if attributes.port_num != 1 || attributes.is_global == 0 || attributes.grh.sgid_index != 2 {
        return fail(libc::EINVAL);
    }
    Box::into_raw(Box::new(mlx5_wqe_av {
        key: 0,
        dqp_dct: 0,
        stat_rate_sl: 0,
        fl_mlid: 0,
        rlid: 0,
        reserved0: [0; 4],
        rmac: MAC,
        tclass: 0,
        hop_limit: attributes.grh.hop_limit,
        grh_gid_fl: 0,
        rgid: attributes.grh.dgid.raw,
    }))
    .cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: made above.
    drop(unsafe { Box::from_raw(ah.cast::<mlx5_wqe_av>()) });
    0
}

/// What a way must say to lead to this port.
pub fn leads_here(path: impl Fn(crate::prm::Field) -> u64) -> bool {
    use crate::prm::ads;
    let half = |at: usize| u64::from_be_bytes(GID[at..at + 8].try_into().expect("8 bytes"));
    let mac = MAC.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    path(ads::vhca_port_num) == 1
        && match infiniband() {
            true => path(ads::rlid) == LID.into(),
            false => {
                path(ads::rgid_high) == half(0)
                    && path(ads::rgid_low) == half(8)
                    && path(ads::rmac) == mac
                    && path(ads::src_addr_index) == 2
            }
        }
}
