//! Queue pairs whose elements the library itself is given (ibv_post_send), as programs have them that know verbs and no card: what is
//! posted is done at once, as far as the peer has posted receives.

use crate::layout::*;
use crate::sys::{ibv_mr, ibv_pd};
use crate::verbs::{context_of, domain, fail, new_context_mutex};
use crate::world::{Registered, State, World, with};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// ibv_wr_opcode.
const WRITE: u32 = 0;
const WRITE_WITH_IMM: u32 = 1;
const SEND: u32 = 2;
const SEND_WITH_IMM: u32 = 3;
const READ: u32 = 4;
const COMPARE_AND_SWAP: u32 = 5;
const FETCH_AND_ADD: u32 = 6;
/// ibv_send_flags.
const SIGNALED: u32 = 2;
const INLINE: u32 = 8;
/// ibv_wc_status.
const LOCAL_LENGTH: u32 = 1;
const LOCAL_PROTECTION: u32 = 4;
const FLUSHED: u32 = 5;
const REMOTE_INVALID: u32 = 9;
const REMOTE_ACCESS: u32 = 10;
/// ibv_wc_opcode, and ibv_wc_flags.
const RECEIVED: u32 = 128;
const RECEIVED_WRITE: u32 = 129;
const WITH_IMM: u32 = 2;
/// ibv_access_flags.
const MAY_WRITE: u32 = 2;
const MAY_READ: u32 = 4;
const MAY_ATOMIC: u32 = 8;

struct Sent {
    id: u64,
    opcode: u32,
    flags: u32,
    imm: u32,
    from: Vec<ibv_sge>,
    inline: Option<Vec<u8>>,
    remote: (u64, u32),
    operands: [u64; 2],
}

