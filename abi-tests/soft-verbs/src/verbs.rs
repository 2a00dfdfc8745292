//! libibverbs: one device, its port, domains, memory and ways to peers.

use crate::layout::{self, ibv_device_attr, ibv_domain, ibv_ece};
use crate::log::{called, lacks};
use crate::posted;
use crate::sys::*;
use crate::world::{Range, Registered, with};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The device; SOFTVERBS_SYSFS is a folder like /sys/class/infiniband, for programs that look where it stands.
fn device() -> *mut ibv_device {
    static DEVICE: OnceLock<usize> = OnceLock::new();
    fn text<const N: usize>(text: &str) -> [u8; N] {
        // Shorter than N, or it would not end with 0.
        std::array::from_fn(|at| text.as_bytes()[..text.len().min(N - 1)].get(at).copied().unwrap_or(0))
    }
    let made = || {
        let name = NAME.to_str().expect("ASCII");
        let folder = std::env::var("SOFTVERBS_SYSFS").unwrap_or_else(|_| "/sys/class/infiniband".into());
        let device = layout::ibv_device {
            ops: [null(); 2],
            // A channel adapter, of InfiniBand's transport.
            node_type: 1,
            transport_type: 0,
            name: text(name),
            dev_name: text("uverbs0"),
            dev_path: text("/sys/class/infiniband_verbs/uverbs0"),
            ibdev_path: text(&format!("{folder}/{name}")),
        };
        // For as long as the process lives.
        Box::into_raw(Box::new(device)).expose_provenance()
    };
    std::ptr::with_exposed_provenance_mut(*DEVICE.get_or_init(made))
}

const NAME: &std::ffi::CStr = c"mlx5_soft0";
/// 10.0.0.1, as an address of RoCE v2.
const GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LID: u16 = 0x17;
/// Packets of 4096 bytes, and four lanes of 50 Gbit/s.
const PORT: ibv_port_attr = ibv_port_attr {
    state: 0,
    max_mtu: 5,
    active_mtu: 5,
    gid_tbl_len: 4,
    port_cap_flags: 0,
    max_msg_sz: 1 << 30,
    bad_pkey_cntr: 0,
    qkey_viol_cntr: 0,
    pkey_tbl_len: 128,
    lid: 0,
    sm_lid: 1,
    lmc: 0,
    max_vl_num: 1,
    sm_sl: 0,
    subnet_timeout: 0,
    init_type_reply: 0,
    active_width: 2,
    active_speed: 64,
    phys_state: 5,
    link_layer: 0,
    flags: 0,
    port_cap_flags2: 0,
};

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
            *list = device();
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

pub fn new_context_mutex() -> libc::pthread_mutex_t {
    libc::PTHREAD_MUTEX_INITIALIZER
}

