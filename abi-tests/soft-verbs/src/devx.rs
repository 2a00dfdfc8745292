//! libmlx5: commands as a card reads them. What does not fit is refused with the status that the reference gives it.

use crate::log;
use crate::prm::{CAPABILITY, CQC, Field, PATH, QPC, cmd_hca_cap, cqc, create_cq, create_qp, head, opcode, qpc};
use crate::sys::*;
use crate::verbs::{domain, fail, leads_here};
use crate::world::{Completions, Pair, State, World, with};
use std::ffi::{c_int, c_void};

/// Statuses of answers.
const BAD_OPERATION: u8 = 2;
const BAD_PARAMETER: u8 = 3;
const BAD_RESOURCE: u8 = 5;
const BUSY: u8 = 6;
const BAD_STATE: u8 = 9;

static NOTHING_POSTED: u32 = 0;

/// Further places of QUERY_HCA_CAP's answer (cmd_hca_cap in mlx5_ifc.h), which NVIDIA's library divides by or holds against what it asks for:
/// log_max_qp_sz, log_max_qp, log_max_cq_sz, log_max_cq, max_wqe_sz_sq and max_wqe_sz_rq, as a ConnectX-7 has them.
const LIMITS: [(usize, usize, u64); 6] =
    [(0x88, 8, 15), (0x9b, 5, 18), (0xc8, 8, 22), (0xdb, 5, 24), (0x290, 16, 1024), (0x2b0, 16, 512)];

/// What a refusal tells: which check it was, as a line of its own.
type Done = Result<u32, (u8, u32)>;
type Make = fn(&mut World, &[u8], &mut [u8]) -> Done;