/// A queue pair by its number in [`World::posted`].
pub struct Posted {
    domain: u32,
    queues: [u32; 2],
    all_signaled: bool,
    state: State,
    remote: u32,
    sends: VecDeque<Sent>,
    receives: VecDeque<(u64, Vec<ibv_sge>)>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut c_void,
    _vector: c_int,
) -> *mut ibv_cq {
    let handle = with(|world| {
        let number = world.number();
        world.polled.insert(number, VecDeque::new());
        number
    });
    Box::into_raw(Box::new(ibv_cq {
        context,
        channel,
        cq_context,
        handle,
        cqe: entries,
        mutex: new_context_mutex(),
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: made above, and the caller's no longer.
    let cq = unsafe { Box::from_raw(cq) };
    with(|world| world.polled.remove(&cq.handle));
    0
}

pub unsafe extern "C" fn poll(cq: *mut ibv_cq, n: c_int, out: *mut ibv_wc) -> c_int {
    // SAFETY: made above.
    let number = unsafe { (*cq).handle };
    with(|world| {
        let queue = world.polled.get_mut(&number).expect("a completion queue that was made");
        let n = queue.len().min(n.max(0) as usize);
        for (at, entry) in queue.drain(..n).enumerate() {
            // SAFETY: the caller's array of that many.
            unsafe { out.add(at).write(entry) };
        }
        n as c_int
    })
}

/// Nobody waits for an event here: who polls sees all.
pub unsafe extern "C" fn notify(_: *mut ibv_cq, _: c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: a caller's struct, with completion queues of ours.
    let (attributes, queues) = unsafe { (&*attributes, [(*(*attributes).send_cq).handle, (*(*attributes).recv_cq).handle]) };
    // Reliable connections.
    if attributes.qp_type != 2 || !attributes.srq.is_null() {
        return fail(libc::EOPNOTSUPP);
    }
    // SAFETY: a domain of ours.
    let domain = unsafe { domain(pd) };
    let number = with(|world| {
        let number = world.number();
        let (all_signaled, state) = (attributes.sq_sig_all != 0, State::Reset);
        let (sends, receives) = Default::default();
        world.posted.insert(number, Posted { domain, queues, all_signaled, state, remote: 0, sends, receives });
        number
    });
    Box::into_raw(Box::new(ibv_qp {
        // SAFETY: as above.
        context: unsafe { context_of(pd) },
        qp_context: attributes.qp_context,
        pd,
        send_cq: attributes.send_cq,
        recv_cq: attributes.recv_cq,
        srq: null_mut(),
        handle: number,
        qp_num: number,
        state: State::Reset as u32,
        qp_type: attributes.qp_type,
        mutex: new_context_mutex(),
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: made above, and the caller's no longer.
    let qp = unsafe { Box::from_raw(qp) };
    with(|world| world.posted.remove(&qp.qp_num));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: made above; a caller's struct.
    let (qp, attributes) = unsafe { (&mut *qp, &*attributes) };
    let state = match (mask & 1, attributes.qp_state) {
        (0, _) => return 0,
        (_, 0) => State::Reset,
        (_, 1) => State::Init,
        (_, 2) => State::ReadyToReceive,
        (_, 3) => State::ReadyToSend,
        _ => State::Error,
    };
    with(|world| {
        let pair = world.posted.get_mut(&qp.qp_num).expect("a queue pair that was made");
        // From each state to the next, and to the end or the beginning from any.
        let next = state as u32 == pair.state as u32 + 1 || matches!(state, State::Reset | State::Error);
        if !next {
            return libc::EINVAL;
        }
        pair.state = state;
        qp.state = state as u32;
        if state == State::ReadyToReceive {
            pair.remote = attributes.dest_qp_num;
        }
        progress(world, qp.qp_num);
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attributes: *mut ibv_qp_attr,
    _mask: c_int,
    _init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: made above; a caller's struct, all of whose bytes may be 0.
    unsafe {
        attributes.write_bytes(0, 1);
        (*attributes).qp_state = (*qp).state;
    }
    0
}

unsafe fn list(first: *const ibv_sge, n: c_int) -> Vec<ibv_sge> {
    // SAFETY: a caller's array of that many.
    (0..n.max(0) as usize).map(|at| unsafe { *first.add(at) }).collect()
}

pub unsafe extern "C" fn post_send(qp: *mut ibv_qp, first: *mut ibv_send_wr, _bad: *mut *mut ibv_send_wr) -> c_int {
    // SAFETY: made above, the caller's list, and bytes to be sent that are copied at once where it says so.
    unsafe {
        let (number, mut at) = ((*qp).qp_num, first);
        while let Some(wr) = at.as_ref() {
            let from = list(wr.sg_list, wr.num_sge);
            let bytes = |sge: &ibv_sge| std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize);
            let inline = (wr.send_flags & INLINE != 0).then(|| from.iter().flat_map(bytes).copied().collect());
            let atomic = matches!(wr.opcode, COMPARE_AND_SWAP | FETCH_AND_ADD);
            let key = if atomic { wr.atomic_rkey } else { wr.second as u32 };
            let remote = (wr.remote_addr, key);
            let (id, opcode, flags, imm) = (wr.wr_id, wr.opcode, wr.send_flags, wr.imm_data);
            let sent = Sent { id, opcode, flags, imm, from, inline, remote, operands: [wr.second, wr.swap] };
            with(|world| world.posted.get_mut(&number).expect("a queue pair that was made").sends.push_back(sent));
            at = wr.next;
        }
        with(|world| progress(world, number));
    }
    0
}

pub unsafe extern "C" fn post_recv(qp: *mut ibv_qp, first: *mut ibv_recv_wr, _bad: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: as above.
    unsafe {
        let (number, mut at) = ((*qp).qp_num, first);
        while let Some(wr) = at.as_ref() {
            let to = list(wr.sg_list, wr.num_sge);
            with(|world| world.posted.get_mut(&number).expect("a queue pair that was made").receives.push_back((wr.wr_id, to)));
            at = wr.next;
        }
        with(|world| progress(world, number));
    }
    0
}

/// Does what queue pair `number` and its peer have posted to each other, as far as it can be done.
fn progress(world: &mut World, number: u32) {
    let remote = world.posted.get(&number).map_or(0, |pair| pair.remote);
    for number in [number, remote] {
        while step(world, number) {}
    }
}

/// Does the first that `number` has posted; false: nothing is there, or it waits for the peer.
fn step(world: &mut World, number: u32) -> bool {
    let Some(pair) = world.posted.get_mut(&number) else { return false };
    let (state, remote) = (pair.state, pair.remote);
    if !matches!(state, State::ReadyToSend | State::Error) {
        return false;
    }
    let Some(sent) = pair.sends.pop_front() else { return false };
    let result = match state {
        State::Error => Err(FLUSHED),
        _ => {
            let there = world.posted.get(&remote);
            let ready = there.is_some_and(|there| matches!(there.state, State::ReadyToReceive | State::ReadyToSend));
            let receives = matches!(sent.opcode, WRITE_WITH_IMM | SEND | SEND_WITH_IMM);
            if !ready || receives && there.is_some_and(|there| there.receives.is_empty()) {
                world.posted.get_mut(&number).expect("it was there").sends.push_front(sent);
                return false;
            }
            carry(world, number, remote, &sent)
        }
    };
    let pair = world.posted.get_mut(&number).expect("it was there");
    if result.is_err() {
        pair.state = State::Error;
    }
    if result.is_err() || pair.all_signaled || sent.flags & SIGNALED != 0 {
        // As ibv_wc_opcode has them.
        let opcode = match sent.opcode {
            WRITE | WRITE_WITH_IMM => 1,
            READ => 2,
            COMPARE_AND_SWAP => 3,
            FETCH_AND_ADD => 4,
            _ => 0,
        };
        let status = result.err().unwrap_or(0);
        let queue = pair.queues[0];
        complete(world, queue, ibv_wc { wr_id: sent.id, status, opcode, qp_num: number, ..Default::default() });
    }
    true
}

fn complete(world: &mut World, queue: u32, entry: ibv_wc) {
    if let Some(queue) = world.polled.get_mut(&queue) {
        queue.push_back(entry);
    }
}

/// Address of a range that a key names.
fn place(world: &World, key: u32, domain: u32, at: u64, bytes: u64, right: u32) -> Option<usize> {
    let key: &Registered = world.keys.get(&key).filter(|key| key.domain == domain && key.access & right == right)?;
    key.range.part(at.checked_sub(key.first)?, bytes)
}

/// Copies between `parts`, in order, and one range at `whole`.
fn between(world: &World, domain: u32, parts: &[ibv_sge], whole: usize, bytes: usize, gather: bool) -> Result<(), u32> {
    let mut done = 0;
    for part in parts {
        let n = (bytes - done).min(part.length as usize);
        let at = place(world, part.lkey, domain, part.addr, n as u64, 0).ok_or(LOCAL_PROTECTION)?;
        let (to, from) = if gather { (whole + done, at) } else { (at, whole + done) };
        crate::memory::copy(to, from, n);
        done += n;
    }
    if done == bytes { Ok(()) } else { Err(LOCAL_LENGTH) }
}

fn carry(world: &mut World, number: u32, remote: u32, sent: &Sent) -> Result<(), u32> {
    let domain = world.posted[&number].domain;
    let theirs = world.posted[&remote].domain;
    let bytes = match &sent.inline {
        Some(inline) => inline.len(),
        None => sent.from.iter().map(|part| part.length as usize).sum(),
    };
    let target =
        |right: u32, bytes: usize| place(world, sent.remote.1, theirs, sent.remote.0, bytes as u64, right).ok_or(REMOTE_ACCESS);
    match sent.opcode {
        WRITE | WRITE_WITH_IMM if bytes == 0 => {}
        WRITE | WRITE_WITH_IMM => {
            let to = target(MAY_WRITE, bytes)?;
            match &sent.inline {
                Some(inline) => crate::memory::copy(to, inline.as_ptr() as usize, bytes),
                None => between(world, domain, &sent.from, to, bytes, true)?,
            }
        }
        READ => between(world, domain, &sent.from, target(MAY_READ, bytes)?, bytes, false)?,
        COMPARE_AND_SWAP | FETCH_AND_ADD => {
            let at = target(MAY_ATOMIC, 8)?;
            let old = crate::memory::word(at);
            match sent.opcode {
                FETCH_AND_ADD => drop(crate::memory::add(at, sent.operands[0])),
                _ if old == sent.operands[0] => crate::memory::copy(at, (&raw const sent.operands[1]) as usize, 8),
                _ => {}
            }
            between(world, domain, &sent.from, (&raw const old) as usize, 8, false)?;
        }
        SEND | SEND_WITH_IMM => {}
        _ => return Err(REMOTE_INVALID),
    }
    if matches!(sent.opcode, WRITE_WITH_IMM | SEND | SEND_WITH_IMM) {
        let there = world.posted.get_mut(&remote).expect("it was there");
        let (wr_id, to) = there.receives.pop_front().expect("it was there");
        let queue = there.queues[1];
        if sent.opcode != WRITE_WITH_IMM {
            let mut message = sent.inline.clone().unwrap_or_default();
            if sent.inline.is_none() {
                message.resize(bytes, 0);
                between(world, domain, &sent.from, message.as_ptr() as usize, bytes, true)?;
            }
            between(world, theirs, &to, message.as_ptr() as usize, bytes, false)?;
        }
        let opcode = if sent.opcode == WRITE_WITH_IMM { RECEIVED_WRITE } else { RECEIVED };
        let wc_flags = if sent.opcode == SEND { 0 } else { WITH_IMM };
        let entry =
            ibv_wc { wr_id, opcode, byte_len: bytes as u32, imm_data: sent.imm, qp_num: remote, wc_flags, ..Default::default() };
        complete(world, queue, entry);
    }
    Ok(())
}

/// The same as ibv_reg_mr_iova2 with the address that it has here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    // SAFETY: the caller's.
    unsafe { crate::verbs::ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as u32) }
}

/// No shared receive queues: nobody here is to have asked for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(_: *mut ibv_pd, _: *mut c_void) -> *mut c_void {
    fail(libc::EOPNOTSUPP)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(_: *mut c_void) -> c_int {
    libc::EINVAL
}