/// A context, and the thread that plays the card as long as there is one.
pub fn open() -> *mut ibv_context {
    with(|world| world.open += 1);
    crate::card::start();
    let mut ops = [null(); 32];
    ops[layout::POLL_CQ] = posted::poll as *const c_void;
    ops[layout::REQ_NOTIFY_CQ] = posted::notify as *const c_void;
    ops[layout::POST_SEND] = posted::post_send as *const c_void;
    ops[layout::POST_RECV] = posted::post_recv as *const c_void;
    let (device, mutex, [async_fd, told]) = (device().cast(), new_context_mutex(), crate::events::pipe());
    let context = layout::ibv_context { device, ops, cmd_fd: -1, async_fd, num_comp_vectors: 1, mutex, abi_compat: null_mut() };
    let context = Box::into_raw(Box::new(context));
    with(|world| world.contexts.push((context.addr(), told)));
    context.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(_: *mut ibv_device) -> *mut ibv_context {
    called("ibv_open_device");
    open()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// A ConnectX-7's numbers, where somebody may ask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(_: *mut ibv_context, out: *mut ibv_device_attr) -> c_int {
    called("ibv_query_device");
    // SAFETY: a caller's struct, all of whose bytes may be 0.
    unsafe {
        out.write_bytes(0, 1);
        let out = &mut *out;
        out.node_guid = u64::from_be_bytes([2, 0, 0, 0xff, 0xfe, 0, 0, 1]).to_be();
        out.sys_image_guid = out.node_guid;
        out.max_mr_size = u64::MAX;
        out.page_size_cap = 0xffff_f000;
        (out.vendor_id, out.vendor_part_id) = (0x2c9, 4129);
        (out.max_qp, out.max_qp_wr, out.max_sge, out.max_sge_rd) = (1 << 17, 1 << 15, 30, 30);
        (out.max_cq, out.max_cqe, out.max_mr, out.max_pd) = (1 << 24, (1 << 22) - 1, 1 << 24, 1 << 23);
        (out.max_qp_rd_atom, out.max_qp_init_rd_atom, out.max_res_rd_atom) = (16, 16, 1 << 21);
        (out.atomic_cap, out.max_pkeys, out.phys_port_cnt) = (1, 128, 1);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_: *mut layout::ibv_qp, _: *mut ibv_ece) -> c_int {
    libc::EOPNOTSUPP
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_: *mut layout::ibv_qp, _: *mut ibv_ece) -> c_int {
    libc::EOPNOTSUPP
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let Some(at) = crate::memory::mapped(fd, offset, length) else { return fail(libc::EOPNOTSUPP) };
    called(&format!("ibv_reg_dmabuf_mr offset {offset:#x} length {length:#x} iova {iova:#x}"));
    // SAFETY: the caller's; the mapping is this library's.
    unsafe {
        let mr = ibv_reg_mr_iova2(pd, at as *mut c_void, length, iova, access as u32);
        match mr.as_ref() {
            Some(mr) => drop(with(|world| world.mapped.insert(mr.lkey, Range { at, bytes: length }))),
            None => crate::memory::unmap(at, length),
        }
        mr
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: made by `open`.
    let context = unsafe { Box::from_raw(context.cast::<layout::ibv_context>()) };
    with(|world| {
        world.open -= 1;
        called("ibv_close_device");
        if world.open == 0 {
            let left = world.keys.len() + world.umems.len() + world.pairs.len() + world.completions.len() + world.domains.len();
            called(&format!("all are closed, {left} things left"));
        }
        let at = std::ptr::from_ref(&*context).addr();
        // SAFETY: this context's, and nobody's any more.
        world.contexts.retain(|(of, told)| *of != at || unsafe { libc::close(*told) } != 0);
    });
    // SAFETY: as above.
    unsafe { libc::close(context.async_fd) };
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
    unsafe { *out = ibv_port_attr { state, lid, link_layer, ..PORT } };
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
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    let number = with(|world| {
        let number = world.number();
        world.domains.push(number);
        number
    });
    Box::into_raw(Box::new(ibv_domain { context: context.cast(), handle: number })).cast()
}

/// Number of a domain.
pub unsafe fn domain(pd: *mut ibv_pd) -> u32 {
    // SAFETY: made by ibv_alloc_pd.
    unsafe { (*pd.cast::<ibv_domain>()).handle }
}

pub unsafe fn context_of(pd: *mut ibv_pd) -> *mut layout::ibv_context {
    // SAFETY: as above.
    unsafe { (*pd.cast::<ibv_domain>()).context }
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
    drop(unsafe { Box::from_raw(pd.cast::<ibv_domain>()) });
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
    if lacks("gpus") && crate::gpu::is_there(addr as usize) {
        return fail(libc::EFAULT);
    }
    // A card maps pages: an address lies in its page where the memory lies in its own.
    if (addr as u64 ^ iova) & 4095 != 0 {
        return fail(libc::EINVAL);
    }
    crate::gpu::know(addr as usize);
    called(&format!("memory is registered with access {access:#x}"));
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
    // SAFETY: as above.
    let context = unsafe { context_of(pd) }.cast();
    Box::into_raw(Box::new(ibv_mr { context, pd, addr, length, handle: lkey, lkey, rkey }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: made above.
    let mr = unsafe { Box::from_raw(mr) };
    with(|world| [mr.lkey, mr.rkey].map(|key| world.keys.remove(&key)));
    crate::umem::forget(mr.lkey);
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
    // The port may have been told by the command before.
    matches!(path(ads::vhca_port_num), 0 | 1)
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