/// Behind mlx5dv_devx_obj.
struct Object {
    number: u32,
    is_pair: bool,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_is_supported(_: *mut ibv_device) -> bool {
    !log::lacks("mlx5")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_open_device(_: *mut ibv_device, attributes: *mut mlx5dv_context_attr) -> *mut ibv_context {
    // SAFETY: a caller's struct.
    if log::lacks("devx") || unsafe { (*attributes).flags } != MLX5DV_CONTEXT_FLAGS_DEVX {
        return fail(libc::EPERM);
    }
    log::called("mlx5dv_open_device");
    crate::verbs::open()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_init_obj(object: *mut mlx5dv_obj, kind: u64) -> c_int {
    // SAFETY: a caller's struct, of which the pairs of `kind` point to objects of ours and to structs of theirs.
    unsafe {
        if kind & MLX5DV_OBJ_PD != 0 {
            let pair = (*object).pd;
            (*pair.out.cast::<mlx5dv_pd>()).pdn = domain(pair.object.cast());
        }
        if kind & MLX5DV_OBJ_AH != 0 {
            let pair = (*object).ah;
            (*pair.out.cast::<mlx5dv_ah>()).av = pair.object.cast();
        }
    }
    if kind & !(MLX5DV_OBJ_PD | MLX5DV_OBJ_AH) == 0 { 0 } else { libc::EOPNOTSUPP }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_query_eqn(_: *mut ibv_context, _: u32, eqn: *mut u32) -> c_int {
    // SAFETY: a caller's number.
    unsafe { *eqn = 5 };
    0
}

/// Nothing beside what commands tell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_query_device(_: *mut ibv_context, attributes: *mut u8) -> c_int {
    log::called("mlx5dv_query_device");
    // SAFETY: a caller's struct: version, pad, flags, comp_mask, of which the last says what is asked and is told.
    unsafe {
        let mask = attributes.add(16).cast::<u64>();
        mask.write(0);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_get_data_direct_sysfs_path(_: *mut ibv_context, _: *mut std::ffi::c_char, _: usize) -> c_int {
    libc::ENODEV
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_alloc_uar(_: *mut ibv_context, flags: u32) -> *mut mlx5dv_devx_uar {
    log::called(&format!("mlx5dv_devx_alloc_uar flags {flags:#x}"));
    if flags > MLX5DV_UAR_ALLOC_TYPE_NC {
        return fail(libc::EOPNOTSUPP);
    }
    // SAFETY: new memory of this process; of the page only the register is written.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return fail(libc::ENOMEM);
    }
    let page_id = with(|world| {
        let number = world.number();
        world.pages.push(number);
        number
    });
    let reg_addr = base.wrapping_byte_add(0x800);
    Box::into_raw(Box::new(mlx5dv_devx_uar { reg_addr, base_addr: base, page_id, mmap_off: 0, comp_mask: 0 }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_free_uar(page: *mut mlx5dv_devx_uar) {
    // SAFETY: made above.
    let page = unsafe { Box::from_raw(page) };
    with(|world| world.pages.retain(|number| *number != page.page_id));
    // SAFETY: as above.
    unsafe { libc::munmap(page.base_addr, 4096) };
}

/// Runs a command that `done` carries out, and answers. EREMOTEIO: the card has refused, and the answer says why.
unsafe fn run(
    name: &str,
    (input, n): (*const c_void, usize),
    (out, bytes): (*mut c_void, usize),
    done: impl FnOnce(&mut World, &[u8], &mut [u8]) -> Done,
) -> Result<u32, c_int> {
    // SAFETY: the caller's buffers.
    let (input, out) =
        unsafe { (std::slice::from_raw_parts(input.cast::<u8>(), n), std::slice::from_raw_parts_mut(out.cast::<u8>(), bytes)) };
    out.fill(0);
    let done = with(|world| done(world, input, out));
    match done {
        Ok(number) => head::number.set(out, number.into()),
        Err((status, line)) => {
            head::status.set(out, status.into());
            head::syndrome.set(out, line.into());
        }
    }
    log::command(name, input, out);
    done.map_err(|_| libc::EREMOTEIO)
}

fn check(condition: bool, status: u8, line: u32) -> Result<(), (u8, u32)> {
    if condition { Ok(()) } else { Err((status, line)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_general_cmd(
    _: *mut ibv_context,
    input: *const c_void,
    n: usize,
    out: *mut c_void,
    bytes: usize,
) -> c_int {
    let query = |_: &mut World, input: &[u8], out: &mut [u8]| {
        check(head::opcode.get(input) == opcode::QUERY_HCA_CAP.into(), BAD_OPERATION, line!())?;
        match head::op_mod.get(input) {
            1 => {
                for field in [cmd_hca_cap::rc, cmd_hca_cap::atomic, cmd_hca_cap::cq_oi] {
                    field.within(CAPABILITY).set(out, 1);
                }
                cmd_hca_cap::cd.within(CAPABILITY).set(out, (!log::lacks("cd")).into());
                for (at, width, value) in LIMITS {
                    Field { at, width }.within(CAPABILITY).set(out, value);
                }
            }
            9 => crate::prm::roce_cap::qp_ts_format.within(CAPABILITY).set(out, 1),
            _ => return Err((BAD_PARAMETER, line!())),
        }
        Ok(0)
    };
    // SAFETY: the caller's buffers.
    unsafe { run("QUERY_HCA_CAP", (input, n), (out, bytes), query) }.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_obj_create(
    _: *mut ibv_context,
    input: *const c_void,
    n: usize,
    out: *mut c_void,
    bytes: usize,
) -> *mut mlx5dv_devx_obj {
    // SAFETY: the caller's buffer.
    let is_pair = head::opcode.get(unsafe { std::slice::from_raw_parts(input.cast(), n) }) == opcode::CREATE_QP.into();
    let (name, make): (_, Make) = if is_pair { ("CREATE_QP", make_pair) } else { ("CREATE_CQ", make_completions) };
    // SAFETY: the caller's buffers.
    match unsafe { run(name, (input, n), (out, bytes), make) } {
        Ok(number) => Box::into_raw(Box::new(Object { number, is_pair })).cast(),
        Err(errno) => fail(errno),
    }
}

/// The card's number of what was made.
pub unsafe fn number(object: *mut mlx5dv_devx_obj) -> u32 {
    // SAFETY: made above.
    unsafe { (*object.cast::<Object>()).number }
}

/// Address of `bytes` of a umem that a command names.
fn place(world: &World, umem: u64, offset: u64, bytes: u64) -> Result<usize, (u8, u32)> {
    let range = world.umems.get(&(umem as u32)).ok_or((BAD_RESOURCE, line!()))?;
    range.part(offset, bytes).ok_or((BAD_PARAMETER, line!()))
}

fn make_completions(world: &mut World, input: &[u8], _: &mut [u8]) -> Done {
    let of = |field: Field| field.within(CQC).get(input);
    check(head::opcode.get(input) == opcode::CREATE_CQ.into(), BAD_OPERATION, line!())?;
    check(input.len() >= 272, BAD_PARAMETER, line!())?;
    check(create_cq::cq_umem_valid.get(input) == 1 && of(cqc::dbr_umem_valid) == 1, BAD_PARAMETER, line!())?;
    check(of(cqc::cqe_sz) == 0 && of(cqc::cc) == 0 && of(cqc::c_eqn) == 5, BAD_PARAMETER, line!())?;
    // Nobody writes the consumer's index, so one that may not overrun would stop.
    check(of(cqc::oi) == 1, BAD_PARAMETER, line!())?;
    check(world.pages.contains(&(of(cqc::uar_page) as u32)), BAD_RESOURCE, line!())?;
    let log_entries = of(cqc::log_cq_size) as u32;
    let offset = create_cq::cq_umem_offset.get(input);
    check(offset.is_multiple_of(4096), BAD_PARAMETER, line!())?;
    let entries = place(world, create_cq::cq_umem_id.get(input), offset, 64 << log_entries)?;
    place(world, of(cqc::dbr_umem_id), of(cqc::dbr_addr), 8)?;
    check(of(cqc::dbr_addr).is_multiple_of(8), BAD_PARAMETER, line!())?;
    let number = world.number();
    world.completions.insert(number, Completions { entries, log_entries, done: 0, users: 0 });
    Ok(number)
}

fn make_pair(world: &mut World, input: &[u8], _: &mut [u8]) -> Done {
    let of = |field: Field| field.within(QPC).get(input);
    check(input.len() >= 272, BAD_PARAMETER, line!())?;
    check(create_qp::wq_umem_valid.get(input) == 1 && of(qpc::dbr_umem_valid) == 1, BAD_PARAMETER, line!())?;
    check(of(qpc::st) == 0 && of(qpc::rq_type) == 3 && of(qpc::no_sq) == 0, BAD_PARAMETER, line!())?;
    // NVIDIA's library leaves this to RST2INIT_QP.
    check(matches!(of(qpc::pm_state), 0 | 3), BAD_PARAMETER, line!())?;
    check(world.pages.contains(&(of(qpc::uar_page) as u32)), BAD_RESOURCE, line!())?;
    let domain = of(qpc::pd) as u32;
    check(world.domains.contains(&domain), BAD_RESOURCE, line!())?;
    let log_depth = of(qpc::log_sq_size) as u32;
    let offset = create_qp::wq_umem_offset.get(input);
    check(offset.is_multiple_of(4096), BAD_PARAMETER, line!())?;
    let ring = place(world, create_qp::wq_umem_id.get(input), offset, 64 << log_depth)?;
    let record = place(world, of(qpc::dbr_umem_id), of(qpc::dbr_addr), 8)? + 4;
    check(of(qpc::dbr_addr).is_multiple_of(8), BAD_PARAMETER, line!())?;
    // With SM doorbells NVIDIA's library has it in GPU memory, for its CPU handler in the host's.
    log::called(&format!("a queue pair's record is in {} memory", if crate::gpu::is_there(record) { "GPU" } else { "host" }));
    // A card believes a record once a doorbell has rung, and NVIDIA's library leaves there what was there. Here nobody hears doorbells.
    crate::memory::copy(record, (&raw const NOTHING_POSTED) as usize, 4);
    let completions = of(qpc::cqn_snd) as u32;
    // Nothing is received, so none need be named.
    let receives = of(qpc::cqn_rcv) as u32;
    check(receives == 0 || world.completions.contains_key(&receives), BAD_RESOURCE, line!())?;
    world.completions.get_mut(&completions).ok_or((BAD_RESOURCE, line!()))?.users += 1;
    let number = world.number();
    // NVIDIA's library leaves cd_master and sets the lowest bit of the word behind it, for the queue pairs that it gives WAIT elements.
    let waits = of(qpc::cd_master) == 1 || of(qpc::next_rcv_psn) == 1;
    world.pairs.insert(
        number,
        Pair {
            domain,
            completions,
            ring,
            log_depth,
            record,
            waits,
            state: State::Reset,
            open_to_peers: false,
            mtu: 0,
            remote: 0,
            taken: 0,
        },
    );
    Ok(number)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_obj_modify(
    object: *mut mlx5dv_devx_obj,
    input: *const c_void,
    n: usize,
    out: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: made above; the caller's buffer.
    let (object, command) = unsafe { (&*object.cast::<Object>(), std::slice::from_raw_parts(input.cast::<u8>(), n)) };
    let name = match head::opcode.get(command) as u16 {
        opcode::RST2INIT_QP => "RST2INIT_QP",
        opcode::INIT2RTR_QP => "INIT2RTR_QP",
        opcode::RTR2RTS_QP => "RTR2RTS_QP",
        opcode::TO_ERR_QP => "2ERR_QP",
        _ => "unknown",
    };
    // SAFETY: the caller's buffers.
    unsafe { run(name, (input, n), (out, bytes), |world, input, _| modify(world, object, input)) }.err().unwrap_or(0)
}

fn modify(world: &mut World, object: &Object, input: &[u8]) -> Done {
    let of = |field: Field| field.within(QPC).get(input);
    check(object.is_pair && head::number.get(input) == object.number.into(), BAD_RESOURCE, line!())?;
    let pair = world.pairs.get_mut(&object.number).ok_or((BAD_RESOURCE, line!()))?;
    let way = |field: Field| field.within(QPC + PATH).get(input);
    // Peers may write, and add to 8 bytes.
    let open = |of: &dyn Fn(Field) -> u64| of(qpc::rwe) == 1 && of(qpc::rae) == 1 && of(qpc::atomic_mode) == 1;
    match head::opcode.get(input) as u16 {
        opcode::RST2INIT_QP => {
            check(pair.state == State::Reset, BAD_STATE, line!())?;
            check(of(qpc::pm_state) == 3 && way(crate::prm::ads::vhca_port_num) == 1, BAD_PARAMETER, line!())?;
            pair.open_to_peers = open(&of);
            pair.state = State::Init;
        }
        opcode::INIT2RTR_QP => {
            check(pair.state == State::Init, BAD_STATE, line!())?;
            check(leads_here(way), BAD_PARAMETER, line!())?;
            // What peers do, told by this command or by the one before.
            let told = create_qp::opt_param_mask.get(input) & 0b1100 == 0b1100;
            check(if told { open(&of) } else { pair.open_to_peers }, BAD_PARAMETER, line!())?;
            check((1..=5).contains(&of(qpc::mtu)) && of(qpc::log_msg_max) == 30, BAD_PARAMETER, line!())?;
            (pair.mtu, pair.remote) = (of(qpc::mtu), of(qpc::remote_qpn) as u32);
            pair.state = State::ReadyToReceive;
        }
        opcode::RTR2RTS_QP => {
            check(pair.state == State::ReadyToReceive, BAD_STATE, line!())?;
            pair.state = State::ReadyToSend;
        }
        opcode::TO_ERR_QP => pair.state = State::Error,
        _ => return Err((BAD_OPERATION, line!())),
    }
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_obj_query(
    object: *mut mlx5dv_devx_obj,
    input: *const c_void,
    n: usize,
    out: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: made above.
    let object = unsafe { &*object.cast::<Object>() };
    let query = |world: &mut World, input: &[u8], out: &mut [u8]| {
        check(head::opcode.get(input) == opcode::QUERY_QP.into(), BAD_OPERATION, line!())?;
        check(object.is_pair && head::number.get(input) == object.number.into(), BAD_RESOURCE, line!())?;
        let pair = world.pairs.get(&object.number).ok_or((BAD_RESOURCE, line!()))?;
        qpc::state.within(QPC).set(out, pair.state as u64);
        qpc::mtu.within(QPC).set(out, pair.mtu);
        qpc::pm_state.within(QPC).set(out, 3);
        qpc::remote_qpn.within(QPC).set(out, pair.remote.into());
        Ok(0)
    };
    // SAFETY: the caller's buffers.
    unsafe { run("QUERY_QP", (input, n), (out, bytes), query) }.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_obj_destroy(object: *mut mlx5dv_devx_obj) -> c_int {
    // SAFETY: made above.
    let object = unsafe { Box::from_raw(object.cast::<Object>()) };
    let done = with(|world| {
        world.listeners.remove(&object.number);
        match object.is_pair {
            true => {
                let pair = world.pairs.remove(&object.number).ok_or(BAD_RESOURCE)?;
                world.completions.get_mut(&pair.completions).ok_or(BAD_RESOURCE)?.users -= 1;
                Ok(())
            }
            false if world.completions.get(&object.number).is_some_and(|queue| queue.users > 0) => Err(BUSY),
            false => world.completions.remove(&object.number).map(drop).ok_or(BAD_RESOURCE),
        }
    });
    match done {
        Ok(()) => 0,
        Err(_) => {
            // Still there: the caller has it.
            let _ = Box::into_raw(object);
            libc::EBUSY
        }
    }
}
